"""The tables of `state.db`, its search indexes, and the migrations.

The tables of version 6 are documented and do not change any more; changes are made by migrations.
`messages_fts` is an external-content index: it has no text of its own and is updated by the three
triggers, so triggers must not be bypassed.
"""

from collections.abc import Iterator

import apsw
import msgspec

from hermes.core.errors import StoreTooNew
from hermes.store import schema
from hermes.store.query_language import RANGES
from hermes.store.sqlite.errors import transaction

VERSION = 6

VERSION_TABLE = "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)"


def _create_statement(table: schema.Table) -> str:
    columns = [f"{name} {kind}" for name, kind in table.columns]
    if table.key:
        columns.append(f"PRIMARY KEY ({', '.join(table.key)})")
    lines = ",\n    ".join(columns)
    return f"CREATE TABLE IF NOT EXISTS {table.name} (\n    {lines}\n)"


SESSIONS, MESSAGES = _create_statement(schema.SESSIONS), _create_statement(schema.MESSAGES)

SEARCH = """
CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts
USING fts5(content, content=messages, content_rowid=id)
"""

REBUILD_SEARCH = "INSERT INTO messages_fts(messages_fts) VALUES ('rebuild')"

UNIQUE_TITLES = schema.UNIQUE_TITLES.statement
INDEXES = tuple(index.statement for index in schema.SESSION_INDEXES)

TRIGGERS = (
    """
    CREATE TRIGGER IF NOT EXISTS messages_fts_insert AFTER INSERT ON messages BEGIN
        INSERT INTO messages_fts(rowid, content) VALUES (new.id, new.content);
    END
    """,
    """
    CREATE TRIGGER IF NOT EXISTS messages_fts_delete AFTER DELETE ON messages BEGIN
        INSERT INTO messages_fts(messages_fts, rowid, content)
        VALUES ('delete', old.id, old.content);
    END
    """,
    """
    CREATE TRIGGER IF NOT EXISTS messages_fts_update AFTER UPDATE ON messages BEGIN
        INSERT INTO messages_fts(messages_fts, rowid, content)
        VALUES ('delete', old.id, old.content);
        INSERT INTO messages_fts(rowid, content) VALUES (new.id, new.content);
    END
    """,
)

OBJECTS = frozenset({
    "schema_version", "sessions", "messages", "messages_fts", "messages_fts_insert",
    "messages_fts_delete", "messages_fts_update",
    *(index.name for index in schema.SESSION_INDEXES),
})  # fmt: skip
"""All objects above; a database that has them needs no statement when it is opened."""


# The trigram index finds text in scripts written without spaces.
#
# Only messages with such text are in it, because indexing all messages would triple the cost of an
# append. It is an external-content index over a view, so it has no text of its own, and `rebuild`
# reads only the rows of the view.
#
# Two spaces follow each text in the index. So every character starts a trigram, and a term of one
# or two characters is found as the prefix of one, in `messages_trigram_places`.
#
# All statements are plain SQL of SQLite 3.34, because other programs write to the file too and run
# the triggers. For the same reason the tokenizer has no options: an older SQLite that does not know
# an option would fail at every write.

_LEADS = (
    *((lead, (lead & 0x0F) << 12, (lead & 0x0F) << 12 | 0x0FFF) for lead in range(0xE0, 0xED)),
    (0xED, 0xD000, 0xD7FF),
    (0xEE, 0xE000, 0xEFFF),
    (0xEF, 0xF000, 0xFFFF),
    (0xF0, 0x10000, 0x3FFFF),
)
"""First bytes of UTF-8 characters, with the first and last code point of each."""


def _is_unspaced(text: str) -> str:
    """Return `query_language.is_unspaced` as a condition on the column `text`.

    GLOB alone would cost more than the word index, because it tries each range at each character.
    Searching for the first bytes of such characters is ten times as fast; where a byte is shared
    with other scripts or emoji, only the ranges of that byte are tried. Text with as many bytes as
    characters is ASCII and needs no test.
    """
    return f"length(CAST({text} AS BLOB)) > length({text}) AND ({' OR '.join(_tests(text))})"


def _tests(text: str) -> Iterator[str]:
    for lead, low, high in _LEADS:
        inside = [(max(low, a), min(high, b)) for a, b, _ in RANGES if a <= high and low <= b]
        has_lead = f"instr(CAST({text} AS BLOB), x'{lead:02X}')"
        if inside == [(low, high)]:
            yield has_lead
        elif inside:
            characters = "".join(f"{chr(first)}-{chr(last)}" for first, last in inside)
            yield f"({has_lead} AND {text} GLOB '*[{characters}]*')"


