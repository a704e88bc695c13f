"""The message search in SQLite.

A term is looked up in two indexes. `messages_fts` knows words. `messages_trigram` knows the
characters of the messages that have text in a script written without spaces: there a term of such
a script is found anywhere, and a word of at least three characters also inside a longer one, as
`Python` in 我用Python写代码.

A query becomes a few scans, usually one for each index. A scan reads one index from the newest
message to older ones and stops at the limit, so its cost depends on the number of requested
matches, not on the number of existing ones. Everything else is a condition on the message id.
"""

import json
from collections.abc import Iterable, Iterator

import msgspec

from hermes.store.engine import Database
from hermes.store.records import Candidate, SearchRequest
from hermes.store.search import (
    CANDIDATES,
    ENDING_CHARS,
    Group,
    Query,
    SqlCondition,
    Term,
    join_conditions,
)

_WORDS = "messages_fts"
_TRIGRAMS = "messages_trigram"
_TRIGRAM = 3
_LAST = "\U0010ffff"


class _Scan(msgspec.Struct, frozen=True):
    index: str  #: The full-text index to scan, or empty to look up a short term by trigram prefix.
    match: str  #: An FTS5 expression; or the short term.
    conditions: tuple[SqlCondition, ...] = ()
    is_joint: bool = False  #: True if a match must contain several words.


# For several words bm25 counts each in all messages, which costs far more than finding them in the
# newest ones. That a message has all of them matters most, so shorter texts come first instead. The
# same applies to trigrams.
_BM25 = f"-bm25({_WORDS})"
_LENGTH_SCORE = "1.0 / (1.0 + octet_length(m.content) / 1000.0)"


def find(database: Database, query: Query, request: SearchRequest) -> list[Candidate]:
    """Return the newest messages that match: at least `CANDIDATES` if there are as many, and enough
    for the requested page."""
    limit = max(CANDIDATES, request.offset + request.limit)
    scans = _merge(scan for group in query.any_of for scan in _scans(group))
    results = [rows for scan in scans if (rows := _run_scan(database, scan, request, limit))]
    if len(results) <= 1:
        return results[0] if results else []
    return _combine(results, limit)


def _combine(results: list[list[Candidate]], limit: int) -> list[Candidate]:
    """Return each message once, with the better of its scores. Scores of two indexes are not
    comparable, so each is divided by the best one of its scan."""
    found: dict[int, Candidate] = {}
    for rows in results:
        best = max(row[4] for row in rows) or 1.0
        for id_, session_id, role, timestamp, score in rows:
            if id_ not in found or found[id_][4] < score / best:
                found[id_] = (id_, session_id, role, timestamp, score / best)
    return [found[id_] for id_ in sorted(found, reverse=True)[:limit]]


def _run_scan(
    database: Database, scan: _Scan, request: SearchRequest, limit: int
) -> list[Candidate]:
    if scan.index:
        # A cross join keeps the index in the outer loop, which yields the ids in the right order.
        source = f"{scan.index} AS i CROSS JOIN messages AS m ON m.id = i.rowid"
        order = "i.rowid"
        score = _LENGTH_SCORE if scan.is_joint or scan.index == _TRIGRAMS else _BM25
        start = SqlCondition(f"{scan.index} MATCH ?", (scan.match,))
    else:
        source = "messages AS m"
        order, score = "m.id", "1.0"
        start = SqlCondition(f"m.id IN ({_PLACES})", _place_values(scan.match))
    id_range = _id_range(order, request.sessions)
    where = join_conditions(" AND ", (start, *id_range, *scan.conditions, *_filters(request)))
    return database.rows(
        f"SELECT m.id, m.session_id, m.role, m.timestamp, {score} FROM {source}"
        f" WHERE {where.sql} ORDER BY {order} DESC LIMIT ?",
        (*where.values, limit),
    )


# The words of an index are a table that needs no space and no writes. It belongs to the connection,
# so that other programs which open the file do not see it.
_VOCABULARY = f"""
CREATE VIRTUAL TABLE IF NOT EXISTS temp.messages_words USING fts5vocab('main', '{_WORDS}', 'row')
"""


def vocabulary(database: Database, word: str, *, typos: bool) -> list[str]:
    """See `Backend.vocabulary`. Errors in the first character are found if it is swapped with the
    next one or if it does not belong to the word."""
    database.rows(_VOCABULARY)
    words: dict[str, None] = {}
    for start in (word[0], word[1] + word[0], word[1:3]) if typos else (word[:3],):
        rows = database.rows(
            "SELECT term FROM temp.messages_words"
            " WHERE term >= ? AND term < ? AND length(term) BETWEEN ? AND ?",
            (start, start + _LAST, len(word) - ENDING_CHARS, len(word) + ENDING_CHARS),
        )
        words |= dict.fromkeys(row[0] for row in rows)
    return list(words)


