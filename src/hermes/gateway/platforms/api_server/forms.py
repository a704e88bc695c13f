"""The form a client wants its answer in: `response_format`, in responses `text.format`."""

from typing import Any

import msgspec

ONLY_JSON = "Your last answer must be valid JSON and nothing else: no words around it, no fences."


def form_wanted(given: Any) -> str:
    """What to tell the agent; "" for plain text, and for what is no form at all."""
    if not isinstance(given, dict) or given.get("type") not in ("json_object", "json_schema"):
        return ""
    inner = given.get("json_schema", given)
    schema = inner.get("schema") if isinstance(inner, dict) else None
    if not schema:
        return ONLY_JSON
    return f"{ONLY_JSON} It must fit this JSON schema: {msgspec.json.encode(schema).decode()}"


def joined(*texts: str | None) -> str:
    """What was said of how to answer, in several places."""
    return "\n\n".join(filter(None, texts))
