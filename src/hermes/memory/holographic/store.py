"""The file with the facts: opening it, and what to do when it is damaged."""

import contextlib
import hashlib
import math
import os
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from operator import mul
from pathlib import Path
from typing import Any, Literal, Protocol

import apsw
import msgspec

from hermes.core.errors import StoreCorrupt, StoreError, ToolArgumentsInvalid
from hermes.memory.holographic.extraction import (
    Claim,
    extract_entities,
    normalize,
    parse_claim,
    significant_words,
)
from hermes.store.sqlite.errors import patiently, transaction
from hermes.util.text import clean

SCHEMA_VERSION = 1
BUSY_MILLISECONDS = 2000
LOCK_SECONDS = 5

SQL_SCHEMA = """
CREATE TABLE facts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL,                 -- whose fact; '' is the owner
    text TEXT NOT NULL,
    terms TEXT NOT NULL,                -- its words, folded: equal texts have equal terms
    subject TEXT NOT NULL DEFAULT '',   -- what it claims, if that could be told
    attribute TEXT NOT NULL DEFAULT '',
    value TEXT NOT NULL DEFAULT '',
    source TEXT NOT NULL,               -- said, tool, or notes:<target>
    session TEXT NOT NULL,              -- in which it was said last
    trust REAL NOT NULL,                -- 0 to 1
    created REAL NOT NULL,
    confirmed REAL NOT NULL,
    used REAL NOT NULL,
    uses INTEGER NOT NULL DEFAULT 0,
    replaced_by INTEGER REFERENCES facts (id) ON DELETE SET NULL
);
CREATE UNIQUE INDEX facts_same ON facts (user, terms);
CREATE INDEX facts_claims ON facts (user, subject, attribute) WHERE attribute <> '';
CREATE TABLE links (
    fact INTEGER NOT NULL REFERENCES facts (id) ON DELETE CASCADE,
    entity TEXT NOT NULL,               -- folded
    PRIMARY KEY (fact, entity)
) WITHOUT ROWID;
CREATE INDEX links_by_entity ON links (entity);
CREATE TABLE vectors (
    fact INTEGER PRIMARY KEY REFERENCES facts (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    vector BLOB NOT NULL                -- of unit length, 32-bit floats
);
CREATE TABLE seen (
    user TEXT NOT NULL,
    print BLOB NOT NULL,                -- of a statement that was considered once
    PRIMARY KEY (user, print)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE facts_words USING fts5 (
    terms, content='facts', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2'
);
INSERT INTO facts_words (facts_words, rank) VALUES ('secure-delete', 1);
CREATE TRIGGER facts_added AFTER INSERT ON facts BEGIN
    INSERT INTO facts_words (rowid, terms) VALUES (new.id, new.terms);
END;
CREATE TRIGGER facts_removed AFTER DELETE ON facts BEGIN
    INSERT INTO facts_words (facts_words, rowid, terms) VALUES ('delete', old.id, old.terms);
END;
CREATE TRIGGER facts_changed AFTER UPDATE OF terms ON facts BEGIN
    INSERT INTO facts_words (facts_words, rowid, terms) VALUES ('delete', old.id, old.terms);
    INSERT INTO facts_words (rowid, terms) VALUES (new.id, new.terms);
END;
"""

DAMAGED = (apsw.NotADBError, apsw.CorruptError)


def open_facts(path: Path, tell: Callable[[str], None]) -> apsw.Connection:
    """A connection to the facts, which are made when they are not there. A damaged file is set
    aside, the user is told, and a fresh one takes its place. Raises `StoreError`."""
    try:
        return _connect(path)
    except DAMAGED as damage:
        _replace(path, damage, tell)
    except (apsw.Error, OSError) as error:
        raise unusable_error(path, error) from error
    try:
        return _connect(path)
    except (apsw.Error, OSError) as error:
        raise unusable_error(path, error) from error


def unusable_error(path: Path, error: Exception) -> StoreError:
    hint = "look at the permissions of the file and its folder, and at the room on the disk"
    if isinstance(error, DAMAGED):
        return StoreCorrupt(
            f"the facts in {path} are damaged ({error})", hint="it will be replaced"
        )
    return StoreError(f"the facts in {path} cannot be used ({error})", hint=hint)


def _connect(path: Path) -> apsw.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = apsw.Connection(str(path))
    with contextlib.ExitStack() as undo:
        undo.callback(connection.close)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchall())
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")  # what is forgotten is not in the file
        patiently(lambda: _prepare(connection))
        undo.pop_all()
    return connection