_VIEW = f"""
CREATE VIEW IF NOT EXISTS messages_unspaced AS
SELECT id, content || '  ' AS content FROM messages WHERE {_is_unspaced("content")}
"""

_INDEX = """
CREATE VIRTUAL TABLE IF NOT EXISTS messages_trigram
USING fts5(content, content=messages_unspaced, content_rowid=id, tokenize='trigram')
"""

_PLACES = """
CREATE VIRTUAL TABLE IF NOT EXISTS messages_trigram_places
USING fts5vocab(messages_trigram, instance)
"""

_INSERT = f"""
CREATE TRIGGER IF NOT EXISTS messages_trigram_insert AFTER INSERT ON messages
WHEN {_is_unspaced("new.content")} BEGIN
    INSERT INTO messages_trigram(rowid, content) VALUES (new.id, new.content || '  ');
END
"""

_DELETE = f"""
CREATE TRIGGER IF NOT EXISTS messages_trigram_delete AFTER DELETE ON messages
WHEN {_is_unspaced("old.content")} BEGIN
    INSERT INTO messages_trigram(messages_trigram, rowid, content)
    VALUES ('delete', old.id, old.content || '  ');
END
"""

_UPDATE = f"""
CREATE TRIGGER IF NOT EXISTS messages_trigram_update AFTER UPDATE OF id, content ON messages BEGIN
    INSERT INTO messages_trigram(messages_trigram, rowid, content)
    SELECT 'delete', old.id, old.content || '  ' WHERE {_is_unspaced("old.content")};
    INSERT INTO messages_trigram(rowid, content)
    SELECT new.id, new.content || '  ' WHERE {_is_unspaced("new.content")};
END
"""

SEARCH_STATEMENTS = (_VIEW, _INDEX, _PLACES, _INSERT, _DELETE, _UPDATE)
"""Each can be run again. After the first time run `REBUILD_TRIGRAMS`."""

REBUILD_TRIGRAMS = "INSERT INTO messages_trigram(messages_trigram) VALUES ('rebuild')"

SEARCH_OBJECTS = frozenset({
    "messages_unspaced", "messages_trigram", "messages_trigram_places", "messages_trigram_insert",
    "messages_trigram_delete", "messages_trigram_update",
})  # fmt: skip
"""Every named object above."""


# Migrations


class Migration(msgspec.Struct, frozen=True):
    """Columns to add and statements to run. It can be applied again: existing columns are
    skipped."""

    version: int  #: The version after it.
    table: str = ""
    columns: tuple[tuple[str, str], ...] = ()  #: Name and type of each column to add to `table`.
    statements: tuple[str, ...] = ()


def apply(connection: apsw.Connection, migration: Migration) -> None:
    columns = connection.execute("SELECT name FROM pragma_table_info(?)", (migration.table,))
    present = {row[0] for row in columns.fetchall()}
    for name, kind in migration.columns:
        if name not in present:
            connection.execute(f"ALTER TABLE {migration.table} ADD COLUMN {name} {kind}")
    for statement in migration.statements:
        connection.execute(statement)


def stored_version(connection: apsw.Connection, table: str) -> int:
    """Return the number in a version table, 0 if it is empty."""
    return int(connection.execute(f"SELECT max(version) FROM {table}").get or 0)


def set_version(connection: apsw.Connection, table: str, version: int) -> None:
    connection.execute(f"DELETE FROM {table}")
    connection.execute(f"INSERT INTO {table} (version) VALUES (?)", (version,))


# What this program keeps beyond schema version 6.
#
# The documented tables keep their version, so a program that knows only version 6 still opens the
# file. Additions have a counter of their own and only ever add: a column, a table, an index.

ADDITIONS_TABLE = "CREATE TABLE IF NOT EXISTS additions_version (version INTEGER NOT NULL)"

ADDITIONS = (
    Migration(
        1,
        "sessions",
        (("archived_at", "REAL"),),
        (
            _create_statement(schema.PROJECTIONS),
            schema.PROJECTIONS_INDEX.statement,
            _create_statement(schema.MODEL_CALLS),
            schema.CALLS_INDEX.statement,
            *SEARCH_STATEMENTS,
            REBUILD_TRIGRAMS,
        ),
    ),
    Migration(2, statements=(schema.CALLS_TIME_INDEX.statement,)),
    Migration(
        3,
        statements=(
            *(_create_statement(table) for table in schema.TABLES),
            *(index.statement for index in schema.INDEXES),
        ),
    ),
)
ADDITIONS_VERSION = ADDITIONS[-1].version

