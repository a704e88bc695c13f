"""Finding messages in SQLite.

A term is looked up in two indexes. `messages_fts` knows words. `messages_trigram` knows the
characters of the messages that have text in a script written without spaces: there a term of such
a script is found anywhere, and a word of at least three characters also inside a longer one, as
`Python` in 我用Python写代码.

A query becomes a few arms, usually one for each index. An arm walks one index from the newest
message to older ones and stops at the limit, so its cost depends on how many matches are wanted,
not on how many there are. What the walked index cannot tell is a condition on the id.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from hermes.store.backend import Database
from hermes.store.query_language import Group, Query, Term
from hermes.store.records import Candidate, SearchRequest
from hermes.store.search import CANDIDATES

_WORDS = "messages_fts"
_TRIGRAMS = "messages_trigram"
_TRIGRAM = 3
_LAST = "\U0010ffff"


class _Sql(msgspec.Struct, frozen=True):
    """A piece of a statement with its values."""

    text: str
    values: tuple[Any, ...] = ()


class _Arm(msgspec.Struct, frozen=True):
    index: str
    """The full-text index to walk; or empty, to walk the places of a short term."""
    match: str
    """An FTS5 expression; or the short term."""
    conditions: tuple[_Sql, ...] = ()
    is_joint: bool = False
    """Whether every match has several words, all of them."""


# To weigh several words bm25 looks for each in every message there is, which costs far more than to
# find them in the newest. That all of them are there says most, so the shorter texts come first.
# The same goes for the trigrams of a piece of text.
_BM25 = f"-bm25({_WORDS})"
_LENGTH_SCORE = "1.0 / (1.0 + octet_length(m.content) / 1000.0)"


def find(database: Database, query: Query, request: SearchRequest) -> list[Candidate]:
    """The newest messages that match: at least `CANDIDATES` of them if there are so many, and
    enough for the page asked for."""
    limit = max(CANDIDATES, request.offset + request.limit)
    arms = _merged(arm for group in query.any_of for arm in _arms(group))
    walks = [rows for arm in arms if (rows := _walk(database, arm, request, limit))]
    if len(walks) <= 1:
        return walks[0] if walks else []
    return _together(walks, limit)


def _together(walks: list[list[Candidate]], limit: int) -> list[Candidate]:
    """Each message once, with the better of its scores. Those of two indexes cannot be compared,
    but their order can."""
    found: dict[int, Candidate] = {}
    for rows in walks:
        best = max(row[4] for row in rows) or 1.0
        for id_, session_id, role, timestamp, score in rows:
            if id_ not in found or found[id_][4] < score / best:
                found[id_] = (id_, session_id, role, timestamp, score / best)
    return [found[id_] for id_ in sorted(found, reverse=True)[:limit]]


def _walk(database: Database, arm: _Arm, request: SearchRequest, limit: int) -> list[Candidate]:
    if arm.index:
        # A cross join keeps the index outside, where it gives the ids in the order wanted.
        source = f"{arm.index} AS i CROSS JOIN messages AS m ON m.id = i.rowid"
        order, score = "i.rowid", _LENGTH_SCORE if arm.is_joint or arm.index == _TRIGRAMS else _BM25
        start = _Sql(f"{arm.index} MATCH ?", (arm.match,))
    else:
        source = "messages AS m"
        order, score = "m.id", "1.0"
        start = _Sql(f"m.id IN ({_PLACES})", _place_values(arm.match))
    near = _near(order, request.sessions)
    conditions = (start, *near, *arm.conditions, *_filters(request))
    return database.rows(
        f"SELECT m.id, m.session_id, m.role, m.timestamp, {score} FROM {source}"
        f" WHERE {' AND '.join(part.text for part in conditions)} ORDER BY {order} DESC LIMIT ?",
        (*(value for part in conditions for value in part.values), limit),
    )


def _merged(arms: Iterable[_Arm]) -> Iterator[_Arm]:
    """The arms, those that need nothing but their index as one."""
    plain: dict[str, list[_Arm]] = {}
    for arm in arms:
        if arm.index and not arm.conditions:
            plain.setdefault(arm.index, []).append(arm)
        else:
            yield arm
    for index, alike in plain.items():
        match = " OR ".join(f"({arm.match})" for arm in alike)
        yield _Arm(index, match, is_joint=len(alike) == 1 and alike[0].is_joint)


def _arms(group: Group) -> Iterator[_Arm]:
    pieces = [term for term in group.all_of if term.is_unspaced]
    words = [term for term in group.all_of if not term.is_unspaced]
    unwanted = tuple(_Sql(f"NOT {part.text}", part.values) for part in map(_has, group.none_of))
    if pieces:
        yield _piece_arm(pieces, (*map(_has, words), *unwanted))
        return
    expression = " AND ".join(map(_words, words))
    if excluded := " OR ".join(_words(term) for term in group.none_of if not term.is_unspaced):
        expression = f"({expression}) NOT ({excluded})"
    is_joint = len(words) > 1 or len(words[0].words) > 1
    yield _Arm(_WORDS, expression, tuple(_outside_trigrams(group.none_of)), is_joint)
    if inner := " OR ".join(_piece(term) for term in words if _is_long(term)):
        yield _Arm(_TRIGRAMS, inner, (*(map(_has, words) if len(words) > 1 else ()), *unwanted))


def _piece_arm(pieces: list[Term], others: tuple[_Sql, ...]) -> _Arm:
    """The arm of a group with text in a script written without spaces: only the trigram index
    can have it."""
    if long := " AND ".join(_piece(term) for term in pieces if _is_long(term)):
        short = [_has(term) for term in pieces if not _is_long(term)]
        return _Arm(_TRIGRAMS, long, (*short, *others))
    first, *rest = sorted(pieces, key=lambda term: -len(term.text))
    return _Arm("", first.text, (*map(_has, rest), *others))


def _has(term: Term) -> _Sql:
    """Whether the message has `term`, by either index. A plus keeps SQLite from walking the
    result of the subquery instead of the index."""
    tests = [] if term.is_unspaced else [_listed(_WORDS, _words(term))]
    if _is_long(term):
        tests.insert(0, _listed(_TRIGRAMS, _piece(term)))
    elif term.is_unspaced:
        tests.append(_Sql(f"+m.id IN ({_PLACES})", _place_values(term.text)))
    return _Sql(
        f"({' OR '.join(test.text for test in tests)})",
        tuple(value for test in tests for value in test.values),
    )


def _outside_trigrams(unwanted: Iterable[Term]) -> Iterator[_Sql]:
    """What a walk of the word index cannot see of the terms that must not be there."""
    for term in unwanted:
        if term.is_unspaced:
            has = _has(term)
            yield _Sql(f"NOT {has.text}", has.values)
        elif _is_long(term):
            listed = _listed(_TRIGRAMS, _piece(term))
            yield _Sql(f"NOT {listed.text}", listed.values)


def _listed(index: str, match: str) -> _Sql:
    return _Sql(f"+m.id IN (SELECT rowid FROM {index} WHERE {index} MATCH ?)", (match,))


_PLACES = "SELECT doc FROM messages_trigram_places WHERE term >= ? AND term < ?"


def _place_values(text: str) -> tuple[str, str]:
    """The trigrams that start with `text`, which the index has in lower case."""
    start = text.lower()
    return start, start + _LAST


def _is_long(term: Term) -> bool:
    return len(term.text) >= _TRIGRAM


def _words(term: Term) -> str:
    """`term` for the word index. Words have no quotes in them."""
    return f'"{" ".join(term.words)}"{" *" if term.prefix else ""}'


def _piece(term: Term) -> str:
    """`term` for the trigram index. A text never has quotes in it."""
    return f'"{term.text}"'


def _near(order: str, sessions: tuple[str, ...]) -> Iterator[_Sql]:
    """The ids between which the messages of the sessions lie: the walk is then a short one."""
    for relation, function in ((">=", "min"), ("<=", "max")) if sessions else ():
        yield _Sql(
            f"{order} {relation} (SELECT {function}(id) FROM messages"
            " WHERE session_id IN (SELECT value FROM json_each(?)))",
            (json.dumps(sessions),),
        )


def _filters(request: SearchRequest) -> Iterator[_Sql]:
    source = "(SELECT source FROM sessions WHERE sessions.id = m.session_id)"
    for column, values in (
        ("+m.session_id", request.sessions),
        ("m.role", request.roles),
        (source, request.sources),
    ):
        if values:
            yield _Sql(f"{column} IN (SELECT value FROM json_each(?))", (json.dumps(values),))
    if request.exclude_sources:
        unwanted = json.dumps(request.exclude_sources)
        yield _Sql(f"{source} NOT IN (SELECT value FROM json_each(?))", (unwanted,))
    if request.since is not None:
        yield _Sql("m.timestamp >= ?", (request.since,))
    if request.until is not None:
        yield _Sql("m.timestamp <= ?", (request.until,))
