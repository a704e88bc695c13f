"""A snapshot of the skills as they are now; what did not change is taken from the last one."""

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

# A shelf from skills that were just read.

SUMMARY_CHARS = 80
"""Characters of a description in a list."""
MAX_KEYWORDS = 24
"""Words, beside those of its name, by which a skill is recognised; its tags come first."""

NO_CONDITIONS = Conditions()


class FoundSkill(msgspec.Struct, frozen=True):
    """A skill as it was found."""

    skill: Skill
    folder: str
    stamp: FileStamp
    root: SkillRoot
    new: bool = True
    """False when it is the same as the last time."""

    @property
    def place(self) -> str:
        return self.folder[len(str(self.root.path)) + 1 :] or "."


def table_columns(found: Sequence[FoundSkill], roots: Sequence[SkillRoot]) -> dict[str, Any]:
    """The fields of a `Shelf` that tell of its skills, which stand by root and category."""
    skills = [each.skill for each in found]
    runs = tuple(_category_ranges(found, roots))
    return {
        "roots": tuple(str(root.path) for root in roots),
        "sources": tuple(root.source for root in roots),
        "runs": runs,
        "name_column": join_column(skill.name for skill in skills),
        "text_columns": tuple(
            join_table(map(_name_and_summary, skills[run.start : run.end])) for run in runs
        ),
        "place_column": join_column(each.place for each in found),
        "seal": hash_stamps(each.stamp for each in found),
        "rules": tuple(_visibility_rules(skills)),
        "vocabulary": _keyword_tables(skills),
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
    """As they stand on the shelf: by root, category and name."""
    numbers = {id(root): number for number, root in enumerate(roots)}
    return sorted(found, key=lambda each: (*_range_key(each, numbers), each.skill.name))


def _range_key(each: FoundSkill, numbers: dict[int, int]) -> tuple[int, str]:
    return numbers[id(each.root)], each.skill.category


def _name_and_summary(skill: Skill) -> tuple[str, str]:
    return skill.name, shorten(skill.description, SUMMARY_CHARS)


def _visibility_rules(skills: Sequence[Skill]) -> Iterable[VisibilityRule]:
    ruled: dict[tuple[tuple[str, ...], Conditions], list[int]] = {}
    for number, skill in enumerate(skills):
        if skill.platforms or skill.conditions != NO_CONDITIONS:
            ruled.setdefault((skill.platforms, skill.conditions), []).append(number)
    for (platforms, conditions), numbers in ruled.items():
        yield VisibilityRule(tuple(numbers), platforms, *msgspec.structs.astuple(conditions))


def _keyword_tables(skills: Sequence[Skill]) -> dict[str, str]:
    """See `Shelf.vocabulary`."""
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
    """By word; "" for those that say nothing. Skills of one collection use the same words."""

    def __missing__(self, word: str) -> str:
        self[word] = found = "" if word in COMMON_WORDS or len(word) < 2 else stem(word)
        return found


def _keywords(text: str, stems: _Stems) -> dict[str, None]:
    """Each word once, in order."""
    found = dict.fromkeys(map(stems.__getitem__, split_words(text)))
    found.pop("", None)
    return found


# Where SKILL.md files lie below a folder, without being led astray by what else is there.

MAX_FOLDERS = 5_000
"""Of one root. Somebody's whole home is no collection of skills."""
MAX_DEEPER_FOLDERS = 500
"""Folders below those that are looked for skills which lie too deep."""
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv"})

UNKNOWN_STAMP = FileStamp(-1, -1, -1)
"""Of what could not be read: it is looked at again every time."""


class SkillWalker:
    """What was found below the roots given to `visit`."""

    def __init__(self) -> None:
        self.skills: list[tuple[str, SkillRoot]] = []
        """The folder of each, and the root it lies below."""
        self.categories: list[tuple[str, SkillRoot]] = []
        """The folder of each that is described."""
        self.broken: list[BrokenSkill] = []
        self.seen: dict[str, FileStamp] = {}
        """Everything that was looked at. As long as all of it is the same, so is the result."""
        self.missing: list[str] = []
        """Roots that are not there."""
        self._deeper = MAX_DEEPER_FOLDERS

    def visit(self, root: SkillRoot) -> None:
        path = str(root.path)
        if not os.path.lexists(path):
            self.missing.append(path)
        # A file astray in the user's own folder must not hide all that is in there.
        elif root.source is Source.USER or not self._is_skill(path, root):
            self._look_into(path, root, 1, MAX_FOLDERS)

    def _is_skill(self, folder: str, root: SkillRoot) -> bool:
        file = f"{folder}/{SKILL_FILE}"
        try:
            self.seen[file] = FileStamp.of(os.stat(file))  # noqa: PTH116 - five times as quick
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self._cannot(file, root, describe_os_error(error))
            return True
        self.skills.append((folder, root))
        return True

    def _look_into(self, folder: str, root: SkillRoot, depth: int, room: int) -> int:
        """How many folders may still be looked into."""
        try:
            # The stamp first: what changes in the meantime is seen the next time.
            self.seen[folder] = FileStamp.of(os.stat(folder))  # noqa: PTH116 - quicker
            with os.scandir(folder) as entries:
                inside = sorted((each.name, each) for each in entries)
        except OSError as error:
            self._cannot(folder, root, describe_os_error(error))
            return room
        for name, entry in inside:
            if not _is_candidate(name) or not self._is_printable(entry, root):
                continue
            if self._is_folder(entry, root):
                room = self._enter(entry.path, root, depth, room)
            elif name == CATEGORY_FILE:
                self._describes(entry.path, folder, root)
            elif name.lower() == SKILL_FILE.lower():
                self._misplaced(entry, root, depth)
        return room

    def _enter(self, folder: str, root: SkillRoot, depth: int, room: int) -> int:
        if room <= 0:
            return room
        if room == 1:
            reason = f"there are more than {MAX_FOLDERS:,} folders; the rest is not looked at"
            self._cannot(str(root.path), root, reason, changing=False)
        elif self._is_skill(folder, root):
            pass
        elif depth < MAX_SKILL_DEPTH:
            return self._look_into(folder, root, depth + 1, room - 1)
        else:
            self._note(folder)
            self._look_below(folder, root)
        return room - 1

    def _look_below(self, folder: str, root: SkillRoot) -> None:
        """Skills that lie too deep are not used, but whoever put them there is told."""
        for place, folders, files in islice(os.walk(folder), self._deeper):
            self._deeper -= 1
            if SKILL_FILE in files:
                reason = (
                    f"it lies too deep: at most {MAX_SKILL_DEPTH - 1} categories may stand above it"
                )
                self._cannot(f"{place}/{SKILL_FILE}", root, reason, changing=False)
                folders.clear()
            folders[:] = sorted(
                each for each in folders if each.isprintable() and _is_candidate(each)
            )

    def _misplaced(self, entry: os.DirEntry[str], root: SkillRoot, depth: int) -> None:
        if depth == 1 and root.source is Source.USER:
            reason = "a skill needs a folder of its own"
        elif entry.name == SKILL_FILE:  # a link that leads nowhere, as was said
            return
        else:
            reason = f"it must be called {SKILL_FILE}, not {entry.name}"
        self._cannot(entry.path, root, reason, changing=False)

    def _is_printable(self, entry: os.DirEntry[str], root: SkillRoot) -> bool:
        """Names become text of prompts, lists and files."""
        if entry.name.isprintable():
            return True
        path = entry.path.encode("utf-8", "backslashreplace").decode()
        self._cannot(path, root, "its name cannot be printed", changing=False)
        return False

    def _is_folder(self, entry: os.DirEntry[str], root: SkillRoot) -> bool:
        try:
            if not entry.is_symlink():
                return entry.is_dir()
            real = os.path.realpath(entry.path, strict=True)
        except OSError as error:
            self._cannot(entry.path, root, f"the link leads nowhere: {describe_os_error(error)}")
            return False
        above = os.path.realpath(Path(entry.path).parent)
        if f"{above}/".startswith(f"{real}/"):
            self._cannot(entry.path, root, "the link leads back to a folder above it")
            return False
        return Path(real).is_dir()

    def _describes(self, file: str, folder: str, root: SkillRoot) -> None:
        if self._note(file):
            self.categories.append((folder, root))

    def _note(self, path: str) -> bool:
        try:
            self.seen[path] = FileStamp.of(os.stat(path))  # noqa: PTH116 - quicker
        except OSError:
            self.seen[path] = UNKNOWN_STAMP
            return False
        return True

    def _cannot(self, path: str, root: SkillRoot, reason: str, *, changing: bool = True) -> None:
        if changing:
            self.seen[path] = UNKNOWN_STAMP
        self.broken.append(BrokenSkill(Path(path), root.source, reason))


def _is_candidate(name: str) -> bool:
    return not name.startswith(".") and name not in SKIPPED_FOLDERS


ReusableSkills = dict[tuple[str, FileStamp], Skill]
"""By the folder of a skill and the stamp of its file."""


def build_snapshot(roots: Sequence[SkillRoot], last: IndexSnapshot | None = None) -> IndexSnapshot:
    """Of several skills with one name the first counts, in the order of the roots."""
    walk = SkillWalker()
    for root in roots:
        walk.visit(root)
    found = _reject_injections(
        _read_skills(walk, _reusable_skills(last) if last else {}), walk.broken
    )
    taken = sort_skills(_unique_by_name(found, walk.broken), roots)
    for each in taken:
        walk.seen.pop(f"{each.folder}/{SKILL_FILE}")
    rows, rows_sum = encode_rows([(each.stamp, each.skill) for each in taken])
    shelf = IndexTable(
        made_for=cache_key(roots),
        rows_sum=rows_sum,
        others=dict(walk.seen),
        missing=tuple(walk.missing),
        broken=tuple(BrokenRow(str(at.file), at.source, at.reason) for at in walk.broken),
        categories=_categories(walk),
        **table_columns(taken, roots),
    )
    return IndexSnapshot(shelf, lambda: rows)


def _reusable_skills(last: IndexSnapshot) -> ReusableSkills:
    try:
        return {(str(skill.folder), FileStamp(*stamp)): skill for stamp, skill in last.found()}
    except CacheReplaced:
        return {}


def _read_skills(walk: SkillWalker, known: ReusableSkills) -> list[FoundSkill]:
    found: list[FoundSkill] = []
    for folder, root in walk.skills:
        file = f"{folder}/{SKILL_FILE}"
        stamp = walk.seen[file]
        if (folder, stamp) in known:
            found.append(FoundSkill(known[folder, stamp], folder, stamp, root, new=False))
            continue
        try:
            _check_link(file, folder, root)
            text, stamp, warnings = read_text_file(file)
            walk.seen[file] = stamp
            found.append(
                FoundSkill(parse_skill(text, Path(folder), root, warnings), folder, stamp, root)
            )
        except OSError as error:
            walk.seen[file] = UNKNOWN_STAMP
            walk.broken.append(BrokenSkill(Path(file), root.source, describe_os_error(error)))
        except SkillInvalid as error:
            reason = f"{error}; {error.hint}" if error.hint else str(error)
            walk.broken.append(BrokenSkill(Path(file), root.source, reason))
    return found


def _check_link(file: str, folder: str, root: SkillRoot) -> None:
    """A link in a stranger's folder must not bring a file of the user's into a prompt. Raises
    `SkillInvalid`. The user's own links may lead anywhere, and so may one to a whole folder."""
    if root.source not in THIRD_PARTY:
        return
    path = Path(file)
    if path.is_symlink() and not (is_inside(path, Path(folder)) or is_inside(path, root.path)):
        raise SkillInvalid(f"{path.name} is a link out of its folder")


def _reject_injections(found: list[FoundSkill], broken: list[BrokenSkill]) -> list[FoundSkill]:
    """Without those of strangers whose descriptions would steer the agent."""
    strange = [each.skill for each in found if each.new and each.root.source in THIRD_PARTY]
    # All of them at once, which is many times as quick.
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
    """A skill of another root is covered on purpose; one of the same root has a name too many."""
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
        except (OSError, SkillInvalid):  # it describes nothing, and the skills are there
            continue
        if text and not (root.source in THIRD_PARTY and scan(text)):
            texts[name] = text
    return texts


def _read_description(file: str) -> str:
    """The description in its head, or its first paragraph; on one line."""
    head = read_frontmatter(read_text_file(file).text)
    text = as_text(head.fields.get("description")) or first_paragraph(head.body)
    return " ".join(text.split())
