"""Safe ways into JSON that others wrote: what has the wrong shape counts as not there."""

from typing import Any

Json = dict[str, Any]


def at(value: Any, *keys: str) -> Any:
    """What is below `keys`; None when the way ends before."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def word(value: Any, *keys: str) -> str:
    found = at(value, *keys)
    return found if isinstance(found, str) else ""


def number(value: Any, *keys: str) -> int:
    found = at(value, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def table(value: Any, *keys: str) -> Json:
    found = at(value, *keys)
    return found if isinstance(found, dict) else {}


def tables(value: Any, *keys: str) -> list[Json]:
    found = at(value, *keys)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def words(value: Any, *keys: str) -> list[str]:
    found = at(value, *keys)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
