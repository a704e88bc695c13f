"""All skills there are, found again only when something changed."""

import logging
import os
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from hermes import __version__
from hermes.skills.skill import (
    SKILL_FILE,
    BrokenSkill,
    Skill,
    SkillInvalid,
    SkillNotFound,
    SkillRoot,
    Source,
    VisibilityRule,
    normalize_name,
)
from hermes.util import atomic

# All skills of some folders as they were at one moment: what lists and prompts need of them.
#
# Every new process loads it, and most need but a few of hundreds of skills. It is therefore kept
# in
# columns, which cost next to nothing until somebody looks into them. A skill is known by its
# number;
# those of one root and one category stand side by side.

FORMAT = 3
SEPARATOR = "\x7f"
"""It cannot be printed, so no value holds it, and it needs no escape in JSON."""


class CategoryRange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Skills side by side."""

    root: int
    category: str
    start: int
    end: int

    @property
    def numbers(self) -> range:
        return range(self.start, self.end)


class BrokenRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A `Broken` as a file can hold it."""

    file: str
    source: Source
    reason: str


class IndexTable(msgspec.Struct, frozen=True, dict=True):
    made_for: str
    """The version and the roots; see `key_of`."""
    rows_sum: str
    """Checksum of the whole skills that belong to it."""
    roots: tuple[str, ...]
    sources: tuple[Source, ...]
    """Of each root."""
    runs: tuple[CategoryRange, ...]
    """All skills, in order."""
    name_column: str
    """Columns hold a value for each skill; see `column`."""
    text_columns: tuple[str, ...]
    """For each run, names with descriptions, cut to the length of a line in a list; see `table`."""
    place_column: str
    """Folders, from their root."""
    seal: int
    """Of time, size and inode of each SKILL.md; see `sealed`."""
    rules: tuple[VisibilityRule, ...]
    """Of the few skills that have some, each rule once."""
    vocabulary: dict[str, str]
    """By the first letter of words, words with the numbers of the skills that have them in their
    names, and of those that they tell of as well; see `table`."""
    others: dict[str, tuple[int, int, int]]
    """What else was looked at, by path."""
    missing: tuple[str, ...]
    """Roots that were not there."""
    broken: tuple[BrokenRow, ...]
    categories: dict[str, str]
    """What their DESCRIPTION.md says."""

    @cached_property
    def names(self) -> list[str]:
        return _split_column(self.name_column)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """By name."""
        return dict(zip(self.names, range(len(self.names)), strict=True))

    @cached_property
    def _ends(self) -> list[int]:
        return [run.end for run in self.runs]

    def run_of(self, number: int) -> CategoryRange:
        return self.runs[bisect_right(self._ends, number)]

    def text_of(self, number: int) -> str:
        """The description, for a line in a list."""
        run = bisect_right(self._ends, number)
        return _look_up(self.names[number], self.text_columns[run])

    def telling(self, words: Iterable[str]) -> Iterator[tuple[list[int], list[int]]]:
        """For each of the words, the skills that have it in their names, and others it tells of."""
        for word in words:
            found = _look_up(word, self.vocabulary.get(word[:1], ""))
            if found:
                named, _, other = found.partition(" ")
                yield _parse_numbers(named), _parse_numbers(other)


def cache_key(roots: Iterable[SkillRoot]) -> str:
    listed = [f"{root.source}\t{root.path}\t{root.plugin}\t{root.name}" for root in roots]
    return "\n".join([f"{FORMAT} {__version__}", *listed])


def hash_stamps(stamps: Iterable[tuple[int, int, int]]) -> int:
    """One number for the stamps of all skills, which is quicker to keep than all of them."""
    seal = 0
    for mtime_ns, size, inode in stamps:
        seal = hash((seal, mtime_ns, size, inode))
    return seal


