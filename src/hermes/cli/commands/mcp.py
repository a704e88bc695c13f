"""`hermes mcp`: servers that give the agent more tools. `mcp_setup` adds and changes them."""

import asyncio
import re
import shlex
import shutil
import time
from argparse import Namespace
from collections.abc import Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from hermes import mcp
from hermes.app import authorizers, start_logging, stop_logging
from hermes.cli.context import YES, Cli, Command, arg, flag, table
from hermes.cli.output import ago
from hermes.config import edit
from hermes.config.document import read_document
from hermes.config.settings import McpServer
from hermes.core.errors import ConfigError, HermesError, ToolError, UsageError
from hermes.mcp.oauth import LoginStore, McpLogin, logout
from hermes.security import Redactor
from hermes.tui import one_line
from hermes.util.extras import install_hint, is_installed
from hermes.util.text import human_duration, many, plain_line

T = TypeVar("T")


def server_named(cli: Cli, name: str) -> McpServer:
    servers = cli.load().settings.mcp_servers
    if name in servers:
        return servers[name]
    close = get_close_matches(name, servers, n=1)
    known = ", ".join(sorted(servers)) or "none; `hermes mcp add` adds one"
    hint = f"did you mean {close[0]}?" if close else f"there are: {known}"
    raise UsageError(f"there is no MCP server {name!r}", hint=hint)


def catalog_cache(cli: Cli) -> mcp.CatalogCache:
    return mcp.CatalogCache(cli.home.cache / "mcp")


def tokens_folder(cli: Cli) -> Path:
    return cli.home.root / "mcp-tokens"


async def probe_server(cli: Cli, name: str, settings: McpServer) -> mcp.ProbeResult:
    """Connect once and cache the result for new conversations.

    Raises `ToolError` with control characters removed from the message.
    """
    options = mcp.McpOptions(cache=cli.home.cache / "mcp", folder=str(Path.cwd()))
    authorizer = authorizers(cli.home)(name, settings)
    try:
        return await mcp.probe(name, settings, options, authorizer)
    except ToolError as error:
        error.args = (plain_line(str(error)),)
        raise


