"""Finding facts: by words, by what they are about, by meaning; trusted and fresh ones first."""

import math
from collections.abc import Collection, Sequence
from itertools import pairwise
from operator import attrgetter

import msgspec

from hermes.memory.holographic.extraction import extract_entities, normalize, significant_words
from hermes.memory.holographic.store import (
    MIN_RECALL_TRUST,
    SOURCE_NOTES,
    Fact,
    Table,
    match_words,
    parse_id,
    similar_facts,
)

ABOUT = 0.5
"""What is added for a fact about something that the query names."""
LINKED = 0.4
"""Share of its relevance that a fact passes on to those linked with it."""
MOST_LINKED = 20
"""Something that more facts are about links none of them."""
NEARLY_AS_GOOD = 0.35
"""Share of the best score a fact needs to be recalled with it."""
MOST_ASKED = 1000
"""Characters of a query at its beginning, and as many at its end; what is between is pasted."""
LONG_QUERY = 8
"""Words from which one word in common is a coincidence."""


class FactHit(msgspec.Struct, frozen=True):
    fact: Fact
    score: float


def search(table: Table, query: str, limit: int) -> list[FactHit]:
    """The best facts, outdated ones too, behind the others."""
    if len(query) > 2 * MOST_ASKED:
        query = f"{query[:MOST_ASKED]}\n{query[-MOST_ASKED:]}"
    now, hits = table.now(), []
    for fact_id, relevance in _relevance(table, query).items():
        fact = table.get(fact_id)
        if fact is not None:
            score = relevance * fact.weight(now) * (0.3 if fact.replaced_by else 1)
            hits.append(FactHit(fact, score))
    hits.sort(key=attrgetter("score"), reverse=True)
    return hits[:limit]


def recall(table: Table, query: str, limit: int) -> list[Fact]:
    """What a turn should know: nothing outdated, doubtful or far-fetched, and no notes, which
    stand in the prompt anyway."""
    hits = [
        hit
        for hit in search(table, query, 3 * limit)
        if hit.fact.trust >= MIN_RECALL_TRUST
        and not hit.fact.replaced_by
        and not hit.fact.source.startswith(SOURCE_NOTES)
    ]
    return [hit.fact for hit in hits if hit.score >= NEARLY_AS_GOOD * hits[0].score][:limit]


def format_recalled(
    facts: Sequence[Fact], room: int, known: Collection[int]
) -> tuple[str, list[int]]:
    """A line for each fact that fits into `room` characters, and which of them are not `known`."""
    lines: list[str] = []
    new: list[int] = []
    for fact in facts:
        line = f"- {fact.told()}"
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
        if fact.id not in known:
            new.append(fact.id)
    return "\n".join(lines), new


def find_related(table: Table, subject: str, limit: int) -> list[FactHit]:
    """The facts about something, or about the same as a fact whose number is given."""
    start = table.get(number) if (number := parse_id(subject)) else None
    names = {
        normalize(each)
        for each in (extract_entities(start.text) if start else (subject[:MOST_ASKED],))
    }
    now = table.now()
    hits = [
        FactHit(fact, shared * fact.weight(now))
        for fact_id, shared in _linked_facts(table, names, mentioned=True).items()
        if (fact := table.get(fact_id)) is not None and (start is None or fact.id != start.id)
    ]
    hits.sort(key=attrgetter("score"), reverse=True)
    return hits[:limit]


def _relevance(table: Table, query: str) -> dict[int, float]:
    words = significant_words(query)
    found = match_words(table.connection, table.user, words)
    rarity = _word_rarity(found.values(), table.count())
    relevance = {
        fact_id: sum(rarity[word] for word in held)
        for fact_id, held in found.items()
        if len(words) <= LONG_QUERY or len(held) > 1
    }
    best = max(relevance.values(), default=1.0)
    relevance = {fact_id: value / best for fact_id, value in relevance.items()}
    for fact_id, shared in _linked_facts(table, _possible_names(query)).items():
        relevance[fact_id] = relevance.get(fact_id, 0.0) + ABOUT * min(shared, 1.0)
    if table.embedder is not None:
        for fact_id, cosine in similar_facts(
            table.connection, table.user, table.embedder, query
        ).items():
            relevance[fact_id] = relevance.get(fact_id, 0.0) + cosine
    return _add_linked(table, relevance)


def _word_rarity(held: Collection[tuple[str, ...]], total: int) -> dict[str, float]:
    """A word that few facts hold says more."""
    counts: dict[str, int] = {}
    for words in held:
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    return {word: math.log(1 + (total + 10) / count) for word, count in counts.items()}


def _possible_names(query: str) -> set[str]:
    """What the query may be naming: marked names, and any word or pair of words."""
    words = normalize(query).split()[:60]
    pairs = {f"{first} {second}" for first, second in pairwise(words)}
    return (
        {normalize(each) for each in extract_entities(query)}
        | set(significant_words(query))
        | pairs
    )


def _linked_facts(table: Table, names: set[str], *, mentioned: bool = False) -> dict[int, float]:
    """Facts linked with one of the names, or that mention it; how many of them, rarer ones
    counting more."""
    found: dict[int, float] = {}
    for name in names:
        rows = table.query(
            "SELECT fact FROM links JOIN facts ON facts.id = fact WHERE entity = ? AND user = ?",
            *(name, table.user),
        )
        facts = {fact_id for (fact_id,) in rows}
        if mentioned:
            facts |= match_words(table.connection, table.user, (name,)).keys()
        for fact_id in facts:
            found[fact_id] = found.get(fact_id, 0.0) + 1 / math.sqrt(len(facts))
    return found


def _add_linked(table: Table, relevance: dict[int, float]) -> dict[int, float]:
    """The best facts bring those along that are about the same."""
    extended = dict(relevance)
    for fact_id in sorted(relevance, key=lambda each: -relevance[each])[:3]:
        names = {row[0] for row in table.query("SELECT entity FROM links WHERE fact = ?", fact_id)}
        for name in names:
            linked = _linked_facts(table, {name}, mentioned=True).keys() - relevance.keys()
            for other in linked if len(linked) <= MOST_LINKED else ():
                extended[other] = max(extended.get(other, 0.0), LINKED * relevance[fact_id])
    return extended
