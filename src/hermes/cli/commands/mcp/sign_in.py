"""`hermes mcp login` and `logout`."""

import argparse
import asyncio
import sys
import webbrowser
from contextlib import suppress
from importlib import import_module

import msgspec

from hermes.cli.actions import Actions
from hermes.cli.commands.mcp.access import awaited, probed, server_named, tokens_folder
from hermes.cli.commands.mcp.wording import examples, words_of
from hermes.cli.context import Cli
from hermes.config.environment import variable
from hermes.config.settings.abilities import McpServer
from hermes.core.errors import Interrupted, ToolError, UsageError
from hermes.mcp.oauth import LoginOptions, LoginStore, McpLoginPrompt, login, logout
from hermes.util.clock import SystemClock
from hermes.util.text import many
from hermes.util.threads import in_thread


def add_actions(actions: Actions) -> None:
    signing_in = actions.add(
        "login",
        _login,
        "sign in to a server with OAuth",
        description="Sign in to a server with OAuth. An address is shown, and opened in a browser\n"
        "where there is one. In a browser on another machine you end at a page that\n"
        "does not load: paste its address here.",
        epilog=examples(
            "hermes mcp login tickets",
            "hermes mcp login tickets --client-id abc --client-secret-env TICKETS_SECRET",
        ),
    )
    signing_in.add_argument(
        "--client-id",
        default="",
        metavar="ID",
        help="a client you registered, or the https address of its metadata document",
    )
    signing_in.add_argument(
        "--client-secret-env",
        default="",
        metavar="NAME",
        help="its secret, in this variable of .env or the environment",
    )
    signing_in.add_argument(
        "--scope", default="", metavar="SCOPES", help="ask for exactly these rights"
    )
    signing_in.add_argument(
        "--port", type=int, default=0, metavar="N", help="where the browser comes back to (any)"
    )
    signing_in.add_argument(
        "--no-browser", action="store_true", help="show the address, open nothing"
    )
    signing_out = actions.add(
        "logout",
        _logout,
        "forget the login of a server",
        epilog=examples("hermes mcp logout tickets"),
    )
    for parser in (signing_in, signing_out):
        parser.add_argument("name", metavar="NAME")


def _login(args: argparse.Namespace, cli: Cli) -> int:
    settings = server_named(cli, args.name)
    if not settings.url:
        raise UsageError(f"{args.name} is a program on this machine: it takes no login")
    if not 0 <= args.port < 65536:
        raise UsageError("--port is a number below 65536")
    secret = ""
    if args.client_secret_env:
        secret = cli.load().secret(args.client_secret_env) or ""
        if not secret or not args.client_id:
            missing = f"{args.client_secret_env} is not set" if not secret else "say --client-id"
            raise UsageError(f"--client-secret-env: {missing}")
    wishes = LoginOptions(args.client_id, secret, args.scope, args.port)
    browser = not args.no_browser
    awaited(cli, sign_in(cli, args.name, settings.url, wishes, browser=browser))
    if settings.auth != "oauth":
        edit = import_module("hermes.config.edit")
        edit.set_value(cli.home, ("mcp_servers", args.name, "auth"), "oauth")
    return _checked(cli, args.name, msgspec.structs.replace(settings, auth="oauth"))


async def sign_in(
    cli: Cli, name: str, url: str, wishes: LoginOptions, *, browser: bool = True
) -> None:
    """The login, kept. Raises `HermesError`."""
    opens = browser and _has_browser()
    person = McpLoginPrompt(
        show=lambda address: _invite(cli, address, opens),
        open_browser=_open if opens else None,
        paste=(lambda: _pasted(cli)) if cli.interactive else None,
    )
    try:
        await login(name, url, tokens_folder(cli), person, SystemClock(), wishes)
    except asyncio.CancelledError:
        raise Interrupted("the login was stopped; nothing was stored") from None


def _invite(cli: Cli, address: str, opens: bool) -> None:
    cli.say(f"Open   {address}")
    if opens:
        cli.say("A browser should show it now.")
    if cli.interactive:
        cli.say("In a browser on another machine you end at a page that does not load:")
        cli.say("copy its address, paste it here and press Enter.")
    cli.say("Waiting; Ctrl-C stops.")


def _has_browser() -> bool:
    """One with windows: one in the terminal would take it away from us."""
    if variable("BROWSER"):
        return True
    if sys.platform in ("darwin", "win32"):
        return not variable("SSH_CONNECTION")
    return bool(variable("DISPLAY") or variable("WAYLAND_DISPLAY"))


async def _open(address: str) -> None:
    with suppress(webbrowser.Error, OSError):  # the address is shown all the same
        await in_thread(webbrowser.open, address)


async def _pasted(cli: Cli) -> str:
    """One line of the terminal. The thread that reads it never holds up the end of the program."""
    return await in_thread(cli.stdin.readline)


def _checked(cli: Cli, name: str, settings: McpServer) -> int:
    """Whether the server takes the login."""
    try:
        found = awaited(cli, probed(cli, name, settings))
    except ToolError as error:
        cli.note(f"signed in, but {name} does not work: {words_of(error)}")
        return 1
    cli.say(f"signed in to {name}: {many(len(found.tools), 'tool')}")
    return 0


def _logout(args: argparse.Namespace, cli: Cli) -> int:
    if not LoginStore(tokens_folder(cli), args.name).path.exists():
        server_named(cli, args.name)  # a name nobody knows is a mistake
        cli.say(f"nobody was signed in to {args.name}")
        return 0
    problem = awaited(cli, logout(args.name, tokens_folder(cli)))
    cli.say(f"signed out of {args.name}")
    if problem:
        cli.note(f"note: {problem}")
    return 0