def is_current(shelf: IndexTable) -> bool:
    """Whether everything is still as it was. This is most of what a warm start costs."""
    try:
        return (
            _hash_current_stamps(shelf) == shelf.seal
            and all(_is_unchanged(path, *stamp) for path, stamp in shelf.others.items())
            and not any(map(os.path.lexists, shelf.missing))
        )
    except OSError:
        return False


def _is_unchanged(path: str, mtime_ns: int, size: int, inode: int) -> bool:
    now = os.stat(path)  # noqa: PTH116 - five times as quick
    return now.st_mtime_ns == mtime_ns and now.st_size == size and now.st_ino == inode


def _hash_current_stamps(shelf: IndexTable) -> int:
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


def join_column(values: Iterable[str]) -> str:
    """The values of a column as one text."""
    return SEPARATOR.join(values)


def join_table(pairs: Iterable[tuple[str, str]]) -> str:
    """A column of keys and what belongs to each, in which one is found without taking it apart."""
    return join_column(["", *(f"{key} {value}" for key, value in pairs)])


def _look_up(key: str, table: str) -> str:
    at = table.find(f"{SEPARATOR}{key} ")
    if at < 0:
        return ""
    start, end = at + len(key) + 2, table.find(SEPARATOR, at + 1)
    return table[start:end] if end > 0 else table[start:]


def _split_column(column: str) -> list[str]:
    return column.split(SEPARATOR) if column else []


def _parse_numbers(text: str) -> list[int]:
    return list(map(int, text.split(","))) if text else []


# A shelf with the whole skills behind it, in memory and on disk.

FIRST_READ_BYTES = 120_000
"""Bytes read at once: most shelves have no more, and for larger pieces the system has to find fresh
memory, which takes longer than reading."""

Row = tuple[tuple[int, int, int], Skill]
"""The stamp of its file, and the skill."""

_table_decoder = msgspec.json.Decoder(IndexTable)

log = logging.getLogger(__name__)


class IndexSnapshot:
    """`rows` gives a JSON list of a `Row` for each skill. Few processes ask for it."""

    def __init__(self, shelf: IndexTable, rows: Callable[[], bytes]) -> None:
        self.shelf, self.rows = shelf, rows
        self._found: list[Row] | None = None

    def skill(self, number: int) -> Skill:
        """Raises `CacheGone`."""
        if self._found is not None:
            return self._found[number][1]
        row = msgspec.json.decode(self.rows(), type=list[msgspec.Raw])[number]
        found: Row = msgspec.json.decode(row, type=Row, dec_hook=_decode_path)
        return found[1]

    def skills(self) -> tuple[Skill, ...]:
        """All, in the order of their numbers. Raises `CacheGone`."""
        return tuple(skill for _, skill in self.found())

    def found(self) -> list[Row]:
        """The same, with their stamps."""
        if self._found is None:
            self._found = msgspec.json.decode(self.rows(), type=list[Row], dec_hook=_decode_path)
        return self._found


class CacheReplaced(Exception):
    """The file on disk no longer holds the skills of the shelf that was read from it."""


def encode_rows(found: Sequence[Row]) -> tuple[bytes, str]:
    """The rows and their checksum."""
    rows = msgspec.json.encode(found, enc_hook=str)
    return rows, _checksum(rows)


def load_snapshot(file: Path, made_for: str) -> IndexSnapshot | None:
    """None when there is none, or one for something else, or of another version, or damaged."""
    try:
        shelf = _table_decoder.decode(_first_line(file))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return (
        IndexSnapshot(shelf, lambda: _read_rows(file, shelf))
        if shelf.made_for == made_for
        else None
    )


def _first_line(file: Path) -> bytes | memoryview:
    """Without copying, and mostly without reading, the second."""
    with file.open("rb", buffering=0) as opened:
        data = opened.read(FIRST_READ_BYTES) or b""
        end = data.find(b"\n")
        if end < 0:
            data += opened.readall()
            end = data.find(b"\n")
    return memoryview(data)[:end]


