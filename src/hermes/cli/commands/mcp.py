"""`hermes mcp`: servers that give the agent more tools."""

import argparse
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from hermes.cli.commands.mcp_servers import (
    cached_or_probed_tools,
    catalog_cache,
    describe_place,
    error_line,
    find_fault,
    login_state,
    probe_server,
    run_logged,
    server_named,
    tokens_folder,
    tool_facts,
    tool_rows,
    transport_name,
    variable_prefix,
)
from hermes.cli.commands.mcp_setup import (
    add_configure_actions,
    add_login_actions,
    add_server_actions,
)
from hermes.cli.context import Actions, Cli, Command
from hermes.cli.output import ago, examples, table
from hermes.config.files import read_document
from hermes.config.settings.tools import McpServer
from hermes.core.errors import HermesError, UsageError
from hermes.mcp import ProbeResult, ServerCatalog, offered_tools
from hermes.mcp.oauth import LoginStore, logout
from hermes.util.text import many, plain_line

# `hermes mcp list` and `tools`.


class ServerRow(msgspec.Struct, frozen=True):
    """One server in the list."""

    name: str
    enabled: bool
    state: str
    """`ready`, `off`, `not tried yet`, `failed`, `needs a login` or `wrong settings`."""
    transport: str
    place: str
    tools: int | None
    """Number of tools offered to the agent; None if unknown."""
    tools_found: int | None
    """Number of tools the server has."""
    login: str
    problems: tuple[str, ...]
    last_connected: str | None
    """ISO 8601; None if never."""
    last_failed: str | None
    """Time of the last failed connection since the last success. `problems` has the reason."""


def add_list_actions(actions: Actions) -> None:
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
        cli.json(rows)
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


