"""`hermes auth`: keys and logins for model providers."""

import argparse
import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import httpx2
import msgspec

from hermes.cli.context import Actions, Cli, Command
from hermes.core.errors import Interrupted, UsageError
from hermes.ops.auth import CredentialRow, CredentialService
from hermes.providers import LOCAL, Endpoint
from hermes.providers.login import LoginPrompt, ReadPaste
from hermes.util.concurrency import SystemClock
from hermes.util.text import human_duration, many

API_KEY, OAUTH = "api-key", "oauth"
LONGEST_KEY = 16_384
LONGEST_LABEL = 60


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Add, list and remove keys and logins. Several keys of one provider form a pool: when one\n"
        "is used up, the next one is taken (credential_pool_strategies.PROVIDER says how)."
    )
    parser.epilog = (
        "examples:\n"
        "  hermes auth add openrouter\n"
        "  hermes auth add openai-codex --type oauth\n"
        "  hermes auth list"
    )
    action = Actions(parser).add
    parser.set_defaults(act=_overview)
    add = action(
        "add",
        _add,
        "add a key, or log in",
        description="Add a key, or log in. Without --api-key the key is asked for, or read from\n"
        "standard input, so that it stays out of the history of the shell.",
        epilog="examples:\n"
        "  hermes auth add openrouter --label work\n"
        "  hermes auth add anthropic < key.txt\n"
        "  hermes auth add copilot --type oauth",
    )
    add.add_argument("provider", metavar="PROVIDER", help="a provider id, or custom:NAME")
    add.add_argument(
        "--type",
        choices=(API_KEY, OAUTH),
        help="a key, or a login in the browser (oauth where the provider has one)",
    )
    add.add_argument("--api-key", metavar="KEY", help="the key")
    add.add_argument("--label", default="", metavar="NAME", help="what you call the key")
    add.add_argument(
        "--import", dest="copy", action="store_true", help="copy the login of the Codex CLI"
    )
    listing = action(
        "list",
        _list,
        "list keys and logins in the order of use",
        json=True,
        epilog="example:\n  hermes auth list openrouter",
    )
    remove = action(
        "remove",
        _remove,
        "remove a key or a login",
        epilog="examples:\n  hermes auth remove openrouter 2\n"
        "  hermes auth remove openrouter work --yes",
    )
    reset = action(
        "reset",
        _reset,
        "use resting keys again at once",
        epilog="examples:\n  hermes auth reset openrouter\n  hermes auth reset --all",
    )
    for optional in (listing, reset):
        optional.add_argument("provider", nargs="?", metavar="PROVIDER")
    remove.add_argument("provider", metavar="PROVIDER")
    remove.add_argument(
        "which", metavar="WHICH", help="the number in the list, the id or the label"
    )
    remove.add_argument("-y", "--yes", action="store_true", help="do not ask")
    reset.add_argument("--all", action="store_true", help="of all providers")


def _overview(args: argparse.Namespace, cli: Cli) -> int:
    args.provider, args.json = None, False
    code = _list(args, cli)
    cli.say("")
    cli.say("hermes auth add PROVIDER             add a key, or log in")
    cli.say("hermes auth remove PROVIDER NUMBER   remove one")
    cli.say("hermes auth reset PROVIDER           use resting keys again at once")
    return code


def _add(args: argparse.Namespace, cli: Cli) -> int:
    desk = _open_auth(cli)
    endpoint = desk.endpoint(args.provider)
    if endpoint.id == LOCAL or endpoint.api_mode == "acp":
        raise UsageError(f"{endpoint.label} takes no key")
    if args.api_key is not None and args.type == OAUTH:
        raise UsageError("--api-key and --type oauth exclude each other")
    wants_login = endpoint.login is not None and args.api_key is None
    if args.type == OAUTH or (args.type is None and wants_login) or args.copy:
        return _log_in(args, cli, desk, endpoint)
    key = check_key(_read_key(cli, endpoint) if args.api_key is None else args.api_key)
    name, is_new = desk.add(endpoint, key, _check_label(args.label))
    row = desk.pick(endpoint, name)
    if is_new:
        cli.say(
            f"added {row.key} to {endpoint.id} as number {row.index} of {_count(desk, endpoint)}"
        )
    else:
        cli.say(f"{endpoint.id} has this key already: {row.source}; nothing was changed")
    return 0


def _read_key(cli: Cli, endpoint: Endpoint) -> str:
    if cli.stdin.isatty():
        return cli.ask_secret(f"Key for {endpoint.label} (it is not shown): ")
    return cli.stdin.read(LONGEST_KEY + 1)


def check_key(text: str) -> str:
    key = text.strip()
    if not key:
        raise UsageError("the key is empty", hint="hermes auth add PROVIDER --api-key KEY")
    if len(key) > LONGEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            "this is not a key: a key is one word of ASCII characters",
            hint="look for spaces, line breaks and typographic quotes in it",
        )
    return key


def _check_label(text: str) -> str:
    label = text.strip()
    if len(label) > LONGEST_LABEL or not label.isprintable() or label.isdigit():
        raise UsageError(
            f"a label is one line of at most {LONGEST_LABEL} characters and not a number"
        )
    return label


