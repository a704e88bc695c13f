"""Searching facts by words, entities and meaning; trusted and recent ones rank first."""

import math
from collections.abc import Collection, Sequence
from itertools import pairwise
from operator import attrgetter

import msgspec

from hermes_plugins.memory.holographic.extraction import (
    extract_entities,
    normalize,
    significant_words,
)
from hermes_plugins.memory.holographic.store import (
    MIN_RECALL_TRUST,
    SOURCE_NOTES,
    Fact,
    FactStore,
    match_words,
    parse_id,
    similar_facts,
)

ENTITY_BONUS = 0.5  #: Added for a fact about an entity that the query names.
LINK_SHARE = 0.4  #: Share of its relevance that a fact passes on to linked facts.
MAX_LINKED = 20  #: An entity with more facts is too common to link them.
MIN_SCORE_SHARE = 0.35  #: Share of the best score that a fact needs to be recalled.
QUERY_CHARS = 1000
"""Characters used from each end of a query; the middle of a long message is usually pasted."""
LONG_QUERY = 8  #: In queries with more words, a single common word counts as a coincidence.


class FactHit(msgspec.Struct, frozen=True):
    fact: Fact
    score: float


def search(store: FactStore, query: str, limit: int) -> list[FactHit]:
    """Return the best facts; replaced ones rank behind the others."""
    if len(query) > 2 * QUERY_CHARS:
        query = f"{query[:QUERY_CHARS]}\n{query[-QUERY_CHARS:]}"
    now, hits = store.now(), []
    for fact_id, relevance in _relevance(store, query).items():
        fact = store.get(fact_id)
        if fact is not None:
            score = relevance * fact.weight(now) * (0.3 if fact.replaced_by else 1)
            hits.append(FactHit(fact, score))
    hits.sort(key=attrgetter("score"), reverse=True)
    return hits[:limit]


def recall(store: FactStore, query: str, limit: int, project: str = "") -> list[Fact]:
    """Return facts for a turn: none that are replaced, untrusted, of another project or much worse
    than the best one, and no notes, which are in the prompt anyway."""
    hits = [
        hit
        for hit in search(store, query, 3 * limit)
        if hit.fact.trust >= MIN_RECALL_TRUST
        and not hit.fact.replaced_by
        and hit.fact.concerns(project)
        and not hit.fact.source.startswith(SOURCE_NOTES)
    ]
    return [hit.fact for hit in hits if hit.score >= MIN_SCORE_SHARE * hits[0].score][:limit]


def format_recalled(
    facts: Sequence[Fact], room: int, known: Collection[int]
) -> tuple[str, list[int]]:
    """Return lines for the facts that fit into `room` characters, and the ids not in `known`."""
    lines: list[str] = []
    new: list[int] = []
    for fact in facts:
        line = f"- {fact.to_prompt()}"
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
        if fact.id not in known:
            new.append(fact.id)
    return "\n".join(lines), new


def find_related(store: FactStore, subject: str, limit: int) -> list[FactHit]:
    """Return the facts about an entity, or about the entities of the fact with this id."""
    start = store.get(number) if (number := parse_id(subject)) else None
    names = {
        normalize(each)
        for each in (extract_entities(start.text) if start else (subject[:QUERY_CHARS],))
    }
    now = store.now()
    hits = [
        FactHit(fact, shared * fact.weight(now))
        for fact_id, shared in _linked_facts(store, names, mentioned=True).items()
        if (fact := store.get(fact_id)) is not None and (start is None or fact.id != start.id)
    ]
    hits.sort(key=attrgetter("score"), reverse=True)
    return hits[:limit]


def _relevance(store: FactStore, query: str) -> dict[int, float]:
    words = significant_words(query)
    found = match_words(store.connection, store.user, words)
    rarity = _word_rarity(found.values(), store.count())
    relevance = {
        fact_id: sum(rarity[word] for word in held)
        for fact_id, held in found.items()
        if len(words) <= LONG_QUERY or len(held) > 1
    }
    best = max(relevance.values(), default=1.0)
    relevance = {fact_id: value / best for fact_id, value in relevance.items()}
    for fact_id, shared in _linked_facts(store, _possible_names(query)).items():
        relevance[fact_id] = relevance.get(fact_id, 0.0) + ENTITY_BONUS * min(shared, 1.0)
    if store.embedder is not None:
        for fact_id, cosine in similar_facts(
            store.connection, store.user, store.embedder, query
        ).items():
            relevance[fact_id] = relevance.get(fact_id, 0.0) + cosine
    return _add_linked(store, relevance)


def _word_rarity(held: Collection[tuple[str, ...]], total: int) -> dict[str, float]:
    """Return a weight per word: the fewer facts contain it, the higher."""
    counts: dict[str, int] = {}
    for words in held:
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    return {word: math.log(1 + (total + 10) / count) for word, count in counts.items()}


def _possible_names(query: str) -> set[str]:
    """Return possible entity names in a query: marked names, and every word and pair of words."""
    words = normalize(query).split()[:60]
    pairs = {f"{first} {second}" for first, second in pairwise(words)}
    return (
        {normalize(each) for each in extract_entities(query)}
        | set(significant_words(query))
        | pairs
    )


def _linked_facts(
    store: FactStore, names: set[str], *, mentioned: bool = False
) -> dict[int, float]:
    """Return the facts linked with the names, or that mention them, with a score; rare names
    count more."""
    found: dict[int, float] = {}
    for name in names:
        rows = store.query(
            "SELECT fact FROM links JOIN facts ON facts.id = fact WHERE entity = ? AND user = ?",
            *(name, store.user),
        )
        facts = {fact_id for (fact_id,) in rows}
        if mentioned:
            facts |= match_words(store.connection, store.user, (name,)).keys()
        for fact_id in facts:
            found[fact_id] = found.get(fact_id, 0.0) + 1 / math.sqrt(len(facts))
    return found


def _add_linked(store: FactStore, relevance: dict[int, float]) -> dict[int, float]:
    """Add facts that share an entity with one of the best three."""
    extended = dict(relevance)
    for fact_id in sorted(relevance, key=lambda each: -relevance[each])[:3]:
        names = {row[0] for row in store.query("SELECT entity FROM links WHERE fact = ?", fact_id)}
        for name in names:
            linked = _linked_facts(store, {name}, mentioned=True).keys() - relevance.keys()
            for other in linked if len(linked) <= MAX_LINKED else ():
                extended[other] = max(extended.get(other, 0.0), LINK_SHARE * relevance[fact_id])
    return extended
