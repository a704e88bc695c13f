"""Build the listing of all skills from the file system, reusing unchanged entries."""

import os
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from hermes.security.injection import scan
from hermes.skills.frontmatter import read_frontmatter
from hermes.skills.index import (
    COMMON_WORDS,
    BrokenEntry,
    SkillListing,
    cache_key,
    split_words,
    stem,
)
from hermes.skills.parse import (
    as_text,
    category_of,
    describe_os_error,
    first_paragraph,
    is_inside,
    parse_skill,
    read_text_file,
    stamp_of,
)
from hermes.skills.skill import (
    CATEGORY_FILE,
    MAX_SKILL_DEPTH,
    SKILL_FILE,
    THIRD_PARTY,
    BrokenSkill,
    Conditions,
    Skill,
    SkillEntry,
    SkillInvalid,
    SkillRoot,
    Source,
    Stamp,
)

MAX_KEYWORDS = 24
"""Words by which a skill is found, in addition to those of its name; tags come first."""

NO_CONDITIONS = Conditions()


class FoundSkill(msgspec.Struct, frozen=True):
    """An entry with the folder and root in which it was found."""

    entry: SkillEntry
    folder: str
    root: SkillRoot
    is_new: bool = True  #: False when it is unchanged since the last listing.

    @property
    def file(self) -> str:
        return f"{self.folder}/{SKILL_FILE}"


def build_listing(roots: Sequence[SkillRoot], last: SkillListing | None = None) -> SkillListing:
    """Scan the roots. Of several skills with one name the first counts, in root order.

    `last` is an older listing of the same roots.
    """
    walk = SkillWalker()
    for root in roots:
        walk.visit(root)
    found = _read_skills(walk, roots, last.entries if last else ())
    taken = _unique_by_name(_reject_injections(found, walk.broken), walk.broken)
    for each in taken:
        walk.stamps.pop(each.file)
    entries = sorted(
        (each.entry for each in taken), key=lambda entry: (entry.root, entry.category, entry.name)
    )
    return SkillListing(
        key=cache_key(roots),
        entries=tuple(entries),
        keywords=_keywords(entries),
        watched=dict(walk.stamps),
        missing=tuple(walk.missing),
        broken=tuple(BrokenEntry(str(at.file), at.source, at.reason) for at in walk.broken),
        categories=_categories(walk),
    )


def _keywords(entries: Sequence[SkillEntry]) -> dict[str, msgspec.Raw]:
    """Return `SkillListing.keywords`."""
    matches: dict[str, tuple[list[int], list[int]]] = {}
    stems = _Stems()
    for position, entry in enumerate(entries):
        in_name = stems.of(entry.name)
        rest = stems.of(f"{' '.join(entry.tags)} {entry.description}")
        for word in in_name:
            matches.setdefault(word, ([], []))[0].append(position)
        for word in islice(rest, MAX_KEYWORDS):
            if word not in in_name:
                matches.setdefault(word, ([], []))[1].append(position)
    return {word: msgspec.Raw(msgspec.json.encode(found)) for word, found in matches.items()}


class _Stems(dict[str, str]):
    """The stem of each word; "" for words to ignore. Caches, as skills repeat the same words."""

    def __missing__(self, word: str) -> str:
        self[word] = found = "" if word in COMMON_WORDS or len(word) < 2 else stem(word)
        return found

    def of(self, text: str) -> dict[str, None]:
        """Return the distinct stems of a text, in order, as the keys of a dict."""
        found = dict.fromkeys(map(self.__getitem__, split_words(text)))
        found.pop("", None)
        return found


# Finding SKILL.md files

MAX_FOLDERS = 5_000  #: Limit for one root: a whole home folder is not a skill collection.
MAX_DEEPER_FOLDERS = 500  #: Limit for folders searched for skills that are nested too deeply.
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv"})

UNKNOWN_STAMP = (-1, -1, -1)
"""Stamp of an unreadable file: it never matches, so the file is read again every time."""


