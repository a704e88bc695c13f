"""All skills of some folders as they were at one moment: what lists and prompts need of them.

Every new process loads it, and most need but a few of hundreds of skills. It is therefore kept in
columns, which cost next to nothing until somebody looks into them. A skill is known by its number;
those of one root and one category stand side by side.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property

import msgspec

from hermes import __version__
from hermes.skills.skill import SKILL_FILE, Root, Source

FORMAT = 1


class Rule(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """On what it depends whether a skill is shown; see `Skill` and `Conditions`."""

    number: int
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
    """Columns hold a line for each skill."""
    text_column: str
    """Descriptions, cut to the length of a line in a list."""
    place_column: str
    """Folders, from their root."""
    stamps: tuple[int, ...]
    """Time, size and inode of each SKILL.md."""
    rules: tuple[Rule, ...]
    """Of the few skills that have some."""
    vocabulary: str
    """Lines of a word, the numbers of the skills that have it in their names, and of those that it
    tells of as well; in the order of words."""
    others: dict[str, tuple[int, int, int]]
    """What else was looked at, by path."""
    missing: tuple[str, ...]
    """Roots that were not there."""
    broken: tuple[Unusable, ...]
    categories: dict[str, str]
    """What their DESCRIPTION.md says."""

    @cached_property
    def names(self) -> list[str]:
        return _lines(self.name_column)

    @cached_property
    def texts(self) -> list[str]:
        return _lines(self.text_column)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """By name."""
        return dict(zip(self.names, range(len(self.names)), strict=True))

    @cached_property
    def _ends(self) -> list[int]:
        return [run.end for run in self.runs]

    def run_of(self, number: int) -> Run:
        return self.runs[bisect_right(self._ends, number)]

    def telling(self, words: Iterable[str]) -> Iterator[tuple[list[int], list[int]]]:
        """For each of the words, the skills that have it in their names, and others it tells of."""
        lines = _lines(self.vocabulary)
        for word in words:
            at = bisect_left(lines, f"{word} ")
            if at < len(lines) and lines[at].startswith(f"{word} "):
                _, named, other = lines[at].split(" ")
                yield _numbers(named), _numbers(other)


def key_of(roots: Iterable[Root]) -> str:
    listed = [f"{root.source}\t{root.path}\t{root.plugin}\t{root.name}" for root in roots]
    return "\n".join([f"{FORMAT} {__version__}", *listed])


def holds(shelf: Shelf) -> bool:
    """Whether everything is still as it was. This is most of what a warm start costs."""
    try:
        return (
            all(_skills_hold(shelf, number) for number in range(len(shelf.roots)))
            and all(_same(path, *stamp) for path, stamp in shelf.others.items())
            and not any(map(os.path.lexists, shelf.missing))
        )
    except OSError:
        return False


def _same(path: str, mtime_ns: int, size: int, inode: int) -> bool:
    now = os.stat(path)  # noqa: PTH116 - five times as quick
    return now.st_mtime_ns == mtime_ns and now.st_size == size and now.st_ino == inode


def _skills_hold(shelf: Shelf, root: int) -> bool:
    """Whether every SKILL.md of one root is the same."""
    runs = [run for run in shelf.runs if run.root == root]
    if not runs:
        return True
    start, end = runs[0].start, runs[-1].end
    places = _lines(shelf.place_column)[start:end]
    stamps = shelf.stamps
    columns = (stamps[3 * start + part : 3 * end : 3] for part in range(3))
    stat, name = os.stat, f"/{SKILL_FILE}"
    # From a folder that is open already, the system finds a file faster.
    folder = os.open(shelf.roots[root], os.O_RDONLY)
    try:
        for place, mtime_ns, size, inode in zip(places, *columns, strict=True):
            now = stat(place + name, dir_fd=folder)
            if now.st_mtime_ns != mtime_ns or now.st_size != size or now.st_ino != inode:
                return False
    finally:
        os.close(folder)
    return True


def _lines(column: str) -> list[str]:
    return column.split("\n") if column else []


def _numbers(text: str) -> list[int]:
    return list(map(int, text.split(","))) if text else []
