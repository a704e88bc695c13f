"""`hermes mcp list` and `tools`: what is known of servers."""

import argparse
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from hermes.cli.actions import Actions
from hermes.cli.commands.mcp.access import (
    awaited,
    cache_of,
    fault_of,
    probed,
    server_named,
    tokens_folder,
    transport_of,
)
from hermes.cli.commands.mcp.wording import (
    ago,
    document,
    examples,
    login_words,
    place_of,
    table,
    tool_facts,
    tool_rows,
)
from hermes.cli.context import Cli
from hermes.config.settings.abilities import McpServer
from hermes.core.errors import HermesError
from hermes.mcp import ServerCatalog, offered_tools
from hermes.mcp.oauth import LoginStore
from hermes.util.plain import plain_line
from hermes.util.text import many


class Row(msgspec.Struct, frozen=True):
    """One server in the list."""

    name: str
    enabled: bool
    state: str
    """`ready`, `off`, `not tried yet`, `failed`, `needs a login` or `wrong settings`."""
    transport: str
    place: str
    tools: int | None
    """How many the agent is offered; None when that is not known yet."""
    tools_found: int | None
    """How many the server has."""
    login: str
    problems: tuple[str, ...]
    last_connected: str | None
    """ISO 8601, or None when never."""
    last_failed: str | None
    """When it could not be connected, while that has not worked again; the reason is among the
    problems."""


def add_actions(actions: Actions) -> None:
    actions.add(
        "list",
        list_servers,
        "show the servers and how they fare",
        json=True,
        aliases=["ls"],
        description="Show the servers and what is known of them. Nothing is started;\n"
        "`hermes mcp test NAME` connects.",
    )
    tools = actions.add(
        "tools",
        _tools,
        "show the tools of a server",
        json=True,
        description="Show the tools of a server and what they may do, by the server's own word.\n"
        "All but those that read are asked about before they run.",
        epilog=examples("hermes mcp tools time", "hermes mcp tools time --refresh --json"),
    )
    tools.add_argument("name", metavar="NAME")
    tools.add_argument("--refresh", action="store_true", help="connect, even if they are known")


def list_servers(args: argparse.Namespace, cli: Cli) -> int:
    servers = cli.load().settings.mcp_servers
    rows = [_row(cli, name, settings) for name, settings in sorted(servers.items())]
    if args.json:
        document(cli, rows)
        return 0
    if not rows:
        cli.say("no MCP servers yet; to add one: hermes mcp add NAME --command … or --url …")
        return 0
    lines = table([_cells(cli, row) for row in rows])
    for row, line in zip(rows, lines, strict=True):
        cli.say(line)
        for problem in row.problems:
            cli.say(f"    {plain_line(problem)}")
    return 0


def _row(cli: Cli, name: str, settings: McpServer) -> Row:
    cache = cache_of(cli)
    catalog, seen = cache.load(name, settings), cache.last_seen(name)
    fault, login, usable = fault_of(name, settings), "", True
    failure = None if fault else cache.failure(name, settings)
    if settings.auth == "oauth" and not fault:
        login, usable = _login(cli, name, settings)
    works = "failed" if failure else "ready" if catalog else "not tried yet"
    reasons = (fault, failure.reason if failure else "")
    return Row(
        name,
        settings.enabled,
        _state(settings, fault, usable, works),
        transport_of(settings),
        place_of(cli, settings),
        len(offered_tools(settings, catalog)) if catalog else None,
        len(catalog.tools) if catalog else None,
        login,
        tuple(filter(None, reasons)) + (catalog.problems if catalog else ()),
        _iso(seen),
        _iso(failure.at if failure else None),
    )


def _iso(moment: float | None) -> str | None:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds") if moment else None


def _login(cli: Cli, name: str, settings: McpServer) -> tuple[str, bool]:
    """In words, and whether it can be used."""
    try:
        login = LoginStore(tokens_folder(cli), name).load()
    except HermesError as error:
        return str(error), False
    usable = login is not None and login.url == settings.url and login.is_usable(time.time())
    return login_words(login, settings.url), usable


def _state(settings: McpServer, fault: str, usable: bool, works: str) -> str:
    if not settings.enabled:
        return "off"
    if fault:
        return "wrong settings"
    if not usable:
        return "needs a login"
    return works


def _cells(cli: Cli, row: Row) -> tuple[str, ...]:
    mark = {"ready": "✓", "off": "·", "not tried yet": "·"}.get(row.state, "✗")
    count = "tools not known" if row.tools is None else many(row.tools, "tool")
    if row.tools is not None and row.tools != row.tools_found:
        count = f"{row.tools} of {many(row.tools_found or 0, 'tool')}"
    seen = cache_of(cli).last_seen(row.name)
    last = f"connected {ago(seen)}" if seen else "never connected"
    if row.last_failed:
        last = f"failed {ago(datetime.fromisoformat(row.last_failed).timestamp())}, {last}"
    return f"{mark} {plain_line(row.name)}", row.state, row.transport, count, last, row.place


def _tools(args: argparse.Namespace, cli: Cli) -> int:
    settings = server_named(cli, args.name)
    catalog = known_or_asked(cli, args.name, settings, refresh=args.refresh)
    offered = offered_tools(settings, catalog)
    if args.json:
        facts: list[dict[str, Any]] = [tool_facts(t, t in offered) for t in catalog.tools]
        document(cli, {"name": args.name, "tools": facts, "problems": catalog.problems})
        return 0
    marks = ["✓" if tool in offered else "·" for tool in catalog.tools]
    for mark, line in zip(marks, tool_rows(catalog.tools) if marks else (), strict=True):
        cli.say(f"{mark} {line}")
    for problem in catalog.problems:
        cli.say(f"✗ left out: {plain_line(problem)}")
    if not catalog.tools and not catalog.problems:
        cli.say(f"{args.name} has no tools")
    if "·" in marks:
        cli.say(f"· is not offered to the agent; `hermes mcp configure {args.name}` chooses")
    return 0


def known_or_asked(
    cli: Cli, name: str, settings: McpServer, *, refresh: bool = False
) -> ServerCatalog:
    """What the server offers: known from earlier, else asked now. Raises `HermesError`."""
    known = None if refresh else cache_of(cli).load(name, settings)
    if known is not None:
        return known
    cli.note(f"connecting to {name} …")
    found = awaited(cli, probed(cli, name, settings))
    return ServerCatalog(found.tools, bool(found.resources), bool(found.prompts), found.problems)
