"""The list of skills in the prompt: ranking, rendering within a budget, and search."""

import logging
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import groupby, islice, zip_longest
from math import log2
from operator import attrgetter
from pathlib import Path

import msgspec

from hermes.skills import index as index_module
from hermes.skills.index import (
    FileState,
    SkillIndex,
    SkillListing,
    hint_stems,
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
        # Short descriptions come first, so that more of them fit.
        members = (
            sorted(each, key=lambda at: (len(entries[at].description), entries[at].name))
            for each in by_points[points].values()
        )
        for turn in zip_longest(*members):
            yield from (position for position in turn if position is not None)


# Search

NAME_WEIGHT, TAGS_WEIGHT, DESCRIPTION_WEIGHT, CATEGORY_WEIGHT = 6, 4, 3, 3
HEADING_WEIGHT, TEXT_WEIGHT = 2, 1
SYNONYM_FACTOR = 0.7  #: A match of a synonym counts as much of a match of the word itself.
MIN_SHARE_OF_BEST = 0.25  #: Matches with a smaller part of the best score are left out.
MAX_TEXTS_READ = 500  #: Skills whose instructions are searched; of the others only the head is.
MAX_TEXT_CHARS = 20_000  #: Characters of the instructions that are searched.

_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
_ENDINGS = ("ations", "ation", "ings", "ing", "ments", "ment", "ers", "er", "ed", "es", "s", "e")
MIN_ROOT = 3  #: Characters that are left of a word without its ending.

_FILLERS = """
    about after all also am any at because before can could did do does doesn don done every for
    from get give going got had has have he help her him his how i if im in is it its just keep
    keeps know let ll look may me my need needs new no not of off on one or our out over please re
    s she should show shows so some something such t tell than that the their them then there
    these they thing this those through to too two up us use using ve very want wants was way we
    well were what when where which who why will with without would you your
"""
"""Words of questions and requests that do not tell skills apart."""

_SYNONYMS = """
    crash error bug fail exception traceback broken debug debugging throw
    mail email inbox gmail
    picture photo image
    film movie video clip
    sound music audio song mp3
    powerpoint pptx slide presentation talk deck
    docx word document
    excel xlsx spreadsheet workbook sheet
    csv table row column
    chart graph plot diagram
    lamp light bulb
    heating temperature warm cold thermostat
    appointment event calendar schedule meeting
    todo task reminder remind errand
    meeting call minutes recording
    server host remote machine vps
    connect login ssh
    shrink compress smaller reduce resize
    website site homepage web page internet
    paper article study preprint
    database sql db sqlite
    slow fast faster speed performance profile benchmark
    kubernetes k8s pod cluster
    postgres postgresql psql
    certificate tls https ssl
    dependency package pip library install
    vulnerability audit security
    alert notification notify push
    train tune finetune
    summarise summarize summary transcript
    caption subtitle transcript
    news headline feed rss
    disk storage space
    backup copy restore save
    transfer move copy upload rsync
    download fetch scrape crawl
    memory ram
    password secret credential
    notebook jupyter
    transcribe dictation speech
    translate language
    weather forecast
    ticket issue
    docker container
    undo recover delete revert
    refactor simplify rename readable
    documentation readme guide manual explain
    letter text essay
    compile build
    number figure statistics
"""
"""Words with a similar meaning, one group on each line."""


@lru_cache(20_000)
def _word_root(word: str) -> str:
    """Return a word without its ending: `testing` and `tests` become `test`."""
    if not word.isascii():
        return word
    if word.endswith(("ies", "ied")) and len(word) > MIN_ROOT + 1:
        return f"{word[:-3]}y"
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= MIN_ROOT:
            word = word[: -len(ending)]
            break
    doubled = len(word) > MIN_ROOT and word[-1] == word[-2] and word[-1] not in "aeiouls"
    return word[:-1] if doubled else word


@cache
def _fillers() -> frozenset[str]:
    return frozenset(_FILLERS.split())


@cache
def _synonyms() -> dict[str, set[str]]:
    """Return the roots of similar words by the root of each word."""
    found: dict[str, set[str]] = {}
    for line in _SYNONYMS.strip().splitlines():
        group = set(map(_word_root, line.split()))
        for root in group:
            found.setdefault(root, set()).update(group)
    return found


def search_skills(
    skills: Iterable[SkillEntry],
    query: str,
    limit: int,
    read: Callable[[SkillEntry], str] = lambda _entry: "",
) -> list[SkillEntry]:
    """Return the best matches first, before them a skill with exactly this name.

    Rare words count more than common ones, and skills that match more words come first.
    `read` returns the instructions of a skill.
    """
    words = list(dict.fromkeys(split_words(query)))
    words = [word for word in words if word not in _fillers()] or words
    found = [
        (skill, _weights(skill, read(skill) if at < MAX_TEXTS_READ else ""))
        for at, skill in enumerate(skills)
    ]
    frequency = Counter(root for _, weights in found for root in weights)
    roots = dict.fromkeys(map(_word_root, words))
    alike = {root: _synonyms().get(root, set()) - {root} for root in roots}

    def rarity(root: str) -> float:
        return log2(1 + len(found) / (1 + frequency[root]))

    def score(weights: Mapping[str, int]) -> float:
        each = []
        for root in roots:
            points = rarity(root) * _match_root(root, weights)
            others = (rarity(other) * weights.get(other, 0) for other in alike[root])
            each.append(max(points, SYNONYM_FACTOR * max(others, default=0.0)))
        return sum(each) * sum(map(bool, each)) / (len(each) or 1)

    scored = [(score(weights), skill) for skill, weights in found]
    least = MIN_SHARE_OF_BEST * max((points for points, _ in scored), default=0.0)
    best = [pair for pair in scored if pair[0] and pair[0] >= least]
    best.sort(key=lambda pair: (split_words(pair[1].name) != words, -pair[0], pair[1].name))
    return [skill for _, skill in best[:limit]]


def _weights(skill: SkillEntry, text: str) -> dict[str, int]:
    """Return the weight of each word of a skill, by its root: that of the best place it is in."""
    text = text[:MAX_TEXT_CHARS]
    places = (
        (TEXT_WEIGHT, text),
        (HEADING_WEIGHT, " ".join(_HEADING.findall(text))),
        (CATEGORY_WEIGHT, skill.category),
        (DESCRIPTION_WEIGHT, skill.description),
        (TAGS_WEIGHT, skill.tags),
        (NAME_WEIGHT, skill.name),
    )
    return {
        root: weight
        for weight, words in places
        for root in map(_word_root, dict.fromkeys(split_words(words)))
    }


def _match_root(root: str, weights: Mapping[str, int]) -> int:
    """Return the weight of a word. Scripts without spaces between words match in part."""
    if root.isascii():
        return weights.get(root, 0)
    return max((weight for each, weight in weights.items() if root in each), default=0)


# Rendering

SUMMARY_CHARS = (80, 60, 45)
"""Characters of the description of a skill. A shorter limit is used when not all skills fit."""
MAX_NAMES_SHARE = 2 / 3
"""Part of the budget for names when some have to be left out; the rest is for descriptions."""
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

    Descriptions are shortened and then left out before a skill is left out: the most useful skills
    keep theirs, the others are listed by name. `hints` are names of files and folders in the
    working folder. Equal inputs give equal texts.
    """
    entries, hidden = listing.entries, listing.hidden(context)
    if len(entries) == len(hidden):
        return ""
    if MIN_LINE_CHARS * (len(entries) - len(hidden)) < budget:
        visible = [entry for at, entry in enumerate(entries) if at not in hidden]
        forms = ((SUMMARY_CHARS[0], listing.categories), *((limit, {}) for limit in SUMMARY_CHARS))
        for limit, about in forms:
            described = {entry.name: _summary(entry, limit) for entry in visible}
            text = _join_layer(_category_lines(visible, described, about))
            if len(text) <= budget:
                return text
    order = (entries[at] for at in rank_skills(listing, usage, now, hints) if at not in hidden)
    counts = Counter(map(attrgetter("category"), entries))
    counts.subtract(entries[at].category for at in hidden)
    return _fit_budget(order, +counts, budget)


def _fit_budget(order: Iterable[SkillEntry], left: Counter[str], budget: int) -> str:
    """List as many skills of `order` as fit by name, the first of them with a description, and the
    number of the others.

    `left` counts the skills of each category.
    """
    headings = sum(len(_heading(category)) + 1 for category in left)
    room = budget - len(_join_layer([])) - headings
    ordered = list(islice(order, budget))  # a name takes at least one character
    names = sum(len(entry.name) + len(", ") for entry in ordered)
    if names > room or len(ordered) < left.total():
        remainder = _remainder_line(left.total(), _category_names(left))
        room = budget - len(_join_layer([remainder]))
        ordered = _first_names(ordered, int(room * MAX_NAMES_SHARE))
        headings = sum(len(_heading(name)) + 1 for name in {each.category for each in ordered})
        room -= headings
        names = sum(len(entry.name) + len(", ") for entry in ordered)
    if not ordered:
        return SHORT_TEXT if len(SHORT_TEXT) <= budget else ""
    room -= names
    described: dict[str, str] = {}
    for entry in ordered:
        summary = _summary(entry, SUMMARY_CHARS[-1])
        cost = len(_line(entry.name, summary)) + 1 - len(entry.name) - len(", ")
        if cost <= room:
            room -= cost
            described[entry.name] = summary
    left.subtract(entry.category for entry in ordered)
    more = [_remainder_line(left.total(), _category_names(+left))] if +left else []
    return _join_layer([*_category_lines(ordered, described, {}), *more])


def _first_names(order: Iterable[SkillEntry], room: int) -> list[SkillEntry]:
    """Return the skills whose names and categories fit into `room` characters."""
    taken: list[SkillEntry] = []
    headed: set[str] = set()
    for entry in order:
        room -= len(entry.name) + len(", ")
        if entry.category not in headed:
            room -= len(_heading(entry.category)) + 1
        if room < 0:
            break
        headed.add(entry.category)
        taken.append(entry)
    return taken


def _join_layer(lines: Iterable[str]) -> str:
    return "\n".join([INTRODUCTION, *lines, END])


def _category_lines(
    entries: Iterable[SkillEntry], described: Mapping[str, str], about: Mapping[str, str]
) -> Iterator[str]:
    """Yield lines by category and name, regardless of their roots.

    `described` has the descriptions of skills by name; the others follow their category. `about`
    describes categories.
    """
    ordered = sorted(entries, key=lambda entry: (entry.category, entry.name))
    for category, group in groupby(ordered, key=lambda entry: entry.category):
        members = [entry.name for entry in group]
        names = ", ".join(name for name in members if name not in described)
        yield f"{_heading(category, about.get(category, ''))} {names}".rstrip()
        yield from (_line(name, described[name]) for name in members if name in described)


def _heading(category: str, about: str = "") -> str:
    return f"{category or GENERAL}: {_escape(shorten(about, CATEGORY_CHARS))}".rstrip()


def _line(name: str, summary: str) -> str:
    return f"  - {name}: {summary}"


def _summary(entry: SkillEntry, limit: int) -> str:
    return _escape(shorten(entry.description, limit))


def _escape(text: str) -> str:
    """Remove `</`, so that a description cannot close the list."""
    return text.replace("</", "<")


def _remainder_line(count: int, names: str) -> str:
    return (
        f"{count:,} more ({shorten(names, CATEGORY_NAMES_CHARS)}): skills_list(query) finds them."
    )


def _category_names(categories: Iterable[str]) -> str:
    return ", ".join(sorted(category or GENERAL for category in categories))
