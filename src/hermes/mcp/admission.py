"""Which tools of a server are offered to the model, and in what form.

A server may lie, flood or be broken. What can be repaired is, the rest is left out with a reason.
"""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec

from hermes.mcp.catalogue import RemoteTool
from hermes.mcp.lines import one_line
from hermes.security.injection import scan
from hermes.util.text import clean, cut_middle

DESCRIPTION_CHARS = 4_000
SCHEMA_CHARS = 40_000
NAME_CHARS = 200
REASON_CHARS = 120
MOST_DEPTH = 30
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


class Unfit(Exception):
    """Why a tool is left out."""


def admit(offered: list[Any]) -> tuple[tuple[RemoteTool, ...], tuple[str, ...]]:
    """The tools that are fit, by name, and what was left out and why."""
    fit: dict[str, RemoteTool] = {}
    problems: list[str] = []
    for number, each in enumerate(offered, 1):
        name = each.get("name") if isinstance(each, dict) else None
        label = one_line(str(name or ""), 60) or f"tool {number}"
        try:
            tool = _tool(each)
            if tool.name in fit:
                raise Unfit("there is another of that name")
            fit[tool.name] = tool
        except Unfit as reason:
            problems.append(f"{label}: {reason}")
    return tuple(fit[name] for name in sorted(fit)), tuple(problems)


def _tool(offered: Any) -> RemoteTool:
    if not isinstance(offered, dict):
        raise Unfit("it is no object")
    name = offered.get("name")
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_CHARS:
        raise Unfit("it has no usable name")
    if not name.isprintable():  # it is shown when somebody is asked for consent
        raise Unfit("its name has characters that cannot be shown")
    execution = offered.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        raise Unfit("it can only be run as a task, which is not supported")
    description = _description(offered)
    parameters = _parameters(offered.get("inputSchema"))
    found = scan("\n".join([name, description, *_strings(parameters)]))
    if found:
        raise Unfit(f"its description tries to steer the agent ({', '.join(found)})")
    hints = offered.get("annotations")
    given = hints if isinstance(hints, dict) else {}
    return RemoteTool(
        name,
        description,
        parameters,
        read_only=given.get("readOnlyHint") is True and given.get("destructiveHint") is not True,
        destructive=given.get("destructiveHint") is True,
        open_world=given.get("openWorldHint") is not False,
    )


def _description(offered: dict[str, Any]) -> str:
    for key in ("description", "title"):
        text = offered.get(key)
        if isinstance(text, str) and text.strip():
            return cut_middle(clean(text[: 10 * DESCRIPTION_CHARS]).strip(), DESCRIPTION_CHARS)
    return ""


def _parameters(schema: Any) -> dict[str, Any]:
    if schema is None:
        return NOTHING
    if not isinstance(schema, dict):
        raise Unfit("its parameters are no JSON Schema")
    found: dict[str, Any] = {
        key: value for key, value in schema.items() if key not in ("$schema", "$id")
    }
    if found.setdefault("type", "object") != "object":
        raise Unfit("its parameters are not an object")
    found.setdefault("properties", {})
    _check_shape(found)
    try:
        jsonschema_rs.validator_for(found, offline=True)
    except ValueError as error:
        reason = one_line(str(error).partition("\n")[0], REASON_CHARS)
        raise Unfit(f"its parameters are no valid JSON Schema: {reason}") from error
    return found


def _check_shape(schema: dict[str, Any]) -> None:
    try:
        size = len(msgspec.json.encode(schema))
    except RecursionError:
        raise Unfit("its parameters are nested too deeply") from None
    if size > SCHEMA_CHARS:
        raise Unfit(f"its parameters take {size:,} characters; {SCHEMA_CHARS:,} are allowed")
    for value, depth in _walk(schema):
        if depth > MOST_DEPTH:
            raise Unfit("its parameters are nested too deeply")
        if isinstance(value, dict):
            for key in ("$ref", "$dynamicRef"):
                target = value.get(key, "#")
                # Whoever checks arguments would fetch it.
                if isinstance(target, str) and not target.startswith("#"):
                    raise Unfit("its parameters are described elsewhere")
            if isinstance(value.get("$id"), str):
                raise Unfit("its parameters are described elsewhere")


def _walk(value: Any) -> Iterator[tuple[Any, int]]:
    pending = [(value, 0)]
    while pending:
        value, depth = pending.pop()
        yield value, depth
        if isinstance(value, dict):
            pending += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list):
            pending += [(each, depth + 1) for each in value]


def _strings(schema: dict[str, Any]) -> Iterator[str]:
    """Every text in a schema that the model reads."""
    for value, _ in _walk(schema):
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from value