def run_logged(cli: Cli, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` with log records in the log files instead of on the terminal."""
    loaded = cli.load()
    start_logging(cli.home, loaded.settings.logging, Redactor(loaded.secrets()))
    try:
        return asyncio.run(work)
    finally:
        stop_logging()


def transport_name(settings: McpServer) -> str:
    """Return the transport that the settings name."""
    return "stdio" if settings.command else settings.transport or "http"


def find_fault(name: str, settings: McpServer) -> str:
    """Return what is wrong with the settings, without starting the server; "" if nothing is."""
    try:
        mcp.TransportFactory(mcp.McpLimits()).kinds(name, settings)
    except mcp.ServerUnavailable as error:
        return f"{error} ({error.hint})"
    if settings.url and not is_web_address(settings.url):
        return "its `url` is not a web address (it must start with https://)"
    path = mcp.program_environment(settings.env).get("PATH")
    if settings.command and shutil.which(settings.command, path=path) is None:
        return f"there is no program {settings.command!r}"
    return ""


# Descriptions for a terminal. Text of a server is always cleaned first.

WIDTH = 70


def describe_place(cli: Cli, settings: McpServer) -> str:
    """Return the program or the address without secrets."""
    if settings.command:
        text = shlex.join((settings.command, *settings.args))
    elif not is_web_address(settings.url):
        return "?"  # it cannot be parsed, so any part may be a secret
    else:
        parts = urlsplit(settings.url)
        text = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return plain_line(Redactor(cli.load().secrets()).redact(text))


def describe_effect(tool: mcp.RemoteTool) -> str:
    """Describe the effect of a call, as the server declares it."""
    if tool.read_only:
        return "reads, also elsewhere" if tool.open_world else "reads"
    return "may destroy" if tool.destructive else "may do anything"


def tool_facts(tool: mcp.RemoteTool, offered: bool = True) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "may": describe_effect(tool),
        "asks_first": not tool.read_only,
        "offered": offered,
    }


def tool_rows(tools: Sequence[mcp.RemoteTool]) -> list[str]:
    rows = [(one.name, describe_effect(one), one.description) for one in tools]
    return table([[one_line(plain_line(cell), WIDTH) for cell in row] for row in rows])


def error_line(error: HermesError) -> str:
    """Return an error and its hint on one line."""
    hint = f" ({plain_line(error.hint)})" if error.hint else ""
    return f"{plain_line(str(error))}{hint}"


def login_state(login: McpLogin | None, url: str) -> str:
    now = time.time()
    if login is None:
        return "not signed in"
    if login.url != url:
        return "signed in at another address"
    if not login.is_usable(now):
        return "the login has ended"
    if login.wanted:
        return "signed in, but the server wants more rights"
    if login.expires_at is None or login.refresh_token:
        return "signed in"
    return f"signed in for {human_duration(login.expires_at - now)}"


def cached_or_probed_tools(
    cli: Cli, name: str, settings: McpServer, *, refresh: bool = False
) -> mcp.ServerCatalog:
    """Return the cached catalog of the server, or connect to get it. Raises `HermesError`."""
    known = None if refresh else catalog_cache(cli).load(name, settings)
    if known is not None:
        return known
    cli.note(f"connecting to {name} …")
    found = run_logged(cli, probe_server(cli, name, settings))
    return mcp.ServerCatalog(
        found.tools, bool(found.resources), bool(found.prompts), found.problems
    )


def is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return usable and url.isprintable() and " " not in url


def variable_name(server: str, name: str = "") -> str:
    """Return the variable for a secret of a server; without `name`, their common prefix."""
    return re.sub(r"\W", "_", f"MCP_{server}_{name}").upper()


COMMAND = Command("mcp", default="list")
NAME = arg("name", metavar="NAME")


# `hermes mcp list` and `tools`.


class ServerRow(msgspec.Struct, frozen=True):
    """One server in the list."""

    name: str
    enabled: bool
    state: str  #: `ready`, `off`, `not tried yet`, `failed`, `needs a login` or `wrong settings`.
    transport: str
    place: str
    tools: int | None  #: Number of tools offered to the agent; None if unknown.
    tools_found: int | None  #: Number of tools the server has.
    login: str
    problems: tuple[str, ...]
    last_connected: str | None  #: ISO 8601; None if never.
    last_failed: str | None
    """Time of the last failed connection since the last success. `problems` has the reason."""


@COMMAND.action("list", "show the servers and their state", json=True, aliases=("ls",))
def _list(_args: Namespace, cli: Cli) -> None:
    servers = cli.load().settings.mcp_servers
    rows = [_row(cli, name, settings) for name, settings in sorted(servers.items())]
    lines = []
    for row, line in zip(rows, table([_cells(cli, row) for row in rows]), strict=True):
        lines += [line, *(f"    {plain_line(problem)}" for problem in row.problems)]
    empty = "no MCP servers yet; to add one: hermes mcp add NAME -- COMMAND … or --url …"
    cli.emit(rows, lines, empty=empty)


def _row(cli: Cli, name: str, settings: McpServer) -> ServerRow:
    cache = catalog_cache(cli)
    catalog, seen = cache.load(name, settings), cache.last_seen(name)
    fault, login, usable = find_fault(name, settings), "", True
    failure = None if fault else cache.failure(name, settings)
    if settings.auth == "oauth" and not fault:
        login, usable = _describe_login(cli, name, settings)
    state = "failed" if failure else "ready" if catalog else "not tried yet"
    if not settings.enabled:
        state = "off"
    elif fault:
        state = "wrong settings"
    elif not usable:
        state = "needs a login"
    reasons = (fault, failure.reason if failure else "")
    return ServerRow(
        name,
        settings.enabled,
        state,
        transport_name(settings),
        describe_place(cli, settings),
        len(mcp.offered_tools(settings, catalog)) if catalog else None,
        len(catalog.tools) if catalog else None,
        login,
        tuple(filter(None, reasons)) + (catalog.problems if catalog else ()),
        _iso(seen),
        _iso(failure.at if failure else None),
    )


def _iso(moment: float | None) -> str | None:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds") if moment else None


def _describe_login(cli: Cli, name: str, settings: McpServer) -> tuple[str, bool]:
    """Return the login as text, and whether it is usable."""
    try:
        login = LoginStore(tokens_folder(cli), name).load()
    except HermesError as error:
        return error_line(error), False
    usable = login is not None and login.url == settings.url and login.is_usable(time.time())
    return login_state(login, settings.url), usable


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


@COMMAND.action(
    "tools",
    "show the tools of a server",
    NAME,
    flag("--refresh", help="connect, even if they are known"),
    json=True,
)
def _tools(args: Namespace, cli: Cli) -> None:
    settings = server_named(cli, args.name)
    catalog = cached_or_probed_tools(cli, args.name, settings, refresh=args.refresh)
    offered = mcp.offered_tools(settings, catalog)
    facts = [tool_facts(tool, tool in offered) for tool in catalog.tools]
    lines = _tool_lines(settings, catalog) or [f"{args.name} has no tools"]
    if len(offered) < len(catalog.tools):
        lines.append(f"· is not offered to the agent; `hermes mcp configure {args.name}` chooses")
    cli.emit({"name": args.name, "tools": facts, "problems": catalog.problems}, lines)


def _tool_lines(settings: McpServer, catalog: mcp.ServerCatalog) -> list[str]:
    offered = mcp.offered_tools(settings, catalog)
    rows = zip(catalog.tools, tool_rows(catalog.tools), strict=True)
    lines = [f"{'✓' if tool in offered else '·'} {line}" for tool, line in rows]
    return lines + [f"✗ not available: {plain_line(problem)}" for problem in catalog.problems]


# `hermes mcp test`: connect once and report each step.


class TestStep(msgspec.Struct, frozen=True):
    step: str
    ok: bool
    text: str
    seconds: float | None = None


@COMMAND.action("test", "connect to a server once and show what it offers", NAME, json=True)
def _test(args: Namespace, cli: Cli) -> int:
    settings = server_named(cli, args.name)
    steps: list[TestStep] = []
    found: mcp.ProbeResult | None = None
    for step in _steps(cli, args.name, settings):
        if isinstance(step, mcp.ProbeResult):
            found = step
            continue
        steps.append(step)
        if not args.json:
            timing = "" if step.seconds is None else f" ({step.seconds:.2f} s)"
            cli.say(f"{'✓' if step.ok else '✗'} {step.step}: {step.text}{timing}")
    ok = all(step.ok for step in steps)
    facts: dict[str, Any] = {"name": args.name, "ok": ok, "steps": steps}
    if found is not None:
        offered = mcp.offered_tools(settings, mcp.ServerCatalog(found.tools))
        server, names = found.server_info, ("name", "version", "protocol", "instructions")
        facts |= {
            "transport": found.transport,
            "server": {name: getattr(server, name) for name in names},
            "tools": [tool_facts(tool, tool in offered) for tool in found.tools],
            "problems": found.problems,
            "resources": found.resources,
            "prompts": found.prompts,
        }
    catalog = mcp.ServerCatalog(found.tools, problems=found.problems) if found else None
    cli.emit(facts, [f"  {line}" for line in _tool_lines(settings, catalog)] if catalog else ())
    return 0 if ok else 1


def _steps(cli: Cli, name: str, settings: McpServer) -> Iterator[TestStep | mcp.ProbeResult]:
    """Yield each step when it is done, and the result. A failed step is the last one."""
    fault = find_fault(name, settings)
    if fault:
        yield TestStep("settings", False, plain_line(fault))
        return
    off = "" if settings.enabled else ", switched off"
    place = f"{transport_name(settings)}, {describe_place(cli, settings)}{off}"
    yield TestStep("settings", True, place)
    if settings.auth == "oauth":
        words, usable = _describe_login(cli, name, settings)
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
    yield found
    server = found.server_info
    who = plain_line(f"{server.name} {server.version}") or "a server without a name"
    spoken = f"{who}, MCP {server.protocol} over {found.transport}"
    yield TestStep("connect", True, spoken, found.connect_seconds)
    out = f", {len(found.problems)} left out" if found.problems else ""
    yield TestStep("tools", True, many(len(found.tools), "tool") + out)
    others = f"{many(len(found.resources), 'resource')}, {many(len(found.prompts), 'prompt')}"
    yield TestStep("resources and prompts", True, others, found.list_seconds)


# `hermes mcp remove`: a server with its variables, tokens and cache.

ALLOWLIST = "command_allowlist"
REFERENCE = re.compile(r"\$\{(\w+)\}")


@COMMAND.action("remove", "remove a server", NAME, YES, aliases=("rm",))
def _remove(args: Namespace, cli: Cli) -> None:
    server_named(cli, args.name)
    cli.require(f"Remove {args.name}?", "nothing was removed")
    remove_server(cli, args.name)
    cli.say(f"removed {args.name}")


def remove_server(cli: Cli, name: str) -> None:
    """Remove a server, its variables, login and cache, and the approvals of its tools."""
    before = read_document(cli.home.config_file).data
    edit.unset_value(cli.home, ("mcp_servers", name))
    after = read_document(cli.home.config_file).data
    for variable in sorted(_references(before) - _references(after)):
        if variable.startswith(variable_name(name)):
            edit.unset_variable(cli.home, variable)
    # A later server of this name must not inherit these approvals.
    held, mine = after.get(ALLOWLIST) or (), f"mcp:{name}:"
    rules = (after.get("approvals") or {}).get("rules") or ()
    for place in reversed(range(len(held))):
        if held[place].startswith(mine):
            edit.unset_value(cli.home, (ALLOWLIST, str(place)))
    for place in reversed(range(len(rules))):
        if any(kind.startswith(mine) for kind in rules[place].get("classes") or ()):
            edit.unset_value(cli.home, ("approvals", "rules", str(place)))
    catalog_cache(cli).drop(name)
    problem = run_logged(cli, logout(name, tokens_folder(cli)))
    if problem:
        cli.note(f"note: {problem}")


def _references(value: Any) -> set[str]:
    """Return the names of the referenced variables."""
    if isinstance(value, str):
        return set(REFERENCE.findall(value))
    values = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        return set().union(*map(_references, values))
    return set()


# `hermes mcp serve`: conversations of this home for MCP clients.


@COMMAND.action(
    "serve",
    "let other programs read conversations, send messages and answer approvals",
    arg("--http", metavar="[HOST:]PORT", help="serve over HTTP instead of standard input"),
    flag("--read-only", help="without the tools that send messages and answer approvals"),
)
def _serve(args: Namespace, cli: Cli) -> None:
    if not is_installed("mcp"):
        raise ConfigError(
            "the packages for MCP clients are missing", hint=install_hint("mcp-server")
        )
    if not args.http and cli.stdin.isatty():
        raise UsageError(
            "an MCP client starts this command and talks to it through pipes",
            hint="add `hermes mcp serve` to its settings, or use --http (docs/guide/mcp-server.md)",
        )
    loaded = cli.load()
    start_logging(cli.home, loaded.settings.logging, redactor := Redactor(loaded.secrets()))
    try:
        asyncio.run(_serve_clients(args, cli, redactor))
    finally:
        stop_logging()


async def _serve_clients(args: Namespace, cli: Cli, redactor: Redactor) -> None:
    # The SDK is an extra, and only this command needs it.
    from hermes.app import opened_store
    from hermes.cli.extensions import load_extensions
    from hermes.mcp_server import ConversationService, http_options, serve_http, serve_stdio
    from hermes.util.concurrency import SystemClock

    loaded = cli.load()
    read_only = args.read_only or loaded.settings.mcp_server.read_only
    options = http_options(args.http, cli.home, loaded, cli.note) if args.http else None
    if options is not None:
        redactor.learn(options.token)
    extensions = load_extensions(loaded, cli)  # plugins may add platforms
    try:
        async with opened_store(cli.home, loaded.settings.store.url, cli.note) as store:
            service = ConversationService(cli.home, loaded, store, SystemClock(), redactor)
            if options is not None:
                await serve_http(service, options, cli.note, read_only=read_only)
            else:
                await serve_stdio(service, read_only=read_only)
    finally:
        await extensions.close()
