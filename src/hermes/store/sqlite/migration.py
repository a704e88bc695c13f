"""A migration is data: columns to add and statements to run.

It may be run again without harm, for a column that is already there is left alone.
"""

import apsw
import msgspec


class Migration(msgspec.Struct, frozen=True):
    version: int
    """The version reached by it."""
    table: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    """Name and type of each column to add to `table`."""
    statements: tuple[str, ...] = ()


def apply(connection: apsw.Connection, migration: Migration) -> None:
    columns = connection.execute("SELECT name FROM pragma_table_info(?)", (migration.table,))
    present = {row[0] for row in columns.fetchall()}
    for name, kind in migration.columns:
        if name not in present:
            connection.execute(f"ALTER TABLE {migration.table} ADD COLUMN {name} {kind}")
    for statement in migration.statements:
        connection.execute(statement)


def version_in(connection: apsw.Connection, table: str) -> int:
    """The number in a table of one version; 0 when it is empty."""
    return int(connection.execute(f"SELECT max(version) FROM {table}").get or 0)


def set_version(connection: apsw.Connection, table: str, version: int) -> None:
    connection.execute(f"DELETE FROM {table}")
    connection.execute(f"INSERT INTO {table} (version) VALUES (?)", (version,))
