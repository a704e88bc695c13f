"""`hermes gateway` and `hermes pairing`: the gateway, its service, its platforms and its users."""

import getpass
import os
import pwd
import re
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes import __version__
from hermes.cli.context import Cli, Command, arg, flag, table
from hermes.cli.output import pick_named
from hermes.cli.scheduling import GatewayJobs
from hermes.config import environment
from hermes.config.environment import variable, variables
from hermes.config.home import Home, tilde
from hermes.config.installation import start_command
from hermes.config.loader import is_variable_name
from hermes.config.settings.platforms import GatewaySettings
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.gateway import (
    PairingStore,
    install_libraries,
    is_configured,
    is_switched_on,
    missing_variables,
    parse_user_list,
    process,
    services,
)
from hermes.gateway.pairing import EVERYBODY, FOLDER, LIFE_SECONDS
from hermes.gateway.platforms import registry
from hermes.sdk.platforms import CredentialField, PlatformManifest
from hermes.util.concurrency import SystemClock
from hermes.util.text import human_duration, many, plain_line

if TYPE_CHECKING:
    from hermes.tui import Paint

COMMAND = Command("gateway")
SYSTEM = flag("--system", help="the machine's service (Linux)")

# The platforms of a gateway that has just started.

MORE = "to look further: hermes gateway status, hermes logs gateway"
TRIES_AGAIN = {"waiting": "; it is tried again", "connecting": "; it takes its time"}


def report_platforms(cli: Cli) -> int:
    """Print which platforms are connected and what to do about the others.

    Return 1 if none is connected. Platforms without credentials do not count.
    """
    state = process.wait_connected(cli.home.root)
    if state is None:
        raise HermesError("the gateway ended, or does not report its state", hint=MORE)
    paint = cli.paint
    for trouble in state.troubles:
        cli.say(paint("error", plain_line(trouble)))
    wanted = [each.state for each in state.adapters if each.state != "incomplete"]
    if not wanted:
        cli.say("no platform is set up: only scheduled jobs run")
    width = max((len(each.platform) for each in state.adapters), default=0)
    for each in state.adapters:
        detail = plain_line(each.detail)
        if each.state == "connected":
            cli.say(f"{each.platform:<{width}}  connected{f' ({detail})' if detail else ''}")
            continue
        why = f"{f': {detail}' if detail else ''}{TRIES_AGAIN.get(each.state, '')}"
        cli.say(paint("error", f"{each.platform:<{width}}  not connected{why}"))
        for line in hint_lines(each, width):
            cli.say(line)
    if any(each.state != "connected" for each in state.adapters):
        cli.note(MORE)
    return 1 if wanted and "connected" not in wanted else 0


def hint_lines(each: process.AdapterState, width: int) -> list[str]:
    """Return the hint, indented below the line that names the platform."""
    return [f"{'':<{width}}  {plain_line(each.hint)}"] if each.hint else []


# `hermes gateway run`, `start`, `stop` and `restart`.


@COMMAND.action(
    "run",
    "run the gateway in this terminal",
    flag("--replace", help="stop the one that runs first"),
    flag("-q", "--quiet", help="print problems only"),
)
def _run(args: Namespace, cli: Cli) -> int:
    loaded = cli.load()
    found = process.running_gateway(cli.home.root)
    if args.replace and found:
        _stop_process(found, cli, force=True)
    with process.claim_home(cli.home, now=time.time(), version=__version__):
        from hermes.gateway import start_gateway  # loads every part of the gateway

        code = int(
            start_gateway(
                cli.home, loaded, quiet=args.quiet, note=cli.note, scheduling=GatewayJobs()
            )
        )
    if code == services.RESTART and not services.is_managed():
        words = _command(quiet=args.quiet)
        os.execve(words[0], words, {**variables(), "HERMES_HOME": str(cli.home.root)})
    return code


@COMMAND.action("start", "start it in the background, or its service", SYSTEM)
def _start(args: Namespace, cli: Cli) -> int:
    found = process.running_gateway(cli.home.root)
    if found:
        cli.say(f"it runs already: process {found.pid}")
        return 0
    service = services.installed_service(cli.home, system=args.system)
    if service:
        service.start()
        cli.say(f"started the service {service.name}")
    else:
        started = process.start_in_background(cli.home, _command(quiet=True))
        output = tilde(cli.home.logs / "gateway.out")
        cli.say(f"started: process {started.pid}; it prints to {output}")
    return report_platforms(cli)


