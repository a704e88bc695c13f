"""The little of Markdown that matters when a message is written out: where code is."""

import re
from collections.abc import Callable, Iterator

import msgspec

LINE_LIMIT = 2000
"""A longer line is nobody's prose and is taken as it is, which also bounds the work."""

HEADING = re.compile(r" {0,3}(#{1,6})\s+(.+?)\s*#*")
_FENCE = re.compile(r" {0,3}(`{3,}+|~{3,}+)[^`]*+")
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")


class Block(msgspec.Struct, frozen=True):
    """A block of code, or some lines of prose."""

    lines: tuple[str, ...]
    fence: str = ""
    """Empty for prose."""
    language: str = ""
    """What stands behind the fence."""


def blocks(text: str) -> Iterator[Block]:
    """A block of code that was never closed goes on to the end."""
    said: list[str] = []
    rest = iter(text.strip("\n").split("\n"))
    for line in rest:
        opened = _FENCE.fullmatch(line) if len(line) <= LINE_LIMIT else None
        if opened:
            yield Block(tuple(said))
            said = []
            language = line.strip().removeprefix(opened[1]).strip()
            yield Block(tuple(_inside(rest, opened[1])), opened[1], language)
        else:
            said.append(line)
    yield Block(tuple(said))


def _inside(rest: Iterator[str], fence: str) -> Iterator[str]:
    for line in rest:
        mark = line.strip()
        if len(mark) >= len(fence) and mark == fence[0] * len(mark):
            return
        yield line


def inline(line: str, code: Callable[[str, str], str], other: Callable[[str], str]) -> str:
    """A line with `code(ticks, text)` for each piece of code and `other` for what is between."""
    if len(line) > LINE_LIMIT:
        return other(line)
    parts: list[str] = []
    end = 0
    for found in _CODE.finditer(line):
        parts += [other(line[end : found.start()]), code(found[1], found[2])]
        end = found.end()
    return "".join([*parts, other(line[end:])])