class SkillWalker:
    """Finds skills, categories and misplaced files below the roots given to `visit`."""

    def __init__(self) -> None:
        self.skills: list[tuple[str, SkillRoot]] = []  #: Folder and root of each skill.
        self.categories: list[tuple[str, SkillRoot]] = []
        """Folder and root of each category with a description."""
        self.broken: list[BrokenSkill] = []
        self.stamps: dict[str, Stamp] = {}
        """Everything that was read. The result stays valid while all stamps match."""
        self.missing: list[str] = []  #: Roots that do not exist.
        self._deeper_left = MAX_DEEPER_FOLDERS

    def visit(self, root: SkillRoot) -> None:
        path = str(root.path)
        if not os.path.lexists(path):
            self.missing.append(path)
        # A misplaced SKILL.md directly in the user's folder must not hide all other skills.
        elif root.source is Source.USER or not self._is_skill(path, root):
            self._scan_folder(path, root, 1, MAX_FOLDERS)

    def _is_skill(self, folder: str, root: SkillRoot) -> bool:
        file = f"{folder}/{SKILL_FILE}"
        try:
            self.stamps[file] = stamp_of(os.stat(file))  # noqa: PTH116 - five times as quick
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self._report_broken(file, root, describe_os_error(error))
            return True
        self.skills.append((folder, root))
        return True

    def _scan_folder(self, folder: str, root: SkillRoot, depth: int, room: int) -> int:
        """Scan a folder and return how many more folders may be visited."""
        try:
            # Take the stamp before the scan, so that a change in between is noticed next time.
            self.stamps[folder] = stamp_of(os.stat(folder))  # noqa: PTH116 - quicker
            with os.scandir(folder) as entries:
                inside = sorted((each.name, each) for each in entries)
        except OSError as error:
            self._report_broken(folder, root, describe_os_error(error))
            return room
        for name, entry in inside:
            if not _is_candidate(name) or not self._is_printable(entry, root):
                continue
            if self._is_folder(entry, root):
                room = self._visit_folder(entry.path, root, depth, room)
            elif name == CATEGORY_FILE:
                if self._record_stamp(entry.path):
                    self.categories.append((folder, root))
            elif name.lower() == SKILL_FILE.lower():
                self._report_misplaced(entry, root, depth)
        return room

    def _visit_folder(self, folder: str, root: SkillRoot, depth: int, room: int) -> int:
        if room <= 0:
            return room
        if room == 1:
            reason = f"there are more than {MAX_FOLDERS:,} folders; the rest is not looked at"
            self._report_broken(str(root.path), root, reason, changing=False)
        elif self._is_skill(folder, root):
            pass
        elif depth < MAX_SKILL_DEPTH:
            return self._scan_folder(folder, root, depth + 1, room - 1)
        else:
            self._record_stamp(folder)
            self._report_deep_skills(folder, root)
        return room - 1

    def _report_deep_skills(self, folder: str, root: SkillRoot) -> None:
        """Report skills that are nested too deeply to be used."""
        for relative_folder, folders, files in islice(os.walk(folder), self._deeper_left):
            self._deeper_left -= 1
            if SKILL_FILE in files:
                reason = (
                    f"it lies too deep: at most {MAX_SKILL_DEPTH - 1} categories may stand above it"
                )
                self._report_broken(f"{relative_folder}/{SKILL_FILE}", root, reason, changing=False)
                folders.clear()
            folders[:] = sorted(
                each for each in folders if each.isprintable() and _is_candidate(each)
            )

    def _report_misplaced(self, entry: os.DirEntry[str], root: SkillRoot, depth: int) -> None:
        if depth == 1 and root.source is Source.USER:
            reason = "a skill needs a folder of its own"
        elif entry.name == SKILL_FILE:  # a dangling link, already reported
            return
        else:
            reason = f"it must be called {SKILL_FILE}, not {entry.name}"
        self._report_broken(entry.path, root, reason, changing=False)

    def _is_printable(self, entry: os.DirEntry[str], root: SkillRoot) -> bool:
        """Check a name, because it becomes part of prompts, lists and files."""
        if entry.name.isprintable():
            return True
        path = entry.path.encode("utf-8", "backslashreplace").decode()
        self._report_broken(path, root, "its name cannot be printed", changing=False)
        return False

    def _is_folder(self, entry: os.DirEntry[str], root: SkillRoot) -> bool:
        try:
            if not entry.is_symlink():
                return entry.is_dir()
            real = os.path.realpath(entry.path, strict=True)
        except OSError as error:
            self._report_broken(
                entry.path, root, f"the link leads nowhere: {describe_os_error(error)}"
            )
            return False
        above = os.path.realpath(Path(entry.path).parent)
        if f"{above}/".startswith(f"{real}/"):
            self._report_broken(entry.path, root, "the link leads back to a folder above it")
            return False
        return Path(real).is_dir()

    def _record_stamp(self, path: str) -> bool:
        try:
            self.stamps[path] = stamp_of(os.stat(path))  # noqa: PTH116 - quicker
        except OSError:
            self.stamps[path] = UNKNOWN_STAMP
            return False
        return True

    def _report_broken(
        self, path: str, root: SkillRoot, reason: str, *, changing: bool = True
    ) -> None:
        if changing:
            self.stamps[path] = UNKNOWN_STAMP
        self.broken.append(BrokenSkill(Path(path), root.source, reason))