@COMMAND.action(
    "stop",
    "stop it; turns that run get some time to end",
    flag("--all", help="every gateway of yours"),
    flag("--force", help="kill it if it does not end"),
    SYSTEM,
)
def _stop(args: Namespace, cli: Cli) -> None:
    here = process.running_gateway(cli.home.root)
    found = process.running_gateways(cli.home) if args.all else [here] if here else []
    if not found:
        cli.say("no gateway of yours runs" if args.all else f"none runs in {cli.home.display()}")
    for each in found:
        service = services.installed_service(Home(Path(each.home)), system=args.system)
        # The service manager would restart a process that was stopped by a signal.
        if service and service.state() in ("active", "running") and not args.force:
            service.stop()
            cli.say(f"stopped the service {service.name}")
        else:
            _stop_process(each, cli, force=args.force)


@COMMAND.action(
    "restart",
    "stop it and start it again",
    flag("--force", help="kill it if it does not end"),
    SYSTEM,
)
def _restart(args: Namespace, cli: Cli) -> int:
    cli.load()  # do not stop a gateway that could not start again
    service = services.installed_service(cli.home, system=args.system)
    found = process.running_gateway(cli.home.root)
    if service:
        service.restart()
        cli.say(f"restarted the service {service.name}")
        return report_platforms(cli)
    if found:
        _stop_process(found, cli, force=args.force)
    return _start(args, cli)


def _stop_process(found: process.GatewayProcess, cli: Cli, *, force: bool) -> None:
    try:
        drain = cli.load().settings.gateway.drain_seconds
    except ConfigError:  # stopping must work with invalid settings too
        drain = GatewaySettings().drain_seconds
    seconds = drain + services.GRACE_SECONDS
    where = tilde(Path(found.home))
    state = process.read_state(Path(found.home))
    if state and state.pid == found.pid and state.turns:
        cli.note(f"{many(state.turns, 'turn')} may still end, for at most {drain:g} seconds")
    try:
        gone = process.stop_gateway(found, seconds=seconds, force=force)
    except PermissionError:
        problem = f"process {found.pid}, the gateway of {where}, belongs to another user"
        raise HermesError(problem, hint="stop it as that user, or with sudo") from None
    if not gone:
        raise HermesError(
            f"process {found.pid}, the gateway of {where}, did not end in {seconds:g} s",
            hint="--force kills it; interrupted work continues at the next start",
        )
    cli.say(f"stopped process {found.pid}, the gateway of {where}")


def _command(*, quiet: bool) -> list[str]:
    return [*start_command(), "gateway", "run", *(("--quiet",) if quiet else ())]


# `hermes gateway status`.

STALE_SECONDS = 120.0  #: A gateway whose state file is older than this hangs.


@COMMAND.action("status", "show whether it runs and who is connected", SYSTEM, json=True)
def _status(args: Namespace, cli: Cli) -> int:
    found = process.running_gateway(cli.home.root)
    said = process.read_state(cli.home.root)
    state = said if found and said and said.pid == found.pid else None
    service = services.installed_service(cli.home, system=args.system)
    now = time.time()
    problems = _problems(cli, state, now) if found else []
    facts = {
        "running": found is not None,
        "ready": found is not None and not problems,
        "problems": problems,
        "home": str(cli.home.root),
        "pid": found.pid if found else None,
        "started_at": found.started_at if found else None,
        "version": found.version if found else None,
        "service": {"name": service.name, "state": service.state()} if service else None,
        "stale": bool(state and now - state.updated_at > STALE_SECONDS),
        "gateway": state,
    }
    lines = [f"service   {service.name}: {service.state()}"] if service else []
    if found is not None:
        lines += _status_lines(found, state, now, cli.paint)
        for each in problems:
            lines.append(cli.paint("error", f"not ready ({each.part}): {plain_line(each.reason)}"))
            lines += [f"          {plain_line(each.hint)}"] if each.hint else []
    else:
        lines.append(f"gateway   not running in {cli.home.display()}")
    cli.emit(facts, lines)
    if found is None and not args.json:
        cli.note("to start it: hermes gateway start")
    return 0 if facts["ready"] else 1


def _problems(
    cli: Cli, state: process.GatewayState | None, now: float
) -> list[process.ReadinessProblem]:
    """Return why the running gateway is not ready. On a full disk its state file may be old."""
    try:
        least = cli.load().settings.gateway.min_free_mb
    except ConfigError:  # the status is shown with invalid settings too
        least = GatewaySettings().min_free_mb
    disk = process.disk_problem(cli.home.root, least)
    problems = [each for each in (state.problems if state else ()) if each.part != "disk"]
    if state and now - state.updated_at > STALE_SECONDS:
        quiet = human_duration(now - state.updated_at)
        hint = "hermes gateway restart --force"
        problems.append(process.ReadinessProblem("process", f"silent for {quiet}", hint))
    return [*problems, *([disk] if disk else [])]


