"""What the model calls the tools of servers."""

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

LONGEST = 64
_ODD = re.compile(r"[^a-zA-Z0-9_]")


class Origin(NamedTuple):
    server: str
    tool: str
    """What it is called there."""
    ours: bool = False
    """A utility of ours, not a tool of the server."""


def tool_names(origins: Iterable[Origin]) -> dict[Origin, str]:
    """`mcp_<server>_<tool>` for each, of the letters providers take, and never the same twice.

    Of several that would have one name the first keeps it; the others, and those that are too long,
    end in a few letters that stand for the whole.
    """
    names: dict[Origin, str] = {}
    taken: set[str] = set()
    for origin in origins:
        name = f"mcp_{plain(origin.server)}_{plain(origin.tool)}"
        if len(name) > LONGEST or name in taken:
            mark = hashlib.sha256(repr(tuple(origin)).encode()).hexdigest()[:8]
            name = f"{name[: LONGEST - len(mark) - 1]}_{mark}"
        names[origin] = name
        taken.add(name)
    return names


def plain(name: str) -> str:
    return _ODD.sub("_", name)
