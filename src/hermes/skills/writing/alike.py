"""Skills that say nearly the same, found before a new one is made."""

import re
from collections.abc import Iterable
from importlib import import_module

import msgspec

from hermes.skills.head import read_head
from hermes.skills.reading import read
from hermes.skills.skill import Skill, SkillInvalid

SAME_NAME = 88.0
"""Of 100: the same words in another order, or a letter more."""
LIKE_NAME = 60.0
SAME_DESCRIPTION = 0.6
LIKE_DESCRIPTION = 0.3
SAME_BODY = 0.6
"""Share of the words of both together that both have."""
FEWEST_WORDS = 5
"""Of a text that is like another; of one that is the same as another, `FEWEST_SAME`."""
FEWEST_SAME = 2

_WORD = re.compile(r"[^\W_]{3,}")
_COMMON = frozenset(
    {
        "the", "and", "for", "with", "when", "use", "used", "uses", "using", "this", "that", "from",
        "into", "your", "you", "are", "not", "any", "all", "can", "its", "how", "what", "which",
        "will", "one", "out", "has", "have", "via", "etc", "skill", "user", "task", "tasks",
        "a", "an", "to", "of", "in", "on", "my",
    }
)  # fmt: skip


class Likeness(msgspec.Struct, frozen=True):
    skill: Skill
    share: float
    """From 0 to 1, for choosing the closest."""


def closest(name: str, text: str, skills: Iterable[Skill]) -> Skill | None:
    """The skill that a new one called `name`, with the SKILL.md `text`, says most of again."""
    head = read_head(text)
    described = _words(str(head.fields.get("description", "")))
    said = _words(head.body)
    found = [_likeness(name, described, said, each) for each in skills]
    best = max((each for each in found if each is not None), key=_share, default=None)
    return best.skill if best else None


def _share(likeness: Likeness) -> float:
    return likeness.share


def _likeness(
    name: str, described: frozenset[str], said: frozenset[str], skill: Skill
) -> Likeness | None:
    fuzz = import_module("rapidfuzz.fuzz")  # slow to load, and few sessions make a skill
    named = fuzz.token_sort_ratio(_spaced(name), _spaced(skill.name.rpartition(":")[2]))
    alike = _shared(described, _words(skill.description))
    close = (
        named >= SAME_NAME
        or alike >= SAME_DESCRIPTION
        or (named >= LIKE_NAME and alike >= LIKE_DESCRIPTION)
    )
    body = 0.0 if close else _shared(said, _body_words(skill))
    if not close and body < SAME_BODY:
        return None
    return Likeness(skill, named / 100 + alike + body)


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    if one == other and len(one) >= FEWEST_SAME:
        return 1.0
    if min(len(one), len(other)) < FEWEST_WORDS:
        return 0.0
    return len(one & other) / len(one | other)


def _body_words(skill: Skill) -> frozenset[str]:
    try:
        return _words(read_head(read(skill.file).text).body)
    except (OSError, SkillInvalid):  # it cannot be patched either
        return frozenset()


def _words(text: str) -> frozenset[str]:
    """Without common ones, and without the s of a plural."""
    words = (word.lower() for word in _WORD.findall(text))
    return frozenset(word.rstrip("s") for word in words if word not in _COMMON)


def _spaced(name: str) -> str:
    """Without common words, unless there are no others."""
    words = name.split("-")
    return " ".join([word for word in words if word not in _COMMON] or words)