def _status_lines(
    found: process.GatewayProcess, state: process.GatewayState | None, now: float, paint: "Paint"
) -> list[str]:
    began = human_duration(now - found.started_at)
    if state is None:
        return [f"gateway   starting: process {found.pid}, for {began}"]
    lines = [f"gateway   {state.state}: process {found.pid}, for {began}"]
    if now - state.updated_at > STALE_SECONDS:
        quiet = human_duration(now - state.updated_at)
        lines.append(paint("error", f"          it has said nothing of itself for {quiet}"))
    lines.append(
        f"queue     {state.waiting_in} in, {state.waiting_out} out, {state.turns} turns running"
    )
    lines.append(f"last      in {_ago(state.last_in, now)}, out {_ago(state.last_out, now)}")
    if state.cron:
        lines.append(f"cron      {plain_line(state.cron)}")
    lines += [paint("error", f"trouble   {plain_line(each)}") for each in state.troubles]
    width = max((len(_platform_name(each)) for each in state.adapters), default=0)
    for each in state.adapters:
        lines += [_adapter(each, width, now, paint), *hint_lines(each, width)]
    return lines if state.adapters else [*lines, "no platform is set up: hermes gateway setup"]


def _adapter(each: process.AdapterState, width: int, now: float, paint: "Paint") -> str:
    role = "text" if each.state == "connected" else "error"
    detail = f" ({plain_line(each.detail)})" if each.detail else ""
    waiting = f", {each.waiting_out} waiting" if each.waiting_out else ""
    line = (
        f"{_platform_name(each):<{width}}  {each.state}{detail}: in {_ago(each.last_in, now)}, out"
    )
    return paint(role, f"{line} {_ago(each.last_out, now)}{waiting}")


def _platform_name(each: process.AdapterState) -> str:
    return f"{each.platform}@{each.account}" if each.account else each.platform


def _ago(at: float | None, now: float) -> str:
    return "never" if at is None else f"{human_duration(now - at)} ago"


# `hermes gateway install` and `uninstall`.


@COMMAND.action(
    "install",
    "make it a service that starts by itself",
    arg("--run-as", metavar="USER", help="with --system: who it runs as"),
    flag("--no-start", help="do not start it now"),
    SYSTEM,
)
def _install(args: Namespace, cli: Cli) -> None:
    if args.run_as and not args.system:
        raise UsageError("--run-as needs --system", hint="a service of your own runs as you")
    home, spec = _service_spec(args, cli)
    service = services.find_service(home, system=args.system)
    for line in service.install(spec):
        cli.say(line)
    if not args.no_start:
        service.start()
        cli.say(f"started {service.name}")


@COMMAND.action("uninstall", "stop the service and remove it", SYSTEM)
def _uninstall(args: Namespace, cli: Cli) -> None:
    home = _service_spec(args, cli)[0]
    service = services.find_service(home, system=args.system)
    if not service.installed():
        cli.say(f"there is no service {service.name}")
        return
    service.uninstall()
    cli.say(f"removed {service.name}; sessions and settings are untouched")


def _service_spec(args: Namespace, cli: Cli) -> tuple[Home, services.ServiceSpec]:
    """Return what the service runs. With sudo, it runs as the calling user, not as root."""
    drain = cli.load().settings.gateway.drain_seconds
    me = getpass.getuser()
    wanted = getattr(args, "run_as", None)
    user = (wanted or (os.geteuid() == 0 and variable("SUDO_USER")) or me) if args.system else me
    if user == me:
        return cli.home, services.service_spec(cli.home, drain_seconds=drain)
    try:
        theirs = Path(pwd.getpwnam(user).pw_dir)
    except KeyError:
        raise UsageError(f"this machine has no user {user!r}") from None
    home = Home(theirs / ".hermes") if cli.home.root == Path.home() / ".hermes" else cli.home
    job = services.service_spec(home, drain_seconds=drain, user=user)
    return home, msgspec.structs.replace(job, folder=theirs)


# `hermes gateway setup`: connect a platform.

LONGEST = 100_000  #: The most characters read from standard input.
UNASKED = (
    "give the credentials by --from-env or --from-stdin, the rest by --allowed-users and"
    " --home-channel; --non-interactive takes what is saved already"
)


