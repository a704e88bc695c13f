"""`hermes auth`: keys and logins for model providers."""

import asyncio
import time
from argparse import Namespace
from functools import partial

from hermes.cli.context import YES, Cli, Command, arg, flag, table
from hermes.cli.output import show_login_url
from hermes.core.errors import Interrupted, UsageError
from hermes.ops import CredentialRow, CredentialService
from hermes.providers import LOCAL, Endpoint
from hermes.providers.login import LoginPrompt
from hermes.util.concurrency import SystemClock, in_thread
from hermes.util.http import make_client
from hermes.util.text import human_duration, many

API_KEY, OAUTH = "api-key", "oauth"
LONGEST_KEY = 16_384
LONGEST_LABEL = 60


def _overview(_args: Namespace, cli: Cli) -> None:
    auth = _open_auth(cli)
    _show_keys(cli, auth, list(auth.used()))
    cli.say(
        "\nhermes auth add PROVIDER             add a key, or log in\n"
        "hermes auth remove PROVIDER NUMBER   remove one\n"
        "hermes auth reset PROVIDER           use resting keys again at once"
    )


COMMAND = Command("auth", _overview, "")


@COMMAND.action(
    "add",
    "add a key, or log in",
    arg("provider", metavar="PROVIDER", help="a provider id, or custom:NAME"),
    arg("--type", choices=(API_KEY, OAUTH), help="a key, or a login in the browser"),
    arg("--api-key", metavar="KEY", help="the key"),
    arg("--label", default="", metavar="NAME", help="a name for the key"),
    flag("--import", dest="copy", help="copy the login of the Codex CLI"),
)
async def _add(args: Namespace, cli: Cli) -> None:
    auth = _open_auth(cli)
    endpoint = auth.endpoint(args.provider)
    if endpoint.id == LOCAL or endpoint.api_mode == "acp":
        raise UsageError(f"{endpoint.label} takes no key")
    if args.api_key is not None and args.type == OAUTH:
        raise UsageError("--api-key and --type oauth exclude each other")
    wants_login = endpoint.login is not None and args.api_key is None
    if args.type == OAUTH or (args.type is None and wants_login) or args.copy:
        await _log_in(args, cli, auth, endpoint)
        await _say_model(cli, endpoint)
        return
    key = args.api_key
    if key is None and cli.stdin.isatty():
        key = cli.ask_secret(f"Key for {endpoint.label} (it is not shown): ")
    elif key is None:
        key = cli.stdin.read(LONGEST_KEY + 1)
    key = check_key(key)
    label = args.label.strip()
    if len(label) > LONGEST_LABEL or not label.isprintable() or label.isdigit():
        problem = f"a label is one line of at most {LONGEST_LABEL} characters and not a number"
        raise UsageError(problem)
    name, is_new = auth.add(endpoint, key, label)
    row = auth.pick(endpoint, name)
    if is_new:
        count = len(auth.rows(endpoint))
        cli.say(f"added {row.key} to {endpoint.id} (key {row.index} of {count})")
        await _say_model(cli, endpoint)
    else:
        cli.say(f"{endpoint.id} has this key already: {row.source}; nothing was changed")


async def _say_model(cli: Cli, endpoint: Endpoint) -> None:
    """Say which model answers now that a provider has a key."""
    from hermes.cli.commands.model import resolution_line, resolve_main_model  # loads all providers

    main = (await resolve_main_model(Cli(cli.home, cli.stdin, cli.stdout, cli.stderr))).main
    if main.provider == endpoint.id and not main.problem:
        cli.say(f"now using {resolution_line(main, cli.paint)}; to test it: hermes model test")
        return
    if not main.problem:
        cli.say(f"the model is still {resolution_line(main, cli.paint)}")
    model = f"{endpoint.id}:{endpoint.default_model or 'MODEL'}"
    cli.say(f"to use {endpoint.id}: hermes model set {model}")


def check_key(text: str) -> str:
    key = text.strip()
    if not key:
        raise UsageError("the key is empty", hint="hermes auth add PROVIDER --api-key KEY")
    if len(key) > LONGEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        hint = "look for spaces, line breaks and typographic quotes in it"
        raise UsageError("this is not a key: a key is one word of ASCII characters", hint=hint)
    return key


async def _log_in(args: Namespace, cli: Cli, auth: CredentialService, endpoint: Endpoint) -> None:
    auth.login_of(endpoint)
    found = auth.importable(endpoint)
    if args.copy and found is None:
        problem = f"there is no login of another program to copy for {endpoint.id}"
        raise UsageError(problem, hint=f"log in: hermes auth add {endpoint.id} --type oauth")
    if found is not None and (args.copy or _offer_copy(cli, found[0])):
        auth.save_login(endpoint, found[1])
        cli.say(
            f"copied the login of the Codex CLI for {endpoint.id}\n"
            "when one of the two programs logs the other one out, log in here of your own:\n"
            f"  hermes auth add {endpoint.id} --type oauth"
        )
        return

    def show(prompt: LoginPrompt) -> None:
        wait = human_duration(prompt.seconds)
        code = (f"Code   {prompt.code}", f"Never share this code. It is good for {wait}.")
        lines = code if prompt.code else ()
        show_login_url(cli, prompt.direct_url or prompt.url, *lines, paste=not lines)

    paste = partial(in_thread, cli.stdin.readline) if cli.interactive else None
    try:
        async with make_client() as client:
            await auth.log_in(endpoint, client, show, paste)
    except asyncio.CancelledError:  # Ctrl-C
        raise Interrupted("the login was stopped; nothing was stored") from None
    cli.say(f"logged in for {endpoint.id}")


