"""The list of skills in the prompt."""

import hashlib
import logging
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import groupby, zip_longest
from pathlib import Path

import msgspec

from hermes.skills import index, skill
from hermes.skills.index import (
    COMMON_WORDS,
    IndexTable,
    SkillIndex,
    hint_stems,
    match_word,
    shorten,
    split_words,
)
from hermes.skills.skill import Skill, Source, VisibilityContext, conditions_met, platform_reason
from hermes.skills.usage import SkillUsage, UsageRecord

# Which skills are worth a line in the prompt when there is no room for all.

DAY = 86_400
RECENCY_DAYS, RECENCY_POINTS = (1, 7, 30, 90), (10, 8, 5, 2, 0)
"""Points for a last use within so many days; the last are for one before."""
MAX_USE_POINTS = 10
"""Points for frequent use grow with the logarithm, up to here."""
NAME_HINT_POINTS, TEXT_HINT_POINTS, MAX_HINT_POINTS = 6, 3, 24
"""Points for a word that the skill shares with the work at hand."""
SOURCE_POINTS = {
    Source.USER: 2,
    Source.HUB: 1,
    Source.EXTERNAL: 1,
    Source.PLUGIN: 1,
    Source.BUNDLED: 0,
}
"""Points for who it is from: with all else equal, the user's own come first."""


def rank_skills(
    shelf: IndexTable, uses: Mapping[str, UsageRecord], now: float, hints: Iterable[str]
) -> Iterator[int]:
    """The numbers of all skills, the most useful first.

    Those that are used or fit the work come by their points, the others after them by their
    origin, where the categories take turns: so each is represented.
    """
    points = hint_points(shelf, hints)
    for name, use in uses.items():
        number = shelf.numbers.get(name)
        if number is not None and use.count:
            points[number] = points.get(number, 0) + usage_points(use, now)
    origins: list[int] = []
    for run in shelf.runs:
        origins += [SOURCE_POINTS[shelf.sources[run.root]]] * len(run.numbers)
    order = sorted(points)
    order.sort(key=lambda number: points[number] + origins[number], reverse=True)
    yield from order
    yield from (number for number in _round_robin(shelf) if number not in points)


def hint_points(shelf: IndexTable, hints: Iterable[str]) -> dict[int, int]:
    """Points of the skills that share words with the names of files and folders in `hints`."""
    points: dict[int, int] = {}
    for named, other in shelf.telling(hint_stems(hints)):
        for number in named:
            points[number] = points.get(number, 0) + NAME_HINT_POINTS
        for number in other:
            points[number] = points.get(number, 0) + TEXT_HINT_POINTS
    return {number: min(MAX_HINT_POINTS, shared) for number, shared in points.items()}


