"""Transactions whose end is known, even when the connection is lost during COMMIT.

A client that sends COMMIT and hears nothing does not know whether its transaction was kept. To run
it again might store everything twice; not to, might lose it. So each transaction begins by writing
a number into the row of its connection in the table `writers`. After a loss, another connection
ends the session that was left behind on the server and reads that row. The read has to wait for
whoever still holds the row, so the answer is final: the number is there exactly when the
transaction was kept.

The status of the transaction's id (`pg_xact_status`) would not do: the ids of transactions that a
crash of the server swept away are given out again, and then tell of somebody else's commit.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import psycopg

from hermes.core.errors import StoreError
from hermes.store.postgres.database import PostgresDatabase
from hermes.store.postgres.faults import FateUnknown

Reconnect = Callable[[], PostgresDatabase]

ASKING_SECONDS = 30.0
"""How long the server is asked about a lost commit before that is given up."""

_BEGIN = """
BEGIN;
INSERT INTO writers (id, token, used_at) VALUES ('{id}', {token}, now())
ON CONFLICT (id) DO UPDATE SET token = excluded.token, used_at = excluded.used_at
"""
_FORGET_OLD = "DELETE FROM writers WHERE used_at < now() - interval '30 days'"

_END_SESSION = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = ? AND datname = current_database() AND usename = current_user
    AND pid <> pg_backend_pid()
"""
# Nothing is changed, but an unfinished transaction that wrote this row is waited for, also when
# the row is its own and not yet visible.
_READ_TOKEN = """
INSERT INTO writers (id, token, used_at) VALUES (?, -1, now())
ON CONFLICT (id) DO UPDATE SET token = writers.token RETURNING token
"""


@contextmanager
def transaction(database: PostgresDatabase, reconnect: Reconnect) -> Iterator[None]:
    """Kept when the block ends well, undone in every other case.

    When the connection is lost during COMMIT and the transaction was kept, this ends well, with a
    connection that is stale. When it was not kept, the error that is raised says "in the way", so
    the work may be run again. When nobody can be asked, it is `FateUnknown`.
    """
    token = random.getrandbits(62)
    with ExitStack() as undo:
        undo.callback(_roll_back, database)
        database.run(_BEGIN.format(id=database.writer_id, token=token))
        database.has_written = True
        yield
        undo.pop_all()
    try:
        _commit(database)
    except psycopg.Error:
        if not database.is_lost or not _was_kept(database, token, reconnect):
            raise


def forget_old(database: PostgresDatabase) -> None:
    """Remove the rows of connections that ended without a word."""
    database.change(_FORGET_OLD)


def _roll_back(database: PostgresDatabase) -> None:
    # On a lost connection the server does it by itself.
    with suppress(psycopg.Error):
        database.run("ROLLBACK")


def _commit(database: PostgresDatabase) -> None:
    if database.run("COMMIT") != "COMMIT":
        # A statement failed and somebody went on as if it had not; the server undid everything.
        raise StoreError(
            "the session store undid a change because a part of it failed",
            hint="Nothing of it was saved; try again.",
        )


def _was_kept(lost: PostgresDatabase, token: int, reconnect: Reconnect) -> bool:
    """Whether the transaction that wrote `token` on the lost connection was kept."""
    give_up = time.monotonic() + ASKING_SECONDS
    while True:
        try:
            return _ask(lost, token, reconnect)
        except (psycopg.Error, StoreError) as error:
            if time.monotonic() > give_up:
                raise FateUnknown(
                    "the connection to the session store was lost during a save and the server "
                    "does not answer; whether the last messages were saved is not known",
                    hint="When the server is back, look at the end of the conversation.",
                ) from error
            time.sleep(random.uniform(0.1, 0.5))


def _ask(lost: PostgresDatabase, token: int, reconnect: Reconnect) -> bool:
    database = reconnect()
    try:
        database.rows(_END_SESSION, (lost.backend_pid,))
        [(found,)] = database.rows(_READ_TOKEN, (lost.writer_id,))
    finally:
        database.close()
    return bool(found == token)