def _merge(scans: Iterable[_Scan]) -> Iterator[_Scan]:
    """Merge the scans of an index that have no other conditions."""
    plain: dict[str, list[_Scan]] = {}
    for scan in scans:
        if scan.index and not scan.conditions:
            plain.setdefault(scan.index, []).append(scan)
        else:
            yield scan
    for index, alike in plain.items():
        match = " OR ".join(f"({scan.match})" for scan in alike)
        yield _Scan(index, match, is_joint=len(alike) == 1 and alike[0].is_joint)


def _scans(group: Group) -> Iterator[_Scan]:
    pieces = [term for term in group.all_of if term.is_unspaced]
    words = [term for term in group.all_of if not term.is_unspaced]
    unwanted = tuple(_has(term).negated for term in group.none_of)
    if pieces:
        yield _unspaced_scan(pieces, (*map(_has, words), *unwanted))
        return
    expression = " AND ".join(map(_words, words))
    if excluded := " OR ".join(_words(term) for term in group.none_of if not term.is_unspaced):
        expression = f"({expression}) NOT ({excluded})"
    is_joint = len(words) > 1 or len(words[0].words) > 1
    yield _Scan(_WORDS, expression, tuple(_outside_trigrams(group.none_of)), is_joint)
    if inner := " OR ".join(_piece(term) for term in words if _is_long(term)):
        yield _Scan(_TRIGRAMS, inner, (*(map(_has, words) if len(words) > 1 else ()), *unwanted))


def _unspaced_scan(pieces: list[Term], others: tuple[SqlCondition, ...]) -> _Scan:
    """Return the scan of a group with text in a script written without spaces, which only the
    trigram index can find."""
    if long := " AND ".join(_piece(term) for term in pieces if _is_long(term)):
        short = [_has(term) for term in pieces if not _is_long(term)]
        return _Scan(_TRIGRAMS, long, (*short, *others))
    first, *rest = sorted(pieces, key=lambda term: -len(term.text))
    return _Scan("", first.text, (*map(_has, rest), *others))


def _has(term: Term) -> SqlCondition:
    """Return the condition that the message has `term`, by either index. The plus keeps SQLite from
    scanning the result of the subquery instead of the index."""
    tests = [] if term.is_unspaced else [_in_index(_WORDS, _words(term))]
    if _is_long(term):
        tests.insert(0, _in_index(_TRIGRAMS, _piece(term)))
    elif term.is_unspaced:
        tests.append(SqlCondition(f"+m.id IN ({_PLACES})", _place_values(term.text)))
    return join_conditions(" OR ", tests)


def _outside_trigrams(unwanted: Iterable[Term]) -> Iterator[SqlCondition]:
    """Yield conditions for excluded terms that the word index alone cannot check."""
    for term in unwanted:
        if term.is_unspaced:
            yield _has(term).negated
        elif _is_long(term):
            yield _in_index(_TRIGRAMS, _piece(term)).negated


def _in_index(index: str, match: str) -> SqlCondition:
    return SqlCondition(f"+m.id IN (SELECT rowid FROM {index} WHERE {index} MATCH ?)", (match,))


_PLACES = "SELECT doc FROM messages_trigram_places WHERE term >= ? AND term < ?"


def _place_values(text: str) -> tuple[str, str]:
    """Return the range of trigrams that start with `text`; the index is in lower case."""
    start = text.lower()
    return start, start + _LAST


def _is_long(term: Term) -> bool:
    return len(term.text) >= _TRIGRAM


def _words(term: Term) -> str:
    """Return `term` for the word index. Words do not contain quotes."""
    return f'"{" ".join(term.words)}"{" *" if term.prefix else ""}'


def _piece(term: Term) -> str:
    """Return `term` for the trigram index. Its text does not contain quotes."""
    return f'"{term.text}"'


def _id_range(order: str, sessions: tuple[str, ...]) -> Iterator[SqlCondition]:
    """Limit the scan to the range of ids of the sessions."""
    for relation, function in ((">=", "min"), ("<=", "max")) if sessions else ():
        yield SqlCondition(
            f"{order} {relation} (SELECT {function}(id) FROM messages"
            " WHERE session_id IN (SELECT value FROM json_each(?)))",
            (json.dumps(sessions),),
        )


def _filters(request: SearchRequest) -> Iterator[SqlCondition]:
    source = "(SELECT source FROM sessions WHERE sessions.id = m.session_id)"
    for column, values in (
        ("+m.session_id", request.sessions),
        ("m.role", request.roles),
        (source, request.sources),
    ):
        if values:
            yield SqlCondition(
                f"{column} IN (SELECT value FROM json_each(?))", (json.dumps(values),)
            )
    for column, values in (
        (source, request.exclude_sources),
        ("+m.session_id", request.exclude_sessions),
    ):
        if values:
            unwanted = json.dumps(values)
            yield SqlCondition(f"{column} NOT IN (SELECT value FROM json_each(?))", (unwanted,))
    if request.user:
        owner = source.replace("SELECT source", "SELECT user_id")
        yield SqlCondition(f"{owner} = ?", (request.user,))
    if request.since is not None:
        yield SqlCondition("m.timestamp >= ?", (request.since,))
    if request.until is not None:
        yield SqlCondition("m.timestamp <= ?", (request.until,))
