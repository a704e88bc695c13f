"""The list of skills in the prompt: ranking, rendering within a budget, and search."""

import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, zip_longest
from operator import attrgetter
from pathlib import Path

import msgspec

from hermes.skills import index as index_module
from hermes.skills.index import (
    COMMON_WORDS,
    FileState,
    SkillIndex,
    SkillListing,
    hint_stems,
    match_word,
    shorten,
    split_words,
)
from hermes.skills.skill import SkillEntry, SkillUsage, Source, UsageRecord, VisibilityContext

log = logging.getLogger(__name__)

# Ranking, for when the list has no room for all skills

DAY = 86_400
RECENCY_DAYS, RECENCY_POINTS = (1, 7, 30, 90), (10, 8, 5, 2, 0)
"""Points for a last use within so many days; the last number is for older uses."""
MAX_USE_POINTS = 10  #: Limit of the points for frequent use, which grow logarithmically.
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
    listing: SkillListing, usage: Mapping[str, UsageRecord], now: float, hints: Iterable[str]
) -> Iterator[int]:
    """Yield the positions of all skills in the listing, the most useful first.

    Skills that were used or match the hints come first, by points. The others follow by source,
    with the categories taking turns so that each is represented.
    """
    entries = listing.entries
    points = hint_points(listing, hints)
    for name, use in usage.items():
        position = listing.positions.get(name)
        if position is not None and use.count:
            points[position] = points.get(position, 0) + usage_points(use, now)
    yield from sorted(points, key=lambda at: (-points[at] - SOURCE_POINTS[entries[at].source], at))
    yield from (position for position in listing.rotation if position not in points)


def hint_points(listing: SkillListing, hints: Iterable[str]) -> dict[int, int]:
    """Return points for the skills that share words with the file and folder names in `hints`."""
    points: dict[int, int] = {}
    for stem in hint_stems(hints):
        named, other = listing.keyword_matches(stem)
        for position in named:
            points[position] = points.get(position, 0) + NAME_HINT_POINTS
        for position in other:
            points[position] = points.get(position, 0) + TEXT_HINT_POINTS
    return {position: min(MAX_HINT_POINTS, shared) for position, shared in points.items()}


