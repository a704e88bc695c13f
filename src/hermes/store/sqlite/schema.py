"""The objects of `state.db`, and its migrations.

The tables of version 6 are documented and do not change any more; changes are made by migrations.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import apsw

from hermes.core.errors import StoreTooNew
from hermes.store.schema import created, read_statements, shared_statements
from hermes.store.search import RANGES
from hermes.store.sqlite.health import transaction
from hermes.util.lazy import late_pattern

VERSION, ADDITIONS_VERSION = 6, 4

REBUILD_SEARCH = "INSERT INTO messages_fts(messages_fts) VALUES ('rebuild')"
REBUILD_TRIGRAMS = "INSERT INTO messages_trigram(messages_trigram) VALUES ('rebuild')"

_ADD_COLUMN = late_pattern(r"ALTER TABLE (\w+) ADD COLUMN (\w+)")
_UNSPACED = late_pattern(r"IS_UNSPACED\(([\w.]+)\)")
_LEADS = (
    *((lead, (lead & 0x0F) << 12, (lead & 0x0F) << 12 | 0x0FFF) for lead in range(0xE0, 0xED)),
    (0xED, 0xD000, 0xD7FF),
    (0xEE, 0xE000, 0xEFFF),
    (0xEF, 0xF000, 0xFFFF),
    (0xF0, 0x10000, 0x3FFFF),
)
"""First bytes of UTF-8 characters, with the first and last code point of each."""


@cache
def documented_statements() -> list[str]:
    """Return the statements that create the documented objects: tables first, then the rest."""
    return [*shared_statements()["version 6"], *_search_statements()["words"]]


@cache
def additions() -> dict[int, list[str]]:
    """Return the statements of each addition. All can be run again."""
    found = {n: shared_statements()[f"addition {n}"] for n in range(1, ADDITIONS_VERSION + 1)}
    return {**found, 1: [*found[1], *_search_statements()["trigrams"], REBUILD_TRIGRAMS]}


@cache
def migrations() -> dict[int, list[str]]:
    """Return the statements that lead to each version from the one before."""
    found = read_statements(Path(__file__).with_name("migrations.sql"))
    return {int(version): statements for version, statements in found.items()}


@cache
def _search_statements() -> dict[str, list[str]]:
    found = read_statements(Path(__file__).with_name("search.sql"))
    return {
        name: [_UNSPACED.sub(lambda text: _is_unspaced(text[1]), one) for one in statements]
        for name, statements in found.items()
    }


def _is_unspaced(text: str) -> str:
    """Return `search.is_unspaced` as a condition on the column `text`.

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


def documented_objects() -> set[str]:
    return {created(one) for one in documented_statements()}


def added_objects() -> set[str]:
    return {name for some in additions().values() for one in some if (name := created(one))}


def apply(connection: apsw.Connection, statements: list[str]) -> None:
    """Run the statements of a migration, except those that add a column that exists."""
    for statement in statements:
        if found := _ADD_COLUMN.match(statement):
            columns = connection.execute("SELECT name FROM pragma_table_info(?)", (found[1],))
            if (found[2],) in columns.fetchall():
                continue
        connection.execute(statement)


def set_version(connection: apsw.Connection, table: str, version: int) -> None:
    connection.execute(f"DELETE FROM {table}")
    connection.execute(f"INSERT INTO {table} (version) VALUES (?)", (version,))


def refuse_newer(connection: apsw.Connection) -> None:
    """Raise `StoreTooNew` for a database of a later version. It only reads."""
    found = _versions(connection, _objects(connection))
    for version, known in zip(found, (VERSION, ADDITIONS_VERSION), strict=True):
        if version > known:
            raise StoreTooNew(
                f"the session store has version {version}, this Hermes knows up to {known}",
                hint="Update Hermes, or choose another home with HERMES_HOME. Nothing was changed.",
            )


def migrate(connection: apsw.Connection) -> None:
    """Create missing objects and apply migrations, in one transaction."""
    objects = _objects(connection)
    is_complete = objects >= documented_objects() | added_objects()
    if not is_complete or _versions(connection, objects) != (VERSION, ADDITIONS_VERSION):
        with transaction(connection):
            _upgrade(connection)


def _upgrade(connection: apsw.Connection) -> None:
    objects = _objects(connection)
    old_version, old_additions = _versions(connection, objects)
    for statement in shared_statements()["version 6"]:
        if created(statement, "TABLE"):
            connection.execute(statement)
    for version, statements in migrations().items():
        if 0 < old_version < version:
            apply(connection, statements)
            set_version(connection, "schema_version", version)
    for statement in documented_statements():
        connection.execute(statement)
    if "messages" in objects and "messages_fts" not in objects:
        connection.execute(REBUILD_SEARCH)
    set_version(connection, "schema_version", VERSION)
    # A missing object is created again by its own addition.
    complete = objects >= added_objects()
    for version, statements in additions().items():
        if not complete or version > old_additions:
            apply(connection, statements)
    set_version(connection, "additions_version", ADDITIONS_VERSION)


def _objects(connection: apsw.Connection) -> set[str]:
    return {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")}


def _versions(connection: apsw.Connection, objects: set[str]) -> tuple[int, int]:
    """Return the version of the documented tables and of the additions.

    The first is 0 for an empty file and 1 for tables without a version.
    """
    documented, added = (
        int(connection.execute(f"SELECT max(version) FROM {table}").get or 0)
        if table in objects
        else 0
        for table in ("schema_version", "additions_version")
    )
    return documented or int("sessions" in objects), added
