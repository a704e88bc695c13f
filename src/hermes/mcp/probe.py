"""Connect to a server once and see what it offers."""

import time
from typing import Any

import msgspec

from hermes.config.settings.abilities import McpServer
from hermes.mcp.authorising import Authoriser
from hermes.mcp.catalogue import RemoteTool
from hermes.mcp.failures import Refused
from hermes.mcp.options import McpOptions
from hermes.mcp.results import resource_line
from hermes.mcp.server import Server
from hermes.mcp.session import Session, Welcome
from hermes.mcp.transports import Transports
from hermes.util.clock import SystemClock


class Probe(msgspec.Struct, frozen=True):
    transport: str
    """`stdio`, `http` or `sse`."""
    welcome: Welcome
    """Its name, version and protocol, what it can do, and its instructions."""
    connect_seconds: float
    """Until the tools were known."""
    list_seconds: float
    """For resources and prompts."""
    tools: tuple[RemoteTool, ...]
    """All that are fit, whatever `tools.include` and `tools.exclude` say."""
    problems: tuple[str, ...]
    """Tools that were left out, each with the reason."""
    resources: tuple[str, ...]
    """A line for each, templates too."""
    prompts: tuple[str, ...]
    """Their names."""


async def probe(
    name: str,
    settings: McpServer,
    options: McpOptions | None = None,
    authoriser: Authoriser | None = None,
) -> Probe:
    """What the server offers; everything is stopped again when this returns. With a cache in
    `options` the next session starts with what was found. Raises `ToolError`, without secrets."""
    options = options or McpOptions()
    transports = Transports(options.limits)
    server = Server(
        name,
        settings,
        transports,
        options,
        clock=SystemClock(),
        tell=lambda _text: None,
        authoriser=authoriser,
    )
    try:
        began = time.monotonic()
        catalogue = await server.refresh()
        connected = time.monotonic()
        found = await server.connection.use(_look_around)
        return Probe(
            server.connection.kind,
            found.welcome,
            connected - began,
            time.monotonic() - connected,
            catalogue.tools,
            catalogue.problems,
            found.resources,
            found.prompts,
        )
    finally:
        await server.close()
        await transports.close()


class _Found(msgspec.Struct, frozen=True):
    welcome: Welcome
    resources: tuple[str, ...]
    prompts: tuple[str, ...]


async def _look_around(session: Session) -> _Found:
    resources: list[Any] = []
    prompts: list[Any] = []
    if session.welcome.has("resources"):
        resources = await _listed(session, "resources/list", "resources")
        resources += await _listed(session, "resources/templates/list", "resourceTemplates")
    if session.welcome.has("prompts"):
        prompts = await _listed(session, "prompts/list", "prompts")
    return _Found(
        session.welcome,
        tuple(resource_line(each) for each in resources),
        tuple(str(each.get("name")) for each in prompts if isinstance(each, dict)),
    )


async def _listed(session: Session, method: str, key: str) -> list[Any]:
    try:
        return (await session.pages(method, key, seconds=30)).items
    except Refused:
        return []
