"""Searching the messages."""

from collections.abc import Sequence
from typing import Any

from hermes.store.postgres.conditions import Condition, condition, rank_query
from hermes.store.postgres.database import PostgresDatabase
from hermes.store.postgres.indexing import index_missing
from hermes.store.records import Candidate, SearchRequest
from hermes.store.search.language import Query
from hermes.store.search.ranking import CANDIDATES

_UNTOLD = 0.5
"""The relevance, of at most 1.0, of a match that has no positions to judge by beside others that
have."""

_FIND = """
SELECT id, session_id, role, timestamp, {relevance} AS relevance
FROM (
    SELECT id, session_id, role, timestamp, search FROM messages WHERE {condition}
    ORDER BY id DESC LIMIT ?
) AS newest
"""
_RELEVANCE = "ts_rank_cd(search, ?::tsquery, 1)::double precision"


def find(database: PostgresDatabase, query: Query, request: SearchRequest) -> list[Candidate]:
    """The newest messages that match, best first."""
    if not query.any_of:
        return []
    index_missing(database)
    ranking = rank_query(query)
    conditions = [condition(query), *_filters(request)]
    statement = _FIND.format(
        relevance=_RELEVANCE if ranking else "1.0::double precision",
        condition=" AND ".join(one.sql for one in conditions),
    )
    values: list[Any] = [ranking] if ranking else []
    values.extend(value for one in conditions for value in one.values)
    values.append(max(CANDIDATES, request.offset + request.limit))
    # Planned for these words: a rare one is looked up in the index, a frequent one is met soon by
    # going back from the newest message.
    rows = database.rows(statement, values, prepare=False)
    best = max((row[-1] for row in rows), default=1.0) or 1.0
    found = [
        (id_, session_id, role, timestamp, rank / best or _UNTOLD)
        for id_, session_id, role, timestamp, rank in rows
    ]
    return sorted(found, key=lambda one: (one[4], one[0]), reverse=True)


def _filters(request: SearchRequest) -> list[Condition]:
    found: list[Condition] = []
    if request.sources:
        found.append(_in_sessions("source IN", request.sources))
    if request.exclude_sources:
        found.append(_in_sessions("source NOT IN", request.exclude_sources))
    if request.roles:
        found.append(Condition(f"role IN ({_marks(request.roles)})", request.roles))
    if request.sessions:
        found.append(Condition(f"session_id IN ({_marks(request.sessions)})", request.sessions))
    if request.since is not None:
        found.append(Condition("timestamp >= ?", (request.since,)))
    if request.until is not None:
        found.append(Condition("timestamp <= ?", (request.until,)))
    return found


def _in_sessions(test: str, sources: tuple[str, ...]) -> Condition:
    chosen = f"SELECT id FROM sessions WHERE {test} ({_marks(sources)})"
    return Condition(f"session_id IN ({chosen})", sources)


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" for _ in values)
