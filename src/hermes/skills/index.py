"""The index of all skills, cached in memory and on disk until a file changes."""

import logging
import os
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
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

# The index table. Every new process loads it, but most need only a few of hundreds of skills. It
# therefore stores columns as single strings, which cost almost nothing until they are searched. A
# skill is identified by its number; the skills of one root and category have consecutive numbers.

FORMAT = 4
"""Version of the cache file."""
SEPARATOR = "\x7f"
"""Unprintable, so no value contains it, and JSON does not escape it."""


class CategoryRange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The numbers of the skills of one root and category."""

    root: int
    category: str
    start: int
    end: int

    @property
    def numbers(self) -> range:
        return range(self.start, self.end)


class BrokenRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A `BrokenSkill` as stored in the cache."""

    file: str
    source: Source
    reason: str


class IndexTable(msgspec.Struct, frozen=True, dict=True):
    """What lists and prompts need to know about all skills."""

    key: str
    """Version and roots; see `cache_key`."""
    rows_checksum: str
    """Checksum of the complete skills that belong to the table."""
    roots: tuple[str, ...]
    sources: tuple[Source, ...]
    """The source of each root."""
    ranges: tuple[CategoryRange, ...]
    """All skills, in order."""
    name_column: str
    """Columns hold one value for each skill; see `join_column`."""
    summary_columns: tuple[str, ...]
    """For each range, names with shortened descriptions; see `join_table`."""
    folder_column: str
    """Folders, relative to their roots."""
    stamps_hash: int
    """Hash of time, size and inode of each SKILL.md; see `hash_stamps`."""
    rules: tuple[VisibilityRule, ...]
    """The distinct rules of the skills that have any."""
    keyword_tables: dict[str, str]
    """By the first letter of words: words with the numbers of the skills that have them in their
    names, and of the other skills they match; see `join_table`."""
    watched: dict[str, tuple[int, int, int]]
    """Stamps of the other files and folders that were read, by path."""
    missing: tuple[str, ...]
    """Roots that do not exist."""
    broken: tuple[BrokenRow, ...]
    categories: dict[str, str]
    """Descriptions from DESCRIPTION.md files."""

    @cached_property
    def names(self) -> list[str]:
        return self.name_column.split(SEPARATOR) if self.name_column else []

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each skill, by name."""
        return dict(zip(self.names, range(len(self.names)), strict=True))

    @cached_property
    def _range_ends(self) -> list[int]:
        return [run.end for run in self.ranges]

    def range_of(self, number: int) -> CategoryRange:
        return self.ranges[bisect_right(self._range_ends, number)]

    def summary_of(self, number: int) -> str:
        """Return the description of a skill, shortened for a list."""
        run = bisect_right(self._range_ends, number)
        return _look_up(self.names[number], self.summary_columns[run])

    def keyword_matches(self, words: Iterable[str]) -> Iterator[tuple[list[int], list[int]]]:
        """Yield, for each word, the skills with the word in their names and the other skills it
        matches."""
        for word in words:
            found = _look_up(word, self.keyword_tables.get(word[:1], ""))
            if found:
                named, _, other = found.partition(" ")
                yield _parse_numbers(named), _parse_numbers(other)


def cache_key(roots: Iterable[SkillRoot]) -> str:
    """Return a text that identifies the cache format, the version of Hermes and the roots."""
    listed = [f"{root.source}\t{root.path}\t{root.plugin}\t{root.name}" for root in roots]
    return "\n".join([f"{FORMAT} {__version__}", *listed])


def hash_stamps(stamps: Iterable[tuple[int, int, int]]) -> int:
    """Return one number for the stamps of all skills; it is faster to load than the stamps."""
    stamps_hash = 0
    for mtime_ns, size, inode in stamps:
        stamps_hash = hash((stamps_hash, mtime_ns, size, inode))
    return stamps_hash


def is_current(table: IndexTable) -> bool:
    """Whether no indexed file has changed. This is most of the cost of a warm start."""
    try:
        return (
            _hash_current_stamps(table) == table.stamps_hash
            and all(_is_unchanged(path, *stamp) for path, stamp in table.watched.items())
            and not any(map(os.path.lexists, table.missing))
        )
    except OSError:
        return False


def _is_unchanged(path: str, mtime_ns: int, size: int, inode: int) -> bool:
    now = os.stat(path)  # noqa: PTH116 - five times as quick
    return now.st_mtime_ns == mtime_ns and now.st_size == size and now.st_ino == inode


def _hash_current_stamps(table: IndexTable) -> int:
    stat, stamps_hash = os.stat, 0
    # Joining and encoding all names at once is faster than one by one.
    places = table.folder_column.replace(SEPARATOR, f"/{SKILL_FILE}{SEPARATOR}")
    files = f"{places}/{SKILL_FILE}".encode().split(SEPARATOR.encode())
    for root, ranges in groupby(table.ranges, key=lambda run: run.root):
        members = list(ranges)
        # stat relative to an open folder is faster than with absolute paths.
        folder = os.open(table.roots[root], os.O_RDONLY)
        try:
            for file in files[members[0].start : members[-1].end]:
                now = stat(file, dir_fd=folder)
                stamps_hash = hash((stamps_hash, now.st_mtime_ns, now.st_size, now.st_ino))
        finally:
            os.close(folder)
    return stamps_hash


def join_column(values: Iterable[str]) -> str:
    """Return the values of a column as one string."""
    return SEPARATOR.join(values)


def join_table(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a column of keys with values, in which `_look_up` finds a key without splitting it."""
    return join_column(["", *(f"{key} {value}" for key, value in pairs)])