def _offer_copy(cli: Cli, where: str) -> bool:
    if not cli.interactive:
        cli.note(f"note: the Codex CLI is logged in ({where}); --import copies its login")
        return False
    cli.say(
        f"The Codex CLI is logged in on this machine ({where}).\n"
        "Its login can be copied. But a login is renewed with a token that is good for one use,\n"
        "so one of the two programs may log the other one out. A login of its own is safer."
    )
    return cli.confirm("Copy it?")


@COMMAND.action(
    "list",
    "list keys and logins in the order of use",
    arg("provider", nargs="?", metavar="PROVIDER"),
    json=True,
)
def _list(args: Namespace, cli: Cli) -> None:
    auth = _open_auth(cli)
    wanted = [auth.endpoint(args.provider)] if args.provider else list(auth.used())
    facts = [(one.id, auth.strategy(one), auth.rows(one)) for one in wanted]
    if args.json:
        names = ("provider", "strategy", "credentials")
        cli.json([dict(zip(names, fact, strict=True)) for fact in facts])
    else:
        _show_keys(cli, auth, wanted)


def _show_keys(cli: Cli, auth: CredentialService, wanted: list[Endpoint]) -> None:
    for endpoint in wanted:
        rows = auth.rows(endpoint)
        cli.say(f"{endpoint.id} ({auth.strategy(endpoint)})" if len(rows) > 1 else endpoint.id)
        for line in table([_cells(row) for row in rows]):
            cli.say(f"  {line}")
        if not rows:
            cli.say(f"  no keys; to add one: hermes auth add {endpoint.id}")
        if strange := auth.not_understood(endpoint):
            cli.note(f"note: entries of unknown form, kept and not used: {strange}")
    if not wanted:
        cli.say("no keys and no logins yet; to add one: hermes auth add openrouter")


def _cells(row: CredentialRow) -> tuple[str, ...]:
    state: str = "gone, log in again" if row.state == "gone" else row.state
    if row.state == "resting" and row.resting_until is not None:
        until = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.resting_until))
        wait = human_duration(row.resting_until - time.time())
        because = f" because: {row.rest_reason}" if row.rest_reason else ""
        state = f"resting until {until} (in {wait}){because}"
    kind = "login" if row.kind == "oauth" else "key"
    source = f"{row.label}, {row.source}" if row.label else row.source
    return str(row.index), row.key, kind, state, source, f"[{row.id}]"


@COMMAND.action(
    "remove",
    "remove a key or a login",
    arg("provider", metavar="PROVIDER"),
    arg("which", metavar="WHICH", help="the number in the list, the id or the label"),
    YES,
)
def _remove(args: Namespace, cli: Cli) -> None:
    auth = _open_auth(cli)
    endpoint = auth.endpoint(args.provider)
    row = auth.pick(endpoint, args.which)
    auth.check_removable(endpoint, row)
    question = f"Remove {row.label or row.key} ({row.id}) from {endpoint.id}?"
    cli.require(question, "nothing was removed")
    auth.remove(endpoint, row)
    cli.say(f"removed {row.label or row.key} from {endpoint.id}")


@COMMAND.action(
    "reset",
    "use paused keys again now",
    arg("provider", nargs="?", metavar="PROVIDER"),
    flag("--all", help="of all providers"),
)
def _reset(args: Namespace, cli: Cli) -> None:
    if bool(args.provider) == args.all:
        raise UsageError("name one provider, or say --all", hint="hermes auth reset openrouter")
    auth = _open_auth(cli)
    wanted = list(auth.used()) if args.all else [auth.endpoint(args.provider)]
    count = sum(auth.reset(endpoint) for endpoint in wanted)
    names = "all providers" if args.all else wanted[0].id
    cli.say(f"{many(count, 'key')} of {names} can be used again" if count else "nothing rests")


@COMMAND.action(
    "bind",
    "allow OPENAI_API_KEY at another address",
    arg("variable", metavar="VARIABLE", help="OPENAI_API_KEY"),
    arg("url", metavar="URL", help="the address of the endpoint"),
)
def _bind(args: Namespace, cli: Cli) -> None:
    host = _open_auth(cli).bind(args.variable, args.url)
    cli.say(f"{args.variable} may be sent to {host}")


def _open_auth(cli: Cli) -> CredentialService:
    return CredentialService(cli.home, cli.load(), SystemClock())
