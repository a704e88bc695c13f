"""A snapshot of the skills as they are now; what did not change is taken from the last one."""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import msgspec

from hermes.security.injection import scan
from hermes.skills.frontmatter import read_head
from hermes.skills.index import (
    COMMON,
    CacheGone,
    Run,
    Shelf,
    Snapshot,
    Unusable,
    column,
    encode,
    key_of,
    sealed,
    shortened,
    stem,
    table,
    words,
)
from hermes.skills.parse import (
    Stamp,
    as_text,
    category_of,
    first_paragraph,
    inside,
    read,
    skill_of,
    why,
)
from hermes.skills.skill import (
    CATEGORY_FILE,
    MAX_SKILL_DEPTH,
    SKILL_FILE,
    THIRD_PARTY,
    Broken,
    Conditions,
    Root,
    Rule,
    Skill,
    SkillInvalid,
    Source,
)

# A shelf from skills that were just read.

LINE = 80
"""Characters of a description in a list."""
MOST_KEYWORDS = 24
"""Words, beside those of its name, by which a skill is recognised; its tags come first."""

NO_CONDITIONS = Conditions()


class Read(msgspec.Struct, frozen=True):
    """A skill as it was found."""

    skill: Skill
    folder: str
    stamp: Stamp
    root: Root
    new: bool = True
    """False when it is the same as the last time."""

    @property
    def place(self) -> str:
        return self.folder[len(str(self.root.path)) + 1 :] or "."


def columns(found: Sequence[Read], roots: Sequence[Root]) -> dict[str, Any]:
    """The fields of a `Shelf` that tell of its skills, which stand by root and category."""
    skills = [each.skill for each in found]
    runs = tuple(_runs(found, roots))
    return {
        "roots": tuple(str(root.path) for root in roots),
        "sources": tuple(root.source for root in roots),
        "runs": runs,
        "name_column": column(skill.name for skill in skills),
        "text_columns": tuple(table(map(_text, skills[run.start : run.end])) for run in runs),
        "place_column": column(each.place for each in found),
        "seal": sealed(each.stamp for each in found),
        "rules": tuple(_rules(skills)),
        "vocabulary": _vocabulary(skills),
    }


def _runs(found: Sequence[Read], roots: Sequence[Root]) -> Iterable[Run]:
    numbers = {id(root): number for number, root in enumerate(roots)}
    start = 0
    for (root, category), members in groupby(found, key=lambda each: _home(each, numbers)):
        end = start + len(list(members))
        yield Run(root, category, start, end)
        start = end


def in_order(found: Iterable[Read], roots: Sequence[Root]) -> list[Read]:
    """As they stand on the shelf: by root, category and name."""
    numbers = {id(root): number for number, root in enumerate(roots)}
    return sorted(found, key=lambda each: (*_home(each, numbers), each.skill.name))


def _home(each: Read, numbers: dict[int, int]) -> tuple[int, str]:
    return numbers[id(each.root)], each.skill.category


def _text(skill: Skill) -> tuple[str, str]:
    return skill.name, shortened(skill.description, LINE)


def _rules(skills: Sequence[Skill]) -> Iterable[Rule]:
    ruled: dict[tuple[tuple[str, ...], Conditions], list[int]] = {}
    for number, skill in enumerate(skills):
        if skill.platforms or skill.conditions != NO_CONDITIONS:
            ruled.setdefault((skill.platforms, skill.conditions), []).append(number)
    for (platforms, conditions), numbers in ruled.items():
        yield Rule(tuple(numbers), platforms, *msgspec.structs.astuple(conditions))


def _vocabulary(skills: Sequence[Skill]) -> dict[str, str]:
    """See `Shelf.vocabulary`."""
    named: defaultdict[str, list[str]] = defaultdict(list)
    other: defaultdict[str, list[str]] = defaultdict(list)
    stems = _Stems()
    for at, skill in enumerate(skills):
        number = str(at)
        name = _telling(skill.name, stems)
        rest = _telling(f"{' '.join(skill.tags)} {skill.description}", stems)
        for word in name:
            named[word].append(number)
        for word in islice(rest, MOST_KEYWORDS):
            if word not in name:
                other[word].append(number)
    pairs: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for word in {**named, **other}:
        numbers = f"{','.join(named.get(word, ()))} {','.join(other.get(word, ()))}"
        pairs[word[0]].append((word, numbers))
    return {letter: table(words_of) for letter, words_of in pairs.items()}


class _Stems(dict[str, str]):
    """By word; "" for those that say nothing. Skills of one collection use the same words."""

    def __missing__(self, word: str) -> str:
        self[word] = found = "" if word in COMMON or len(word) < 2 else stem(word)
        return found


def _telling(text: str, stems: _Stems) -> dict[str, None]:
    """Each word once, in order."""
    found = dict.fromkeys(map(stems.__getitem__, words(text)))
    found.pop("", None)
    return found