@COMMAND.action(
    "setup",
    "connect a platform: its credentials, who may write, its home channel",
    arg("platform", nargs="?", help="telegram, discord, …"),
    flag("--from-env", help="save the credentials the environment has"),
    flag("--from-stdin", help="read credentials as NAME=VALUE lines"),
    arg(
        "--allowed-users", metavar="IDS", help="who may write, separated by commas; empty: pairing"
    ),
    arg("--home-channel", metavar="CHAT", help="where results without a chat go"),
    flag("--more", help="also ask for rarely needed settings"),
    flag("--no-install", help="do not install missing libraries"),
    flag("--non-interactive", help="ask nothing"),
)
def _setup(args: Namespace, cli: Cli) -> None:
    known = registry.manifests()
    if args.platform is None:
        width = max((len(name) for name in known), default=0)
        for number, (name, each) in enumerate(known.items(), start=1):
            mark = "*" if is_configured(each, cli.load()) else " "
            cli.say(f" {mark}{number:>2}  {name:<{width}}  {each.label}")
        cli.say("  * is set up")
        if args.non_interactive:
            return
        if not cli.interactive:
            hint = "name the platform, such as: hermes gateway setup telegram --from-env"
            raise UsageError(
                "nothing was set up: this is not a terminal, so it cannot ask", hint=hint
            )
        answer = cli.ask("  platform, by number or name: ").strip()
        args.platform = pick_named(answer, list(known))
        if not args.platform:
            return
    platform = registry.manifest(args.platform.lower())
    given = _save_given(args, platform, cli)
    if not given and not args.non_interactive:
        _ask(platform, cli, more=args.more)
    cli.load().reread_variables()
    if missing := missing_variables(platform, cli.load()):
        names = " and ".join(missing)
        hint = f"hermes gateway setup {platform.name}, or: hermes config set {missing[0]} …"
        raise UsageError(f"{platform.label} cannot connect without {names}", hint=hint)
    if not is_configured(platform, cli.load()):  # it needs no credentials, only to be enabled
        from hermes.config import edit  # see `_save_variable`

        edit.set_value(cli.home, ("platforms", platform.name, "enabled"), True)
    if not args.no_install and install_libraries(platform):
        cli.say(f"installed what {platform.label} needs")
    _next_steps(platform, cli)


def _save_given(args: Namespace, platform: PlatformManifest, cli: Cli) -> bool:
    """Save the credentials from options, stdin and the environment; return False for none."""
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
            sorted(parse_user_list(platform.name, args.allowed_users))
        )
    if args.home_channel is not None:
        given[registry.home_variable(platform)] = args.home_channel.strip()
    if (args.from_env or args.from_stdin) and not given:
        raise UsageError(f"no credential was given; {platform.label} has {', '.join(names)}")
    for name, value in given.items():
        _save_variable(cli, name, value)
    return bool(given)


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


def _save_variable(cli: Cli, name: str, value: str) -> None:
    """Set a variable in .env; without a value, remove it."""
    from hermes.config import edit  # a large YAML library, needed only for changes

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
    users = _allowed_users_variable(platform)
    for name, question in (
        (users, "who may write, ids with commas between (none: by pairing)"),
        (registry.home_variable(platform), "home channel, the id of a chat"),
    ):
        prompt = f"  {question} [{loaded.variable(name) or 'not set'}]: "
        said = cli.ask(prompt, hint=UNASKED).strip()
        while name == users and (wrong := _user_list_error(platform, said)):
            cli.say(f"  {wrong}; {wrong.hint}")
            said = cli.ask(prompt).strip()
        if said:
            _save_variable(cli, name, said)


def _ask_credential(credential: CredentialField, *, is_set: bool, cli: Cli) -> None:
    if credential.help:
        cli.say(f"  {credential.help}")
    state = "is set" if is_set else "required" if credential.required else "optional"
    prompt = f"  {credential.label} [{state}]: "
    ask = cli.ask_secret if credential.secret else cli.ask
    if said := ask(prompt, hint=UNASKED).strip():
        _save_variable(cli, credential.name, said)


def _next_steps(platform: PlatformManifest, cli: Cli) -> None:
    loaded = cli.load()
    cli.say(f"{platform.label} is set up; its credentials are in {tilde(cli.home.env_file)}")
    if platform.chats and not platform.checks_callers:
        allowed = parse_user_list(platform.name, loaded.variable(_allowed_users_variable(platform)))
        allow_all = f"{registry.prefix(platform)}_ALLOW_ALL_USERS"
        if is_switched_on(loaded.variable(allow_all)):
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
    names = sorted(parse_user_list(platform.name, text) - {EVERYBODY})
    wrong = ", ".join(name for name in names if not ids.fullmatch(name))
    if not wrong:
        return None
    hint = f"an id is {platform.users.like}"
    return UsageError(f"{wrong} cannot be the id of a user on {platform.label}", hint=hint)