def usage_points(use: UsageRecord, now: float) -> int:
    """Days are counted whole, so that a prompt built twice in a row is the same."""
    recent = RECENCY_POINTS[bisect_right(RECENCY_DAYS, (now - use.last) // DAY)]
    return recent + min(MAX_USE_POINTS, 2 * use.count.bit_length())


def _round_robin(shelf: IndexTable) -> Iterator[int]:
    runs = sorted(shelf.runs, key=lambda run: -SOURCE_POINTS[shelf.sources[run.root]])
    for _, same in groupby(runs, key=lambda run: SOURCE_POINTS[shelf.sources[run.root]]):
        for turn in zip_longest(*(run.numbers for run in same)):
            yield from (number for number in turn if number is not None)


# Skills that fit some words.

EXACT_NAME_SCORE = 100
NAME_WEIGHT, TAGS_WEIGHT, CATEGORY_WEIGHT, DESCRIPTION_WEIGHT = 6, 4, 3, 2


def search_skills(skills: Iterable[Skill], query: str, limit: int) -> list[Skill]:
    """The best first; those that share more of the words before those that share one often."""
    asked = list(dict.fromkeys(split_words(query)))
    asked = [word for word in asked if word not in COMMON_WORDS] or asked
    scored = [(_score(skill, asked), skill) for skill in skills]
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: (-pair[0], pair[1].name))
    return [skill for _, skill in best[:limit]]


def _score(skill: Skill, asked: list[str]) -> int:
    name = split_words(skill.name)
    places = (
        (NAME_WEIGHT, name),
        (TAGS_WEIGHT, split_words(" ".join(skill.tags))),
        (CATEGORY_WEIGHT, split_words(skill.category)),
        (DESCRIPTION_WEIGHT, split_words(skill.description)),
    )
    each = [sum(weight * match_word(word, found) for weight, found in places) for word in asked]
    matched = sum(map(bool, each))
    return sum(each) * matched + (EXACT_NAME_SCORE if asked == name else 0)


def hidden_skills(shelf: IndexTable, circle: VisibilityContext) -> AbstractSet[int]:
    """Those of the skills on a shelf that are not visible."""
    off = {shelf.numbers[name] for name in circle.disabled if name in shelf.numbers}
    return off.union(
        *(
            rule.numbers
            for rule in shelf.rules
            if platform_reason(rule.platforms, circle) or not conditions_met(rule, circle)
        )
    )


CATEGORY_CHARS = 60
"""Characters of what a category is for."""
CATEGORY_NAMES_CHARS = 200
"""Characters for the names of categories that are not listed whole."""
GENERAL = "general"
"""The heading of skills without a category."""
MIN_LINE_CHARS = 10
"""Fewer characters has no line of a skill."""

INTRODUCTION = """\
## Skills (mandatory)
Before you work, load each skill that fits even in part with skill_view(name), and follow it. \
Mend one that is wrong or outdated at once with skill_manage.
<available_skills>"""
END = "</available_skills>"
SHORT_TEXT = "Skills: find one with skills_list(query), load it with skill_view(name)."


def skills_prompt(
    shelf: IndexTable,
    circle: VisibilityContext,
    uses: Mapping[str, UsageRecord],
    budget: int,
    now: float,
    hints: Iterable[str] = (),
) -> str:
    """The prompt layer, with at most `budget` characters; "" when no skill is visible.

    `hints` are names of files and folders of the work at hand. The same inputs give the same text,
    in the same order.
    """
    hidden = hidden_skills(shelf, circle)
    count = len(shelf.names) - len(hidden)
    if not count:
        return ""
    if MIN_LINE_CHARS * count < budget:
        numbers = (number for number in range(len(shelf.names)) if number not in hidden)
        shown = {number: _line(shelf, number) for number in numbers}
        for described in (shelf.categories, {}):
            text = _join_layer(_category_lines(shelf, shown, described))
            if len(text) <= budget:
                return text
    order = rank_skills(shelf, uses, now, hints)
    return _fit_budget(shelf, (number for number in order if number not in hidden), hidden, budget)


def _fit_budget(
    shelf: IndexTable, order: Iterable[int], hidden: AbstractSet[int], budget: int
) -> str:
    """The first ones, as many as there is room for, and how many more there are."""
    left = dict.fromkeys((run.category for run in shelf.runs), 0)
    for run in shelf.runs:
        left[run.category] += len(run.numbers)
    for number in hidden:
        left[shelf.run_of(number).category] -= 1
    names = min(CATEGORY_NAMES_CHARS, len(_category_names(left)))
    room = budget - len(_join_layer([_remainder_line(sum(left.values()), "x" * names)]))
    taken: dict[int, str] = {}
    headed: set[str] = set()
    for number in order:
        category, line = shelf.run_of(number).category, _line(shelf, number)
        cost = len(line) + 1
        if category not in headed:
            cost += len(_heading(category)) + 1
        if cost > room:
            break
        room -= cost
        headed.add(category)
        taken[number] = line
        left[category] -= 1
    if not taken:
        return SHORT_TEXT if len(SHORT_TEXT) <= budget else ""
    rest = [category for category, count in left.items() if count]
    more = [_remainder_line(sum(left.values()), _category_names(rest))] if rest else []
    return _join_layer([*_category_lines(shelf, taken, {}), *more])


def _join_layer(lines: Iterable[str]) -> str:
    return "\n".join([INTRODUCTION, *lines, END])


def _category_lines(
    shelf: IndexTable, lines: Mapping[int, str], described: Mapping[str, str]
) -> Iterable[str]:
    """By category and name, whichever folder they come from."""
    by_category: dict[str, list[int]] = {}
    for number in lines:
        by_category.setdefault(shelf.run_of(number).category, []).append(number)
    for category in sorted(by_category):
        yield _heading(category, described.get(category, ""))
        members = sorted(by_category[category], key=shelf.names.__getitem__)
        yield from map(lines.__getitem__, members)


def _heading(category: str, about: str = "") -> str:
    return f"{category or GENERAL}: {_escape(shorten(about, CATEGORY_CHARS))}".rstrip()


def _line(shelf: IndexTable, number: int) -> str:
    return f"  - {shelf.names[number]}: {_escape(shelf.text_of(number))}"


def _escape(text: str) -> str:
    """It cannot end the list."""
    return text.replace("</", "<")


def _remainder_line(count: int, names: str) -> str:
    return (
        f"{count:,} more ({shorten(names, CATEGORY_NAMES_CHARS)}): skills_list(query) finds them."
    )


def _category_names(categories: Iterable[str]) -> str:
    return ", ".join(sorted(category or GENERAL for category in categories))


# The list for the prompt, kept from one process to the next: most begin where another began.

MAX_CACHED_PROMPTS = 8
"""Lists that are kept: of the folders and platforms that were used last."""


def _code_times() -> list[float]:
    """Which code makes lists; it may be another after an update that changed no version."""
    makers = (__file__, str(skill.__file__), str(index.__file__))
    return [Path(file).stat().st_mtime if Path(file).exists() else 0.0 for file in makers]


CODE_TIMES = _code_times()
"""From the start on: what is loaded stays, whatever becomes of the files."""

_prompts_decoder = msgspec.json.Decoder(dict[str, str])

log = logging.getLogger(__name__)


class SkillsPromptCache:
    """`file` may be missing, damaged or unwritable: then the list is made each time."""

    def __init__(self, skills: SkillIndex, uses: SkillUsage, file: Path) -> None:
        self._skills, self._uses, self._file = skills, uses, file
        self._last = ("", "")

    def text(
        self, circle: VisibilityContext, budget: int, now: float, hints: Iterable[str] = ()
    ) -> str:
        """See `skills_index`."""
        shelf, uses, named = self._skills.shelf(), self._uses.all(), tuple(hints)
        key = _prompt_key(shelf, circle, uses, budget, now, named)
        if key != self._last[0]:
            kept = self._kept()
            text = kept.get(key)
            if text is None:
                text = skills_prompt(shelf, circle, uses, budget, now, named)
                self._keep({key: text, **kept})
            self._last = key, text
        return self._last[1]

    def _kept(self) -> dict[str, str]:
        try:
            return _prompts_decoder.decode(self._file.read_bytes())
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}

    def _keep(self, texts: Mapping[str, str]) -> None:
        """Not for sure: what comes out damaged is made again."""
        newest = dict(list(texts.items())[:MAX_CACHED_PROMPTS])
        try:
            if self._file.parent.is_dir():
                self._file.write_bytes(msgspec.json.encode(newest))
        except OSError as error:
            log.debug("the list of skills is not kept: %s", error)


def _prompt_key(
    shelf: IndexTable,
    circle: VisibilityContext,
    uses: Mapping[str, UsageRecord],
    budget: int,
    now: float,
    hints: tuple[str, ...],
) -> str:
    """All that makes a list what it is, our own code included."""
    made_of = (
        shelf.made_for,
        shelf.rows_sum,
        shelf.categories,
        circle.system,
        [sorted(each) for each in (circle.tools, circle.toolsets, circle.disabled)],
        [(name, usage_points(use, now)) for name, use in uses.items() if use.count],
        budget,
        hints,
        CODE_TIMES,
    )
    return hashlib.sha256(msgspec.json.encode(made_of)).hexdigest()
