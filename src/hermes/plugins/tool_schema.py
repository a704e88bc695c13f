"""The schema a plugin gives for its tool: every request of a conversation carries it."""

from typing import Any

import msgspec


def own_schema(given: Any) -> dict[str, Any]:
    """A copy that the plugin cannot change any more. Raises `TypeError` for what endpoints refuse,
    since that would end every conversation and not only calls of this tool."""
    if not isinstance(given, dict):
        raise TypeError("schema is no JSON Schema in a dict")
    try:
        schema: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(given))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"schema is no JSON: {error}") from error
    parameters = schema.get("parameters", schema if "properties" in schema else {})
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise TypeError("the parameters in schema are no JSON Schema of an object")
    properties, required = parameters.get("properties", {}), parameters.get("required", [])
    if not isinstance(properties, dict) or not all(map(_is_schema, properties.values())):
        raise TypeError("the properties in schema are no JSON Schemas in a dict")
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise TypeError("`required` in schema is no list of names")
    return schema


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)