def _prepare(connection: apsw.Connection) -> None:
    found = _version(connection)
    if found > SCHEMA_VERSION:
        raise apsw.CantOpenError("it was written by a later version of Hermes")
    if found == 0:
        with transaction(connection):
            if _version(connection) == 0:  # another process may have been faster
                connection.execute(SQL_SCHEMA)
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != "ok":
        raise apsw.CorruptError(" ".join(str(verdict).split()))


def _version(connection: apsw.Connection) -> int:
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    return int(str(version))


def _replace(path: Path, damage: Exception, tell: Callable[[str], None]) -> None:
    """Move the damaged file away, unless another process has done so by now."""
    lock = import_module("filelock").FileLock(path.with_name(".lock"), timeout=LOCK_SECONDS)
    try:
        with lock:
            try:
                _connect(path).close()
            except DAMAGED:
                aside = _set_aside(path)
            else:
                return
    except (OSError, apsw.Error, TimeoutError) as error:
        raise unusable_error(path, damage) from error
    tell(f"the facts in {path} were damaged ({damage}); they are kept as {aside.name}")


def _set_aside(path: Path) -> Path:
    stamp = datetime.fromtimestamp(time.time(), UTC).strftime("%Y%m%d-%H%M%S")
    aside, number = path.with_name(f"{path.name}.damaged-{stamp}"), 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    return aside


# How far a fact counts: trust changes with what is said about it, weight fades with time.

DAY = 86_400
HALF_LIFE_DAYS = 60
"""Of a fact that was never used; each doubling of its uses adds as much."""
MIN_FRESHNESS = 0.4
"""An old fact is not forgotten, only behind newer ones."""
MIN_RECALL_TRUST = 0.15
"""A fact that is trusted less is not recalled by itself; a search still finds it."""


def confirmed_trust(trust: float) -> float:
    """Said again, in another session."""
    return trust + 0.3 * (1 - trust)


def contradicted_trust(trust: float) -> float:
    """Something newer says otherwise."""
    return trust * 0.4


def rated_trust(trust: float, *, helpful: bool) -> float:
    return trust + 0.2 * (1 - trust) if helpful else trust * 0.6


def fact_weight(trust: float, touched: float, uses: int, now: float) -> float:
    """Between 0 and 1. `touched` is when the fact was last confirmed or used."""
    days = max(0.0, now - touched) / DAY
    half_life = HALF_LIFE_DAYS * (1 + math.log2(1 + uses))
    freshness = math.pow(0.5, days / half_life)
    return trust * (MIN_FRESHNESS + (1 - MIN_FRESHNESS) * freshness)


# One remembered fact.

SOURCE_SAID, SOURCE_TOOL, SOURCE_NOTES = "said", "tool", "notes:"
"""Where facts come from: the user's words, the model's tool, the built-in notes of some target."""

MAX_ID_DIGITS = 18
"""Digits; SQLite takes no larger numbers."""

COLUMNS = (
    "facts.id, text, terms, source, session, trust, created, confirmed, used, uses,"
    " coalesce(replaced_by, 0)"
)


class Fact(msgspec.Struct, frozen=True):
    """In the order of `COLUMNS`."""

    id: int
    text: str
    terms: str
    source: str
    session: str
    trust: float
    created: float
    confirmed: float
    used: float
    uses: int
    replaced_by: int
    """The fact that counts instead; 0: none."""

    def weight(self, now: float) -> float:
        return fact_weight(self.trust, max(self.confirmed, self.used), self.uses, now)

    def told(self) -> str:
        """As a model is shown it: when it was last said matters as much as what."""
        words = f'user said: "{self.text}"' if self.source == SOURCE_SAID else self.text
        return f"{words} ({format_day(self.confirmed)})"


def parse_id(text: str) -> int | None:
    """The id that `text` is; None when it is none."""
    number = int(text) if text.isdecimal() and len(text) <= MAX_ID_DIGITS else 0
    return number or None


def format_day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).date().isoformat()


# Search by meaning, when the extra `embeddings` is installed and a model is named.

MIN_COSINE = 0.4
"""Cosine from which two texts count as being about the same."""


class Embedder(Protocol):
    name: str
    """Vectors of different models cannot be compared."""

    def embed(self, text: str) -> Sequence[float]: ...


