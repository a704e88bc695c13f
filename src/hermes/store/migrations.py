"""From an empty file, or from any earlier version, to the current schema.

A migration is data: columns to add and statements to run. It may be run again without harm, for a
column that is already there is left alone.
"""

import apsw
import msgspec

from hermes.core.errors import StoreTooNew
from hermes.store import schema
from hermes.store.transaction import transaction


class Migration(msgspec.Struct, frozen=True):
    version: int
    """The version reached by it."""
    table: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    """Name and type of each column to add to `table`."""
    statements: tuple[str, ...] = ()


# Before titles were unique two sessions could share one; each later one gets its id added.
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
    Migration(4, statements=(_SEPARATE_TITLES, schema.UNIQUE_TITLES)),
    Migration(
        5,
        "sessions",
        (
            ("cache_read_tokens", "INTEGER DEFAULT 0"),
            ("cache_write_tokens", "INTEGER DEFAULT 0"),
            ("reasoning_tokens", "INTEGER DEFAULT 0"),
            ("billing_provider", "TEXT"),
            ("billing_base_url", "TEXT"),
            ("billing_mode", "TEXT"),
            ("estimated_cost_usd", "REAL"),
            ("actual_cost_usd", "REAL"),
            ("cost_status", "TEXT"),
            ("cost_source", "TEXT"),
            ("pricing_version", "TEXT"),
        ),
    ),
    Migration(
        6,
        "messages",
        (
            ("reasoning", "TEXT"),
            ("reasoning_details", "TEXT"),
            ("codex_reasoning_items", "TEXT"),
        ),
    ),
)


def refuse_newer(connection: apsw.Connection) -> None:
    """Raise `StoreTooNew` for a database of a later version. Only reads."""
    version = _version(connection, _objects(connection))
    if version > schema.VERSION:
        raise StoreTooNew(
            f"the session store has version {version}, this Hermes knows up to {schema.VERSION}",
            hint="Update Hermes, or choose another home with HERMES_HOME. Nothing was changed.",
        )


def bring_up_to_date(connection: apsw.Connection) -> None:
    """Create what is missing and migrate what is old, all in one transaction."""
    if _is_current(connection):
        return
    with transaction(connection):
        _upgrade(connection)


def _is_current(connection: apsw.Connection) -> bool:
    objects = _objects(connection)
    return objects >= schema.OBJECTS and _version(connection, objects) == schema.VERSION


def _upgrade(connection: apsw.Connection) -> None:
    objects = _objects(connection)
    old_version = _version(connection, objects)
    for statement in (schema.VERSION_TABLE, schema.SESSIONS, schema.MESSAGES):
        connection.execute(statement)
    for migration in MIGRATIONS:
        if 0 < old_version < migration.version:
            _apply(connection, migration)
    connection.execute(schema.SEARCH)
    for statement in (*schema.INDEXES, *schema.TRIGGERS):
        connection.execute(statement)
    if "messages" in objects and "messages_fts" not in objects:
        connection.execute(schema.REBUILD_SEARCH)
    _set_version(connection, schema.VERSION)


def _apply(connection: apsw.Connection, migration: Migration) -> None:
    columns = connection.execute("SELECT name FROM pragma_table_info(?)", (migration.table,))
    present = {row[0] for row in columns.fetchall()}
    for name, kind in migration.columns:
        if name not in present:
            connection.execute(f"ALTER TABLE {migration.table} ADD COLUMN {name} {kind}")
    for statement in migration.statements:
        connection.execute(statement)
    _set_version(connection, migration.version)


def _objects(connection: apsw.Connection) -> set[str]:
    return {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")}


def _version(connection: apsw.Connection, objects: set[str]) -> int:
    """0 for an empty file; 1 where tables exist and nothing says which version they have."""
    if "schema_version" in objects:
        found = connection.execute("SELECT max(version) FROM schema_version").get
        if found is not None:
            return int(found)
    return 1 if "sessions" in objects else 0


def _set_version(connection: apsw.Connection, version: int) -> None:
    connection.execute("DELETE FROM schema_version")
    connection.execute("INSERT INTO schema_version (version) VALUES (?)", (version,))
