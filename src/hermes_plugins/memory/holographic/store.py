"""The facts of the local provider in an SQLite file.

`open_facts` opens the file and replaces a damaged one. `FactStore` adds facts without duplicates
and marks older facts as replaced when a newer one claims another value.
"""

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

from hermes.sdk import (
    StoreCorrupt,
    StoreError,
    ToolArgumentsInvalid,
    clean,
    file_lock,
    is_unspaced,
    similar_words,
    transaction,
    with_retries,
)
from hermes_plugins.memory.holographic.extraction import (
    Claim,
    extract_entities,
    normalize,
    parse_claim,
    significant_words,
)

SCHEMA_VERSION = 2
BUSY_MILLISECONDS = 2000
LOCK_SECONDS = 5

SQL_SCHEMA = """
CREATE TABLE facts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL,                 -- whose fact; '' is the owner
    text TEXT NOT NULL,
    terms TEXT NOT NULL,                -- its words, folded: equal texts have equal terms
    subject TEXT NOT NULL DEFAULT '',   -- what it claims, if that is known
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

SQL_VERSION_2 = "ALTER TABLE facts ADD COLUMN projects TEXT NOT NULL DEFAULT ''"
"""The folders of the projects that a fact concerns, a line each; '' if it holds everywhere."""

DAMAGED = (apsw.NotADBError, apsw.CorruptError)


def open_facts(path: Path, tell: Callable[[str], None]) -> apsw.Connection:
    """Return a connection, creating the file if necessary.

    A damaged file is moved aside, reported to the user and replaced by an empty one. Raises
    `StoreError`.
    """
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
    hint = "check the permissions of the file and its folder, and the free space on the disk"
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
        with_retries(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchall())
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")  # forgotten facts must not stay on disk
        with_retries(lambda: _prepare(connection))
        undo.pop_all()
    return connection


def _prepare(connection: apsw.Connection) -> None:
    found = _version(connection)
    if found > SCHEMA_VERSION:
        raise apsw.CantOpenError("it was written by a later version of Hermes")
    if found == 0:
        with transaction(connection):
            if _version(connection) == 0:  # another process may have created it meanwhile
                connection.execute(SQL_SCHEMA)
                connection.execute("PRAGMA user_version = 1")
    if found < SCHEMA_VERSION:
        with transaction(connection):
            if _version(connection) < SCHEMA_VERSION:
                connection.execute(SQL_VERSION_2)
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != "ok":
        raise apsw.CorruptError(" ".join(str(verdict).split()))


def _version(connection: apsw.Connection) -> int:
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    return int(str(version))


def _replace(path: Path, damage: Exception, tell: Callable[[str], None]) -> None:
    """Move the damaged file aside, unless another process has done so meanwhile."""
    try:
        with file_lock(path.with_name(".lock"), LOCK_SECONDS):
            try:
                _connect(path).close()
            except DAMAGED:
                aside = _move_aside(path)
            else:
                return
    except (OSError, apsw.Error) as error:
        raise unusable_error(path, damage) from error
    tell(f"the facts in {path} were damaged ({damage}); they are kept as {aside.name}")


def _move_aside(path: Path) -> Path:
    stamp = datetime.fromtimestamp(time.time(), UTC).strftime("%Y%m%d-%H%M%S")
    aside, number = path.with_name(f"{path.name}.damaged-{stamp}"), 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    return aside


# Trust changes with confirmations, contradictions and ratings. Weight is trust that fades with
# time.

DAY = 86_400
HALF_LIFE_DAYS = 60  #: Half-life of an unused fact; each doubling of its uses adds as much.
MIN_FRESHNESS = 0.4  #: Lower bound, so that old facts rank behind newer ones but never disappear.
MIN_RECALL_TRUST = 0.15  #: Facts with less trust are not recalled; a search still finds them.


def fact_weight(trust: float, touched: float, uses: int, now: float) -> float:
    """Return a weight between 0 and 1. `touched` is the time of the last confirmation or use."""
    days = max(0.0, now - touched) / DAY
    half_life = HALF_LIFE_DAYS * (1 + math.log2(1 + uses))
    freshness = math.pow(0.5, days / half_life)
    return trust * (MIN_FRESHNESS + (1 - MIN_FRESHNESS) * freshness)


SOURCE_SAID, SOURCE_TOOL, SOURCE_NOTES = "said", "tool", "notes:"
"""Sources of facts: user messages, the model's tool, the built-in notes (`notes:<target>`)."""