def _look_up(key: str, table: str) -> str:
    at = table.find(f"{SEPARATOR}{key} ")
    if at < 0:
        return ""
    start, end = at + len(key) + 2, table.find(SEPARATOR, at + 1)
    return table[start:end] if end > 0 else table[start:]


def _parse_numbers(text: str) -> list[int]:
    return list(map(int, text.split(","))) if text else []


# The cache file: the index table on the first line, the complete skills on the second

FIRST_READ_BYTES = 120_000
"""Most tables are smaller. A larger read would make the system allocate new memory, which takes
longer than the read."""

Row = tuple[tuple[int, int, int], Skill]
"""The stamp of a SKILL.md and the skill."""

_table_decoder = msgspec.json.Decoder(IndexTable)

log = logging.getLogger(__name__)


class IndexSnapshot:
    """An index table with the complete skills.

    `rows` returns a JSON list with a `Row` for each skill. Few processes need it.
    """

    def __init__(self, table: IndexTable, rows: Callable[[], bytes]) -> None:
        self.table, self.rows = table, rows
        self._found: list[Row] | None = None

    def skill(self, number: int) -> Skill:
        """Return one skill. Raises `CacheReplaced`."""
        if self._found is not None:
            return self._found[number][1]
        row = msgspec.json.decode(self.rows(), type=list[msgspec.Raw])[number]
        found: Row = msgspec.json.decode(row, type=Row, dec_hook=_decode_path)
        return found[1]

    def skills(self) -> tuple[Skill, ...]:
        """Return all skills, ordered by number. Raises `CacheReplaced`."""
        return tuple(skill for _, skill in self.stamped_skills())

    def stamped_skills(self) -> list[Row]:
        """Return all skills with the stamps of their files. Raises `CacheReplaced`."""
        if self._found is None:
            self._found = msgspec.json.decode(self.rows(), type=list[Row], dec_hook=_decode_path)
        return self._found


class CacheReplaced(Exception):
    """The cache file no longer contains the skills of the table that was read from it."""


