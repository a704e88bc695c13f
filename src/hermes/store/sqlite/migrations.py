"""From an empty file, or from any earlier version, to the current schema and its additions."""

import apsw

from hermes.core.errors import StoreTooNew
from hermes.store.sqlite import additions, schema
from hermes.store.sqlite.migration import Migration, apply, set_version, version_in
from hermes.store.sqlite.transaction import transaction

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
    objects = _objects(connection)
    for found, known in (
        (_version(connection, objects), schema.VERSION),
        (_additions(connection, objects), additions.VERSION),
    ):
        if found > known:
            raise StoreTooNew(
                f"the session store has version {found}, this Hermes knows up to {known}",
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
    return (
        objects >= schema.OBJECTS | additions.OBJECTS
        and _version(connection, objects) == schema.VERSION
        and _additions(connection, objects) == additions.VERSION
    )


def _upgrade(connection: apsw.Connection) -> None:
    objects = _objects(connection)
    old_version, old_additions = _version(connection, objects), _additions(connection, objects)
    for statement in (schema.VERSION_TABLE, schema.SESSIONS, schema.MESSAGES, additions.TABLE):
        connection.execute(statement)
    for migration in MIGRATIONS:
        if 0 < old_version < migration.version:
            apply(connection, migration)
            set_version(connection, "schema_version", migration.version)
    connection.execute(schema.SEARCH)
    for statement in (*schema.INDEXES, *schema.TRIGGERS):
        connection.execute(statement)
    if "messages" in objects and "messages_fts" not in objects:
        connection.execute(schema.REBUILD_SEARCH)
    set_version(connection, "schema_version", schema.VERSION)
    # An object that went missing is made again by its own addition.
    complete = objects >= additions.OBJECTS
    for addition in additions.ADDITIONS:
        if not complete or addition.version > old_additions:
            apply(connection, addition)
    set_version(connection, "additions_version", additions.VERSION)


def _objects(connection: apsw.Connection) -> set[str]:
    return {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")}


def _version(connection: apsw.Connection, objects: set[str]) -> int:
    """0 for an empty file; 1 where tables exist and nothing says which version they have."""
    found = version_in(connection, "schema_version") if "schema_version" in objects else 0
    return found or int("sessions" in objects)


def _additions(connection: apsw.Connection, objects: set[str]) -> int:
    return version_in(connection, "additions_version") if "additions_version" in objects else 0
