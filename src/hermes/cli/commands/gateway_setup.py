"""`hermes gateway setup`: connect a platform."""

import re
from argparse import Namespace
from collections.abc import Mapping

from hermes.cli.context import Cli, Command, arg, flag
from hermes.cli.output import pick_named
from hermes.config import edit, environment
from hermes.config.home import tilde
from hermes.config.loader import is_variable_name
from hermes.core.errors import UsageError
from hermes.gateway.pairing import EVERYBODY, listed, switched_on
from hermes.gateway.platforms import registry
from hermes.gateway.platforms.registry import install_libraries, is_configured, lacking
from hermes.sdk.platforms import CredentialField, PlatformManifest

LONGEST = 100_000  #: The most characters read from standard input.
UNASKED = (
    "give the credentials by --from-env or --from-stdin, the rest by --allowed-users and"
    " --home-channel; --non-interactive takes what is saved already"
)


def _setup(args: Namespace, cli: Cli) -> None:
    known = registry.manifests()
    if args.platform is None:
        _show_overview(known, cli)
        if args.non_interactive or not cli.interactive:
            return
        answer = cli.ask("  platform, by number or name: ").strip()
        args.platform = pick_named(answer, list(known))
        if not args.platform:
            return
    platform = registry.manifest(args.platform.lower())
    given = _given_credentials(args, platform, cli)
    if given or args.non_interactive:
        _save(given, cli)
    else:
        _ask(platform, cli, more=args.more)
    _check(platform, cli)
    if not is_configured(platform, cli.load()):  # it needs no credentials, only to be enabled
        edit.set_value(cli.home, ("platforms", platform.name, "enabled"), True)
    if not args.no_install and install_libraries(platform):
        cli.say(f"installed what {platform.label} needs")
    _next_steps(platform, cli)


def _show_overview(known: Mapping[str, PlatformManifest], cli: Cli) -> None:
    width = max((len(name) for name in known), default=0)
    for number, (name, each) in enumerate(known.items(), start=1):
        mark = "*" if is_configured(each, cli.load()) else " "
        cli.say(f" {mark}{number:>2}  {name:<{width}}  {each.label}")
    cli.say("  * is set up")


def _given_credentials(args: Namespace, platform: PlatformManifest, cli: Cli) -> dict[str, str]:
    """Return the credentials from options, standard input and the environment, by variable."""
    given: dict[str, str] = {}
    names = [each.name for each in platform.credentials]
    if args.from_env:
        given |= {name: value for name in names if (value := environment.variable(name))}
    if args.from_stdin:
        given |= _lines(cli.stdin.read(LONGEST), names)
    if args.allowed_users is not None:
        if wrong := _user_list_error(platform, args.allowed_users):
            raise wrong
        given[_allowed_users_variable(platform)] = ",".join(
            sorted(listed(platform.name, args.allowed_users))
        )
    if args.home_channel is not None:
        given[registry.home_variable(platform)] = args.home_channel.strip()
    if (args.from_env or args.from_stdin) and not given:
        raise UsageError(f"no credential was given; {platform.label} has {', '.join(names)}")
    return given


