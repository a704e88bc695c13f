"""Searching the messages."""

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from psycopg import errors

from hermes.store.backend import Progress, Row
from hermes.store.postgres import schema
from hermes.store.postgres.connection import PostgresDatabase
from hermes.store.query_language import Group, Query, Term, is_unspaced
from hermes.store.records import Candidate, SearchRequest
from hermes.store.rows import user_text
from hermes.store.search import CANDIDATES

# The words of a text, and the text form of the `tsvector` that finds them.
#
# PostgreSQL's own parsers and dictionaries have no part in it: the words are split here, the same
# way on every server. Letters and digits of any script make words, everything else separates them;
# case and diacritics do not count. A run of a script written without spaces is found by its single
# characters and its overlapping pairs, which need no positions, and counts as one word for the
# distance of its neighbours.

POSITIONS = 16_383
"""The highest position PostgreSQL stores."""
POSITIONS_A_LEXEME = 255
LEXEME_BYTES = 2000
VECTOR_BYTES = 1_000_000
"""A little less than PostgreSQL's limit."""

CLIPPED = "…"
"""A lexeme no text has. It marks a vector without the position of every word, in which a phrase
cannot be seen for certain."""

_KEPT_CLASSES = frozenset({0, 7, 8, 9, *range(84, 133)})
"""Combining classes of marks that are letters of their script: vowel signs, nukta, kana voicing,
virama, tones. The marks of all other classes are diacritics."""


class Piece(NamedTuple):
    text: str
    is_run: bool
    """Whether it is a run of a script written without spaces, or else a word."""


def pieces(text: str) -> Iterator[Piece]:
    """The words and runs of `text` in order, folded."""
    plain = _folded(text)
    characters = set(plain)
    separators = {ord(c): " " for c in characters if not _is_part_of_word(c)}
    unspaced = {c for c in characters if is_unspaced(c)}
    for word in plain.translate(separators).split():
        if unspaced.isdisjoint(word):
            yield Piece(_cut(word), False)
        else:
            for is_run, part in groupby(word, unspaced.__contains__):
                whole = "".join(part)
                yield Piece(whole if is_run else _cut(whole), is_run)


def grams(run: str) -> list[str]:
    """What a run is looked up by: its pairs, or itself when it is one character."""
    return [first + second for first, second in pairwise(run)] or [run]


def vector(text: str) -> str:
    """The `tsvector` of a text, within PostgreSQL's limits however long the text is: first
    positions are left out, then the words that come last."""
    found: dict[str, list[int]] = {}
    clipped = False
    for position, piece in enumerate(pieces(text), 1):
        if piece.is_run:
            for lexeme in (*piece.text, *grams(piece.text)):
                found.setdefault(lexeme, [])
            continue
        positions = found.setdefault(piece.text, [])
        if position <= POSITIONS and len(positions) < POSITIONS_A_LEXEME:
            positions.append(position)
        else:
            clipped = True
    return _rendered(found, clipped)


def quoted(lexeme: str) -> str:
    """A lexeme as `tsvector` and `tsquery` read it."""
    escaped = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _rendered(found: dict[str, list[int]], clipped: bool) -> str:
    kept = {CLIPPED: list[int]()} if clipped else {}
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
            made.append(f"{quoted(lexeme)}:{','.join(map(str, positions))}")
        else:
            clipped = clipped or bool(positions)
            made.append(quoted(lexeme))
    if clipped and CLIPPED not in kept:
        made.append(quoted(CLIPPED))
    return " ".join(made)


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFD", text.casefold())
    diacritics = {ord(c): None for c in set(apart) if _is_diacritic(c)}
    return unicodedata.normalize("NFC", apart.translate(diacritics))


def _is_diacritic(character: str) -> bool:
    """Variation selectors, which have class 0, and enclosing marks count as such."""
    category = unicodedata.category(character)
    if category == "Mn":
        is_selector = "VARIATION SELECTOR" in unicodedata.name(character, "")
        return is_selector or unicodedata.combining(character) not in _KEPT_CLASSES
    return category == "Me"


def _is_part_of_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character) in ("Mn", "Mc", "Co")


def _cut(word: str) -> str:
    if len(word) * 4 <= LEXEME_BYTES:
        return word
    return word.encode()[:LEXEME_BYTES].decode(errors="ignore")


# From a parsed query to SQL over `messages`.


class Condition(NamedTuple):
    sql: str
    values: tuple[Any, ...] = ()


def condition(query: Query) -> Condition:
    """What a message must fulfil to match."""
    return _joined(" OR ", [_group(group) for group in query.any_of])


def rank_query(query: Query) -> str:
    """The `tsquery` that tells how well a message matches; empty when only single characters and
    pairs are looked for, which have no positions to judge by."""
    groups = [
        " & ".join(f"({_phrase(words, term)})" for term, words in _ranked(group))
        for group in query.any_of
    ]
    return " | ".join(f"({group})" for group in groups if group)