def _allowed_users_variable(platform: PlatformManifest) -> str:
    return f"{registry.prefix(platform)}_ALLOWED_USERS"


# `hermes pairing`: users who were approved by a code, or wait for it.

PAIRING = Command("pairing")


class PairingRow(msgspec.Struct, frozen=True):
    """A user in `hermes pairing list --json`."""

    platform: str
    user_id: str
    user_name: str
    state: str  #: `approved`, `pending` or `invited` (an invitation code without a user yet).
    at: float
    until: float | None = None  #: When the code expires.


@PAIRING.action(
    "list",
    "list approved users and open requests",
    arg("platform", nargs="?", help="only this one"),
    json=True,
)
def _list_users(args: Namespace, cli: Cli) -> None:
    def label(row: PairingRow, now: float) -> str:
        if row.state == "invited" and row.until is not None:
            return f"the first who sends the code, for another {human_duration(row.until - now)}"
        name = f" ({plain_line(row.user_name)})" if row.user_name else ""
        return f"{plain_line(row.user_id)}{name}, {human_duration(now - row.at)}"

    store, names = _open_pairing(args, cli)
    rows = []
    for name in names:
        waiting = {"invited": store.invitations(name), "pending": store.pending(name)}
        for state, each in ((state, each) for state, found in waiting.items() for each in found):
            until = each.made_at + LIFE_SECONDS
            rows.append(PairingRow(name, each.user_id, each.user_name, state, each.made_at, until))
        for user, one in store.approved(name).items():
            rows.append(PairingRow(name, user, one.user_name, "approved", one.approved_at))
    lines = table([(row.platform, row.state, label(row, time.time())) for row in rows])
    cli.emit(rows, lines, empty="no user is approved by a code, and none waits")


@PAIRING.action(
    "approve",
    "approve the user who got this code",
    arg("platform"),
    arg("code", help="as the user got it; letter case does not matter"),
    json=True,
)
def _approve(args: Namespace, cli: Cli) -> None:
    store, (platform,) = _open_pairing(args, cli)
    user, approved = store.approve(platform, args.code)
    row = PairingRow(platform, user, approved.user_name, "approved", approved.approved_at)
    name = f" ({plain_line(approved.user_name)})" if approved.user_name else ""
    cli.emit(row, f"{plain_line(user)}{name} may talk to the agent on {platform} now")


@PAIRING.action(
    "invite", "create a code that approves its first sender", arg("platform"), json=True
)
def _create_invitation(args: Namespace, cli: Cli) -> None:
    store, (platform,) = _open_pairing(args, cli)
    code = store.invite(platform)
    text = f"{code} lets in the first who sends it in a private chat on {platform}, for an hour"
    cli.emit({"platform": platform, "code": code}, text)


@PAIRING.action(
    "revoke",
    "remove the approval of a user",
    arg("platform"),
    arg("user", help="the user's id, as `list` shows it"),
    json=True,
)
def _revoke(args: Namespace, cli: Cli) -> None:
    store, (platform,) = _open_pairing(args, cli)
    if not store.revoke(platform, args.user):
        hint = "`hermes pairing list` shows who was; users on a list are removed from the list"
        raise UsageError(f"{args.user!r} was not approved by a code on {platform}", hint=hint)
    facts = {"platform": platform, "user_id": args.user, "revoked": True}
    cli.emit(facts, f"{plain_line(args.user)} is shut out of {platform}")
    if not args.json and cli.load().variable("GATEWAY_ALLOW_ALL_USERS"):
        cli.note("note: GATEWAY_ALLOW_ALL_USERS is set, so that any user may still be allowed")


@PAIRING.action(
    "clear-pending",
    "delete all open codes",
    arg("platform", nargs="?", help="only of this one"),
    json=True,
)
def _clear_pending(args: Namespace, cli: Cli) -> None:
    store, names = _open_pairing(args, cli)
    gone = sum(store.clear_pending(name) for name in names)
    cli.emit({"cleared": gone}, f"threw away {many(gone, 'code')}")


def _open_pairing(args: Namespace, cli: Cli) -> tuple[PairingStore, list[str]]:
    """Return the store and the named platform; without a name, all platforms of the store."""
    store = PairingStore(cli.home.root / FOLDER, SystemClock())
    if not args.platform:
        return store, store.platforms()
    known = sorted({*registry.manifests(), *store.platforms()})
    if args.platform.lower() not in known:
        hint = f"there are {', '.join(known)}"
        raise UsageError(f"there is no platform {args.platform!r}", hint=hint)
    return store, [args.platform.lower()]