def _lines(text: str, names: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals or not is_variable_name(name) or name not in names:
            problem = "standard input has a line that is not a credential of the platform"
            raise UsageError(problem, hint=f"a line is NAME=VALUE with one of {', '.join(names)}")
        found[name] = value.strip().strip("'\"")
    return found


def _save(given: Mapping[str, str], cli: Cli) -> None:
    for name, value in given.items():
        if value:
            edit.set_variable(cli.home, name, value)
        else:
            edit.unset_variable(cli.home, name)


def _ask(platform: PlatformManifest, cli: Cli, *, more: bool) -> None:
    if platform.setup_help:
        cli.say(platform.setup_help)
    cli.say("Enter keeps what is there; every answer is saved at once.")
    loaded = cli.load()
    rest = [each for each in platform.credentials if each.rare and not more]
    for credential in platform.credentials:
        if credential not in rest:
            _ask_credential(credential, is_set=bool(loaded.variable(credential.name)), cli=cli)
    if rest:
        names = ", ".join(each.label for each in rest)
        cli.say(f"  not asked: {names} (hermes gateway setup {platform.name} --more)")
    if not platform.chats or platform.checks_callers:
        return
    for name, question in (
        (
            _allowed_users_variable(platform),
            "who may write, ids with commas between (none: by pairing)",
        ),
        (registry.home_variable(platform), "home channel, the id of a chat"),
    ):
        now = loaded.variable(name) or ""
        prompt = f"  {question} [{now or 'not set'}]: "
        said = cli.ask(prompt, hint=UNASKED).strip()
        while name == _allowed_users_variable(platform) and (
            wrong := _user_list_error(platform, said)
        ):
            cli.say(f"  {wrong}; {wrong.hint}")
            said = cli.ask(prompt).strip()
        if said:
            edit.set_variable(cli.home, name, said)


def _ask_credential(credential: CredentialField, *, is_set: bool, cli: Cli) -> None:
    if credential.help:
        cli.say(f"  {credential.help}")
    state = "is set" if is_set else "needed" if credential.required else "may be left out"
    prompt = f"  {credential.label} [{state}]: "
    ask = cli.ask_secret if credential.secret else cli.ask
    if said := ask(prompt, hint=UNASKED).strip():
        edit.set_variable(cli.home, credential.name, said)


def _check(platform: PlatformManifest, cli: Cli) -> None:
    loaded = cli.load()
    loaded.reread_variables()
    if missing := lacking(platform, loaded):
        names = " and ".join(missing)
        hint = f"hermes gateway setup {platform.name}, or: hermes config set {missing[0]} …"
        raise UsageError(f"{platform.label} cannot connect without {names}", hint=hint)


def _next_steps(platform: PlatformManifest, cli: Cli) -> None:
    loaded = cli.load()
    cli.say(f"{platform.label} is set up; its credentials are in {tilde(cli.home.env_file)}")
    if platform.chats and not platform.checks_callers:
        allowed = listed(platform.name, loaded.variable(_allowed_users_variable(platform)))
        allow_all = f"{registry.prefix(platform)}_ALLOW_ALL_USERS"
        if switched_on(loaded.variable(allow_all)):
            cli.note(f"note: any user can write to it, since {allow_all} is set")
        elif not allowed:
            cli.note(
                "no user is allowed yet: write to it, and approve the code you get with"
                f" `hermes pairing approve {platform.name} CODE`"
            )
    cli.note("to connect: hermes gateway start (or restart)")


def _user_list_error(platform: PlatformManifest, text: str) -> UsageError | None:
    """Return the error in a list of allowed users, if there is one."""
    ids = re.compile(platform.users.pattern)
    names = sorted(listed(platform.name, text) - {EVERYBODY})
    wrong = ", ".join(name for name in names if not ids.fullmatch(name))
    if not wrong:
        return None
    hint = f"an id is {platform.users.like}"
    return UsageError(f"{wrong} cannot be the id of a user on {platform.label}", hint=hint)


def _allowed_users_variable(platform: PlatformManifest) -> str:
    return f"{registry.prefix(platform)}_ALLOWED_USERS"


SETUP = Command(
    "setup",
    _setup,
    "connect a platform: its credentials, who may write, its home channel",
    arg("platform", nargs="?", help="telegram, discord, …"),
    flag("--from-env", help="save the credentials the environment has"),
    flag("--from-stdin", help="read credentials as NAME=VALUE lines"),
    arg("--allowed-users", metavar="IDS", help="who may write, with commas between; none: pairing"),
    arg("--home-channel", metavar="CHAT", help="where results without a chat go"),
    flag("--more", help="also ask for rarely needed settings"),
    flag("--no-install", help="do not install missing libraries"),
    flag("--non-interactive", help="ask nothing"),
    description="Connect a platform. Without one it lists them. With options it asks nothing.",
)
