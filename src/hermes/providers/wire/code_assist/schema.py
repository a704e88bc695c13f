"""JSON Schema as Gemini takes it: a known set of keywords, and nothing beside a reference."""

from typing import Any

Schema = dict[str, Any]

_PLAIN = (
    "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems"
    " minimum maximum anyOf oneOf properties additionalProperties required propertyOrdering"
)
_KEPT = frozenset(_PLAIN.split())
_ONCE_FILLED = ("required", "enum")
"""Refused when they are empty."""
_SEVERAL = ("anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "$defs")


def gemini_schema(schema: Schema) -> Schema:
    """What is left out only narrowed the values down; the tools check their arguments anyway."""
    schema = _respelled(schema)
    if "$ref" in schema and "$defs" not in schema and "description" in schema:
        return {"anyOf": [{"$ref": schema["$ref"]}], "description": schema["description"]}
    if "$ref" in schema:
        return {key: _inner(key, value) for key, value in schema.items() if key.startswith("$")}
    cleaned = {key: _inner(key, value) for key, value in schema.items() if key in _KEPT}
    if isinstance(names := cleaned.get("required"), list):
        known = cleaned.get("properties") or {}
        cleaned["required"] = [name for name in names if name in known]
    if isinstance(values := cleaned.get("enum"), list):
        # Only words and numbers are taken; of `true`, `null` and objects the type is enough.
        cleaned["enum"] = [value for value in values if type(value) in (str, int, float)]
    return {key: value for key, value in cleaned.items() if value or key not in _ONCE_FILLED}


def _respelled(schema: Schema) -> Schema:
    """The same in the keywords that are known."""
    schema = dict(schema)
    for part in schema.pop("allOf", None) or ():
        if isinstance(part, dict):
            schema = {**part, **schema}
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    if isinstance(schema.get("definitions"), dict):
        schema["$defs"] = schema.pop("definitions") | schema.get("$defs", {})
    if isinstance(name := schema.get("$ref"), str):
        schema["$ref"] = name.replace("#/definitions/", "#/$defs/")
    return schema


def _inner(key: str, value: Any) -> Any:
    if key in _NAMED and isinstance(value, dict):
        return {name: _one(inner) for name, inner in value.items()}
    if key in _SEVERAL and isinstance(value, list):
        return [_one(inner) for inner in value]
    if key == "additionalProperties" and isinstance(value, bool):
        return value
    return _one(value) if key in ("items", "additionalProperties") else value


def _one(schema: Any) -> Schema:
    """In most places `true` is not taken for the schema that fits everything."""
    return gemini_schema(schema) if isinstance(schema, dict) else {}
