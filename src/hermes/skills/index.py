"""The index of all skills, cached in memory and on disk until a file changes."""

import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from hermes import __version__
from hermes.skills.skill import (
    SKILL_FILE,
    BrokenSkill,
    Skill,
    SkillEntry,
    SkillInvalid,
    SkillNotFound,
    SkillRoot,
    Source,
    Stamp,
    VisibilityContext,
    is_offered,
    normalize_name,
)
from hermes.util import files

FORMAT = 8  #: Version of the cache file.

log = logging.getLogger(__name__)


class FileState(msgspec.Struct, frozen=True):
    """The files that a listing was read from. The listing is valid while all stamps match."""

    key: str  #: Version and roots; see `cache_key`.
    skill_files: tuple[tuple[int, str, tuple[Stamp, ...]], ...]
    """For each root with skills: its position; the SKILL.md files in the order of the entries,
    relative to the root, one on each line; and their stamps."""
    watched: dict[str, Stamp]  #: Stamps of the other files and folders that were read, by path.
    missing: tuple[str, ...]  #: Roots that do not exist.


class SkillListing(msgspec.Struct, frozen=True, dict=True):
    """All skills below the roots: the content of the cache file."""

    state: FileState
    entries: tuple[SkillEntry, ...]  #: Ordered by root, category and name.
    conditional: tuple[int, ...]
    """Positions in `entries` of the skills that some sessions or the model do not see."""
    rotation: tuple[int, ...]  #: All positions, in the order for a prompt without usage and hints.
    keywords: dict[str, msgspec.Raw]
    """For each stem, the positions in `entries` of the skills that have it in their names, and of
    the others that match. Encoded, because a prompt looks up few of the stems."""
    broken: tuple[tuple[str, Source, str], ...]  #: File, source and reason.
    categories: dict[str, str]  #: Descriptions from DESCRIPTION.md files.

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position in `entries` of each skill, by name."""
        return {entry.name: position for position, entry in enumerate(self.entries)}

    def hidden(self, context: VisibilityContext) -> set[int]:
        """Return the positions of the skills that the model of a session does not see."""
        off = (self.positions.get(name, -1) for name in context.disabled)
        candidates = (*self.conditional, *(at for at in off if at >= 0))
        return {at for at in candidates if not is_offered(self.entries[at], context)}

    def keyword_matches(self, stem: str) -> tuple[list[int], list[int]]:
        """Return the positions of skills with the stem in their names, and of other matches."""
        found = self.keywords.get(stem)
        if found is None:
            return [], []
        return msgspec.json.decode(found, type=tuple[list[int], list[int]])


_listing_decoder = msgspec.json.Decoder(SkillListing)


def cache_key(roots: Iterable[SkillRoot]) -> str:
    """Return a text that identifies the cache format, the version of Hermes and the roots."""
    listed = [f"{root.source}\t{root.path}\t{root.plugin}\t{root.name}" for root in roots]
    return "\n".join([f"{FORMAT} {__version__}", *listed])


MAX_SUGGESTIONS = 3  #: Similar names offered for an unknown one.


class SkillIndex:
    """The skills below `roots`; of several skills with one name the first counts.

    Results come from memory or from `cache_file` when no file has changed since, which is checked
    with one stat per skill. Calls block and may come from any thread.
    """

    def __init__(self, roots: Sequence[SkillRoot], cache_file: Path | None = None) -> None:
        self.roots = tuple(roots)
        self._file = cache_file
        self._listing: SkillListing | None = None

    def listing(self, current: FileState | None = None) -> SkillListing:
        """Return what lists and prompts need of all skills. This is the fastest query.

        The files are not checked again if they have the state `current`.
        """
        listing = self._listing or self._load()
        if listing is None or not (listing.state == current or self.is_current(listing.state)):
            # Most processes find a current cache and do not need the parser.
            from hermes.skills.index_build import build_listing

            listing = build_listing(self.roots, listing)
            self._save(listing)
        self._listing = listing
        return listing

    def entries(self) -> tuple[SkillEntry, ...]:
        """Return all skills, ordered by root, category and name."""
        return self.listing().entries

    def skills(self) -> list[Skill]:
        """Parse all skills, in the order of `entries`, which is faster and often enough."""
        return [self._parse(entry) for entry in self.entries()]

    def broken(self) -> tuple[BrokenSkill, ...]:
        """Return the files that look like a skill and do not load."""
        return tuple(
            BrokenSkill(Path(file), source, reason)
            for file, source, reason in self.listing().broken
        )

    def categories(self) -> Mapping[str, str]:
        """Return the descriptions of the categories that have a DESCRIPTION.md."""
        return self.listing().categories

    def get(self, name: str) -> Skill:
        """Return a skill by name or `category/name`.

        Any letter case and spaces or underscores are accepted. Raises `SkillNotFound`, or
        `SkillInvalid` when the skill exists but does not load.
        """
        listing = self.listing()
        entry = _find_entry(name, listing)
        if entry is None:
            raise _not_found(name, listing)
        return self._parse(entry)

    def folder(self, entry: SkillEntry) -> Path:
        return self.roots[entry.root].path / entry.folder

    def instructions(self, entry: SkillEntry) -> str:
        """Return the text of a SKILL.md without its head, for a search; "" if it does not load."""
        from hermes.skills.parse import read_frontmatter, read_text_file  # not needed for a list

        try:
            text = read_text_file(self.folder(entry) / SKILL_FILE).text
            return read_frontmatter(text).body
        except (OSError, SkillInvalid):
            return ""

    def _parse(self, entry: SkillEntry) -> Skill:
        from hermes.skills.parse import read_skill  # not needed for a list of skills

        return read_skill(self.folder(entry) / SKILL_FILE, self.roots[entry.root])

    def is_current(self, state: FileState) -> bool:
        """Whether no file has changed. This is most of the cost of a warm start."""
        stat = os.stat
        if state.key != cache_key(self.roots):
            return False
        try:
            for root, names, stamps in state.skill_files:
                # stat is fastest with names in bytes, relative to an open folder.
                paths = os.fsencode(names).split(b"\n")
                folder = os.open(self.roots[root].path, os.O_RDONLY)
                try:
                    for path, stamp in zip(paths, stamps, strict=True):
                        now = stat(path, dir_fd=folder)
                        if hash((now.st_mtime_ns, now.st_size, now.st_ino)) != stamp:
                            return False
                finally:
                    os.close(folder)
            for other, stamp in state.watched.items():
                now = stat(other)
                if hash((now.st_mtime_ns, now.st_size, now.st_ino)) != stamp:
                    return False
        except (OSError, ValueError):  # a file is gone, or the state is damaged
            return False
        return not any(map(os.path.lexists, state.missing))

    def _load(self) -> SkillListing | None:
        """Return the cached listing, or None when it is missing or damaged."""
        if self._file is None:
            return None
        try:
            return _listing_decoder.decode(self._file.read_bytes())
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def _save(self, listing: SkillListing) -> None:
        """Write the cache file. Failures are logged: everything works without it."""
        if self._file is None or not self._file.parent.parent.is_dir():
            return
        try:
            self._file.parent.mkdir(mode=0o700, exist_ok=True)
            files.write_bytes(self._file, msgspec.json.encode(listing), mode=0o600)
        except (OSError, UnicodeEncodeError) as error:
            log.debug("the skill index cannot be cached: %s", error)


def _find_entry(name: str, listing: SkillListing) -> SkillEntry | None:
    category, _, last = name.strip().strip("/").rpartition("/")
    plugin, colon, last = last.rpartition(":")
    wanted = normalize_name(last)
    position = listing.positions.get(f"{plugin.strip()}{colon}{wanted}")
    if position is not None:
        entry = listing.entries[position]
        return entry if category in ("", entry.category) else None
    # A name without its plugin is accepted when it is unambiguous.
    matches = [each for each in listing.entries if each.name.endswith(f":{wanted}")]
    return matches[0] if len(matches) == 1 and not (category or plugin) else None


def _not_found(name: str, listing: SkillListing) -> SkillNotFound | SkillInvalid:
    wanted = name.strip().rpartition("/")[2]
    for file, _, reason in listing.broken:
        if wanted and wanted in (Path(file).parent.name, Path(file).name):
            return SkillInvalid(
                f"the skill {name!r} does not load: {reason}", hint=f"look at {file}"
            )
    hint = _suggestion(name, [entry.name for entry in listing.entries])
    return SkillNotFound(f"there is no skill {name!r}", hint=hint)


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

_COMMON = """
    a an and are as at be by for from has in into is it its of on or that the their this to use used
    user users using when with you your src lib bin doc docs main index init readme license test
    tests tmp new old file files folder project work home data
"""
COMMON_WORDS = frozenset(_COMMON.split())
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


def shorten(text: str, limit: int) -> str:
    """Cut `text` at a word boundary to at most `limit` characters."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    whole = cut if text[limit - 1].isspace() else cut.rpartition(" ")[0]
    return f"{(whole or cut).rstrip(' ,;:.-')}…"
