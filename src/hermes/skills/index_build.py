"""Build the listing of all skills from the file system, reusing unchanged entries."""

import os
from collections.abc import Iterable, Sequence
from itertools import chain, groupby, islice
from operator import attrgetter
from pathlib import Path

import msgspec

from hermes.security.injection import scan
from hermes.skills.index import COMMON_WORDS, FileState, SkillListing, cache_key, split_words, stem
from hermes.skills.parse import (
    as_text,
    category_of,
    describe_os_error,
    first_paragraph,
    is_inside,
    parse_skill,
    read_frontmatter,
    read_text_file,
    stamp_of,
)
from hermes.skills.prompt import round_robin
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

_KnownEntries = dict[tuple[int, str, Stamp], SkillEntry]  #: By root, folder and stamp.


def build_listing(roots: Sequence[SkillRoot], last: SkillListing | None = None) -> SkillListing:
    """Scan the roots. Of several skills with one name the first counts, in root order.

    `last` is an older listing.
    """
    walk = SkillWalker()
    for root in roots:
        walk.visit(root)
    known = _known_entries(last) if last and last.state.key == cache_key(roots) else {}
    taken = _unique_by_name(_read_skills(walk, roots, known), roots, walk.broken)
    entries = sorted(taken, key=lambda entry: (entry.root, entry.category, entry.name))
    skill_files: list[tuple[int, str, tuple[Stamp, ...]]] = []
    for root, group in groupby(entries, key=attrgetter("root")):
        members = list(group)
        names = "\n".join(f"{entry.folder}/{SKILL_FILE}" for entry in members)
        stamps = tuple(walk.stamps.pop(_file_of(entry, roots)) for entry in members)
        skill_files.append((root, names, stamps))
    return SkillListing(
        state=FileState(cache_key(roots), tuple(skill_files), walk.stamps, tuple(walk.missing)),
        entries=tuple(entries),
        conditional=tuple(
            at
            for at, entry in enumerate(entries)
            if entry.conditions or entry.platforms or entry.is_user_only
        ),
        rotation=tuple(round_robin(entries)),
        keywords=_keywords(entries),
        broken=tuple((str(at.file), at.source, at.reason) for at in walk.broken),
        categories=_categories(walk),
    )


def _file_of(entry: SkillEntry, roots: Sequence[SkillRoot]) -> str:
    path = str(roots[entry.root].path)
    return f"{path}/{SKILL_FILE}" if entry.folder == "." else f"{path}/{entry.folder}/{SKILL_FILE}"


def _keywords(entries: Sequence[SkillEntry]) -> dict[str, msgspec.Raw]:
    """Return `SkillListing.keywords`."""
    matches: dict[str, tuple[list[int], list[int]]] = {}
    stems = _Stems()
    for position, entry in enumerate(entries):
        in_name = stems.of(entry.name)
        rest = stems.of(f"{entry.tags} {entry.description}")
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

UNKNOWN_STAMP = -1
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
            self.report_broken(file, root, describe_os_error(error))
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
            self.report_broken(folder, root, describe_os_error(error))
            return room
        for name, entry in inside:
            if not _is_candidate(name):
                continue
            if not name.isprintable():  # it would become part of prompts, lists and files
                path = entry.path.encode("utf-8", "backslashreplace").decode()
                self.report_broken(path, root, "its name cannot be printed", changing=False)
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
            self.report_broken(str(root.path), root, reason, changing=False)
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
                self.report_broken(f"{relative_folder}/{SKILL_FILE}", root, reason, changing=False)
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
        self.report_broken(entry.path, root, reason, changing=False)

    def _is_folder(self, entry: os.DirEntry[str], root: SkillRoot) -> bool:
        try:
            if not entry.is_symlink():
                return entry.is_dir()
            real = os.path.realpath(entry.path, strict=True)
        except OSError as error:
            self.report_broken(
                entry.path, root, f"the link leads nowhere: {describe_os_error(error)}"
            )
            return False
        above = os.path.realpath(Path(entry.path).parent)
        if f"{above}/".startswith(f"{real}/"):
            self.report_broken(entry.path, root, "the link leads back to a folder above it")
            return False
        return Path(real).is_dir()

    def _record_stamp(self, path: str) -> bool:
        try:
            self.stamps[path] = stamp_of(os.stat(path))  # noqa: PTH116 - quicker
        except OSError:
            self.stamps[path] = UNKNOWN_STAMP
            return False
        return True

    def report_broken(
        self, path: str, root: SkillRoot, reason: str, *, changing: bool = True
    ) -> None:
        if changing:
            self.stamps[path] = UNKNOWN_STAMP
        self.broken.append(BrokenSkill(Path(path), root.source, reason))


