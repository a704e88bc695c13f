"""The message search in PostgreSQL.

The parsers and dictionaries of PostgreSQL are not used: this module splits texts into words, in the
same way on every server. Letters and digits of any script form words, everything else separates
them; case and diacritics do not matter. A run of a script written without spaces is found by its
single characters and overlapping pairs, which need no positions, and counts as one word in the
distance between its neighbours.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from psycopg import errors

from hermes.store.engine import Progress, Row
from hermes.store.postgres import schema
from hermes.store.postgres.connection import PostgresDatabase
from hermes.store.records import Candidate, SearchRequest
from hermes.store.rows import placeholders, user_text
from hermes.store.search import (
    CANDIDATES,
    ENDING_CHARS,
    Query,
    SqlCondition,
    Term,
    is_unspaced,
    join_conditions,
)

# Words of a text, and the text form of the `tsvector` that finds them

POSITIONS = 16_383  #: The highest position PostgreSQL stores.
POSITIONS_A_LEXEME = 255
LEXEME_BYTES = 2000
VECTOR_BYTES = 1_000_000  #: A little less than PostgreSQL's limit.

INCOMPLETE = "…"
"""A lexeme that occurs in no text. It marks a vector that does not have all positions, in which a
phrase may be missed."""

_KEPT_CLASSES = frozenset({0, 7, 8, 9, *range(84, 133)})
"""Combining classes of marks that are letters of their script: vowel signs, nukta, kana voicing,
virama, tones. The marks of all other classes are diacritics."""


class TextPiece(NamedTuple):
    text: str
    is_run: bool  #: True for a run of a script written without spaces, False for a word.


def pieces(text: str) -> Iterator[TextPiece]:
    """Yield the folded words and runs of `text` in order."""
    plain = _fold(text)
    characters = set(plain)
    separators = {
        ord(c): " "
        for c in characters
        if not (c.isalnum() or unicodedata.category(c) in ("Mn", "Mc", "Co"))
    }
    unspaced = {c for c in characters if is_unspaced(c)}
    for word in plain.translate(separators).split():
        if unspaced.isdisjoint(word):
            yield TextPiece(_truncate(word), False)
        else:
            for is_run, part in groupby(word, unspaced.__contains__):
                whole = "".join(part)
                yield TextPiece(whole if is_run else _truncate(whole), is_run)


def grams(run: str) -> list[str]:
    """Return the lexemes of a run: its pairs, or itself if it is one character."""
    return [first + second for first, second in pairwise(run)] or [run]


def build_vector(text: str) -> str:
    """Return the `tsvector` of a text, within the limits of PostgreSQL: of a long text, positions
    are omitted first, then the last words."""
    found: dict[str, list[int]] = {}
    incomplete = False
    for position, piece in enumerate(pieces(text), 1):
        if piece.is_run:
            for lexeme in (*piece.text, *grams(piece.text)):
                found.setdefault(lexeme, [])
            continue
        positions = found.setdefault(piece.text, [])
        if position <= POSITIONS and len(positions) < POSITIONS_A_LEXEME:
            positions.append(position)
        else:
            incomplete = True
    return _render(found, incomplete)


def quote_lexeme(lexeme: str) -> str:
    """Return a lexeme in the syntax of `tsvector` and `tsquery`."""
    escaped = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _render(found: dict[str, list[int]], incomplete: bool) -> str:
    kept = {INCOMPLETE: list[int]()} if incomplete else {}
    room = VECTOR_BYTES
    for lexeme, positions in found.items():
        room -= len(lexeme.encode()) + 1
        if room < 0:
            break
        kept[lexeme] = positions
    made = []
    for lexeme, positions in kept.items():
        size = 2 + 2 * len(positions)
        if positions and size <= room:
            room -= size
            made.append(f"{quote_lexeme(lexeme)}:{','.join(map(str, positions))}")
        else:
            incomplete = incomplete or bool(positions)
            made.append(quote_lexeme(lexeme))
    if incomplete and INCOMPLETE not in kept:
        made.append(quote_lexeme(INCOMPLETE))
    return " ".join(made)


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFD", text.casefold())
    diacritics = {ord(c): None for c in set(apart) if _is_diacritic(c)}
    return unicodedata.normalize("NFC", apart.translate(diacritics))


def _is_diacritic(character: str) -> bool:
    """Variation selectors, which have class 0, and enclosing marks count as diacritics."""
    category = unicodedata.category(character)
    if category == "Mn":
        is_selector = "VARIATION SELECTOR" in unicodedata.name(character, "")
        return is_selector or unicodedata.combining(character) not in _KEPT_CLASSES
    return category == "Me"


def _truncate(word: str) -> str:
    if len(word) * 4 <= LEXEME_BYTES:
        return word
    return word.encode()[:LEXEME_BYTES].decode(errors="ignore")


# Queries as SQL conditions on `messages`


def condition(query: Query) -> SqlCondition:
    """Return the condition that a matching message fulfils."""
    groups = (
        (*map(_term, group.all_of), *(_term(term).negated for term in group.none_of))
        for group in query.any_of
    )
    return join_conditions(" OR ", (join_conditions(" AND ", group) for group in groups))


def rank_query(query: Query) -> str:
    """Return the `tsquery` for ranking; empty if only single characters and pairs are searched for,
    which have no positions."""
    groups = [
        " & ".join(
            f"({_phrase(found, term)})"
            for term, found in ((term, _pieces(term)) for term in group.all_of)
            if not any(piece.is_run for piece in found)
        )
        for group in query.any_of
    ]
    return " | ".join(f"({group})" for group in groups if group)


def _term(term: Term) -> SqlCondition:
    found = _pieces(term)
    if any(piece.is_run for piece in found):
        return _unspaced(term, found)
    if len(found) == 1:
        return SqlCondition("(search @@ ?::tsquery)", (_phrase(found, term),))
    # Where positions are missing, the text itself is searched.
    phrase, words = _phrase(found, term), _phrase(found, term, " & ")
    return SqlCondition(
        "(search @@ ?::tsquery AND (search @@ ?::tsquery OR strpos(lower(content), ?) > 0))",
        (f"({phrase}) | ({quote_lexeme(INCOMPLETE)} & {words})", phrase, _lower(term.text)),
    )


def _unspaced(term: Term, found: list[TextPiece]) -> SqlCondition:
    """Pairs of characters select messages; their text is then searched for the whole run."""
    lexemes = [
        quote_lexeme(gram)
        for piece in found
        for gram in (grams(piece.text) if piece.is_run else [piece.text])
    ]
    if term.prefix and not found[-1].is_run:
        lexemes[-1] += ":*"
    look = SqlCondition("(search @@ ?::tsquery)", (" & ".join(lexemes),))
    if len(found) == 1 and len(found[0].text) <= 2:
        return look
    # The server folds the case of ASCII letters only, so a term with other letters is searched for
    # run by run.
    needles = [piece.text for piece in found if piece.is_run]
    if all(c.isascii() or c.lower() == c.upper() for c in term.text):
        needles = [_lower(term.text)]
    checks = [SqlCondition("strpos(lower(content), ?) > 0", (text,)) for text in needles]
    return join_conditions(" AND ", [look, *checks])


def _phrase(found: list[TextPiece], term: Term, operator: str = " <-> ") -> str:
    return operator.join(quote_lexeme(piece.text) for piece in found) + (
        ":*" if term.prefix else ""
    )


def _pieces(term: Term) -> list[TextPiece]:
    return list(pieces(term.text)) or list(pieces(" ".join(term.words)))


def _lower(text: str) -> str:
    """Fold case as the server does with the collation "C"."""
    return "".join(c.lower() if c.isascii() else c for c in text)


# Updating `messages.search`

_BATCH_ROWS = 500
_BATCH_BYTES = 4_000_000

# `octet_length` of a stored text does not read the text.
_BATCH = """
SELECT id, role, content FROM messages WHERE id > ? AND {which} AND id <= (
    SELECT max(id) FROM (
        SELECT id, row_number() OVER (ORDER BY id) AS number,
            sum(octet_length(content)) OVER (ORDER BY id) AS bytes
        FROM (
            SELECT id, content FROM messages WHERE id > ? AND {which} ORDER BY id LIMIT ?
        ) AS next
    ) AS counted WHERE number = 1 OR coalesce(bytes, 0) <= ?
) ORDER BY id
"""
_ALL = _BATCH.format(which="TRUE")
_MISSING = _BATCH.format(which="search IS NULL")
_STORE = """
UPDATE messages SET search = made.search::tsvector
FROM unnest(?::bigint[], ?::text[]) AS made(id, search)
WHERE messages.id = made.id AND messages.search IS DISTINCT FROM made.search::tsvector
"""


def insert_message(database: PostgresDatabase, columns: Sequence[str], row: Row) -> int:
    """Insert a message with its vector and return the new id."""
    values = dict(zip(columns, row, strict=True))
    search = build_vector(_indexed_text(values["role"], values.get("content")))
    return int(database.rows(_insert_statement(tuple(columns)), (*row, search))[0][0])


def index_all(database: PostgresDatabase, progress: Progress) -> int:
    """Recompute the vectors of all messages, in batches, and return their number."""
    total = int(database.rows("SELECT count(*) FROM messages")[0][0])
    progress(0, total)
    done = 0
    for count in _batches(database, _ALL):
        done += count
        progress(done, max(done, total))
    return done


def index_missing(database: PostgresDatabase) -> None:
    """Compute the vectors of messages that another program wrote or changed. Where writing is not
    allowed, as on a standby server, these messages are not found."""
    with suppress(errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege):
        for _ in _batches(database, _MISSING):
            pass


def _batches(database: PostgresDatabase, statement: str) -> Iterator[int]:
    last = 0
    while rows := database.rows(statement, (last, last, _BATCH_ROWS, _BATCH_BYTES)):
        vectors = [build_vector(_indexed_text(role, content)) for _, role, content in rows]
        database.change(_STORE, ([row[0] for row in rows], vectors))
        last = rows[-1][0]
        yield len(rows)


def rebuild_index(database: PostgresDatabase) -> None:
    """Rebuild the index, without blocking others if possible. A missing index is created."""
    for statement in schema.statements():
        if "INDEX IF NOT EXISTS" in statement:
            database.run(statement)
    how = "" if database.in_transaction else "CONCURRENTLY"
    database.run(f"REINDEX INDEX {how} {schema.SEARCH_INDEX}")


def _indexed_text(role: str, content: str | None) -> str:
    """Return the text to index; of a message with images, its text parts."""
    text = content or ""
    return user_text(text) if role == "user" and text.startswith("[") else text


@lru_cache(maxsize=8)
def _insert_statement(columns: tuple[str, ...]) -> str:
    names, values = ", ".join(columns), placeholders(columns)
    return f"INSERT INTO messages ({names}, search) VALUES ({values}, ?::tsvector) RETURNING id"


_DEFAULT_RELEVANCE = 0.5
"""The relevance (at most 1.0) of a match without positions among matches with positions."""

_FIND = """
SELECT id, session_id, role, timestamp, {relevance} AS relevance
FROM (
    SELECT id, session_id, role, timestamp, search FROM messages WHERE {condition}
    ORDER BY id DESC LIMIT ?
) AS newest
"""
_RELEVANCE = "ts_rank_cd(search, ?::tsquery, 1)::double precision"


def find(database: PostgresDatabase, query: Query, request: SearchRequest) -> list[Candidate]:
    """Return the newest messages that match, best first."""
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
    # Planned for these words: a rare one is looked up in the index, a frequent one is found soon by
    # scanning from the newest message.
    rows = database.rows(statement, values, prepare=False)
    best = max((row[-1] for row in rows), default=1.0) or 1.0
    found = [
        (id_, session_id, role, timestamp, rank / best or _DEFAULT_RELEVANCE)
        for id_, session_id, role, timestamp, rank in rows
    ]
    return sorted(found, key=lambda one: (one[4], one[0]), reverse=True)


# PostgreSQL has no list of the words of an index. The words that begin like the one looked for are
# read from the newest messages that have such a word.
_VOCABULARY = """
SELECT DISTINCT lexeme FROM (
    SELECT search FROM messages WHERE search @@ ?::tsquery ORDER BY id DESC LIMIT ?
) AS newest, unnest(search)
WHERE length(lexeme) BETWEEN ? AND ? AND ({beginnings})
"""


def vocabulary(database: PostgresDatabase, word: str, *, typos: bool) -> list[str]:
    """See `Backend.vocabulary`. Words with another error in the first three characters than two
    swapped or an added one are found in the newest messages only."""
    lengths = (len(word) - ENDING_CHARS, len(word) + ENDING_CHARS)
    starts = [word[:3]]
    if typos:
        starts += [word[1] + word[0] + word[2], word[0] + word[2] + word[1]]
        starts += [word[1:4], word[0] + word[2:4], word[:2] + word[3]]
    found: dict[str, None] = {}
    for some, limit in ((starts, 1_000), ([word[:2]], 300)) if typos else ((starts, 1_000),):
        query = " | ".join(f"{quote_lexeme(start)}:*" for start in some)
        tests = " OR ".join("starts_with(lexeme, ?)" for _ in some)
        statement = _VOCABULARY.format(beginnings=tests)
        rows = database.rows(statement, (query, limit, *lengths, *some), prepare=False)
        found |= dict.fromkeys(row[0] for row in rows)
    return list(found)


def _filters(request: SearchRequest) -> Iterator[SqlCondition]:
    sessions = "session_id IN (SELECT id FROM sessions WHERE source {} ({}))"
    for test, values in (
        (sessions.format("IN", "{}"), request.sources),
        (sessions.format("NOT IN", "{}"), request.exclude_sources),
        ("role IN ({})", request.roles),
        ("session_id IN ({})", request.sessions),
        ("session_id NOT IN ({})", request.exclude_sessions),
        ("session_id IN (SELECT id FROM sessions WHERE user_id IN ({}))", (request.user,)),
    ):
        if any(values):
            yield SqlCondition(test.format(placeholders(values)), values)
    if request.since is not None:
        yield SqlCondition("timestamp >= ?", (request.since,))
    if request.until is not None:
        yield SqlCondition("timestamp <= ?", (request.until,))
