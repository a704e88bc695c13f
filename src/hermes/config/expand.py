"""`${NAME}` in text. A name that is not set stays as written; a bare `$NAME` is never touched."""

import re
from collections.abc import Mapping
from typing import Any

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def expand_text(text: str, variables: Mapping[str, str]) -> str:
    if "${" not in text:
        return text
    return _REFERENCE.sub(lambda match: variables.get(match[1], match[0]), text)


def expand(value: Any, variables: Mapping[str, str]) -> Any:
    """Every text inside `value` expanded; the value itself is not changed."""
    if isinstance(value, str):
        return expand_text(value, variables)
    if isinstance(value, Mapping):
        return {key: expand(held, variables) for key, held in value.items()}
    if isinstance(value, list):
        return [expand(held, variables) for held in value]
    return value