MAX_ID_DIGITS = 18  #: Larger numbers do not fit into an SQLite integer.

COLUMNS = (
    "facts.id, text, terms, source, session, trust, created, confirmed, used, uses,"
    " coalesce(replaced_by, 0), projects"
)


class Fact(msgspec.Struct, frozen=True):
    """One stored fact; the fields are in the order of `COLUMNS`."""

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
    replaced_by: int  #: Id of the fact that replaced this one, or 0.
    projects: str  #: Folders of the projects it concerns, a line each; "" if it holds everywhere.

    def weight(self, now: float) -> float:
        return fact_weight(self.trust, max(self.confirmed, self.used), self.uses, now)

    def concerns(self, project: str) -> bool:
        return not self.projects or project in self.projects.splitlines()

    def to_prompt(self) -> str:
        """Return the text for the model, with the date of the last confirmation."""
        words = f'user said: "{self.text}"' if self.source == SOURCE_SAID else self.text
        return f"{words} ({format_day(self.confirmed)})"


def parse_id(text: str) -> int | None:
    """Return the fact id in `text`, or None."""
    number = int(text) if text.isdecimal() and len(text) <= MAX_ID_DIGITS else 0
    return number or None


def format_day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).date().isoformat()


# Search by meaning needs the extra `embeddings` and a configured model.

MIN_COSINE = 0.4  #: Cosine similarity from which two texts count as similar.


class Embedder(Protocol):
    name: str  #: Stored with each vector, because vectors of different models cannot be compared.

    def embed(self, text: str) -> Sequence[float]: ...


class StaticEmbedder:
    """A model2vec model: a table of word vectors without a neural network."""

    def __init__(self, name: str) -> None:
        self.name = name
        # By name, because the package is an optional extra without type information.
        self._model = import_module("model2vec").StaticModel.from_pretrained(name)

    def embed(self, text: str) -> Sequence[float]:
        return [float(each) for each in self._model.encode([text])[0]]


def unit_vector(vector: Sequence[float]) -> bytes:
    """Return the vector scaled to length 1, as stored; b"" for a zero vector."""
    length = math.sqrt(sum(map(mul, vector, vector)))
    return array("f", (each / length for each in vector)).tobytes() if length else b""


def similar_facts(
    connection: apsw.Connection, user: str, embedder: Embedder, query: str
) -> dict[int, float]:
    """Return the facts with a similar meaning and their cosine similarity."""
    wanted = array("f", unit_vector(embedder.embed(query)))
    rows = connection.execute(
        "SELECT fact, vector FROM vectors JOIN facts ON facts.id = fact"
        " WHERE user = ? AND model = ?",
        (user, embedder.name),
    )
    found = {fact: sum(map(mul, wanted, array("f", stored))) for fact, stored in rows}
    return {fact: cosine for fact, cosine in found.items() if cosine >= MIN_COSINE}


MAX_QUERY_WORDS = 24  #: Words of a query that are used: half from its beginning, half from its end.


MIN_SIMILAR_CHARS = 6  #: A shorter word is too often only by chance similar to another one.


