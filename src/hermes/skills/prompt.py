"""The list of skills in the prompt: ranking, rendering within a budget, and search."""

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

# Ranking, for when the list has no room for all skills

DAY = 86_400
RECENCY_DAYS, RECENCY_POINTS = (1, 7, 30, 90), (10, 8, 5, 2, 0)
"""Points for a last use within so many days; the last number is for older uses."""
MAX_USE_POINTS = 10
"""Limit of the points for frequent use, which grow logarithmically."""
NAME_HINT_POINTS, TEXT_HINT_POINTS, MAX_HINT_POINTS = 6, 3, 24
"""Points for a word shared with the hints, in the name or elsewhere, and their limit."""
SOURCE_POINTS = {
    Source.USER: 2,
    Source.HUB: 1,
    Source.EXTERNAL: 1,
    Source.PLUGIN: 1,
    Source.BUNDLED: 0,
}
"""Points for the source: with all else equal, the user's own skills come first."""


def rank_skills(
    table: IndexTable, usage: Mapping[str, UsageRecord], now: float, hints: Iterable[str]
) -> Iterator[int]:
    """Yield the numbers of all skills, the most useful first.

    Skills that were used or match the hints come first, by points. The others follow by source,
    with the categories taking turns so that each is represented.
    """
    points = hint_points(table, hints)
    for name, use in usage.items():
        number = table.numbers.get(name)
        if number is not None and use.count:
            points[number] = points.get(number, 0) + usage_points(use, now)
    origins: list[int] = []
    for run in table.ranges:
        origins += [SOURCE_POINTS[table.sources[run.root]]] * len(run.numbers)
    order = sorted(points)
    order.sort(key=lambda number: points[number] + origins[number], reverse=True)
    yield from order
    yield from (number for number in _round_robin(table) if number not in points)


def hint_points(table: IndexTable, hints: Iterable[str]) -> dict[int, int]:
    """Return points for the skills that share words with the file and folder names in `hints`."""
    points: dict[int, int] = {}
    for named, other in table.keyword_matches(hint_stems(hints)):
        for number in named:
            points[number] = points.get(number, 0) + NAME_HINT_POINTS
        for number in other:
            points[number] = points.get(number, 0) + TEXT_HINT_POINTS
    return {number: min(MAX_HINT_POINTS, shared) for number, shared in points.items()}


