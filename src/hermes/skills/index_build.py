"""Build an index snapshot from the file system, reusing unchanged skills of the last one."""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import msgspec

from hermes.security.injection import scan
from hermes.skills.frontmatter import read_frontmatter
from hermes.skills.index import (
    COMMON_WORDS,
    BrokenRow,
    CacheReplaced,
    CategoryRange,
    IndexSnapshot,
    IndexTable,
    cache_key,
    encode_rows,
    hash_stamps,
    join_column,
    join_table,
    shorten,
    split_words,
    stem,
)
from hermes.skills.parse import (
    FileStamp,
    as_text,
    category_of,
    describe_os_error,
    first_paragraph,
    is_inside,
    parse_skill,
    read_text_file,
)
from hermes.skills.skill import (
    CATEGORY_FILE,
    MAX_SKILL_DEPTH,
    SKILL_FILE,
    THIRD_PARTY,
    BrokenSkill,
    Conditions,
    Skill,
    SkillInvalid,
    SkillRoot,
    Source,
    VisibilityRule,
)

# Index table columns

SUMMARY_CHARS = 80
"""Characters of a description in a list."""
MAX_KEYWORDS = 24
"""Words by which a skill is found, in addition to those of its name; tags come first."""

NO_CONDITIONS = Conditions()


class FoundSkill(msgspec.Struct, frozen=True):
    """A skill with the folder and root in which it was found."""

    skill: Skill
    folder: str
    stamp: FileStamp
    root: SkillRoot
    is_new: bool = True
    """False when it is unchanged since the last snapshot."""

    @property
    def relative_folder(self) -> str:
        return self.folder[len(str(self.root.path)) + 1 :] or "."


def table_columns(found: Sequence[FoundSkill], roots: Sequence[SkillRoot]) -> dict[str, Any]:
    """Return the fields of an `IndexTable` that describe its skills. `found` must be sorted."""
    skills = [each.skill for each in found]
    ranges = tuple(_category_ranges(found, roots))
    return {
        "roots": tuple(str(root.path) for root in roots),
        "sources": tuple(root.source for root in roots),
        "ranges": ranges,
        "name_column": join_column(skill.name for skill in skills),
        "summary_columns": tuple(
            join_table(
                (skill.name, shorten(skill.description, SUMMARY_CHARS))
                for skill in skills[run.start : run.end]
            )
            for run in ranges
        ),
        "folder_column": join_column(each.relative_folder for each in found),
        "stamps_hash": hash_stamps(each.stamp for each in found),
        "rules": tuple(_visibility_rules(skills)),
        "keyword_tables": _keyword_tables(skills),
    }


def _category_ranges(
    found: Sequence[FoundSkill], roots: Sequence[SkillRoot]
) -> Iterable[CategoryRange]:
    numbers = {id(root): number for number, root in enumerate(roots)}
    start = 0
    for (root, category), members in groupby(found, key=lambda each: _range_key(each, numbers)):
        end = start + len(list(members))
        yield CategoryRange(root, category, start, end)
        start = end


def sort_skills(found: Iterable[FoundSkill], roots: Sequence[SkillRoot]) -> list[FoundSkill]:
    """Sort by root, category and name."""
    numbers = {id(root): number for number, root in enumerate(roots)}
    return sorted(found, key=lambda each: (*_range_key(each, numbers), each.skill.name))


def _range_key(each: FoundSkill, numbers: dict[int, int]) -> tuple[int, str]:
    return numbers[id(each.root)], each.skill.category


def _visibility_rules(skills: Sequence[Skill]) -> Iterable[VisibilityRule]:
    ruled: dict[tuple[tuple[str, ...], Conditions], list[int]] = {}
    for number, skill in enumerate(skills):
        if skill.platforms or skill.conditions != NO_CONDITIONS:
            ruled.setdefault((skill.platforms, skill.conditions), []).append(number)
    for (platforms, conditions), numbers in ruled.items():
        yield VisibilityRule(tuple(numbers), platforms, *msgspec.structs.astuple(conditions))


def _keyword_tables(skills: Sequence[Skill]) -> dict[str, str]:
    """Return `IndexTable.keyword_tables`."""
    named: defaultdict[str, list[str]] = defaultdict(list)
    other: defaultdict[str, list[str]] = defaultdict(list)
    stems = _Stems()
    for at, skill in enumerate(skills):
        number = str(at)
        name = _keywords(skill.name, stems)
        rest = _keywords(f"{' '.join(skill.tags)} {skill.description}", stems)
        for word in name:
            named[word].append(number)
        for word in islice(rest, MAX_KEYWORDS):
            if word not in name:
                other[word].append(number)
    pairs: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for word in {**named, **other}:
        numbers = f"{','.join(named.get(word, ()))} {','.join(other.get(word, ()))}"
        pairs[word[0]].append((word, numbers))
    return {letter: join_table(words_of) for letter, words_of in pairs.items()}


class _Stems(dict[str, str]):
    """The stem of each word; "" for words to ignore. Caches, as skills repeat the same words."""

    def __missing__(self, word: str) -> str:
        self[word] = found = "" if word in COMMON_WORDS or len(word) < 2 else stem(word)
        return found


def _keywords(text: str, stems: _Stems) -> dict[str, None]:
    """Return the distinct stems of a text, in order, as the keys of a dict."""
    found = dict.fromkeys(map(stems.__getitem__, split_words(text)))
    found.pop("", None)
    return found


# Finding SKILL.md files

MAX_FOLDERS = 5_000
"""Limit for one root: a whole home folder is not a skill collection."""
MAX_DEEPER_FOLDERS = 500
"""Limit for folders searched for skills that are nested too deeply."""
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv"})