def match_words(
    connection: apsw.Connection, user: str, words: tuple[str, ...]
) -> dict[int, tuple[str, ...]]:
    """Return the facts of a user that contain at least one word, with the words they contain. In
    place of a word that no fact has, similar ones count: it may have a typing error."""
    found: dict[int, tuple[str, ...]] = {}
    vocabulary: set[str] = set()

    def find(word: str) -> list[int]:
        quoted = '"' + word.replace('"', '""') + '"'
        rows = connection.execute(
            "SELECT facts.id FROM facts_words JOIN facts ON facts.id = facts_words.rowid"
            " WHERE facts_words MATCH ? AND user = ?",
            (quoted, user),
        )
        return [fact_id for (fact_id,) in rows]

    if len(words) > MAX_QUERY_WORDS:
        words = (*words[: MAX_QUERY_WORDS // 2], *words[-MAX_QUERY_WORDS // 2 :])
    for word in words:
        ids = find(word)
        if not ids and len(word) >= MIN_SIMILAR_CHARS and not is_unspaced(word):
            if not vocabulary:
                terms = connection.execute("SELECT terms FROM facts WHERE user = ?", (user,))
                vocabulary.update(*(row[0].split() for row in terms))
            ids = [fact_id for other in similar_words(word, vocabulary) for fact_id in find(other)]
        for fact_id in dict.fromkeys(ids):
            found[fact_id] = (*found.get(fact_id, ()), word)
    return found


# The stored facts of one user, row by row.

Rows = list[tuple[Any, ...]]


MAX_FACT_CHARS = 2000
MAX_FACTS = 5000  #: Limit per user; beyond it the facts with the least weight are deleted.
DUPLICATE_SHARE = 0.85  #: Share of common words from which two facts count as duplicates.

_NEGATIONS = frozenset({"not", "no", "never", "without", "don't", "doesn't", "isn't", "can't"})


class AddResult(msgspec.Struct, frozen=True):
    fact: Fact
    outcome: Literal["added", "confirmed"]
    replaced: tuple[Fact, ...] = ()  #: Facts that were replaced by this one.


class FactStore:
    """The facts of one user; `user` is empty for the owner. Each change is one transaction."""

    def __init__(
        self,
        connection: apsw.Connection,
        user: str,
        *,
        embedder: Embedder | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.connection, self.user, self.embedder, self.now = connection, user, embedder, now

    def add(
        self, text: str, *, source: str, session: str, trust: float, project: str = ""
    ) -> AddResult:
        """Add a fact, or confirm the one that says the same. `trust` is its initial trust, and
        `project` the only project that it concerns."""
        tidy = normalize_text(text)

        def work() -> AddResult:
            with transaction(self.connection):
                self._mark_seen(tidy)
                added = self._add(tidy, source, session, trust)
                known = added.fact.projects.splitlines()
                if added.outcome == "added":
                    self.set_columns(added.fact.id, projects=project)
                elif not project or not known:  # what was said for everywhere stays so
                    self.set_columns(added.fact.id, projects="")
                elif project not in known:
                    self.set_columns(added.fact.id, projects="\n".join((*known, project)))
                return added

        return with_retries(work)

    def add_if_unseen(
        self, text: str, *, source: str, session: str, trust: float, project: str = ""
    ) -> bool:
        """Add a statement of an older message unless it was added before, because it may have been
        replaced or forgotten since. Return whether it was added."""
        rows = self.query(
            "SELECT 1 FROM seen WHERE user = ? AND print = ?", self.user, _fingerprint(text)
        )
        if not rows:
            self.add(text, source=source, session=session, trust=trust, project=project)
        return not rows

    def update(self, fact_id: int, text: str) -> Fact | None:
        """Replace the text of a fact, merging it with a fact that already says this.

        Return None if there is no such fact.
        """
        tidy = normalize_text(text)

        def work() -> Fact | None:
            with transaction(self.connection):
                old, twin = self.get(fact_id), self.find_same(tidy)
                if old is None:
                    return None
                if twin is not None and twin.id != old.id:
                    self.remove(old.id)
                    return self._confirm(twin, twin.session, 0.0, parse_claim(tidy)).fact
                self.rewrite(old.id, tidy)
                self.set_columns(old.id, confirmed=self.now())
                self._mark_replaced(parse_claim(tidy), old.id)
                return self.require(old.id)

        return with_retries(work)

    def rate(self, fact_id: int, *, helpful: bool) -> Fact | None:
        """Raise or lower the trust of a fact. Return None if there is no such fact."""

        def work() -> Fact | None:
            with transaction(self.connection):
                fact = self.get(fact_id)
                if fact is None:
                    return None
                trust = fact.trust + 0.2 * (1 - fact.trust) if helpful else fact.trust * 0.6
                self.set_columns(fact_id, trust=trust)
                return self.require(fact_id)

        return with_retries(work)

    def forget(self, fact_id: int) -> bool:
        """Delete a fact permanently, also from the write-ahead log. Return False if there is no
        such fact."""
        found = self.remove(fact_id)
        if found:
            self.query("PRAGMA wal_checkpoint(TRUNCATE)")
        return found

    def mark_used(self, ids: Iterable[int]) -> None:
        for fact_id in ids:
            self.query(
                "UPDATE facts SET used = ?, uses = uses + 1 WHERE id = ?", *(self.now(), fact_id)
            )

    def get(self, fact_id: int) -> Fact | None:
        return next(iter(self.select("facts.id = ?", fact_id)), None)

    def require(self, fact_id: int) -> Fact:
        """Return a fact that must exist."""
        fact = self.get(fact_id)
        if fact is None:
            raise LookupError(f"fact {fact_id} is gone")
        return fact

    def find_same(self, text: str) -> Fact | None:
        """Return the fact with the same words."""
        return next(iter(self.select("terms = ?", normalize(text))), None)

    def find_claims(self, claim: Claim | None, *, same: bool) -> list[Fact]:
        """Return the facts that claim the same value, or another value of the attribute."""
        if claim is None:
            return []
        return self.select(
            f"subject = ? AND attribute = ? AND value {'=' if same else '<>'} ?",
            claim.subject,
            claim.attribute,
            claim.value,
        )

    def newest(self, limit: int) -> list[Fact]:
        return self.select("1 ORDER BY max(confirmed, used) DESC, facts.id DESC LIMIT ?", limit)

    def select(self, condition: str, *values: object) -> list[Fact]:
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
        self._derive(fact_id, text)
        return fact_id

    def rewrite(self, fact_id: int, text: str) -> None:
        self.set_columns(fact_id, text=text, terms=normalize(text))
        self._derive(fact_id, text)

    def set_columns(self, fact_id: int, **columns: object) -> None:
        named = ", ".join(f"{name} = ?" for name in columns)
        self.query(f"UPDATE facts SET {named} WHERE id = ?", *columns.values(), fact_id)

    def remove(self, fact_id: int) -> bool:
        found = self.get(fact_id) is not None
        if found:
            self.query("DELETE FROM facts WHERE id = ?", fact_id)
        return found

    def fill_vectors(self, limit: int = 500) -> int:
        """Compute missing vectors, newest facts first, and return their number."""
        if self.embedder is None:
            return 0
        rows = self.query(
            "SELECT id, text FROM facts WHERE user = ? AND id NOT IN"
            " (SELECT fact FROM vectors WHERE model = ?) ORDER BY id DESC LIMIT ?",
            *(self.user, self.embedder.name, limit),
        )
        for fact_id, text in rows:
            self._store_vector(fact_id, text)
        return len(rows)

    def query(self, statement: str, *values: object) -> Rows:
        """Run one statement and return its rows; waits while another process writes."""
        found: Rows = with_retries(lambda: self.connection.execute(statement, values).fetchall())
        return found

    def _add(self, text: str, source: str, session: str, trust: float) -> AddResult:
        claim = parse_claim(text)
        known = self.find_same(text) or next(iter(self.find_claims(claim, same=True)), None)
        if known is None and (known := self._find_near_duplicate(text)) is not None:
            self.rewrite(known.id, text)
        if known is not None:
            return self._confirm(known, session, trust, claim)
        fact_id = self.insert(text, source, session, trust)
        replaced = self._mark_replaced(claim, fact_id)
        self._evict_excess()
        return AddResult(self.require(fact_id), "added", replaced)

    def _confirm(self, fact: Fact, session: str, trust: float, claim: Claim | None) -> AddResult:
        """Raise the trust of a fact stated again in another session, and make it current."""
        again = fact.trust + 0.3 * (1 - fact.trust) if session != fact.session else fact.trust
        self.set_columns(
            fact.id,
            trust=max(trust, again),
            confirmed=self.now(),
            session=session,
            replaced_by=None,
        )
        replaced = self._mark_replaced(claim, fact.id)
        return AddResult(self.require(fact.id), "confirmed", replaced)

    def _mark_replaced(self, claim: Claim | None, winner: int) -> tuple[Fact, ...]:
        """Mark facts that claim another value as replaced by `winner`, with less trust."""
        found = self.find_claims(claim, same=False)
        old = tuple(fact for fact in found if not fact.replaced_by and fact.id != winner)
        for fact in old:
            self.set_columns(fact.id, replaced_by=winner, trust=fact.trust * 0.4)
        return old

    def _find_near_duplicate(self, text: str) -> Fact | None:
        """Return a fact with nearly the same words and the same entities.

        A different number or negation makes a different fact.
        """
        mine, about = (
            set(significant_words(text)),
            {normalize(each) for each in extract_entities(text)},
        )
        found = match_words(self.connection, self.user, tuple(sorted(mine)))
        for fact_id in sorted(found, key=lambda each: -len(found[each]))[:10]:
            fact = self.require(fact_id)
            theirs = set(significant_words(fact.text))
            other = set(normalize(text).split()) ^ set(fact.terms.split())
            if len(mine & theirs) < DUPLICATE_SHARE * len(mine | theirs) or other & _NEGATIONS:
                continue
            if any(character.isdigit() for word in other for character in word):
                continue
            if about == {normalize(each) for each in extract_entities(fact.text)}:
                return fact
        return None

    def _evict_excess(self) -> None:
        over = self.count() - MAX_FACTS
        if over > 0:
            now = self.now()
            facts = self.select("1")
            facts.sort(key=lambda fact: (not fact.replaced_by, fact.weight(now)))
            for fact in facts[:over]:
                self.remove(fact.id)

    def _mark_seen(self, text: str) -> None:
        self.query("INSERT OR IGNORE INTO seen VALUES (?, ?)", self.user, _fingerprint(text))

    def _derive(self, fact_id: int, text: str) -> None:
        """Store what is derived from the text: claim, links and vector."""
        claim = parse_claim(text) or Claim("", "", "")
        self.set_columns(
            fact_id, subject=claim.subject, attribute=claim.attribute, value=claim.value
        )
        self.query("DELETE FROM links WHERE fact = ?", fact_id)
        for entity in extract_entities(text):
            self.query("INSERT OR IGNORE INTO links VALUES (?, ?)", fact_id, normalize(entity))
        self._store_vector(fact_id, text)

    def _store_vector(self, fact_id: int, text: str) -> None:
        self.query("DELETE FROM vectors WHERE fact = ?", fact_id)
        vector = unit_vector(self.embedder.embed(text)) if self.embedder else b""
        if self.embedder and vector:
            name = self.embedder.name
            self.query("INSERT INTO vectors VALUES (?, ?, ?)", fact_id, name, vector)


def normalize_text(text: str) -> str:
    """Return the text as stored. Raises `ToolArgumentsInvalid` if it is empty or too long."""
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