def _ranked(group: Group) -> list[tuple[Term, list[Piece]]]:
    parsed = [(term, _pieces(term)) for term in group.all_of]
    return [(term, found) for term, found in parsed if not any(piece.is_run for piece in found)]


def _group(group: Group) -> Condition:
    wanted = [_term(term) for term in group.all_of]
    unwanted = [_term(term) for term in group.none_of]
    return _joined(" AND ", [*wanted, *(Condition(f"NOT {c.sql}", c.values) for c in unwanted)])


def _term(term: Term) -> Condition:
    found = _pieces(term)
    if any(piece.is_run for piece in found):
        return _unspaced(term, found)
    if len(found) == 1:
        return Condition("(search @@ ?::tsquery)", (_phrase(found, term),))
    # Where positions are missing the text itself is looked at.
    phrase, words = _phrase(found, term), _phrase(found, term, " & ")
    return Condition(
        "(search @@ ?::tsquery AND (search @@ ?::tsquery OR strpos(lower(content), ?) > 0))",
        (f"({phrase}) | ({quoted(CLIPPED)} & {words})", phrase, _lower(term.text)),
    )


def _unspaced(term: Term, found: list[Piece]) -> Condition:
    """Pairs of characters say which messages to look at, the text whether it has them in order."""
    lexemes = [
        quoted(gram)
        for piece in found
        for gram in (grams(piece.text) if piece.is_run else [piece.text])
    ]
    if term.prefix and not found[-1].is_run:
        lexemes[-1] += ":*"
    look = Condition("(search @@ ?::tsquery)", (" & ".join(lexemes),))
    if len(found) == 1 and len(found[0].text) <= 2:
        return look
    checks = [Condition("strpos(lower(content), ?) > 0", (text,)) for text in _needles(term, found)]
    return _joined(" AND ", [look, *checks])


def _needles(term: Term, found: list[Piece]) -> list[str]:
    """Texts that must be there. The server can tell the case of ASCII letters only, so with
    others in the term its runs are looked for one by one."""
    if all(c.isascii() or c.lower() == c.upper() for c in term.text):
        return [_lower(term.text)]
    return [piece.text for piece in found if piece.is_run]


def _phrase(found: list[Piece], term: Term, operator: str = " <-> ") -> str:
    return operator.join(quoted(piece.text) for piece in found) + (":*" if term.prefix else "")


def _pieces(term: Term) -> list[Piece]:
    return list(pieces(term.text)) or list(pieces(" ".join(term.words)))


def _lower(text: str) -> str:
    """As the server does it with the collation "C"."""
    return "".join(c.lower() if c.isascii() else c for c in text)


def _joined(operator: str, conditions: list[Condition]) -> Condition:
    sql = operator.join(one.sql for one in conditions)
    return Condition(f"({sql})", tuple(value for one in conditions for value in one.values))


# Keeping `messages.search` in step with the text.

_BATCH_ROWS = 500
_BATCH_BYTES = 4_000_000

# The size of a stored text is known without reading it.
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
    """Insert a message with its vector; the new id."""
    values = dict(zip(columns, row, strict=True))
    search = vector(_searchable(values["role"], values.get("content")))
    return int(database.rows(_insertion(tuple(columns)), (*row, search))[0][0])


def index_all(database: PostgresDatabase, progress: Progress) -> int:
    """Make the vector of every message anew, a batch at a time; how many there are."""
    total = int(database.rows("SELECT count(*) FROM messages")[0][0])
    progress(0, total)
    done = 0
    for count in _batches(database, _ALL):
        done += count
        progress(done, max(done, total))
    return done


def index_missing(database: PostgresDatabase) -> None:
    """Make the vectors of messages that another program wrote or changed. Where that is not
    allowed, as on a standby server, they stay unfound."""
    with suppress(errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege):
        for _ in _batches(database, _MISSING):
            pass


def _batches(database: PostgresDatabase, statement: str) -> Iterator[int]:
    last = 0
    while rows := database.rows(statement, (last, last, _BATCH_ROWS, _BATCH_BYTES)):
        vectors = [vector(_searchable(role, content)) for _, role, content in rows]
        database.change(_STORE, ([row[0] for row in rows], vectors))
        last = rows[-1][0]
        yield len(rows)


def rebuild_index(database: PostgresDatabase) -> None:
    """Write the index itself anew, without getting in the way of others where that can be. One
    that is not there is made."""
    for statement in schema.INDEXES:
        database.run(statement)
    how = "" if database.in_transaction else "CONCURRENTLY"
    database.run(f"REINDEX INDEX {how} {schema.SEARCH_INDEX}")


def _searchable(role: str, content: str | None) -> str:
    """What a person would look for: of a message with images, its words."""
    text = content or ""
    return user_text(text) if role == "user" and text.startswith("[") else text


@lru_cache(maxsize=8)
def _insertion(columns: tuple[str, ...]) -> str:
    marks = ", ".join("?" for _ in columns)
    names = ", ".join(columns)
    return f"INSERT INTO messages ({names}, search) VALUES ({marks}, ?::tsvector) RETURNING id"


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