def _row(cli: Cli, name: str, settings: McpServer) -> ServerRow:
    cache = catalog_cache(cli)
    catalog, seen = cache.load(name, settings), cache.last_seen(name)
    fault, login, usable = find_fault(name, settings), "", True
    failure = None if fault else cache.failure(name, settings)
    if settings.auth == "oauth" and not fault:
        login, usable = _login(cli, name, settings)
    works = "failed" if failure else "ready" if catalog else "not tried yet"
    reasons = (fault, failure.reason if failure else "")
    return ServerRow(
        name,
        settings.enabled,
        _state(settings, fault, usable, works),
        transport_name(settings),
        describe_place(cli, settings),
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
    """Return the login as text, and whether it is usable."""
    try:
        login = LoginStore(tokens_folder(cli), name).load()
    except HermesError as error:
        return str(error), False
    usable = login is not None and login.url == settings.url and login.is_usable(time.time())
    return login_state(login, settings.url), usable


def _state(settings: McpServer, fault: str, usable: bool, works: str) -> str:
    if not settings.enabled:
        return "off"
    if fault:
        return "wrong settings"
    if not usable:
        return "needs a login"
    return works


def _cells(cli: Cli, row: ServerRow) -> tuple[str, ...]:
    mark = {"ready": "✓", "off": "·", "not tried yet": "·"}.get(row.state, "✗")
    count = "tools not known" if row.tools is None else many(row.tools, "tool")
    if row.tools is not None and row.tools != row.tools_found:
        count = f"{row.tools} of {many(row.tools_found or 0, 'tool')}"
    seen = catalog_cache(cli).last_seen(row.name)
    last = f"connected {ago(seen)}" if seen else "never connected"
    if row.last_failed:
        last = f"failed {ago(datetime.fromisoformat(row.last_failed).timestamp())}, {last}"
    return f"{mark} {plain_line(row.name)}", row.state, row.transport, count, last, row.place


def _tools(args: argparse.Namespace, cli: Cli) -> int:
    settings = server_named(cli, args.name)
    catalog = cached_or_probed_tools(cli, args.name, settings, refresh=args.refresh)
    offered = offered_tools(settings, catalog)
    if args.json:
        facts: list[dict[str, Any]] = [tool_facts(t, t in offered) for t in catalog.tools]
        cli.json({"name": args.name, "tools": facts, "problems": catalog.problems})
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


# `hermes mcp test`: connect once and report each step.


class TestStep(msgspec.Struct, frozen=True):
    step: str
    ok: bool
    text: str
    seconds: float | None = None


class TestReport:
    """The executed steps; the last one may have failed."""

    def __init__(self) -> None:
        self.steps: list[TestStep] = []
        self.probe: ProbeResult | None = None

    @property
    def ok(self) -> bool:
        return all(step.ok for step in self.steps)


def add_test_actions(actions: Actions) -> None:
    test = actions.add(
        "test",
        _test,
        "connect to a server once and show what it offers",
        json=True,
        description="Connect to a server once, show each step and what it offers, and stop it\n"
        "again. The exit code is 1 when it does not work.",
        epilog=examples("hermes mcp test time", "hermes mcp test time --json"),
    )
    test.add_argument("name", metavar="NAME")


def _test(args: argparse.Namespace, cli: Cli) -> int:
    settings = server_named(cli, args.name)
    report = TestReport()
    for step in _steps(cli, args.name, settings, report):
        report.steps.append(step)
        if not args.json:
            timing = "" if step.seconds is None else f" ({step.seconds:.2f} s)"
            cli.say(f"{'✓' if step.ok else '✗'} {step.step}: {step.text}{timing}")
    if args.json:
        cli.json(_facts(args.name, settings, report))
    elif report.probe is not None:
        _show(cli, settings, report.probe)
    return 0 if report.ok else 1


def _steps(cli: Cli, name: str, settings: McpServer, report: TestReport) -> Iterator[TestStep]:
    """Yield each step when it is done. A failed step is the last one."""
    fault = find_fault(name, settings)
    if fault:
        yield TestStep("settings", False, plain_line(fault))
        return
    off = "" if settings.enabled else ", switched off"
    yield TestStep(
        "settings", True, f"{transport_name(settings)}, {describe_place(cli, settings)}{off}"
    )
    if settings.auth == "oauth":
        try:
            login = LoginStore(tokens_folder(cli), name).load()
        except HermesError as error:
            yield TestStep("login", False, error_line(error))
            return
        usable = login is not None and login.url == settings.url and login.is_usable(time.time())
        words = login_state(login, settings.url)
        hint = "" if usable else f" (`hermes mcp login {name}` signs in)"
        yield TestStep("login", usable, words + hint)
        if not usable:
            return
    began = time.monotonic()
    try:
        found = run_logged(cli, probe_server(cli, name, settings))
    except HermesError as error:
        yield TestStep("connect", False, error_line(error), time.monotonic() - began)
        return
    report.probe = found
    yield from _probe_steps(found)


def _probe_steps(found: ProbeResult) -> Iterator[TestStep]:
    server_info = found.server_info
    who = plain_line(f"{server_info.name} {server_info.version}") or "a server without a name"
    spoken = f"{who}, MCP {server_info.protocol} over {found.transport}"
    yield TestStep("connect", True, spoken, found.connect_seconds)
    out = f", {len(found.problems)} left out" if found.problems else ""
    yield TestStep("tools", True, many(len(found.tools), "tool") + out)
    others = f"{many(len(found.resources), 'resource')}, {many(len(found.prompts), 'prompt')}"
    yield TestStep("resources and prompts", True, others, found.list_seconds)


def _show(cli: Cli, settings: McpServer, found: ProbeResult) -> None:
    offered = offered_tools(settings, ServerCatalog(found.tools))
    for tool, line in zip(found.tools, tool_rows(found.tools) if found.tools else (), strict=True):
        cli.say(f"  {'✓' if tool in offered else '·'} {line}")
    for problem in found.problems:
        cli.say(f"  ✗ left out: {plain_line(problem)}")


def _facts(name: str, settings: McpServer, report: TestReport) -> dict[str, object]:
    facts: dict[str, object] = {"name": name, "ok": report.ok, "steps": report.steps}
    found = report.probe
    if found is None:
        return facts
    offered = offered_tools(settings, ServerCatalog(found.tools))
    return facts | {
        "transport": found.transport,
        "server": {
            "name": found.server_info.name,
            "version": found.server_info.version,
            "protocol": found.server_info.protocol,
            "instructions": found.server_info.instructions,
        },
        "tools": [tool_facts(tool, tool in offered) for tool in found.tools],
        "problems": found.problems,
        "resources": found.resources,
        "prompts": found.prompts,
    }


# `hermes mcp remove`: a server with its variables, tokens and cache.

ALLOWLIST = "command_allowlist"
_REFERENCE = re.compile(r"\$\{(\w+)\}")


def add_remove_actions(actions: Actions) -> None:
    remove = actions.add(
        "remove",
        _remove,
        "remove a server",
        aliases=["rm"],
        description="Remove a server from config.yaml, with its login, the list of its tools, the\n"
        "secrets that `hermes mcp add` kept for it, and consents to its tools.",
        epilog=examples("hermes mcp remove tickets --yes"),
    )
    remove.add_argument("name", metavar="NAME")
    remove.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _remove(args: argparse.Namespace, cli: Cli) -> int:
    name = args.name
    server_named(cli, name)
    if not args.yes:
        if not cli.interactive:
            raise UsageError("removing a server needs --yes without a terminal")
        if cli.ask(f"Remove {name}? [y/N] ").strip().lower() not in ("y", "yes"):
            cli.say("nothing was removed")
            return 1
    from hermes.config import edit  # ruamel.yaml, needed only to write

    before = read_document(cli.home.config_file).data
    edit.unset_value(cli.home, ("mcp_servers", name))
    after = read_document(cli.home.config_file).data
    for variable in sorted(_references(before) - _references(after)):
        if variable.startswith(variable_prefix(name)):
            edit.unset_variable(cli.home, variable)
    # A later server of this name must not inherit these approvals.
    held = cli.load().settings.command_allowlist
    for place in reversed(range(len(held))):
        if held[place].startswith(f"mcp:{name}:"):
            edit.unset_value(cli.home, (ALLOWLIST, str(place)))
    catalog_cache(cli).drop(name)
    problem = run_logged(cli, logout(name, tokens_folder(cli)))
    cli.say(f"removed {name}")
    if problem:
        cli.note(f"note: {problem}")
    return 0


def _references(value: Any) -> set[str]:
    """Return the names of the referenced variables."""
    if isinstance(value, str):
        return set(_REFERENCE.findall(value))
    if isinstance(value, dict):
        return set().union(*(_references(held) for held in value.values()))
    if isinstance(value, list):
        return set().union(*(_references(held) for held in value))
    return set()


EPILOG = """\
examples:
  hermes mcp add time --command uvx --args mcp-server-time
  hermes mcp add tickets --url https://tickets.example.com/mcp --auth oauth
  hermes mcp list
  hermes mcp test time
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Add MCP servers, see what they offer, choose their tools, and sign in to them.\n\n"
        "A server is a program on this machine (--command) or a service behind a web address\n"
        "(--url). They stand in config.yaml under mcp_servers. Alone this shows the list."
    )
    parser.epilog = EPILOG
    actions = Actions(parser)
    parser.set_defaults(act=list_servers, json=False)
    for add in (
        add_server_actions,
        add_list_actions,
        add_test_actions,
        add_configure_actions,
        add_remove_actions,
        add_login_actions,
    ):
        add(actions)


COMMAND = Command(configure)