def encode_rows(found: Sequence[Row]) -> tuple[bytes, str]:
    """Return the encoded rows and their checksum."""
    rows = msgspec.json.encode(found, enc_hook=str)
    return rows, _checksum(rows)


def load_snapshot(file: Path, key: str) -> IndexSnapshot | None:
    """Return the cached snapshot, or None when it is missing, damaged or has another key."""
    try:
        table = _table_decoder.decode(_first_line(file))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return IndexSnapshot(table, lambda: _read_rows(file, table)) if table.key == key else None


def _first_line(file: Path) -> bytes | memoryview:
    """Read the first line without copying it and, mostly, without reading the second."""
    with file.open("rb", buffering=0) as opened:
        data = opened.read(FIRST_READ_BYTES) or b""
        end = data.find(b"\n")
        if end < 0:
            data += opened.readall()
            end = data.find(b"\n")
    return memoryview(data)[:end]


def _read_rows(file: Path, table: IndexTable) -> bytes:
    try:
        rows = file.read_bytes().partition(b"\n")[2]
    except OSError as error:
        raise CacheReplaced from error
    if _checksum(rows) != table.rows_checksum:
        raise CacheReplaced
    return rows


def save_snapshot(file: Path, snapshot: IndexSnapshot) -> None:
    """Write the cache file. Failures are logged: everything works without it."""
    try:
        data = b"\n".join([msgspec.json.encode(snapshot.table), snapshot.rows()])
        if file.parent.parent.is_dir():
            file.parent.mkdir(mode=0o700, exist_ok=True)
            atomic.write_bytes(file, data, mode=0o600)
    except (OSError, UnicodeEncodeError) as error:
        log.debug("the skill index cannot be cached: %s", error)


def _checksum(rows: bytes) -> str:
    return f"{zlib.crc32(rows):08x}-{len(rows)}"


