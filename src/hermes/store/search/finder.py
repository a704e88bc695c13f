"""From a request to a page of hits, the same for every database."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from hermes.core.errors import UsageError
from hermes.store.records import Candidate, Neighbour, SearchHit, SearchRequest
from hermes.store.rows import user_text
from hermes.store.search.language import Query, parse
from hermes.store.search.ranking import rank
from hermes.store.search.snippets import seekers, snippet_by
from hermes.store.sql import Backend, Database, Row

CONTEXT_LENGTH = 200

_BATCH = 500
"""So many ids go into one statement."""


def search(
    backend: Backend, database: Database, request: SearchRequest, now: float
) -> tuple[SearchHit, ...]:
    """The page of hits asked for, best first. Raises `UsageError` for a request that makes no
    sense or has nothing to look for."""
    if request.limit < 1 or request.offset < 0:
        raise UsageError(
            f"cannot show {request.limit} hits from number {request.offset}",
            hint="The limit is at least 1 and the offset at least 0.",
        )
    query = parse(request.query)
    if not query.any_of:
        raise UsageError(
            "nothing to search for: the query has no word in it",
            hint='Write words that occur together, "a phrase", this OR that, NOT this, or star*.',
        )
    ranked = rank(backend.find(database, query, request), now)
    return tuple(_hits(database, _page(database, ranked, request), query))


def _page(database: Database, ranked: list[Candidate], request: SearchRequest) -> list[Candidate]:
    """The candidates of the page. A branched session may hold copies of messages: of those with
    the same role, time and text only the best-ranked counts."""
    end = request.offset + request.limit
    times = Counter(map(itemgetter(3), ranked))
    single: list[Candidate] = []
    seen: set[tuple[str, float, str | None]] = set()
    for batch in _batches(ranked, max(request.limit, 20)):
        alike = [id_ for id_, _, _, timestamp, _ in batch if times[timestamp] > 1]
        texts: dict[int, str | None] = dict(_by_id(database, _TEXTS, alike))
        for found in batch:
            id_, _, role, timestamp, _ = found
            if id_ in texts:
                key = (role, timestamp, texts[id_])
                if key in seen:
                    continue
                seen.add(key)
            single.append(found)
        if len(single) >= end:
            break
    return single[request.offset : end]


_TEXTS = "SELECT id, content FROM messages WHERE id IN"

# The neighbours of a message are found by the index on (session_id, timestamp).
_FACTS = """
SELECT m.id, m.content, s.source, s.model, s.started_at, s.title,
    (SELECT n.id FROM messages AS n
     WHERE n.session_id = m.session_id AND (n.timestamp, n.id) < (m.timestamp, m.id)
     ORDER BY n.timestamp DESC, n.id DESC LIMIT 1),
    (SELECT n.id FROM messages AS n
     WHERE n.session_id = m.session_id AND (n.timestamp, n.id) > (m.timestamp, m.id)
     ORDER BY n.timestamp, n.id LIMIT 1)
FROM messages AS m JOIN sessions AS s ON s.id = m.session_id WHERE m.id IN
"""

# Content parts of a user's message must be whole to be read.
_NEIGHBOURS = f"""
SELECT id, role, CASE WHEN role = 'user' AND substr(content, 1, 1) = '[' THEN content
    ELSE substr(content, 1, {CONTEXT_LENGTH}) END
FROM messages WHERE id IN
"""


def _hits(database: Database, page: list[Candidate], query: Query) -> Iterator[SearchHit]:
    facts = {row[0]: row for row in _by_id(database, _FACTS, [found[0] for found in page])}
    beside = {id_ for row in facts.values() for id_ in row[6:] if id_ is not None}
    neighbours = {
        id_: Neighbour(role, _shown(role, content)[:CONTEXT_LENGTH])
        for id_, role, content in _by_id(database, _NEIGHBOURS, sorted(beside))
    }
    terms = seekers(query)
    for id_, session_id, role, timestamp, _ in page:
        if id_ not in facts:
            continue  # deleted since it was found
        _, content, source, model, started, title, *near = facts[id_]
        yield SearchHit(
            id=id_,
            session_id=session_id,
            role=role,
            timestamp=timestamp,
            snippet=snippet_by(_shown(role, content), terms),
            context=tuple(neighbours[one] for one in near if one in neighbours),
            source=source,
            model=model or "",
            session_started=started,
            title=title or "",
        )


def _shown(role: str, content: str | None) -> str:
    """What a person sees of a stored `content`."""
    return user_text(content) if role == "user" else content or ""


def _by_id(database: Database, statement: str, ids: Sequence[int]) -> Iterator[Row]:
    """The rows of `statement`, which ends with `IN`, for `ids`."""
    for batch in _batches(ids, _BATCH):
        yield from database.rows(f"{statement} ({', '.join('?' * len(batch))})", batch)


def _batches(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