def _read_rows(file: Path, shelf: IndexTable) -> bytes:
    try:
        rows = file.read_bytes().partition(b"\n")[2]
    except OSError as error:
        raise CacheReplaced from error
    if _checksum(rows) != shelf.rows_sum:
        raise CacheReplaced
    return rows


def save_snapshot(file: Path, snapshot: IndexSnapshot) -> None:
    """Two lines of JSON, as far as the disk allows it: without them everything works as well."""
    try:
        data = b"\n".join([msgspec.json.encode(snapshot.shelf), snapshot.rows()])
        if file.parent.parent.is_dir():
            file.parent.mkdir(mode=0o700, exist_ok=True)
            atomic.write_bytes(file, data, mode=0o600)
    except (OSError, UnicodeEncodeError) as error:
        log.debug("the list of skills is not kept: %s", error)


def _checksum(rows: bytes) -> str:
    return f"{zlib.crc32(rows):08x}-{len(rows)}"


def _decode_path(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError


MAX_SUGGESTIONS = 3
"""Names offered for one that does not exist."""


class SkillIndex:
    """The skills below `roots`, of which the first with a name counts.

    Every question is answered from what was found last when no file changed since: in this process,
    or in `cache_file`. That takes one stat a skill. Calls block, and may come from any thread.
    """

    def __init__(self, roots: Sequence[SkillRoot], cache_file: Path | None = None) -> None:
        self.roots = tuple(roots)
        self._file = cache_file
        self._snapshot: IndexSnapshot | None = None

    def shelf(self) -> IndexTable:
        """What the prompt needs: the quickest question."""
        return self._current().shelf

    def all(self) -> tuple[Skill, ...]:
        """By root, category and name."""
        try:
            return self._current().skills()
        except CacheReplaced:
            return self._anew().skills()

    def broken(self) -> tuple[BrokenSkill, ...]:
        """What looks like a skill and does not load."""
        found = self.shelf().broken
        return tuple(BrokenSkill(Path(each.file), each.source, each.reason) for each in found)

    def categories(self) -> Mapping[str, str]:
        """What those with a DESCRIPTION.md are for."""
        return self.shelf().categories

    def get(self, name: str) -> Skill:
        """By its name, also as `category/name`, in any letter case, with spaces or underscores.

        Raises `SkillNotFound`, or `SkillInvalid` when it is there and does not load.
        """
        now = self._current()
        number = _find_number(name, now.shelf)
        if number is None:
            raise _not_found(name, now.shelf)
        try:
            return now.skill(number)
        except CacheReplaced:
            return next(each for each in self.all() if each.name == now.shelf.names[number])

    def _current(self) -> IndexSnapshot:
        now = self._snapshot
        if now is None and self._file is not None:
            now = load_snapshot(self._file, cache_key(self.roots))
        if now is None or not is_current(now.shelf):
            return self._anew(now)
        self._snapshot = now
        return now

    def _anew(self, last: IndexSnapshot | None = None) -> IndexSnapshot:
        # Most processes never come here, and need not load what reads the files.
        building = import_module("hermes.skills.index_build")
        now: IndexSnapshot = building.build_snapshot(self.roots, last)
        if self._file is not None:
            save_snapshot(self._file, now)
        self._snapshot = now
        return now


def _find_number(name: str, shelf: IndexTable) -> int | None:
    category, _, last = name.strip().strip("/").rpartition("/")
    plugin, colon, last = last.rpartition(":")
    wanted = normalize_name(last)
    number = shelf.numbers.get(f"{plugin.strip()}{colon}{wanted}")
    if number is not None:
        fits = not category or shelf.run_of(number).category == category
        return number if fits else None
    # A name without its plugin will do when there is only one such.
    ends = [at for each, at in shelf.numbers.items() if each.endswith(f":{wanted}")]
    return ends[0] if len(ends) == 1 and not (category or plugin) else None


def _not_found(name: str, shelf: IndexTable) -> SkillNotFound | SkillInvalid:
    wanted = name.strip().rpartition("/")[2]
    for each in shelf.broken:
        if wanted and wanted in (Path(each.file).parent.name, Path(each.file).name):
            return SkillInvalid(
                f"the skill {name!r} does not load: {each.reason}", hint=f"look at {each.file}"
            )
    return SkillNotFound(f"there is no skill {name!r}", hint=_suggestion(name, shelf.names))


def _suggestion(name: str, names: Sequence[str]) -> str:
    by_end = {each.rpartition(":")[2]: each for each in names}
    wanted = normalize_name(name.rpartition("/")[2].rpartition(":")[2])
    near = [each for each in by_end if wanted and (wanted in each or each in wanted)]
    near += import_module("difflib").get_close_matches(wanted, by_end, MAX_SUGGESTIONS)
    close = [by_end[each] for each in dict.fromkeys(near)][:MAX_SUGGESTIONS]
    return f"did you mean {' or '.join(close)}?" if close else "`hermes skills list` shows them all"


# Words that two texts can share.

_WORD = re.compile(r"[^\W_]+")

COMMON_WORDS = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "in", "into", "is", "it",
    "its", "of", "on", "or", "that", "the", "their", "this", "to", "use", "used", "user", "users",
    "using", "when", "with", "you", "your", "src", "lib", "bin", "doc", "docs", "main", "index",
    "init", "readme", "license", "test", "tests", "tmp", "new", "old", "file", "files", "folder",
    "project", "work", "home", "data",
})  # fmt: skip
"""Words that say nothing about what is meant."""

