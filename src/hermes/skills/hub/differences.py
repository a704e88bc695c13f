"""What a new version of a skill changes, for a person to read."""

import difflib

from hermes.skills.hub.contents import Files
from hermes.util.text import human_size, many

MOST_LINES = 400
CONTEXT = 3


def difference(old: Files, new: Files) -> str:
    """A unified diff of all files, cut at `MOST_LINES`; "" when nothing differs."""
    lines: list[str] = []
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            lines += _of_file(name, old.get(name), new.get(name))
    if len(lines) > MOST_LINES:
        rest = len(lines) - MOST_LINES
        lines = [*lines[:MOST_LINES], f"… {many(rest, 'more line')}"]
    return "\n".join(lines)


def summary(old: Files, new: Files) -> str:
    """`2 files changed, 1 added`."""
    counts = {
        "changed": sum(name in old and old[name] != data for name, data in new.items()),
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
    }
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    return ", ".join(parts) or "nothing changed"


def _of_file(name: str, old: bytes | None, new: bytes | None) -> list[str]:
    before, after = _lines(old), _lines(new)
    if before is None or after is None:
        return [f"binary {name}: {_size(old)} → {_size(new)}"]
    return list(
        difflib.unified_diff(
            before,
            after,
            f"a/{name}" if old is not None else "/dev/null",
            f"b/{name}" if new is not None else "/dev/null",
            n=CONTEXT,
            lineterm="",
        )
    )


def _lines(data: bytes | None) -> list[str] | None:
    if data is None:
        return []
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.splitlines()


def _size(data: bytes | None) -> str:
    return "nothing" if data is None else human_size(len(data))