class StaticEmbedder:
    """A model2vec model: a table of word vectors, no neural network to run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._model = import_module("model2vec").StaticModel.from_pretrained(name)

    def embed(self, text: str) -> Sequence[float]:
        return [float(each) for each in self._model.encode([text])[0]]


def unit_vector(vector: Sequence[float]) -> bytes:
    """The vector with length 1, as it is stored; b"" for one that has no direction."""
    length = math.sqrt(sum(map(mul, vector, vector)))
    return array("f", (each / length for each in vector)).tobytes() if length else b""


def similar_facts(
    connection: apsw.Connection, user: str, embedder: Embedder, query: str
) -> dict[int, float]:
    """The facts that mean something similar, with the cosine."""
    wanted = array("f", unit_vector(embedder.embed(query)))
    rows = connection.execute(
        "SELECT fact, vector FROM vectors JOIN facts ON facts.id = fact"
        " WHERE user = ? AND model = ?",
        (user, embedder.name),
    )
    found = {fact: sum(map(mul, wanted, array("f", stored))) for fact, stored in rows}
    return {fact: cosine for fact, cosine in found.items() if cosine >= MIN_COSINE}


# Which facts hold which words.

MAX_QUERY_WORDS = 24
"""Of a query: half of them from its beginning, half from its end."""


def match_words(
    connection: apsw.Connection, user: str, words: tuple[str, ...]
) -> dict[int, tuple[str, ...]]:
    """The facts of a user that hold at least one of the words, with those they hold."""
    found: dict[int, tuple[str, ...]] = {}
    if len(words) > MAX_QUERY_WORDS:
        words = (*words[: MAX_QUERY_WORDS // 2], *words[-MAX_QUERY_WORDS // 2 :])
    for word in words:
        quoted = '"' + word.replace('"', '""') + '"'
        rows = connection.execute(
            "SELECT facts.id FROM facts_words JOIN facts ON facts.id = facts_words.rowid"
            " WHERE facts_words MATCH ? AND user = ?",
            (quoted, user),
        )
        for (fact_id,) in rows:
            found[fact_id] = (*found.get(fact_id, ()), word)
    return found


# The stored facts of one user, row by row.

Rows = list[tuple[Any, ...]]


class Table:
    """`user` is empty for the owner. `now` tells the time in seconds."""

    def __init__(
        self,
        connection: apsw.Connection,
        user: str,
        *,
        embedder: Embedder | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.connection, self.user, self.embedder, self.now = connection, user, embedder, now

    def get(self, fact_id: int) -> Fact | None:
        return next(iter(self.where("facts.id = ?", fact_id)), None)

    def sure(self, fact_id: int) -> Fact:
        """A fact that is known to be there."""
        fact = self.get(fact_id)
        if fact is None:
            raise LookupError(f"fact {fact_id} is gone")
        return fact

    def same(self, text: str) -> Fact | None:
        """The fact with the same words."""
        return next(iter(self.where("terms = ?", normalize(text))), None)

    def claimed(self, claim: Claim | None, *, same: bool) -> list[Fact]:
        """The facts that claim the same, or another value of the same attribute."""
        if claim is None:
            return []
        return self.where(
            f"subject = ? AND attribute = ? AND value {'=' if same else '<>'} ?",
            claim.subject,
            claim.attribute,
            claim.value,
        )

    def newest(self, limit: int) -> list[Fact]:
        return self.where("1 ORDER BY max(confirmed, used) DESC, facts.id DESC LIMIT ?", limit)

    def where(self, condition: str, *values: object) -> list[Fact]:
        rows = self.query(
            f"SELECT {COLUMNS} FROM facts WHERE user = ? AND {condition}", self.user, *values
        )
        return [Fact(*row) for row in rows]

    def count(self) -> int:
        return int(self.query("SELECT count(*) FROM facts WHERE user = ?", self.user)[0][0])

    def insert(self, text: str, source: str, session: str, trust: float) -> int:
        now = self.now()
        self.query(
            "INSERT INTO facts"
            " (user, text, terms, source, session, trust, created, confirmed, used)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(self.user, text, normalize(text), source, session, trust, now, now, now),
        )
        fact_id = self.connection.last_insert_rowid()
        self._describe(fact_id, text)
        return fact_id

    def rewrite(self, fact_id: int, text: str) -> None:
        self.change(fact_id, text=text, terms=normalize(text))
        self._describe(fact_id, text)

    def change(self, fact_id: int, **columns: object) -> None:
        named = ", ".join(f"{name} = ?" for name in columns)
        self.query(f"UPDATE facts SET {named} WHERE id = ?", *columns.values(), fact_id)

    def remove(self, fact_id: int) -> bool:
        found = self.get(fact_id) is not None
        if found:
            self.query("DELETE FROM facts WHERE id = ?", fact_id)
        return found

    def fill_vectors(self, limit: int = 500) -> int:
        """Give facts a vector that were added without, newest first; how many."""
        if self.embedder is None:
            return 0
        rows = self.query(
            "SELECT id, text FROM facts WHERE user = ? AND id NOT IN"
            " (SELECT fact FROM vectors WHERE model = ?) ORDER BY id DESC LIMIT ?",
            *(self.user, self.embedder.name, limit),
        )
        for fact_id, text in rows:
            self._give_vector(fact_id, text)
        return len(rows)

    def query(self, statement: str, *values: object) -> Rows:
        """All rows of one statement; waits while another process writes."""
        found: Rows = patiently(lambda: self.connection.execute(statement, values).fetchall())
        return found

    def _describe(self, fact_id: int, text: str) -> None:
        """What is derived from the text: its claim, its links, its vector."""
        claim = parse_claim(text) or Claim("", "", "")
        self.change(fact_id, subject=claim.subject, attribute=claim.attribute, value=claim.value)
        self.query("DELETE FROM links WHERE fact = ?", fact_id)
        for entity in extract_entities(text):
            self.query("INSERT OR IGNORE INTO links VALUES (?, ?)", fact_id, normalize(entity))
        self._give_vector(fact_id, text)

    def _give_vector(self, fact_id: int, text: str) -> None:
        self.query("DELETE FROM vectors WHERE fact = ?", fact_id)
        vector = unit_vector(self.embedder.embed(text)) if self.embedder else b""
        if self.embedder and vector:
            name = self.embedder.name
            self.query("INSERT INTO vectors VALUES (?, ?, ?)", fact_id, name, vector)


# Keeping facts: without repeating them, with the newer of two that contradict each other.

MAX_FACT_CHARS = 2000
MAX_FACTS = 5000
"""Of one user; beyond it those that count least go."""
DUPLICATE_SHARE = 0.85
"""Share of words two facts have in common from which they are one."""

_NEGATIONS = frozenset({"not", "no", "never", "without", "don't", "doesn't", "isn't", "can't"})


class AddResult(msgspec.Struct, frozen=True):
    fact: Fact
    outcome: Literal["added", "confirmed"]
    replaced: tuple[Fact, ...] = ()
    """What counted before and does not any more."""


class Facts:
    """What may be done to a table of facts. Each change is all or nothing."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def add(self, text: str, *, source: str, session: str, level: float) -> AddResult:
        """Keep a fact, or confirm the one that says the same. `level` is its trust at first."""
        tidy = normalize_text(text)

        def work() -> AddResult:
            with transaction(self.table.connection):
                self._mark_considered(tidy)
                return self._add(tidy, source, session, level)

        return patiently(work)

    def consider(self, text: str, *, source: str, session: str, level: float) -> bool:
        """Add what is read in an older message, unless it was added before: it may have been
        replaced or forgotten since."""
        rows = self.table.query(
            "SELECT 1 FROM seen WHERE user = ? AND print = ?", self.table.user, _fingerprint(text)
        )
        if not rows:
            self.add(text, source=source, session=session, level=level)
        return not rows

    def update(self, fact_id: int, text: str) -> Fact | None:
        """Put `text` in its place; None when there is no such fact. If another fact says that
        already, the two become one."""
        tidy = normalize_text(text)

        def work() -> Fact | None:
            with transaction(self.table.connection):
                old, twin = self.table.get(fact_id), self.table.same(tidy)
                if old is None:
                    return None
                if twin is not None and twin.id != old.id:
                    self.table.remove(old.id)
                    return self._confirm(twin, twin.session, 0.0, parse_claim(tidy)).fact
                self.table.rewrite(old.id, tidy)
                self.table.change(old.id, confirmed=self.table.now())
                self._outdate(parse_claim(tidy), old.id)
                return self.table.sure(old.id)

        return patiently(work)

    def rate(self, fact_id: int, *, helpful: bool) -> Fact | None:
        """None when there is no such fact."""

        def work() -> Fact | None:
            with transaction(self.table.connection):
                fact = self.table.get(fact_id)
                if fact is None:
                    return None
                self.table.change(fact_id, trust=rated_trust(fact.trust, helpful=helpful))
                return self.table.sure(fact_id)

        return patiently(work)

    def forget(self, fact_id: int) -> bool:
        """Delete it for good, also from the journal beside the file; False when there is no such
        fact."""
        found = self.table.remove(fact_id)
        if found:
            self.table.query("PRAGMA wal_checkpoint(TRUNCATE)")
        return found

    def mark_used(self, ids: Iterable[int]) -> None:
        for fact_id in ids:
            self.table.query(
                "UPDATE facts SET used = ?, uses = uses + 1 WHERE id = ?",
                *(self.table.now(), fact_id),
            )

    def _add(self, text: str, source: str, session: str, level: float) -> AddResult:
        claim = parse_claim(text)
        known = self.table.same(text) or next(iter(self.table.claimed(claim, same=True)), None)
        if known is None and (known := self._nearly_same(text)) is not None:
            self.table.rewrite(known.id, text)
        if known is not None:
            return self._confirm(known, session, level, claim)
        fact_id = self.table.insert(text, source, session, level)
        replaced = self._outdate(claim, fact_id)
        self._make_room()
        return AddResult(self.table.sure(fact_id), "added", replaced)

    def _confirm(self, fact: Fact, session: str, level: float, claim: Claim | None) -> AddResult:
        """Said again; within one session that adds nothing. What was replaced counts again."""
        again = confirmed_trust(fact.trust) if session != fact.session else fact.trust
        self.table.change(
            fact.id,
            trust=max(level, again),
            confirmed=self.table.now(),
            session=session,
            replaced_by=None,
        )
        replaced = self._outdate(claim, fact.id)
        return AddResult(self.table.sure(fact.id), "confirmed", replaced)

    def _outdate(self, claim: Claim | None, winner: int) -> tuple[Fact, ...]:
        """Older facts that claim another value: kept, but trusted less."""
        found = self.table.claimed(claim, same=False)
        old = tuple(fact for fact in found if not fact.replaced_by and fact.id != winner)
        for fact in old:
            lower = contradicted_trust(fact.trust)
            self.table.change(fact.id, replaced_by=winner, trust=lower)
        return old

    def _nearly_same(self, text: str) -> Fact | None:
        """A fact with nearly all the words, about the same things. A number or a negation more is
        a difference."""
        mine, about = (
            set(significant_words(text)),
            {normalize(each) for each in extract_entities(text)},
        )
        found = match_words(self.table.connection, self.table.user, tuple(sorted(mine)))
        for fact_id in sorted(found, key=lambda each: -len(found[each]))[:10]:
            fact = self.table.sure(fact_id)
            theirs = set(significant_words(fact.text))
            other = set(normalize(text).split()) ^ set(fact.terms.split())
            if len(mine & theirs) < DUPLICATE_SHARE * len(mine | theirs) or other & _NEGATIONS:
                continue
            if any(character.isdigit() for word in other for character in word):
                continue
            if about == {normalize(each) for each in extract_entities(fact.text)}:
                return fact
        return None

    def _make_room(self) -> None:
        over = self.table.count() - MAX_FACTS
        if over > 0:
            now = self.table.now()
            facts = self.table.where("1")
            facts.sort(key=lambda fact: (not fact.replaced_by, fact.weight(now)))
            for fact in facts[:over]:
                self.table.remove(fact.id)

    def _mark_considered(self, text: str) -> None:
        self.table.query(
            "INSERT OR IGNORE INTO seen VALUES (?, ?)", self.table.user, _fingerprint(text)
        )


def normalize_text(text: str) -> str:
    """As it can be kept. Raises `ToolArgumentsInvalid`."""
    tidy = " ".join(clean(text).split())
    if not normalize(tidy):
        raise ToolArgumentsInvalid("there are no words in it", hint="say what to remember")
    if len(tidy) > MAX_FACT_CHARS:
        raise ToolArgumentsInvalid(
            f"it has {len(tidy):,} characters, {MAX_FACT_CHARS:,} are allowed",
            hint="keep one fact at a time, in a sentence or two",
        )
    return tidy


def _fingerprint(text: str) -> bytes:
    return hashlib.sha256(normalize(text).encode()).digest()[:16]
