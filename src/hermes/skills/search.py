"""Skills that fit some words."""

from collections.abc import Iterable

from hermes.skills.skill import Skill
from hermes.skills.words import COMMON, shares, words

EXACT = 100
NAME, TAGS, CATEGORY, DESCRIPTION = 6, 4, 3, 2


def find(skills: Iterable[Skill], query: str, limit: int) -> list[Skill]:
    """The best first; those that share more of the words before those that share one often."""
    asked = list(dict.fromkeys(words(query)))
    asked = [word for word in asked if word not in COMMON] or asked
    scored = [(_score(skill, asked), skill) for skill in skills]
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: (-pair[0], pair[1].name))
    return [skill for _, skill in best[:limit]]


def _score(skill: Skill, asked: list[str]) -> int:
    name = words(skill.name)
    places = (
        (NAME, name),
        (TAGS, words(" ".join(skill.tags))),
        (CATEGORY, words(skill.category)),
        (DESCRIPTION, words(skill.description)),
    )
    each = [sum(weight * shares(word, found) for weight, found in places) for word in asked]
    matched = sum(map(bool, each))
    return sum(each) * matched + (EXACT if asked == name else 0)
