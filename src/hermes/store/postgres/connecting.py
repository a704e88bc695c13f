"""A connection that is fit for the store."""

from typing import Any

import psycopg

from hermes.core.errors import StoreError
from hermes.store.postgres.database import PostgresDatabase
from hermes.store.postgres.faults import connect_error

OLDEST = 13

# Where neither the server, the database, the user nor `store.url` says otherwise.
_SETTINGS = (
    ("lock_timeout", "5s"),
    ("statement_timeout", "2min"),
    ("idle_in_transaction_session_timeout", "1min"),
    ("jit", "off"),
)
_SET = f"""
SELECT set_config(name, wanted.value, false)
FROM pg_settings JOIN (VALUES {", ".join("(?, ?)" for _ in _SETTINGS)}) AS wanted(name, value)
    USING (name)
WHERE source = 'default'
"""


def open_connection(parameters: dict[str, Any], where: str) -> PostgresDatabase:
    """Raises `StoreError`."""
    try:
        connection = psycopg.connect(**parameters, autocommit=True)
    except psycopg.Error as error:
        raise connect_error(error, where) from error
    database = PostgresDatabase(connection)
    try:
        _refuse_unfit(database, where)
        database.rows(_SET, [text for setting in _SETTINGS for text in setting])
    except psycopg.Error as error:
        database.close()
        raise connect_error(error, where) from error
    except StoreError:
        database.close()
        raise
    return database


def _refuse_unfit(database: PostgresDatabase, where: str) -> None:
    info = database.connection.info
    version = info.server_version // 10_000
    if version < OLDEST:
        raise StoreError(
            f"the server of the session store {where} is PostgreSQL {version}",
            hint=f"Hermes needs PostgreSQL {OLDEST} or newer; update the server.",
        )
    encoding = info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(
            f"the database of the session store {where} has the encoding {encoding}",
            hint="Make one that holds every script: "
            "createdb --encoding=UTF8 --template=template0 NAME",
        )