def _is_candidate(name: str) -> bool:
    return not name.startswith(".") and name not in SKIPPED_FOLDERS


def _known_entries(last: SkillListing) -> _KnownEntries:
    stamps = chain.from_iterable(stamps for *_, stamps in last.state.skill_files)
    return {
        (entry.root, entry.folder, stamp): entry
        for entry, stamp in zip(last.entries, stamps, strict=True)
    }


def _read_skills(
    walk: SkillWalker, roots: Sequence[SkillRoot], known: _KnownEntries
) -> list[SkillEntry]:
    """Return the skills that load, without third-party ones that look like prompt injection."""
    positions = {root.path: position for position, root in enumerate(roots)}
    found: list[SkillEntry] = []
    strange: list[SkillEntry] = []  #: New descriptions of third parties.
    for folder, root in walk.skills:
        file = f"{folder}/{SKILL_FILE}"
        position = positions[root.path]
        relative = folder[len(str(root.path)) + 1 :] or "."
        entry = known.get((position, relative, walk.stamps[file]))
        try:
            if entry is None:
                _check_link(file, folder, root)
                text, walk.stamps[file], warnings = read_text_file(file)
                skill = parse_skill(text, Path(folder), root, warnings, brief=True)
                entry = _entry(skill, position, relative)
                if root.source in THIRD_PARTY:
                    strange.append(entry)
            found.append(entry)
        except OSError as error:
            walk.report_broken(file, root, describe_os_error(error))
        except SkillInvalid as error:
            reason = f"{error}; {error.hint}" if error.hint else str(error)
            walk.report_broken(file, root, reason, changing=False)
    # One scan over all descriptions is many times faster than one scan for each.
    if not scan("\n\n".join(entry.description for entry in strange)):
        return found
    hostile: list[SkillEntry] = []
    for entry in strange:
        if findings := scan(entry.description):
            hostile.append(entry)
            reason = f"its description looks like prompt injection ({', '.join(findings)})"
            walk.report_broken(_file_of(entry, roots), roots[entry.root], reason, changing=False)
    return [entry for entry in found if entry not in hostile]


def _entry(skill: Skill, root: int, folder: str) -> SkillEntry:
    return SkillEntry(
        name=skill.name,
        description=skill.description,
        category=skill.category,
        tags=" ".join(skill.tags),
        source=skill.source,
        root=root,
        folder=folder,
        platforms=skill.platforms,
        conditions=skill.conditions if skill.conditions != NO_CONDITIONS else None,
        is_user_only=skill.is_user_only,
        is_model_only=skill.is_model_only,
        argument_hint=skill.argument_hint,
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


def _unique_by_name(
    found: Iterable[SkillEntry], roots: Sequence[SkillRoot], broken: list[BrokenSkill]
) -> list[SkillEntry]:
    """Return the first skill of each name.

    A skill may override one of another root. A second skill of that name in the same root is
    reported as broken.
    """
    by_name: dict[str, SkillEntry] = {}
    for entry in found:
        first = by_name.setdefault(entry.name, entry)
        if first is not entry and first.root == entry.root:
            other = Path(_file_of(first, roots)).parent
            reason = f"another skill is called {entry.name!r} as well: {other}"
            source = roots[entry.root].source
            broken.append(BrokenSkill(Path(_file_of(entry, roots)), source, reason))
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
