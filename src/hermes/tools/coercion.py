"""Values as a schema wants them, where a model wrote the right thing in the wrong type."""

from collections.abc import Callable
from typing import Any

import msgspec


def coerced(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """`arguments` with "42" as 42, "true" as true and JSON text as the array or object in it.

    What does not convert cleanly stays, for the validator to complain about. A null for a
    parameter that is not required is left out.
    """
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    return {
        name: _value(value, properties.get(name, {}))
        for name, value in arguments.items()
        if value is not None or name in required or _allows_null(properties.get(name, {}))
    }


def _allows_null(schema: dict[str, Any]) -> bool:
    options = [schema, *schema.get("anyOf", ())]
    return any("null" in _types(option) for option in options)


def _value(value: Any, schema: dict[str, Any]) -> Any:
    types = _types(schema)
    if _is_one_of(value, types):
        return _inner(value, schema)
    for kind in types:
        convert = _CONVERSIONS.get(kind)
        converted = convert(value) if convert else value
        if _is_one_of(converted, (kind,)):
            return _inner(converted, schema)
    return value


def _inner(value: Any, schema: dict[str, Any]) -> Any:
    if isinstance(value, dict) and "properties" in schema:
        return coerced(value, schema)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [_value(item, schema["items"]) for item in value]
    return value


def _types(schema: dict[str, Any]) -> tuple[str, ...]:
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else tuple(kind)


_PYTHON: dict[str, type | tuple[type, ...]] = {
    "integer": int, "number": (int, float), "boolean": bool, "string": str, "array": list,
    "object": dict, "null": type(None),
}  # fmt: skip


def _is_one_of(value: Any, types: tuple[str, ...]) -> bool:
    if isinstance(value, bool):
        return "boolean" in types or not types
    return not types or any(isinstance(value, _PYTHON.get(kind, object)) for kind in types)


def _to_integer(value: Any) -> Any:
    number = _to_number(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _to_number(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return (
        _json(value.strip()) if value.strip().lstrip("+-").replace(".", "", 1).isdigit() else value
    )


def _to_boolean(value: Any) -> Any:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    return words.get(str(value).strip().lower(), value)


def _to_string(value: Any) -> Any:
    """Numbers as written; an object or array as JSON (file contents arrive like that)."""
    if isinstance(value, dict | list):
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return value if value is None or isinstance(value, bool) else str(value)


def _to_array(value: Any) -> Any:
    if isinstance(value, str):
        decoded = _json(value)
        return decoded if isinstance(decoded, list) else [value]
    return [value]


def _json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "integer": _to_integer,
    "number": _to_number,
    "boolean": _to_boolean,
    "string": _to_string,
    "array": _to_array,
    "object": _json,
}
