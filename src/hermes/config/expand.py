"""`${NAME}` in text. A name that is not set stays as written; a bare `$NAME` is never touched.

A credential with such a name in it is missing: everybody knows the text that was left there.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hermes.config.keys import Parts

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def is_reference(text: str) -> bool:
    """Whether it is a `${NAME}` and nothing else."""
    return _REFERENCE.fullmatch(text) is not None


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


def unset_names(text: str) -> tuple[str, ...]:
    """The names that are left in text that was expanded: nobody set them."""
    return tuple(dict.fromkeys(_REFERENCE.findall(text))) if "${" in text else ()


def unset_in(value: Any, parts: Parts = ()) -> Iterator[tuple[Parts, tuple[str, ...]]]:
    """Where names are left inside `value`, which was expanded, and which."""
    if isinstance(value, str):
        if names := unset_names(value):
            yield parts, names
    elif isinstance(value, Mapping):
        for key, held in value.items():
            yield from unset_in(held, (*parts, str(key)))
    elif isinstance(value, list):
        for at, held in enumerate(value):
            yield from unset_in(held, (*parts, str(at)))


def told(names: tuple[str, ...]) -> str:
    """`${A} and ${B} are not set`."""
    written = " and ".join(f"${{{name}}}" for name in names)
    return f"{written} {'are' if names[1:] else 'is'} not set"
