"""`hermes mcp add`: a new server, tried before it is written down."""

import argparse
from importlib import import_module
from typing import Any

import msgspec

from hermes.cli.actions import Actions
from hermes.cli.commands.mcp.access import awaited, cache_of, probed
from hermes.cli.commands.mcp.given import HEADER, OAUTH, Given, checked_name, given_settings
from hermes.cli.commands.mcp.sign_in import sign_in
from hermes.cli.commands.mcp.wording import examples, tool_rows, words_of
from hermes.cli.context import Cli
from hermes.config.environment import variables
from hermes.config.expand import expand
from hermes.config.home import tilde
from hermes.config.settings.abilities import McpServer
from hermes.core.errors import ToolError, UsageError
from hermes.mcp import ProbeResult, ServerUnauthorized
from hermes.mcp.oauth import LoginOptions
from hermes.util.plain import plain_line
from hermes.util.text import many

LONGEST_TOKEN = 16_384


def add_actions(actions: Actions) -> None:
    add = actions.add(
        "add",
        _add,
        "add a server",
        description="Add a server. It is connected once to show what it offers, and written to\n"
        "config.yaml. Values of headers, and variables whose names look secret, go to\n"
        ".env and are referred to as ${NAME}; a ${NAME} you give is kept as it is.",
        epilog=examples(
            "hermes mcp add time --command uvx --args mcp-server-time --local-timezone UTC",
            "hermes mcp add github --env GITHUB_TOKEN=… --command github-mcp-server --args stdio",
            "hermes mcp add tickets --url https://tickets.example.com/mcp --auth oauth",
            "hermes mcp add tickets --url https://tickets.example.com/mcp --auth header < token",
        ),
    )
    add.add_argument("name", metavar="NAME", help="what you call it; its tools are mcp_NAME_…")
    add.add_argument("--url", default="", metavar="URL", help="address of a server over HTTP")
    add.add_argument("--command", default="", metavar="CMD", help="program of a server here")
    add.add_argument(
        "--args", nargs=argparse.REMAINDER, metavar="ARG", help="its arguments: all that follows"
    )
    add.add_argument(
        "--env", action="append", default=[], metavar="K=V", help="a variable the program gets"
    )
    add.add_argument(
        "--header", action="append", default=[], metavar="K=V", help="a header sent to the url"
    )
    add.add_argument(
        "--auth",
        choices=(OAUTH, HEADER),
        help="sign in with OAuth, or send a token, which is asked for or read from standard input",
    )
    add.add_argument("--transport", choices=("http", "sse"), help="else it is found out")
    add.add_argument("--no-test", action="store_true", help="do not connect, just write it down")


def _add(args: argparse.Namespace, cli: Cli) -> int:
    name = checked_name(args.name)
    if name in cli.load().settings.mcp_servers:
        raise UsageError(
            f"there is an MCP server {name} already",
            hint=f"`hermes mcp configure {name}` changes it, `hermes mcp remove {name}` removes it",
        )
    given = given_settings(args, lambda: _token(cli, name), cli.load().saved.keys())
    settings = _expanded(cli, given)
    waits = args.auth == OAUTH and not cli.interactive
    found = None
    if not args.no_test and not waits:
        if args.auth == OAUTH:
            awaited(cli, sign_in(cli, name, settings.url, LoginOptions()))
        found = _tried(cli, name, settings)
    _write(cli, name, given)
    if found is not None:
        _show(cli, name, found)
    else:
        cli.say(f"added {name} to {tilde(cli.home.config_file)}")
    if args.auth == OAUTH and (waits or args.no_test):
        cli.say(f"it needs a login: hermes mcp login {name}")
    return 0


def _token(cli: Cli, name: str) -> str:
    if cli.stdin.isatty():
        token = cli.ask_secret(f"Token for {name} (it is not shown): ").strip()
    else:
        token = cli.stdin.read(LONGEST_TOKEN + 1).strip()
    if not token or len(token) > LONGEST_TOKEN or not (token.isascii() and token.isprintable()):
        raise UsageError("this is no token: it is one line of ASCII characters")
    return token


def _expanded(cli: Cli, given: Given) -> McpServer:
    """The settings as they will be read."""
    saved = {name: value for name, value in cli.load().saved.items() if value}
    known = {**variables(), **saved, **given.variables}
    settings: dict[str, Any] = expand(given.settings, known)
    for block in ("env", "headers"):
        for value in settings.get(block, {}).values():
            if "${" in value:
                cli.note(f"note: {plain_line(value)} is not set yet")
    return msgspec.convert(settings, McpServer)


def _tried(cli: Cli, name: str, settings: McpServer) -> ProbeResult | None:
    """What it offers; None when it does not work and is wanted all the same."""
    cli.note(f"connecting to {name} …")
    try:
        return awaited(cli, probed(cli, name, settings))
    except ToolError as error:
        words = words_of(error)
        if isinstance(error, ServerUnauthorized) and not settings.auth and not settings.headers:
            words = f"{plain_line(str(error))} (it may want --auth oauth or --auth header)"
        # After a login a thread may still wait for a line, and would take the answer.
        if cli.interactive and settings.auth != OAUTH:
            cli.say(f"✗ {words}")
            if cli.ask("Add it all the same? [y/N] ").strip().lower() in ("y", "yes"):
                return None
        cache_of(cli).drop(name)
        raise UsageError(
            f"{name} was not added: {words}", hint="--no-test adds it without connecting"
        ) from error


def _write(cli: Cli, name: str, given: Given) -> None:
    edit = import_module("hermes.config.edit")  # a heavier YAML library, which keeps comments
    for variable, value in given.variables.items():
        edit.set_variable(cli.home, variable, value)
    edit.set_value(cli.home, ("mcp_servers", name), given.settings)


def _show(cli: Cli, name: str, found: ProbeResult) -> None:
    who = plain_line(f"{found.server_info.name} {found.server_info.version}")
    counts = [many(len(found.tools), "tool")]
    counts += [many(len(found.resources), "resource")] if found.resources else []
    counts += [many(len(found.prompts), "prompt")] if found.prompts else []
    cli.say(f"added {name}: {who or found.transport}, {', '.join(counts)}")
    for line in tool_rows(found.tools) if found.tools else ():
        cli.say(f"  {line}")
    for problem in found.problems:
        cli.say(f"  left out: {plain_line(problem)}")
    if any(not tool.read_only for tool in found.tools):
        cli.say("You are asked before a tool runs that does more than read.")