def _log_in(args: argparse.Namespace, cli: Cli, desk: CredentialService, endpoint: Endpoint) -> int:
    desk.login_of(endpoint)
    found = desk.importable(endpoint)
    if args.copy and found is None:
        raise UsageError(
            f"there is no login of another program to copy for {endpoint.id}",
            hint=f"log in: hermes auth add {endpoint.id} --type oauth",
        )
    if found is not None and (args.copy or _offer_copy(cli, found[0])):
        desk.save_login(endpoint, found[1])
        cli.say(f"copied the login of the Codex CLI for {endpoint.id}")
        cli.say("when one of the two programs logs the other one out, log in here of your own:")
        cli.say(f"  hermes auth add {endpoint.id} --type oauth")
        return 0

    async def log_in() -> None:
        async with httpx2.AsyncClient(follow_redirects=False, trust_env=True) as client:
            paste = _paste_reader(cli) if cli.interactive else None
            await desk.log_in(endpoint, client, lambda shown: _show_login_url(cli, shown), paste)

    try:
        asyncio.run(log_in())
    except KeyboardInterrupt:
        raise Interrupted("the login was stopped; nothing was stored") from None
    cli.say(f"logged in for {endpoint.id}")
    return 0


def _offer_copy(cli: Cli, where: str) -> bool:
    if not cli.interactive:
        cli.note(f"note: the Codex CLI is logged in ({where}); --import copies its login")
        return False
    cli.say(f"The Codex CLI is logged in on this machine ({where}).")
    cli.say(
        "Its login can be copied. But a login is renewed with a token that is good for one use,"
    )
    cli.say("so one of the two programs may log the other one out. A login of its own is safer.")
    return cli.ask("Copy it? [y/N] ").strip().lower() in ("y", "yes")


def _show_login_url(cli: Cli, invitation: LoginPrompt) -> None:
    cli.say(f"Open   {invitation.direct_url or invitation.url}")
    if invitation.code:
        lasts = human_duration(invitation.seconds)
        cli.say(f"Code   {invitation.code}")
        cli.say(f"Never share this code. It is good for {lasts}.")
    elif cli.interactive:
        cli.say("In a browser on another machine you end at a page that does not load:")
        cli.say("copy its address, paste it here and press Enter.")
    cli.say("Waiting; Ctrl-C stops.")


def _paste_reader(cli: Cli) -> ReadPaste:
    """Read a line of the terminal in a thread that does not delay the end of the program."""

    async def paste() -> str:
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str] = loop.create_future()

        def give(text: str) -> None:
            if not line.done():
                line.set_result(text)

        def read() -> None:
            text = cli.stdin.readline()
            with suppress(RuntimeError):  # the login is over and the loop closed
                loop.call_soon_threadsafe(give, text)

        threading.Thread(target=read, name="paste", daemon=True).start()
        return await line

    return paste


def _list(args: argparse.Namespace, cli: Cli) -> int:
    desk = _open_auth(cli)
    wanted = [desk.endpoint(args.provider)] if args.provider else list(desk.used())
    if args.json:
        cli.json([_provider_facts(desk, endpoint) for endpoint in wanted])
        return 0
    for endpoint in wanted:
        rows = desk.rows(endpoint)
        cli.say(f"{endpoint.id} ({desk.strategy(endpoint)})" if len(rows) > 1 else endpoint.id)
        for line in _table([_cells(row) for row in rows]):
            cli.say(f"  {line}")
        if not rows:
            cli.say(f"  no keys; to add one: hermes auth add {endpoint.id}")
        if strange := desk.not_understood(endpoint):
            cli.note(f"note: entries of unknown form, kept and not used: {strange}")
    if not wanted:
        cli.say("no keys and no logins yet; to add one: hermes auth add openrouter")
    return 0


def _provider_facts(desk: CredentialService, endpoint: Endpoint) -> dict[str, Any]:
    return {
        "provider": endpoint.id,
        "strategy": desk.strategy(endpoint),
        "credentials": [msgspec.to_builtins(row) for row in desk.rows(endpoint)],
    }


def _cells(row: CredentialRow) -> tuple[str, ...]:
    kind = "login" if row.kind == "oauth" else "key"
    source = f"{row.label}, {row.source}" if row.label else row.source
    return str(row.index), row.key, kind, _credential_state(row), source, f"[{row.id}]"


def _credential_state(row: CredentialRow) -> str:
    if row.state == "resting" and row.resting_until is not None:
        until = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.resting_until))
        wait = human_duration(row.resting_until - time.time())
        because = f" because: {row.rest_reason}" if row.rest_reason else ""
        return f"resting until {until} (in {wait}){because}"
    return "gone, log in again" if row.state == "gone" else row.state


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _remove(args: argparse.Namespace, cli: Cli) -> int:
    desk = _open_auth(cli)
    endpoint = desk.endpoint(args.provider)
    row = desk.pick(endpoint, args.which)
    desk.check_removable(endpoint, row)
    if not args.yes:
        if not cli.interactive:
            raise UsageError("removing a key needs --yes without a terminal")
        question = f"Remove {row.label or row.key} ({row.id}) from {endpoint.id}? [y/N] "
        if cli.ask(question).strip().lower() not in ("y", "yes"):
            cli.say("nothing was removed")
            return 1
    desk.remove(endpoint, row)
    cli.say(f"removed {row.label or row.key} from {endpoint.id}")
    return 0


def _reset(args: argparse.Namespace, cli: Cli) -> int:
    if bool(args.provider) == args.all:
        raise UsageError("name one provider, or say --all", hint="hermes auth reset openrouter")
    desk = _open_auth(cli)
    wanted = list(desk.used()) if args.all else [desk.endpoint(args.provider)]
    count = sum(desk.reset(endpoint) for endpoint in wanted)
    names = "all providers" if args.all else wanted[0].id
    cli.say(f"{many(count, 'key')} of {names} can be used again" if count else "nothing rests")
    return 0


def _count(desk: CredentialService, endpoint: Endpoint) -> int:
    return len(desk.rows(endpoint))


def _open_auth(cli: Cli) -> CredentialService:
    return CredentialService(cli.home, cli.load(), SystemClock())


COMMAND = Command(configure)