def _is_candidate(name: str) -> bool:
    return not name.startswith(".") and name not in SKIPPED_FOLDERS


def _read_skills(
    walk: SkillWalker, roots: Sequence[SkillRoot], last: Iterable[SkillEntry]
) -> list[FoundSkill]:
    known = {(entry.root, entry.folder, entry.stamp): entry for entry in last}
    positions = {root.path: position for position, root in enumerate(roots)}
    found: list[FoundSkill] = []
    for folder, root in walk.skills:
        file = f"{folder}/{SKILL_FILE}"
        position = positions[root.path]
        relative = folder[len(str(root.path)) + 1 :] or "."
        if (same := known.get((position, relative, walk.stamps[file]))) is not None:
            found.append(FoundSkill(same, folder, root, is_new=False))
            continue
        try:
            _check_link(file, folder, root)
            text, stamp, warnings = read_text_file(file)
            walk.stamps[file] = stamp
            skill = parse_skill(text, Path(folder), root, warnings)
            entry = _entry(skill, position, relative, stamp)
            found.append(FoundSkill(entry, folder, root))
        except OSError as error:
            walk.stamps[file] = UNKNOWN_STAMP
            walk.broken.append(BrokenSkill(Path(file), root.source, describe_os_error(error)))
        except SkillInvalid as error:
            reason = f"{error}; {error.hint}" if error.hint else str(error)
            walk.broken.append(BrokenSkill(Path(file), root.source, reason))
    return found


def _entry(skill: Skill, root: int, folder: str, stamp: Stamp) -> SkillEntry:
    return SkillEntry(
        name=skill.name,
        description=skill.description,
        category=skill.category,
        tags=skill.tags,
        source=skill.source,
        root=root,
        folder=folder,
        stamp=stamp,
        platforms=skill.platforms,
        conditions=skill.conditions if skill.conditions != NO_CONDITIONS else None,
    )


def _check_link(file: str, folder: str, root: SkillRoot) -> None:
    """Raise `SkillInvalid` for a third-party file that links out of its folder.

    Otherwise such a link could bring a file of the user into a prompt. The user's own links may
    lead anywhere, and so may a link to a whole skill folder.
    """
    if root.source not in THIRD_PARTY:
        return
    path = Path(file)
    if path.is_symlink() and not (is_inside(path, Path(folder)) or is_inside(path, root.path)):
        raise SkillInvalid(f"{path.name} is a link out of its folder")


def _reject_injections(found: list[FoundSkill], broken: list[BrokenSkill]) -> list[FoundSkill]:
    """Remove third-party skills whose descriptions look like prompt injection."""
    strange = [each for each in found if each.is_new and each.root.source in THIRD_PARTY]
    # One scan over all descriptions is many times faster than one scan for each.
    if not scan("\n\n".join(each.entry.description for each in strange)):
        return found
    hostile: set[str] = set()
    for each in strange:
        if findings := scan(each.entry.description):
            hostile.add(each.folder)
            reason = f"its description looks like prompt injection ({', '.join(findings)})"
            broken.append(BrokenSkill(Path(each.file), each.root.source, reason))
    return [each for each in found if each.folder not in hostile]


def _unique_by_name(found: Iterable[FoundSkill], broken: list[BrokenSkill]) -> list[FoundSkill]:
    """Return the first skill of each name.

    A skill may override one of another root. A second skill of that name in the same root is
    reported as broken.
    """
    by_name: dict[str, FoundSkill] = {}
    for each in found:
        name = each.entry.name
        first = by_name.setdefault(name, each)
        if first is not each and first.root is each.root:
            reason = f"another skill is called {name!r} as well: {first.folder}"
            broken.append(BrokenSkill(Path(each.file), each.root.source, reason))
    return list(by_name.values())


def _categories(walk: SkillWalker) -> dict[str, str]:
    texts: dict[str, str] = {}
    for folder, root in walk.categories:
        name = category_of(Path(folder, "any"), root)
        if not name or name in texts:
            continue
        try:
            _check_link(f"{folder}/{CATEGORY_FILE}", folder, root)
            head = read_frontmatter(read_text_file(f"{folder}/{CATEGORY_FILE}").text)
        except (OSError, SkillInvalid):  # the category has no description; its skills still load
            continue
        found = as_text(head.fields.get("description")) or first_paragraph(head.body)
        text = " ".join(found.split())
        if text and not (root.source in THIRD_PARTY and scan(text)):
            texts[name] = text
    return texts