def usage_points(use: UsageRecord, now: float) -> int:
    """Return points for a use. Whole days are counted so that prompts built in a row are equal."""
    recent = RECENCY_POINTS[bisect_right(RECENCY_DAYS, (now - use.last) // DAY)]
    return recent + min(MAX_USE_POINTS, 2 * use.count.bit_length())


def _round_robin(table: IndexTable) -> Iterator[int]:
    ranges = sorted(table.ranges, key=lambda run: -SOURCE_POINTS[table.sources[run.root]])
    for _, same in groupby(ranges, key=lambda run: SOURCE_POINTS[table.sources[run.root]]):
        for turn in zip_longest(*(run.numbers for run in same)):
            yield from (number for number in turn if number is not None)


# Search

EXACT_NAME_SCORE = 100
NAME_WEIGHT, TAGS_WEIGHT, CATEGORY_WEIGHT, DESCRIPTION_WEIGHT = 6, 4, 3, 2


def search_skills(skills: Iterable[Skill], query: str, limit: int) -> list[Skill]:
    """Return the best matches first; matching more words outweighs matching one word often."""
    query_words = list(dict.fromkeys(split_words(query)))
    query_words = [word for word in query_words if word not in COMMON_WORDS] or query_words
    scored = [(_score(skill, query_words), skill) for skill in skills]
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: (-pair[0], pair[1].name))
    return [skill for _, skill in best[:limit]]


def _score(skill: Skill, query_words: list[str]) -> int:
    name = split_words(skill.name)
    places = (
        (NAME_WEIGHT, name),
        (TAGS_WEIGHT, split_words(" ".join(skill.tags))),
        (CATEGORY_WEIGHT, split_words(skill.category)),
        (DESCRIPTION_WEIGHT, split_words(skill.description)),
    )
    each = [
        sum(weight * match_word(word, found) for weight, found in places) for word in query_words
    ]
    matched = sum(map(bool, each))
    return sum(each) * matched + (EXACT_NAME_SCORE if query_words == name else 0)


def hidden_skills(table: IndexTable, context: VisibilityContext) -> AbstractSet[int]:
    """Return the numbers of the skills that are not visible."""
    off = {table.numbers[name] for name in context.disabled if name in table.numbers}
    return off.union(
        *(
            rule.numbers
            for rule in table.rules
            if platform_reason(rule.platforms, context) or not conditions_met(rule, context)
        )
    )


CATEGORY_CHARS = 60
"""Characters of a category description."""
CATEGORY_NAMES_CHARS = 200
"""Characters for the names of categories that are not listed completely."""
GENERAL = "general"
"""The heading of skills without a category."""
MIN_LINE_CHARS = 10
"""No line of a skill is shorter."""

INTRODUCTION = """\
## Skills (mandatory)
Before you work, load each skill that fits even in part with skill_view(name), and follow it. \
Mend one that is wrong or outdated at once with skill_manage.
<available_skills>"""
END = "</available_skills>"
SHORT_TEXT = "Skills: find one with skills_list(query), load it with skill_view(name)."


def skills_prompt(
    table: IndexTable,
    context: VisibilityContext,
    usage: Mapping[str, UsageRecord],
    budget: int,
    now: float,
    hints: Iterable[str] = (),
) -> str:
    """Return the prompt layer with at most `budget` characters, or "" when no skill is visible.

    `hints` are names of files and folders in the working folder. Equal inputs give equal texts.
    """
    hidden = hidden_skills(table, context)
    count = len(table.names) - len(hidden)
    if not count:
        return ""
    if MIN_LINE_CHARS * count < budget:
        numbers = (number for number in range(len(table.names)) if number not in hidden)
        shown = {number: _line(table, number) for number in numbers}
        for described in (table.categories, {}):
            text = _join_layer(_category_lines(table, shown, described))
            if len(text) <= budget:
                return text
    order = rank_skills(table, usage, now, hints)
    return _fit_budget(table, (number for number in order if number not in hidden), hidden, budget)


def _fit_budget(
    table: IndexTable, order: Iterable[int], hidden: AbstractSet[int], budget: int
) -> str:
    """List as many skills of `order` as fit, and the number of the others."""
    left = dict.fromkeys((run.category for run in table.ranges), 0)
    for run in table.ranges:
        left[run.category] += len(run.numbers)
    for number in hidden:
        left[table.range_of(number).category] -= 1
    names = min(CATEGORY_NAMES_CHARS, len(_category_names(left)))
    room = budget - len(_join_layer([_remainder_line(sum(left.values()), "x" * names)]))
    taken: dict[int, str] = {}
    headed: set[str] = set()
    for number in order:
        category, line = table.range_of(number).category, _line(table, number)
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
    return _join_layer([*_category_lines(table, taken, {}), *more])


def _join_layer(lines: Iterable[str]) -> str:
    return "\n".join([INTRODUCTION, *lines, END])


def _category_lines(
    table: IndexTable, lines: Mapping[int, str], described: Mapping[str, str]
) -> Iterable[str]:
    """Yield lines by category and name, regardless of their roots."""
    by_category: dict[str, list[int]] = {}
    for number in lines:
        by_category.setdefault(table.range_of(number).category, []).append(number)
    for category in sorted(by_category):
        yield _heading(category, described.get(category, ""))
        members = sorted(by_category[category], key=table.names.__getitem__)
        yield from map(lines.__getitem__, members)


def _heading(category: str, about: str = "") -> str:
    return f"{category or GENERAL}: {_escape(shorten(about, CATEGORY_CHARS))}".rstrip()


def _line(table: IndexTable, number: int) -> str:
    return f"  - {table.names[number]}: {_escape(table.summary_of(number))}"


def _escape(text: str) -> str:
    """Remove `</`, so that a description cannot close the list."""
    return text.replace("</", "<")


def _remainder_line(count: int, names: str) -> str:
    return (
        f"{count:,} more ({shorten(names, CATEGORY_NAMES_CHARS)}): skills_list(query) finds them."
    )


def _category_names(categories: Iterable[str]) -> str:
    return ", ".join(sorted(category or GENERAL for category in categories))


# Cache of finished lists: most processes start in a folder where another one started

MAX_CACHED_PROMPTS = 8
"""Lists in the cache file, for the most recently used folders and platforms."""


def _code_times() -> list[float]:
    """Return the modification times of the code that makes lists.

    An update may change the code without changing the version.
    """
    makers = (__file__, str(skill.__file__), str(index.__file__))
    return [Path(file).stat().st_mtime if Path(file).exists() else 0.0 for file in makers]


CODE_TIMES = _code_times()
"""Taken at import: the loaded code stays the same when the files change."""

_prompts_decoder = msgspec.json.Decoder(dict[str, str])

log = logging.getLogger(__name__)


class SkillsPromptCache:
    """Returns `skills_prompt` from a cache file.

    A missing, damaged or unwritable file is ignored.
    """

    def __init__(self, skills: SkillIndex, usage: SkillUsage, file: Path) -> None:
        self._skills, self._usage, self._file = skills, usage, file
        self._last = ("", "")

    def text(
        self, context: VisibilityContext, budget: int, now: float, hints: Iterable[str] = ()
    ) -> str:
        """Return the prompt layer; see `skills_prompt`."""
        table, usage, named = self._skills.table(), self._usage.all(), tuple(hints)
        key = _prompt_key(table, context, usage, budget, now, named)
        if key != self._last[0]:
            cached = self._load()
            text = cached.get(key)
            if text is None:
                text = skills_prompt(table, context, usage, budget, now, named)
                self._save({key: text, **cached})
            self._last = key, text
        return self._last[1]

    def _load(self) -> dict[str, str]:
        try:
            return _prompts_decoder.decode(self._file.read_bytes())
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}

    def _save(self, texts: Mapping[str, str]) -> None:
        """Write without fsync: a damaged file is ignored."""
        newest = dict(list(texts.items())[:MAX_CACHED_PROMPTS])
        try:
            if self._file.parent.is_dir():
                self._file.write_bytes(msgspec.json.encode(newest))
        except OSError as error:
            log.debug("the list of skills cannot be cached: %s", error)


def _prompt_key(
    table: IndexTable,
    context: VisibilityContext,
    usage: Mapping[str, UsageRecord],
    budget: int,
    now: float,
    hints: tuple[str, ...],
) -> str:
    """Return a hash of everything a list depends on, including our own code."""
    made_of = (
        table.key,
        table.rows_checksum,
        table.categories,
        context.system,
        [sorted(each) for each in (context.tools, context.toolsets, context.disabled)],
        [(name, usage_points(use, now)) for name, use in usage.items() if use.count],
        budget,
        hints,
        CODE_TIMES,
    )
    return hashlib.sha256(msgspec.json.encode(made_of)).hexdigest()