UNKNOWN_STAMP = FileStamp(-1, -1, -1)
"""Stamp of an unreadable file: it never matches, so the file is read again every time."""


class SkillWalker:
    """Finds skills, categories and misplaced files below the roots given to `visit`."""

    def __init__(self) -> None:
        self.skills: list[tuple[str, SkillRoot]] = []
        """Folder and root of each skill."""
        self.categories: list[tuple[str, SkillRoot]] = []
        """Folder and root of each category with a description."""
        self.broken: list[BrokenSkill] = []
        self.stamps: dict[str, FileStamp] = {}
        """Everything that was read. The result stays valid while all stamps match."""
        self.missing: list[str] = []
        """Roots that do not exist."""
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
            self.stamps[file] = FileStamp.of(os.stat(file))  # noqa: PTH116 - five times as quick
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
            self.stamps[folder] = FileStamp.of(os.stat(folder))  # noqa: PTH116 - quicker
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
                self._add_category(entry.path, folder, root)
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

    def _add_category(self, file: str, folder: str, root: SkillRoot) -> None:
        if self._record_stamp(file):
            self.categories.append((folder, root))

    def _record_stamp(self, path: str) -> bool:
        try:
            self.stamps[path] = FileStamp.of(os.stat(path))  # noqa: PTH116 - quicker
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


ReusableSkills = dict[tuple[str, FileStamp], Skill]
"""By the folder of a skill and the stamp of its SKILL.md."""


def build_snapshot(roots: Sequence[SkillRoot], last: IndexSnapshot | None = None) -> IndexSnapshot:
    """Scan the roots. Of several skills with one name the first counts, in root order."""
    walk = SkillWalker()
    for root in roots:
        walk.visit(root)
    found = _reject_injections(
        _read_skills(walk, _reusable_skills(last) if last else {}), walk.broken
    )
    taken = sort_skills(_unique_by_name(found, walk.broken), roots)
    for each in taken:
        walk.stamps.pop(f"{each.folder}/{SKILL_FILE}")
    rows, rows_checksum = encode_rows([(each.stamp, each.skill) for each in taken])
    table = IndexTable(
        key=cache_key(roots),
        rows_checksum=rows_checksum,
        watched=dict(walk.stamps),
        missing=tuple(walk.missing),
        broken=tuple(BrokenRow(str(at.file), at.source, at.reason) for at in walk.broken),
        categories=_categories(walk),
        **table_columns(taken, roots),
    )
    return IndexSnapshot(table, lambda: rows)


def _reusable_skills(last: IndexSnapshot) -> ReusableSkills:
    try:
        return {
            (str(skill.folder), FileStamp(*stamp)): skill for stamp, skill in last.stamped_skills()
        }
    except CacheReplaced:
        return {}


def _read_skills(walk: SkillWalker, known: ReusableSkills) -> list[FoundSkill]:
    found: list[FoundSkill] = []
    for folder, root in walk.skills:
        file = f"{folder}/{SKILL_FILE}"
        stamp = walk.stamps[file]
        if (folder, stamp) in known:
            found.append(FoundSkill(known[folder, stamp], folder, stamp, root, is_new=False))
            continue
        try:
            _check_link(file, folder, root)
            text, stamp, warnings = read_text_file(file)
            walk.stamps[file] = stamp
            found.append(
                FoundSkill(parse_skill(text, Path(folder), root, warnings), folder, stamp, root)
            )
        except OSError as error:
            walk.stamps[file] = UNKNOWN_STAMP
            walk.broken.append(BrokenSkill(Path(file), root.source, describe_os_error(error)))
        except SkillInvalid as error:
            reason = f"{error}; {error.hint}" if error.hint else str(error)
            walk.broken.append(BrokenSkill(Path(file), root.source, reason))
    return found


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
    strange = [each.skill for each in found if each.is_new and each.root.source in THIRD_PARTY]
    # One scan over all descriptions is many times faster than one scan for each.
    if not scan("\n\n".join(skill.description for skill in strange)):
        return found
    hostile = {skill.folder: scan(skill.description) for skill in strange}
    for each in found:
        findings = hostile.get(each.skill.folder)
        if findings:
            reason = f"its description looks like prompt injection ({', '.join(findings)})"
            broken.append(BrokenSkill(each.skill.file, each.root.source, reason))
    return [each for each in found if not hostile.get(each.skill.folder)]


def _unique_by_name(found: Iterable[FoundSkill], broken: list[BrokenSkill]) -> Iterable[FoundSkill]:
    """Return the first skill of each name.

    A skill may override one of another root. A second skill of that name in the same root is
    reported as broken.
    """
    by_name: dict[str, FoundSkill] = {}
    for each in found:
        name = each.skill.name
        first = by_name.setdefault(name, each)
        if first is not each and first.root is each.root:
            reason = f"another skill is called {name!r} as well: {first.skill.folder}"
            broken.append(BrokenSkill(each.skill.file, each.root.source, reason))
    return by_name.values()


def _categories(walk: SkillWalker) -> dict[str, str]:
    texts: dict[str, str] = {}
    for folder, root in walk.categories:
        name = category_of(Path(folder, "any"), root)
        if not name or name in texts:
            continue
        try:
            _check_link(f"{folder}/{CATEGORY_FILE}", folder, root)
            text = _read_description(f"{folder}/{CATEGORY_FILE}")
        except (OSError, SkillInvalid):  # the category has no description; its skills still load
            continue
        if text and not (root.source in THIRD_PARTY and scan(text)):
            texts[name] = text
    return texts


def _read_description(file: str) -> str:
    """Return the description in the frontmatter of a file, or its first paragraph, on one line."""
    head = read_frontmatter(read_text_file(file).text)
    text = as_text(head.fields.get("description")) or first_paragraph(head.body)
    return " ".join(text.split())