# Where SKILL.md files lie below a folder, without being led astray by what else is there.

MOST_FOLDERS = 5_000
"""Of one root. Somebody's whole home is no collection of skills."""
MOST_DEEPER = 500
"""Folders below those that are looked for skills which lie too deep."""
SKIPPED = frozenset({"node_modules", "__pycache__", "venv"})

CHANGING = Stamp(-1, -1, -1)
"""Of what could not be read: it is looked at again every time."""


class Walk:
    """What was found below the roots given to `visit`."""

    def __init__(self) -> None:
        self.skills: list[tuple[str, Root]] = []
        """The folder of each, and the root it lies below."""
        self.categories: list[tuple[str, Root]] = []
        """The folder of each that is described."""
        self.broken: list[Broken] = []
        self.seen: dict[str, Stamp] = {}
        """Everything that was looked at. As long as all of it is the same, so is the result."""
        self.missing: list[str] = []
        """Roots that are not there."""
        self._deeper = MOST_DEEPER

    def visit(self, root: Root) -> None:
        path = str(root.path)
        if not os.path.lexists(path):
            self.missing.append(path)
        # A file astray in the user's own folder must not hide all that is in there.
        elif root.source is Source.USER or not self._is_skill(path, root):
            self._look_into(path, root, 1, MOST_FOLDERS)

    def _is_skill(self, folder: str, root: Root) -> bool:
        file = f"{folder}/{SKILL_FILE}"
        try:
            self.seen[file] = Stamp.of(os.stat(file))  # noqa: PTH116 - five times as quick
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self._cannot(file, root, why(error))
            return True
        self.skills.append((folder, root))
        return True

    def _look_into(self, folder: str, root: Root, depth: int, room: int) -> int:
        """How many folders may still be looked into."""
        try:
            # The stamp first: what changes in the meantime is seen the next time.
            self.seen[folder] = Stamp.of(os.stat(folder))  # noqa: PTH116 - quicker
            with os.scandir(folder) as entries:
                inside = sorted((each.name, each) for each in entries)
        except OSError as error:
            self._cannot(folder, root, why(error))
            return room
        for name, entry in inside:
            if not _counts(name) or not self._is_printable(entry, root):
                continue
            if self._is_folder(entry, root):
                room = self._enter(entry.path, root, depth, room)
            elif name == CATEGORY_FILE:
                self._describes(entry.path, folder, root)
            elif name.lower() == SKILL_FILE.lower():
                self._misplaced(entry, root, depth)
        return room

    def _enter(self, folder: str, root: Root, depth: int, room: int) -> int:
        if room <= 0:
            return room
        if room == 1:
            reason = f"there are more than {MOST_FOLDERS:,} folders; the rest is not looked at"
            self._cannot(str(root.path), root, reason, changing=False)
        elif self._is_skill(folder, root):
            pass
        elif depth < MAX_SKILL_DEPTH:
            return self._look_into(folder, root, depth + 1, room - 1)
        else:
            self._note(folder)
            self._look_below(folder, root)
        return room - 1

    def _look_below(self, folder: str, root: Root) -> None:
        """Skills that lie too deep are not used, but whoever put them there is told."""
        for place, folders, files in islice(os.walk(folder), self._deeper):
            self._deeper -= 1
            if SKILL_FILE in files:
                reason = (
                    f"it lies too deep: at most {MAX_SKILL_DEPTH - 1} categories may stand above it"
                )
                self._cannot(f"{place}/{SKILL_FILE}", root, reason, changing=False)
                folders.clear()
            folders[:] = sorted(each for each in folders if each.isprintable() and _counts(each))

    def _misplaced(self, entry: os.DirEntry[str], root: Root, depth: int) -> None:
        if depth == 1 and root.source is Source.USER:
            reason = "a skill needs a folder of its own"
        elif entry.name == SKILL_FILE:  # a link that leads nowhere, as was said
            return
        else:
            reason = f"it must be called {SKILL_FILE}, not {entry.name}"
        self._cannot(entry.path, root, reason, changing=False)

    def _is_printable(self, entry: os.DirEntry[str], root: Root) -> bool:
        """Names become text of prompts, lists and files."""
        if entry.name.isprintable():
            return True
        path = entry.path.encode("utf-8", "backslashreplace").decode()
        self._cannot(path, root, "its name cannot be printed", changing=False)
        return False

    def _is_folder(self, entry: os.DirEntry[str], root: Root) -> bool:
        try:
            if not entry.is_symlink():
                return entry.is_dir()
            real = os.path.realpath(entry.path, strict=True)
        except OSError as error:
            self._cannot(entry.path, root, f"the link leads nowhere: {why(error)}")
            return False
        above = os.path.realpath(Path(entry.path).parent)
        if f"{above}/".startswith(f"{real}/"):
            self._cannot(entry.path, root, "the link leads back to a folder above it")
            return False
        return Path(real).is_dir()

    def _describes(self, file: str, folder: str, root: Root) -> None:
        if self._note(file):
            self.categories.append((folder, root))

    def _note(self, path: str) -> bool:
        try:
            self.seen[path] = Stamp.of(os.stat(path))  # noqa: PTH116 - quicker
        except OSError:
            self.seen[path] = CHANGING
            return False
        return True

    def _cannot(self, path: str, root: Root, reason: str, *, changing: bool = True) -> None:
        if changing:
            self.seen[path] = CHANGING
        self.broken.append(Broken(Path(path), root.source, reason))