def _decode_path(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError


MAX_SUGGESTIONS = 3
"""Similar names offered for an unknown one."""


class SkillIndex:
    """The skills below `roots`; of several skills with one name the first counts.

    Results come from memory or from `cache_file` when no file has changed since, which is checked
    with one stat per skill. Calls block and may come from any thread.
    """

    def __init__(self, roots: Sequence[SkillRoot], cache_file: Path | None = None) -> None:
        self.roots = tuple(roots)
        self._file = cache_file
        self._snapshot: IndexSnapshot | None = None

    def table(self) -> IndexTable:
        """Return the table for lists and prompts. This is the fastest query."""
        return self._current().table

    def skills(self) -> tuple[Skill, ...]:
        """Return all skills, ordered by root, category and name."""
        try:
            return self._current().skills()
        except CacheReplaced:
            return self._rebuild().skills()

    def broken(self) -> tuple[BrokenSkill, ...]:
        """Return the files that look like a skill and do not load."""
        found = self.table().broken
        return tuple(BrokenSkill(Path(each.file), each.source, each.reason) for each in found)

    def categories(self) -> Mapping[str, str]:
        """Return the descriptions of the categories that have a DESCRIPTION.md."""
        return self.table().categories

    def get(self, name: str) -> Skill:
        """Return a skill by name or `category/name`.

        Any letter case and spaces or underscores are accepted. Raises `SkillNotFound`, or
        `SkillInvalid` when the skill exists but does not load.
        """
        snapshot = self._current()
        number = _find_number(name, snapshot.table)
        if number is None:
            raise _not_found(name, snapshot.table)
        try:
            return snapshot.skill(number)
        except CacheReplaced:
            return next(each for each in self.skills() if each.name == snapshot.table.names[number])

    def _current(self) -> IndexSnapshot:
        snapshot = self._snapshot
        if snapshot is None and self._file is not None:
            snapshot = load_snapshot(self._file, cache_key(self.roots))
        if snapshot is None or not is_current(snapshot.table):
            return self._rebuild(snapshot)
        self._snapshot = snapshot
        return snapshot

    def _rebuild(self, last: IndexSnapshot | None = None) -> IndexSnapshot:
        # Most processes find a current cache and do not need the parser.
        from hermes.skills.index_build import build_snapshot

        snapshot = build_snapshot(self.roots, last)
        if self._file is not None:
            save_snapshot(self._file, snapshot)
        self._snapshot = snapshot
        return snapshot


def _find_number(name: str, table: IndexTable) -> int | None:
    category, _, last = name.strip().strip("/").rpartition("/")
    plugin, colon, last = last.rpartition(":")
    wanted = normalize_name(last)
    number = table.numbers.get(f"{plugin.strip()}{colon}{wanted}")
    if number is not None:
        fits = not category or table.range_of(number).category == category
        return number if fits else None
    # A name without its plugin is accepted when it is unambiguous.
    matches = [at for each, at in table.numbers.items() if each.endswith(f":{wanted}")]
    return matches[0] if len(matches) == 1 and not (category or plugin) else None


def _not_found(name: str, table: IndexTable) -> SkillNotFound | SkillInvalid:
    wanted = name.strip().rpartition("/")[2]
    for each in table.broken:
        if wanted and wanted in (Path(each.file).parent.name, Path(each.file).name):
            return SkillInvalid(
                f"the skill {name!r} does not load: {each.reason}", hint=f"look at {each.file}"
            )
    return SkillNotFound(f"there is no skill {name!r}", hint=_suggestion(name, table.names))


def _suggestion(name: str, names: Sequence[str]) -> str:
    import difflib  # only needed for an unknown name

    by_end = {each.rpartition(":")[2]: each for each in names}
    wanted = normalize_name(name.rpartition("/")[2].rpartition(":")[2])
    near = [each for each in by_end if wanted and (wanted in each or each in wanted)]
    near += difflib.get_close_matches(wanted, by_end, MAX_SUGGESTIONS)
    close = [by_end[each] for each in dict.fromkeys(near)][:MAX_SUGGESTIONS]
    return f"did you mean {' or '.join(close)}?" if close else "`hermes skills list` shows them all"


# Words for ranking and search

_WORD = re.compile(r"[^\W_]+")

COMMON_WORDS = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "in", "into", "is", "it",
    "its", "of", "on", "or", "that", "the", "their", "this", "to", "use", "used", "user", "users",
    "using", "when", "with", "you", "your", "src", "lib", "bin", "doc", "docs", "main", "index",
    "init", "readme", "license", "test", "tests", "tmp", "new", "old", "file", "files", "folder",
    "project", "work", "home", "data",
})  # fmt: skip
"""Words that do not tell skills apart."""

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
"""Words that file extensions and well-known file names stand for."""


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.lower())


def hint_stems(texts: Iterable[str]) -> frozenset[str]:
    """Return the stems of the significant words in names of files and folders."""
    found = {word for text in texts for word in split_words(text)}
    found.update(*(FILE_TYPE_WORDS[word].split() for word in found & FILE_TYPE_WORDS.keys()))
    return frozenset(
        stem(word) for word in found - COMMON_WORDS if len(word) > 1 and not word.isdigit()
    )


def stem(word: str) -> str:
    """Remove a plural s: `containers` becomes `container`."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] != "s" else word


def match_word(word: str, watched: Iterable[str]) -> int:
    """Return 2 when `word` is in `others`, 1 when a longer or shorter form of it is, else 0."""
    best = 0
    for other in watched:
        if word == other:
            return 2
        short, long = sorted((word, other), key=len)
        if (long.startswith(short) and len(short) > 3) or (not short.isascii() and short in long):
            best = 1
    return best


def shorten(text: str, limit: int) -> str:
    """Cut `text` at a word boundary to at most `limit` characters."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    whole = cut if text[limit - 1].isspace() else cut.rpartition(" ")[0]
    return f"{(whole or cut).rstrip(' ,;:.-')}…"
