"""Resources and prompts of a server, as tools."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hermes.core.model import ToolSpec
from hermes.mcp.caller import Ticket
from hermes.mcp.connection import Connection
from hermes.mcp.failures import Refused
from hermes.mcp.results import block_text, fenced, resource_line, resource_text
from hermes.mcp.session import Listed

MORE = "[there are more, which are not listed]"

Run = Callable[[Connection, dict[str, Any], Ticket], Awaitable[str]]


class Utility(msgspec.Struct, frozen=True):
    name: str
    ability: str
    """`resources` or `prompts`: what the server must have."""
    description: str
    parameters: dict[str, Any]
    run: Run

    def spec(self, name: str, server: str) -> ToolSpec:
        return ToolSpec(name, self.description.format(server), self.parameters)


async def _list_resources(connection: Connection, _given: dict[str, Any], _ticket: Ticket) -> str:
    resources = await connection.pages("resources/list", "resources")
    try:
        templates = await connection.pages("resources/templates/list", "resourceTemplates")
    except Refused:  # many servers have none
        templates = Listed([], more=False)
    lines = [resource_line(each) for each in resources.items]
    lines += [f"template: {resource_line(each)}" for each in templates.items]
    lines += [MORE] if resources.more or templates.more else []
    return "\n".join(lines) or "there are no resources"


async def _read_resource(connection: Connection, given: dict[str, Any], ticket: Ticket) -> str:
    result = await connection.ask("resources/read", {"uri": given["uri"]}, ticket)
    contents = result.get("contents")
    parts = [resource_text(each) for each in contents] if isinstance(contents, list) else []
    return "\n".join(parts) or "the resource is empty"


async def _list_prompts(connection: Connection, _given: dict[str, Any], _ticket: Ticket) -> str:
    prompts = await connection.pages("prompts/list", "prompts")
    lines = [_prompt_line(each) for each in prompts.items] + ([MORE] if prompts.more else [])
    return "\n".join(lines) or "there are no prompts"


async def _get_prompt(connection: Connection, given: dict[str, Any], ticket: Ticket) -> str:
    arguments = {key: str(value) for key, value in given.get("arguments", {}).items()}
    params = {"name": given["name"], "arguments": arguments}
    result = await connection.ask("prompts/get", params, ticket)
    messages = result.get("messages")
    lines = [_message_line(each) for each in messages] if isinstance(messages, list) else []
    return "\n".join(lines) or "the prompt is empty"


def _prompt_line(prompt: Any) -> str:
    if not isinstance(prompt, dict):
        return "?"
    given = prompt.get("arguments")
    arguments = (
        [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    )
    names = [
        str(each.get("name")) if each.get("required") else f"[{each.get('name')}]"
        for each in arguments
    ]
    line = f"{prompt.get('name')}({', '.join(names)})"
    description = prompt.get("description")
    return " ".join((f"{line}: {description}" if description else line).split())[:500]


def _message_line(message: Any) -> str:
    if not isinstance(message, dict):
        return "?"
    return f"{message.get('role')}: {block_text(message.get('content'))}"


def _object(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | {"required": list(required)} if required else schema


_TEXT = {"type": "string"}

UTILITIES = (
    Utility("list_resources", "resources", "List the resources of {}", _object(), _list_resources),
    Utility(
        "read_resource",
        "resources",
        "Read a resource of {}",
        _object(("uri",), uri=_TEXT),
        _read_resource,
    ),
    Utility("list_prompts", "prompts", "List the prompts of {}", _object(), _list_prompts),
    Utility(
        "get_prompt",
        "prompts",
        "Get a prompt of {}, filled in",
        _object(("name",), name=_TEXT, arguments={"type": "object", "additionalProperties": _TEXT}),
        _get_prompt,
    ),
)


async def run_utility(
    utility: Utility, connection: Connection, given: dict[str, Any], ticket: Ticket
) -> str:
    return fenced(await utility.run(connection, given, ticket), connection.name)