def _counts(name: str) -> bool:
    return not name.startswith(".") and name not in SKIPPED


Known = dict[tuple[str, Stamp], Skill]
"""By the folder of a skill and the stamp of its file."""


def build(roots: Sequence[Root], last: Snapshot | None = None) -> Snapshot:
    """Of several skills with one name the first counts, in the order of the roots."""
    walk = Walk()
    for root in roots:
        walk.visit(root)
    found = _vetted(_read(walk, _unchanged(last) if last else {}), walk.broken)
    taken = in_order(_first_of_each_name(found, walk.broken), roots)
    for each in taken:
        walk.seen.pop(f"{each.folder}/{SKILL_FILE}")
    rows, rows_sum = encode([(each.stamp, each.skill) for each in taken])
    shelf = Shelf(
        made_for=key_of(roots),
        rows_sum=rows_sum,
        others=dict(walk.seen),
        missing=tuple(walk.missing),
        broken=tuple(Unusable(str(at.file), at.source, at.reason) for at in walk.broken),
        categories=_categories(walk),
        **columns(taken, roots),
    )
    return Snapshot(shelf, lambda: rows)


def _unchanged(last: Snapshot) -> Known:
    try:
        return {(str(skill.folder), Stamp(*stamp)): skill for stamp, skill in last.found()}
    except CacheGone:
        return {}


def _read(walk: Walk, known: Known) -> list[Read]:
    found: list[Read] = []
    for folder, root in walk.skills:
        file = f"{folder}/{SKILL_FILE}"
        stamp = walk.seen[file]
        if (folder, stamp) in known:
            found.append(Read(known[folder, stamp], folder, stamp, root, new=False))
            continue
        try:
            _check_link(file, folder, root)
            text, stamp, warnings = read(file)
            walk.seen[file] = stamp
            found.append(Read(skill_of(text, Path(folder), root, warnings), folder, stamp, root))
        except OSError as error:
            walk.seen[file] = CHANGING
            walk.broken.append(Broken(Path(file), root.source, why(error)))
        except SkillInvalid as error:
            reason = f"{error}; {error.hint}" if error.hint else str(error)
            walk.broken.append(Broken(Path(file), root.source, reason))
    return found


def _check_link(file: str, folder: str, root: Root) -> None:
    """A link in a stranger's folder must not bring a file of the user's into a prompt. Raises
    `SkillInvalid`. The user's own links may lead anywhere, and so may one to a whole folder."""
    if root.source not in THIRD_PARTY:
        return
    path = Path(file)
    if path.is_symlink() and not (inside(path, Path(folder)) or inside(path, root.path)):
        raise SkillInvalid(f"{path.name} is a link out of its folder")


def _vetted(found: list[Read], broken: list[Broken]) -> list[Read]:
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
            broken.append(Broken(each.skill.file, each.root.source, reason))
    return [each for each in found if not hostile.get(each.skill.folder)]


def _first_of_each_name(found: Iterable[Read], broken: list[Broken]) -> Iterable[Read]:
    """A skill of another root is covered on purpose; one of the same root has a name too many."""
    by_name: dict[str, Read] = {}
    for each in found:
        name = each.skill.name
        first = by_name.setdefault(name, each)
        if first is not each and first.root is each.root:
            reason = f"another skill is called {name!r} as well: {first.skill.folder}"
            broken.append(Broken(each.skill.file, each.root.source, reason))
    return by_name.values()


def _categories(walk: Walk) -> dict[str, str]:
    texts: dict[str, str] = {}
    for folder, root in walk.categories:
        name = category_of(Path(folder, "any"), root)
        if not name or name in texts:
            continue
        try:
            _check_link(f"{folder}/{CATEGORY_FILE}", folder, root)
            text = _described(f"{folder}/{CATEGORY_FILE}")
        except (OSError, SkillInvalid):  # it describes nothing, and the skills are there
            continue
        if text and not (root.source in THIRD_PARTY and scan(text)):
            texts[name] = text
    return texts


def _described(file: str) -> str:
    """The description in its head, or its first paragraph; on one line."""
    head = read_head(read(file).text)
    text = as_text(head.fields.get("description")) or first_paragraph(head.body)
    return " ".join(text.split())
