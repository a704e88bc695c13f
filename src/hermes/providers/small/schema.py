"""The tools a small model is offered, and the grammar its answer must follow."""

from typing import Any

import msgspec

from hermes.core.model import ToolSpec
from hermes.providers.small.profile import REPLY, SmallProfile, ToolHint

ABOUT_LENGTH = 80


def offered(specs: tuple[ToolSpec, ...], profile: SmallProfile) -> tuple[ToolSpec, ...]:
    """At most `max_tools`: those of the profile in its order, then the others in theirs.

    Each is cut to the parameters of its hint, or to the required ones where there is no hint.
    """
    rank = {hint.name: position for position, hint in enumerate(profile.hints)}
    hints = {hint.name: hint for hint in profile.hints}
    known = [spec for spec in specs if spec.name != REPLY]
    known.sort(key=lambda spec: rank.get(spec.name, len(rank)))
    return tuple(_short(spec, hints.get(spec.name)) for spec in known[: profile.max_tools])


def reply_schema(specs: tuple[ToolSpec, ...]) -> dict[str, Any]:
    """One object with one key: the name of a tool with its arguments, or `reply` with a text."""
    options = [_option(spec.name, spec.parameters) for spec in specs]
    return {"oneOf": [*options, _option(REPLY, {"type": "string"})]}


def describe(spec: ToolSpec) -> str:
    """The tool's line in the system prompt."""
    names = ", ".join(spec.parameters["properties"])
    return f"{spec.name}({names}): {spec.description}"


def _short(spec: ToolSpec, hint: ToolHint | None) -> ToolSpec:
    properties: dict[str, Any] = spec.parameters.get("properties", {})
    required = tuple(spec.parameters.get("required", ()))
    names = hint.parameters if hint else required
    shown = {name: _bare(properties[name]) for name in names if name in properties}
    parameters = {
        "type": "object",
        "properties": shown,
        "required": list(shown),
        "additionalProperties": False,
    }
    sentence = spec.description.split("\n", 1)[0].split(". ", 1)[0]
    return ToolSpec(spec.name, hint.about if hint else sentence[:ABOUT_LENGTH], parameters)


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter's schema without the texts, which a grammar has no use for.

    A reference would point into the tool's own schema, which is not sent: any value is admitted.
    """
    if b"$ref" in msgspec.json.encode(schema):
        return {}
    return {key: value for key, value in schema.items() if key not in ("description", "default")}


def _option(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: value},
        "required": [name],
        "additionalProperties": False,
    }