def usage_points(use: UsageRecord, now: float) -> int:
    """Return points for a use. Whole days are counted so that prompts built in a row are equal."""
    recent = RECENCY_POINTS[bisect_right(RECENCY_DAYS, (now - use.last) // DAY)]
    return recent + min(MAX_USE_POINTS, 2 * use.count.bit_length())


def round_robin(entries: Sequence[SkillEntry]) -> Iterator[int]:
    """Yield positions by source; in each source the categories of its roots take turns."""
    by_points: dict[int, dict[tuple[int, str], list[int]]] = {}
    for position, entry in enumerate(entries):
        categories = by_points.setdefault(SOURCE_POINTS[entry.source], {})
        categories.setdefault((entry.root, entry.category), []).append(position)
    for points in sorted(by_points, reverse=True):
        for turn in zip_longest(*by_points[points].values()):
            yield from (position for position in turn if position is not None)


# Search

EXACT_NAME_SCORE = 100
NAME_WEIGHT, TAGS_WEIGHT, CATEGORY_WEIGHT, DESCRIPTION_WEIGHT = 6, 4, 3, 2


def search_skills(skills: Iterable[SkillEntry], query: str, limit: int) -> list[SkillEntry]:
    """Return the best matches first; matching more words outweighs matching one word often."""
    query_words = list(dict.fromkeys(split_words(query)))
    query_words = [word for word in query_words if word not in COMMON_WORDS] or query_words
    scored = [(_score(skill, query_words), skill) for skill in skills]
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: (-pair[0], pair[1].name))
    return [skill for _, skill in best[:limit]]


def _score(skill: SkillEntry, query_words: list[str]) -> int:
    name = split_words(skill.name)
    places = (
        (NAME_WEIGHT, name),
        (TAGS_WEIGHT, split_words(skill.tags)),
        (CATEGORY_WEIGHT, split_words(skill.category)),
        (DESCRIPTION_WEIGHT, split_words(skill.description)),
    )
    each = [
        sum(weight * match_word(word, found) for weight, found in places) for word in query_words
    ]
    matched = sum(map(bool, each))
    return sum(each) * matched + (EXACT_NAME_SCORE if query_words == name else 0)


SUMMARY_CHARS = 80  #: Characters of the description of a skill.
CATEGORY_CHARS = 60  #: Characters of a category description.
CATEGORY_NAMES_CHARS = 200
"""Characters for the names of categories that are not listed completely."""
GENERAL = "general"  #: The heading of skills without a category.
MIN_LINE_CHARS = 10  #: No line of a skill is shorter.

INTRODUCTION = """\
## Skills (mandatory)
Before you start, load every skill that fits the task, even partly, with skill_view(name), and \
follow it.
<available_skills>"""
END = "</available_skills>"
SHORT_TEXT = "Skills: find one with skills_list(query), load it with skill_view(name)."


MAX_TEXTS = 8  #: Finished texts in the cache file: of the folders and platforms used last.


class _FinishedTexts(msgspec.Struct, frozen=True):
    """The content of the cache file."""

    state: FileState  #: The skills that the texts list.
    texts: dict[str, str]  #: By their other inputs, the newest first.


_texts_decoder = msgspec.json.Decoder(_FinishedTexts)


class SkillsPrompt:
    """The prompt layer for the skills of an index.

    Finished texts are kept in `file`, because most sessions begin like an earlier one. Calls block
    and may come from any thread.
    """

    def __init__(self, index: SkillIndex, usage: SkillUsage, file: Path) -> None:
        self._index, self._usage, self._file = index, usage, file
        self._finished: _FinishedTexts | None = None
        # An update can change the code without changing the version.
        modules = (__file__, index_module.__file__)
        self._code = [Path(module).stat().st_mtime_ns for module in modules]

    def text(
        self, context: VisibilityContext, budget: int, now: float, hints: Iterable[str] = ()
    ) -> str:
        """Return `skills_prompt` for the present skills and their use."""
        usage, hints = self._usage.all(), list(hints)
        names = [sorted(each) for each in (context.tools, context.toolsets, context.disabled)]
        points = {name: usage_points(use, now) for name, use in usage.items() if use.count}
        inputs = repr((self._code, context.system, names, points, budget, hints))
        finished = self._finished or self._load()
        current = finished.state if finished and self._index.is_current(finished.state) else None
        texts = finished.texts if finished and current else {}
        if inputs not in texts:
            listing = self._index.listing(current)
            text = skills_prompt(listing, context, usage, budget, now, hints)
            older = islice(texts.items(), MAX_TEXTS - 1) if listing.state == current else ()
            texts = {inputs: text, **dict(older)}
            finished = _FinishedTexts(listing.state, texts)
            self._save(finished)
        self._finished = finished
        return texts[inputs]

    def _load(self) -> _FinishedTexts | None:
        try:
            return _texts_decoder.decode(self._file.read_bytes())
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def _save(self, finished: _FinishedTexts) -> None:
        """Write the cache file. One that is damaged in a crash counts as missing."""
        try:
            self._file.touch(mode=0o600)
            self._file.write_bytes(msgspec.json.encode(finished))
        except (OSError, UnicodeEncodeError) as error:
            log.debug("the list of skills cannot be cached: %s", error)


def skills_prompt(
    listing: SkillListing,
    context: VisibilityContext,
    usage: Mapping[str, UsageRecord],
    budget: int,
    now: float,
    hints: Iterable[str] = (),
) -> str:
    """Return the prompt layer with at most `budget` characters, or "" when no skill is visible.

    `hints` are names of files and folders in the working folder. Equal inputs give equal texts.
    """
    entries, hidden = listing.entries, listing.hidden(context)
    if len(entries) == len(hidden):
        return ""
    if MIN_LINE_CHARS * (len(entries) - len(hidden)) < budget:
        visible = [entry for at, entry in enumerate(entries) if at not in hidden]
        for described in (listing.categories, {}):
            text = _join_layer(_category_lines(visible, described))
            if len(text) <= budget:
                return text
    order = (entries[at] for at in rank_skills(listing, usage, now, hints) if at not in hidden)
    counts = Counter(map(attrgetter("category"), entries))
    counts.subtract(entries[at].category for at in hidden)
    return _fit_budget(order, +counts, budget)


def _fit_budget(order: Iterable[SkillEntry], left: Counter[str], budget: int) -> str:
    """List as many skills of `order` as fit, and the number of the others.

    `left` counts the skills of each category.
    """
    names = min(CATEGORY_NAMES_CHARS, len(_category_names(left)))
    room = budget - len(_join_layer([_remainder_line(left.total(), "x" * names)]))
    taken: list[SkillEntry] = []
    headed: set[str] = set()
    for entry in order:
        category = entry.category
        cost = len(_line(entry)) + 1
        if category not in headed:
            cost += len(_heading(category)) + 1
        if cost > room:
            break
        room -= cost
        headed.add(category)
        taken.append(entry)
        left[category] -= 1
    if not taken:
        return SHORT_TEXT if len(SHORT_TEXT) <= budget else ""
    rest = [category for category, count in left.items() if count]
    more = [_remainder_line(left.total(), _category_names(rest))] if rest else []
    return _join_layer([*_category_lines(taken, {}), *more])


def _join_layer(lines: Iterable[str]) -> str:
    return "\n".join([INTRODUCTION, *lines, END])


def _category_lines(entries: Iterable[SkillEntry], described: Mapping[str, str]) -> Iterator[str]:
    """Yield lines by category and name, regardless of their roots."""
    ordered = sorted(entries, key=lambda entry: (entry.category, entry.name))
    for category, members in groupby(ordered, key=lambda entry: entry.category):
        yield _heading(category, described.get(category, ""))
        yield from map(_line, members)


def _heading(category: str, about: str = "") -> str:
    return f"{category or GENERAL}: {_escape(shorten(about, CATEGORY_CHARS))}".rstrip()


def _line(entry: SkillEntry) -> str:
    return f"  - {entry.name}: {_escape(shorten(entry.description, SUMMARY_CHARS))}"


def _escape(text: str) -> str:
    """Remove `</`, so that a description cannot close the list."""
    return text.replace("</", "<")


def _remainder_line(count: int, names: str) -> str:
    return (
        f"{count:,} more ({shorten(names, CATEGORY_NAMES_CHARS)}): skills_list(query) finds them."
    )


def _category_names(categories: Iterable[str]) -> str:
    return ", ".join(sorted(category or GENERAL for category in categories))
