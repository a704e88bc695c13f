"""The list of the tool `todo`, for people."""

import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from hermes.core.marks import TODO_LIST
from hermes.tui.cells import one_line
from hermes.tui.paint import Paint
from hermes.util.text import many

_LINE = re.compile(r"(?P<mark>\[[x> -]\]) \S+: (?P<text>.*)")


class Look(msgspec.Struct, frozen=True):
    mark: str
    role: str
    open: bool = False


LOOKS: Mapping[str, Look] = MappingProxyType(
    {
        "[x]": Look("☑", "ok"),
        "[>]": Look("◐", "accent", open=True),
        "[ ]": Look("☐", "text", open=True),
        "[-]": Look("☒", "dim"),
    }
)


def tasks(result: str) -> list[tuple[Look, str]]:
    """The tasks in a result of the tool; none when it shows no list."""
    head, *lines = result.split("\n")
    if not head.startswith(TODO_LIST):
        return []
    found = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            break
        found.append((LOOKS[match["mark"]], match["text"]))
    return found


def counted(result: str) -> str:
    """`2 done of 5`."""
    found = tasks(result)
    done = sum(look is LOOKS["[x]"] for look, _ in found)
    return f"{done} done of {len(found)}" if found else ""


def todo_rows(result: str, columns: int, paint: Paint, most: int) -> list[str]:
    """A row for each task; of a long list, those around the first that is open."""
    found = tasks(result)
    start = 0
    if len(found) > most:
        first = next((at for at, (look, _) in enumerate(found) if look.open), 0)
        start = max(0, min(first - 1, len(found) - most))
    rows = [_row(look, text, columns, paint) for look, text in found[start : start + most]]
    before, after = start, len(found) - start - len(rows)
    return [
        *([paint("dim", one_line(f"… {many(before, 'task')} before", columns))] if before else []),
        *rows,
        *([paint("dim", one_line(f"… {many(after, 'more task')}", columns))] if after else []),
    ]


def _row(look: Look, text: str, columns: int, paint: Paint) -> str:
    shown = one_line(text, columns - 2)
    return f"{paint(look.role, look.mark)} {shown if look.open else paint('dim', shown)}"
