"""A shelf from skills that were just read."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from typing import Any

import msgspec

from hermes.skills.reading import Stamp
from hermes.skills.shelf import Rule, Run, column, sealed, table
from hermes.skills.skill import Conditions, Root, Skill
from hermes.skills.words import COMMON, shortened, stem, words

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