FILE_TYPE_WORDS = {
    "py": "python", "ipynb": "jupyter notebook python", "js": "javascript", "ts": "typescript",
    "tsx": "react typescript", "jsx": "react javascript", "rs": "rust", "rb": "ruby",
    "go": "golang",
    "tex": "latex", "bib": "latex bibliography citations", "csv": "data spreadsheet",
    "xlsx": "excel spreadsheet", "ods": "spreadsheet", "docx": "word documents",
    "pptx": "powerpoint slides presentation", "pdf": "pdf documents", "md": "markdown",
    "sql": "database", "sqlite": "database", "tf": "terraform", "dockerfile": "docker container",
    "compose": "docker container", "makefile": "make", "toml": "config", "yml": "yaml",
    "png": "image", "jpg": "image", "jpeg": "image", "svg": "image", "mp4": "video", "mp3": "audio",
    "wav": "audio", "ics": "calendar", "eml": "email", "mbox": "email", "package": "npm node",
    "pyproject": "python", "requirements": "python", "cargo": "rust", "gemfile": "ruby",
    "github": "github git", "git": "git", "gitignore": "git", "html": "web", "css": "web",
}  # fmt: skip
"""What the names of files say to people."""


def split_words(text: str) -> list[str]:
    """In lower case, in order."""
    return _WORD.findall(text.lower())


def hint_stems(texts: Iterable[str]) -> frozenset[str]:
    """The words of names of files and folders that say what the work is about."""
    found = {word for text in texts for word in split_words(text)}
    found.update(*(FILE_TYPE_WORDS[word].split() for word in found & FILE_TYPE_WORDS.keys()))
    return frozenset(
        stem(word) for word in found - COMMON_WORDS if len(word) > 1 and not word.isdigit()
    )


def stem(word: str) -> str:
    """`containers` and `container` are the same."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] != "s" else word


def match_word(word: str, others: Iterable[str]) -> int:
    """2 when `word` is among the others, 1 when a longer or shorter form of it is, else 0."""
    best = 0
    for other in others:
        if word == other:
            return 2
        short, long = sorted((word, other), key=len)
        if (long.startswith(short) and len(short) > 3) or (not short.isascii() and short in long):
            best = 1
    return best


def shorten(text: str, limit: int) -> str:
    """`text` cut at a word."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    whole = cut if text[limit - 1].isspace() else cut.rpartition(" ")[0]
    return f"{(whole or cut).rstrip(' ,;:.-')}…"