ADDED_OBJECTS = SEARCH_OBJECTS | {
    "additions_version", "projections", "idx_projections_session", "model_calls",
    "idx_model_calls_session", "idx_model_calls_time",
    *(one.name for one in (*schema.TABLES, *schema.INDEXES)),
}  # fmt: skip


# Before titles were unique, sessions could share one; the later ones get their id appended.
_SEPARATE_TITLES = """
UPDATE sessions SET title = title || ' (' || id || ')'
WHERE title IS NOT NULL AND EXISTS (
    SELECT 1 FROM sessions AS other
    WHERE other.title = sessions.title
    AND (other.started_at, other.id) < (sessions.started_at, sessions.id)
)
"""

MIGRATIONS = (
    Migration(2, "messages", (("finish_reason", "TEXT"),)),
    Migration(3, "sessions", (("title", "TEXT"),)),
    Migration(4, statements=(_SEPARATE_TITLES, UNIQUE_TITLES)),
    Migration(
        5,
        "sessions",
        (
            *(
                (name, "INTEGER DEFAULT 0")
                for name in ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
            ),
            *((name, "TEXT") for name in ("billing_provider", "billing_base_url", "billing_mode")),
            *((name, "REAL") for name in ("estimated_cost_usd", "actual_cost_usd")),
            *((name, "TEXT") for name in ("cost_status", "cost_source", "pricing_version")),
        ),
    ),
    Migration(
        6,
        "messages",
        (("reasoning", "TEXT"), ("reasoning_details", "TEXT"), ("codex_reasoning_items", "TEXT")),
    ),
)


def refuse_newer(connection: apsw.Connection) -> None:
    """Raise `StoreTooNew` for a database of a later version. It only reads."""
    objects = _objects(connection)
    for found, known in (
        (_version(connection, objects), VERSION),
        (_additions_version(connection, objects), ADDITIONS_VERSION),
    ):
        if found > known:
            raise StoreTooNew(
                f"the session store has version {found}, this Hermes knows up to {known}",
                hint="Update Hermes, or choose another home with HERMES_HOME. Nothing was changed.",
            )


def migrate(connection: apsw.Connection) -> None:
    """Create missing objects and apply migrations, in one transaction."""
    if _is_current(connection):
        return
    with transaction(connection):
        _upgrade(connection)


def _is_current(connection: apsw.Connection) -> bool:
    objects = _objects(connection)
    return (
        objects >= OBJECTS | ADDED_OBJECTS
        and _version(connection, objects) == VERSION
        and _additions_version(connection, objects) == ADDITIONS_VERSION
    )


def _upgrade(connection: apsw.Connection) -> None:
    objects = _objects(connection)
    old_version = _version(connection, objects)
    old_additions = _additions_version(connection, objects)
    for statement in (VERSION_TABLE, SESSIONS, MESSAGES, ADDITIONS_TABLE):
        connection.execute(statement)
    for migration in MIGRATIONS:
        if 0 < old_version < migration.version:
            apply(connection, migration)
            set_version(connection, "schema_version", migration.version)
    connection.execute(SEARCH)
    for statement in (*INDEXES, *TRIGGERS):
        connection.execute(statement)
    if "messages" in objects and "messages_fts" not in objects:
        connection.execute(REBUILD_SEARCH)
    set_version(connection, "schema_version", VERSION)
    # A missing object is created again by its own addition.
    complete = objects >= ADDED_OBJECTS
    for addition in ADDITIONS:
        if not complete or addition.version > old_additions:
            apply(connection, addition)
    set_version(connection, "additions_version", ADDITIONS_VERSION)


def _objects(connection: apsw.Connection) -> set[str]:
    return {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")}


def _version(connection: apsw.Connection, objects: set[str]) -> int:
    """Return 0 for an empty file and 1 for tables without a version."""
    found = stored_version(connection, "schema_version") if "schema_version" in objects else 0
    return found or int("sessions" in objects)


def _additions_version(connection: apsw.Connection, objects: set[str]) -> int:
    return stored_version(connection, "additions_version") if "additions_version" in objects else 0
