"""All skills of some folders as they were at one moment: what lists and prompts need of them.

Every new process loads it, and most need but a few of hundreds of skills. It is therefore kept in
columns, which cost next to nothing until somebody looks into them. A skill is known by its number;
those of one root and one category stand side by side.
"""

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import groupby

import msgspec

from hermes import __version__
from hermes.skills.skill import SKILL_FILE, Root, Source

FORMAT = 3
SEPARATOR = "\x7f"
"""It cannot be printed, so no value holds it, and it needs no escape in JSON."""


class Rule(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """On what it depends whether some skills are shown; see `Skill` and `Conditions`."""

    numbers: tuple[int, ...]
    platforms: tuple[str, ...]
    requires_tools: tuple[str, ...]
    requires_toolsets: tuple[str, ...]
    fallback_for_tools: tuple[str, ...]
    fallback_for_toolsets: tuple[str, ...]


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Skills side by side."""

    root: int
    category: str
    start: int
    end: int

    @property
    def numbers(self) -> range:
        return range(self.start, self.end)


class Unusable(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A `Broken` as a file can hold it."""

    file: str
    source: Source
    reason: str


class Shelf(msgspec.Struct, frozen=True, dict=True):
    made_for: str
    """The version and the roots; see `key_of`."""
    rows_sum: str
    """Checksum of the whole skills that belong to it."""
    roots: tuple[str, ...]
    sources: tuple[Source, ...]
    """Of each root."""
    runs: tuple[Run, ...]
    """All skills, in order."""
    name_column: str
    """Columns hold a value for each skill; see `column`."""
    text_columns: tuple[str, ...]
    """For each run, names with descriptions, cut to the length of a line in a list; see `table`."""
    place_column: str
    """Folders, from their root."""
    seal: int
    """Of time, size and inode of each SKILL.md; see `sealed`."""
    rules: tuple[Rule, ...]
    """Of the few skills that have some, each rule once."""
    vocabulary: dict[str, str]
    """By the first letter of words, words with the numbers of the skills that have them in their
    names, and of those that they tell of as well; see `table`."""
    others: dict[str, tuple[int, int, int]]
    """What else was looked at, by path."""
    missing: tuple[str, ...]
    """Roots that were not there."""
    broken: tuple[Unusable, ...]
    categories: dict[str, str]
    """What their DESCRIPTION.md says."""

    @cached_property
    def names(self) -> list[str]:
        return _values(self.name_column)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """By name."""
        return dict(zip(self.names, range(len(self.names)), strict=True))

    @cached_property
    def _ends(self) -> list[int]:
        return [run.end for run in self.runs]

    def run_of(self, number: int) -> Run:
        return self.runs[bisect_right(self._ends, number)]

    def text_of(self, number: int) -> str:
        """The description, for a line in a list."""
        run = bisect_right(self._ends, number)
        return _looked_up(self.names[number], self.text_columns[run])

    def telling(self, words: Iterable[str]) -> Iterator[tuple[list[int], list[int]]]:
        """For each of the words, the skills that have it in their names, and others it tells of."""
        for word in words:
            found = _looked_up(word, self.vocabulary.get(word[:1], ""))
            if found:
                named, _, other = found.partition(" ")
                yield _numbers(named), _numbers(other)


def key_of(roots: Iterable[Root]) -> str:
    listed = [f"{root.source}\t{root.path}\t{root.plugin}\t{root.name}" for root in roots]
    return "\n".join([f"{FORMAT} {__version__}", *listed])


def sealed(stamps: Iterable[tuple[int, int, int]]) -> int:
    """One number for the stamps of all skills, which is quicker to keep than all of them."""
    seal = 0
    for mtime_ns, size, inode in stamps:
        seal = hash((seal, mtime_ns, size, inode))
    return seal


def holds(shelf: Shelf) -> bool:
    """Whether everything is still as it was. This is most of what a warm start costs."""
    try:
        return (
            _seal_now(shelf) == shelf.seal
            and all(_same(path, *stamp) for path, stamp in shelf.others.items())
            and not any(map(os.path.lexists, shelf.missing))
        )
    except OSError:
        return False


def _same(path: str, mtime_ns: int, size: int, inode: int) -> bool:
    now = os.stat(path)  # noqa: PTH116 - five times as quick
    return now.st_mtime_ns == mtime_ns and now.st_size == size and now.st_ino == inode


def _seal_now(shelf: Shelf) -> int:
    stat, seal = os.stat, 0
    # All names at once, and in bytes, as the system takes them.
    places = shelf.place_column.replace(SEPARATOR, f"/{SKILL_FILE}{SEPARATOR}")
    files = f"{places}/{SKILL_FILE}".encode().split(SEPARATOR.encode())
    for root, runs in groupby(shelf.runs, key=lambda run: run.root):
        side_by_side = list(runs)
        # From a folder that is open already, the system finds a file faster.
        folder = os.open(shelf.roots[root], os.O_RDONLY)
        try:
            for file in files[side_by_side[0].start : side_by_side[-1].end]:
                now = stat(file, dir_fd=folder)
                seal = hash((seal, now.st_mtime_ns, now.st_size, now.st_ino))
        finally:
            os.close(folder)
    return seal


def column(values: Iterable[str]) -> str:
    """The values of a column as one text."""
    return SEPARATOR.join(values)


def table(pairs: Iterable[tuple[str, str]]) -> str:
    """A column of keys and what belongs to each, in which one is found without taking it apart."""
    return column(["", *(f"{key} {value}" for key, value in pairs)])


def _looked_up(key: str, table: str) -> str:
    at = table.find(f"{SEPARATOR}{key} ")
    if at < 0:
        return ""
    start, end = at + len(key) + 2, table.find(SEPARATOR, at + 1)
    return table[start:end] if end > 0 else table[start:]


def _values(column: str) -> list[str]:
    return column.split(SEPARATOR) if column else []


def _numbers(text: str) -> list[int]:
    return list(map(int, text.split(","))) if text else []
