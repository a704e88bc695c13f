"""The tools of a server, as tools of a session."""

from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import msgspec

from hermes.config.settings.abilities import McpServer
from hermes.core.errors import ToolError
from hermes.core.model import ToolSpec
from hermes.core.tool import Concern, Effect, Tool, ToolContext
from hermes.mcp.caller import Caller, Ticket
from hermes.mcp.catalogue import Catalogue, RemoteTool
from hermes.mcp.connection import Connection
from hermes.mcp.elicitation import show_url
from hermes.mcp.failures import URL_NEEDED, Refused
from hermes.mcp.names import Origin
from hermes.mcp.results import MOST_CHARS, call_result, server_error
from hermes.mcp.utilities import UTILITIES, Utility, run_utility
from hermes.util.text import cut_middle

SUBJECT_CHARS = 1_000

T = TypeVar("T")


def offered_tools(settings: McpServer, catalogue: Catalogue) -> list[RemoteTool]:
    """Those the settings let through. `include` wins over `exclude`; both mean the server's own
    names."""
    include, exclude = settings.tools.include, settings.tools.exclude
    if include:
        return [tool for tool in catalogue.tools if tool.name in include]
    return [tool for tool in catalogue.tools if tool.name not in exclude]


def offered_utilities(settings: McpServer, catalogue: Catalogue) -> list[Utility]:
    wanted = {
        "resources": catalogue.resources and settings.tools.resources,
        "prompts": catalogue.prompts and settings.tools.prompts,
    }
    return [utility for utility in UTILITIES if wanted[utility.ability]]


def origins(name: str, settings: McpServer, catalogue: Catalogue) -> list[Origin]:
    """What needs a name. A tool of the server comes before a utility of ours that is called so."""
    tools = [Origin(name, tool.name) for tool in offered_tools(settings, catalogue)]
    utilities = offered_utilities(settings, catalogue)
    return tools + [Origin(name, each.name, ours=True) for each in utilities]


def session_tools(
    connection: Connection, catalogue: Catalogue, names: Mapping[Origin, str], caller: Caller
) -> list[Tool]:
    server, settings = connection.name, connection.settings
    tools = [
        _remote(connection, tool, names[Origin(server, tool.name)], caller)
        for tool in offered_tools(settings, catalogue)
    ]
    return tools + [
        _utility(connection, each, names[Origin(server, each.name, ours=True)], caller)
        for each in offered_utilities(settings, catalogue)
    ]


def _remote(connection: Connection, remote: RemoteTool, name: str, caller: Caller) -> Tool:
    server = connection.name

    async def handler(call: ToolContext, arguments: dict[str, Any]) -> str:
        params = {"name": remote.name, "arguments": arguments}
        ticket = Ticket(call, caller)
        result = await _guarded(connection, ticket, connection.ask("tools/call", params, ticket))
        return call_result(result, server, connection.redactor)

    async def examine(arguments: dict[str, Any]) -> Concern | None:
        given = msgspec.json.encode(arguments, enc_hook=str).decode()
        what = "may destroy something" if remote.destructive else "may do anything"
        return Concern(
            f"mcp:{server}:{remote.name}",
            f"{name} {given if len(given) <= SUBJECT_CHARS else given[:SUBJECT_CHARS] + ' …'}",
            f"{remote.name} of the MCP server {server} {what}",
        )

    looks = Effect.NETWORK if remote.open_world else Effect.READ
    return Tool(
        ToolSpec(name, remote.description, remote.parameters),
        handler,
        effect=looks if remote.read_only else Effect.EXECUTE,
        examine=None if remote.read_only else examine,
        serial=not remote.read_only,
        toolset=f"mcp-{server}",
    )


def _utility(connection: Connection, utility: Utility, name: str, caller: Caller) -> Tool:
    async def handler(call: ToolContext, arguments: dict[str, Any]) -> str:
        ticket = Ticket(call, caller)
        work = run_utility(utility, connection, arguments, ticket)
        return cut_middle(await _guarded(connection, ticket, work), MOST_CHARS)

    return Tool(
        utility.spec(name, connection.name),
        handler,
        effect=Effect.NETWORK if connection.settings.url else Effect.READ,
        toolset=f"mcp-{connection.name}",
    )


async def _guarded(connection: Connection, ticket: Ticket, work: Awaitable[T]) -> T:
    """The result, or at once `Interrupted` when the turn is stopped."""
    try:
        return await ticket.call.cancel.guard(work)
    except Refused as error:
        if error.code == URL_NEEDED:
            raise _page_needed(connection.name, ticket.call, error) from error
        words = str(error).removeprefix(f"{connection.name}: ")
        raise server_error(words, connection.name, connection.redactor) from error


def _page_needed(server: str, call: ToolContext, error: Refused) -> ToolError:
    data = error.data if isinstance(error.data, dict) else {}
    pages = data.get("elicitations")
    for page in pages[:5] if isinstance(pages, list) else ():
        if isinstance(page, dict):
            show_url(call, server, str(page.get("message", "")), str(page.get("url", "")))
    return ToolError(
        f"{server} needs the user to do something in a browser first",
        hint="the user was shown the address; try again when they say they are done",
    )
