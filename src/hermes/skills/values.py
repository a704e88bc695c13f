"""Values of a head as what they should be. What does not fit is left out, with a warning."""

import datetime as dt
import json
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

Scalar = str | int | float | bool

LARGEST_INTEGER = 2**53


@lru_cache(1000, typed=True)
def _plain_key(key: Any) -> str:
    return str(key).strip().lower().replace("-", "_")


class Values:
    """The fields of one block, found whatever the letter case and `-` or `_` between words."""

    def __init__(self, warnings: list[str], block: Mapping[Any, Any]) -> None:
        self.warnings = warnings
        # Zero and false are values; nothing, and empty text, lists and blocks are none.
        self._fields = {
            _plain_key(key): value for key, value in block.items() if value or value == 0
        }

    def before(self, *others: "Values") -> "Values":
        """These, and what only the others know, of which the first counts."""
        both = Values(self.warnings, {})
        for each in reversed((self, *others)):
            both._fields.update(each._fields)
        return both

    def raw(self, key: str) -> Any:
        """None when there is no such field, or nothing in it."""
        return self._fields.get(key)

    def text(self, key: str) -> str:
        """On one line; "" for none."""
        known = as_text(self._fields.get(key, ""))
        if known is None:
            self.warnings.append(f"{key} is not text; it is ignored")
            return ""
        return " ".join(known.split())

    def prose(self, key: str) -> str:
        """Like `text`; a list of texts becomes one."""
        value = self._fields.get(key)
        if not isinstance(value, list) or None in (parts := [as_text(part) for part in value]):
            return self.text(key)
        return " ".join("; ".join(map(str, parts)).split())

    def words(self, key: str) -> tuple[str, ...]:
        """A list, or text with commas between its words."""
        value = self._fields.get(key)
        if value is None:
            return ()
        if isinstance(value, list | tuple):
            items = [as_text(item) for item in value]
        else:
            known = as_text(value)
            items = [known] if known is None else list(known.strip("[] ").split(","))
        if None in items:
            self.warnings.append(f"{key} holds more than a list of words")
        words = (" ".join(item.split()) for item in items if item)
        return tuple(dict.fromkeys(word for word in words if word))

    def entries(self, key: str, main: str) -> Iterator["Values"]:
        """Blocks with the field `main`, also given as `main` alone or as a table by `main`."""
        value = self.raw(key)
        if isinstance(value, str):
            value = value.split(",")
        if isinstance(value, Mapping) and main not in Values([], value)._fields:
            value = [
                {main: name, **more}
                if isinstance(more, Mapping)
                else {main: name, "description": more}
                for name, more in value.items()
            ]
        for item in [value] if isinstance(value, Mapping) else value or ():
            block = item if isinstance(item, Mapping) else {main: item}
            entry = Values(self.warnings, block)
            if entry.text(main):
                yield entry
            else:
                self.warnings.append(f"an entry of {key} has no {main}; it is ignored")

    def block(self, key: str) -> Mapping[str, Any]:
        """A table, also when it was written as JSON text."""
        value = self.raw(key)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                self.warnings.append(f"{key} is not valid JSON; it is ignored")
                return {}
        return value if isinstance(value, Mapping) else {}


def as_text(value: Any) -> str | None:
    """None for what is no single value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value) if isinstance(value, int | float) else None


def plain(value: Any) -> Scalar | list[Scalar] | None:
    """A single value or a list of them that any file can hold; None for anything else."""
    if isinstance(value, list):
        items = [_scalar(item) for item in value]
        return [item for item in items if item is not None]
    return _scalar(value)


def _scalar(value: Any) -> Scalar | None:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        return str(value)
    if isinstance(value, str | int | float | bool):
        return value
    return as_text(value)
