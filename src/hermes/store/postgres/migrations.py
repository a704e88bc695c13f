"""From an empty schema, or from an earlier version, to the current tables.

All of it happens in one transaction under an advisory lock, so several machines may start at once.
The tables live in the first schema of the connection's `search_path`.
"""

from hermes.core.errors import StoreError, StoreTooNew
from hermes.store import tables
from hermes.store.postgres import schema
from hermes.store.postgres.database import PostgresDatabase

_LOCK = int.from_bytes(b"hermes", "big")
_OWN_SIGNS = {("sessions", "source"), ("messages", "session_id"), ("schema_version", "version")}
"""Columns that every version had. Tables of these names without them belong to somebody else."""
_LATER_SIGNS = {
    table.name: {(table.name, column) for column, _ in table.columns[:5]} for table in tables.TABLES
}
"""The same for tables that came later."""

_BEGIN = f"""
BEGIN;
SET LOCAL lock_timeout = 0;
SET LOCAL statement_timeout = 0;
SELECT pg_advisory_xact_lock({_LOCK})
"""
_VERSIONS = (("schema_version", schema.VERSION), ("additions_version", schema.ADDITIONS_VERSION))


def bring_up_to_date(database: PostgresDatabase) -> None:
    """Make what is missing, refuse what is newer. A current store is only read."""
    if _is_current(database):
        return
    database.run(_BEGIN)
    try:
        if not _is_current(database):
            _refuse_unfit_schema(database)
            _upgrade(database)
        database.run("COMMIT")
    finally:
        if not database.is_lost and database.in_transaction:
            database.run("ROLLBACK")


def _is_current(database: PostgresDatabase) -> bool:
    """Raises `StoreTooNew` for a later version."""
    columns = _columns(database)
    found = [
        _version(database, table) if columns >= _OWN_SIGNS and (table, "version") in columns else 0
        for table, _ in _VERSIONS
    ]
    for version, (_, known) in zip(found, _VERSIONS, strict=True):
        if version > known:
            raise StoreTooNew(
                f"the session store has version {version}, this Hermes knows up to {known}",
                hint="Update Hermes, or choose another store.url. Nothing was changed.",
            )
    return found == [known for _, known in _VERSIONS]


def _version(database: PostgresDatabase, table: str) -> int:
    return int(database.rows(f"SELECT coalesce(max(version), 0) FROM {table}")[0][0])


def _columns(database: PostgresDatabase) -> set[tuple[str, str]]:
    """Table and column, as far as the tables have a name of ours."""
    rows = database.rows(
        "SELECT relname::text, attname::text FROM pg_attribute"
        " JOIN pg_class ON pg_class.oid = attrelid"
        " JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE nspname = current_schema() AND attnum > 0 AND NOT attisdropped"
        " AND relname = ANY(?)",
        ([table.name for table in schema.TABLES],),
    )
    return {(table, column) for table, column in rows}


def _refuse_unfit_schema(database: PostgresDatabase) -> None:
    """A database shared with another program may hold tables of the same names."""
    if database.rows("SELECT current_schema()") == [(None,)]:
        raise StoreError(
            "the database of the session store has no schema to keep tables in",
            hint="Create the one that search_path names: CREATE SCHEMA …",
        )
    columns = _columns(database)
    names = {table for table, _ in columns}
    taken = sorted(
        name for name, signs in _LATER_SIGNS.items() if name in names and not columns >= signs
    )
    if columns and not columns >= _OWN_SIGNS:
        taken = sorted(names)
    if taken:
        raise StoreError(
            f"the database has tables of another program where Hermes wants its own: {taken}",
            hint="Give Hermes a schema: CREATE SCHEMA hermes; and add "
            "?options=-csearch_path%3Dhermes to store.url. Nothing was changed.",
        )


def _upgrade(database: PostgresDatabase) -> None:
    for table in schema.TABLES:
        for statement in table.statements():
            database.run(statement)
    for statement in (*schema.INDEXES, *schema.TRIGGERS):
        database.run(statement)
    for name, version in _VERSIONS:
        database.change(f"DELETE FROM {name}")
        database.change(f"INSERT INTO {name} (version) VALUES (?)", (version,))
