"""What PostgreSQL reports, as the errors of Hermes.

Errors of a statement are told apart by their SQLSTATE. A refused connection has none, only a text;
one in a language other than English gets the general message, with that text in it.
"""

import re

import msgspec
import psycopg

from hermes.core.errors import StoreCorrupt, StoreError, StoreFull


class InTheWay(StoreError):
    """Something is in the way now and may not be in a moment."""


class Unanswered(StoreError):
    """Nobody answers at the address."""


class FateUnknown(StoreError):
    """The connection was lost during a commit and the server could not be asked about it."""


class Fault(msgspec.Struct, frozen=True):
    says: str
    """May hold `{where}` and `{reason}`."""
    hint: str
    kind: type[StoreError] = StoreError


IN_THE_WAY = frozenset(
    {
        "40001",  # serialization failure
        "40P01",  # deadlock
        "55P03",  # lock timeout
        "57P01",  # the server is shutting down, or somebody ended this connection
        "57P02",
        "57P03",  # starting up
        "57P05",  # ended for being idle
        "25P03",  # ended for being idle in a transaction
        "53300",  # too many connections
    }
)

_LOST = Fault(
    "the connection to the session store {where} was lost ({reason})",
    "Look whether the server runs; nothing confirmed is lost.",
    InTheWay,
)
_HELD = Fault(
    "the session store {where} is held by another process ({reason})",
    "Try again; if it stays so, look for a hanging process in pg_stat_activity.",
    InTheWay,
)
_GENERAL = Fault(
    "the session store {where} cannot be used ({reason})", "Look at the log of the server."
)

_BY_STATE = {
    "53100": Fault(
        "no room left on the disk of the session store {where}",
        "Free some space on the server and go on; everything confirmed so far is kept.",
        StoreFull,
    ),
    "25006": Fault(
        "the session store {where} is read-only",
        "Connect to the primary server, not to a standby, or look at "
        "default_transaction_read_only of the database.",
    ),
    "42501": Fault(
        "this user may not do that in the session store {where} ({reason})",
        "Grant it: GRANT USAGE, CREATE ON SCHEMA … TO …; or give Hermes a database of its own.",
    ),
    "57014": Fault(
        "the session store {where} took too long and was interrupted",
        "Try again; a longer limit is set with ?options=-cstatement_timeout%3D5min in store.url.",
    ),
    **dict.fromkeys(("55P03", "40001", "40P01"), _HELD),
    "XX001": Fault(
        "the session store {where} is damaged ({reason})",
        "Stop the server, copy its folder, and restore a backup.",
        StoreCorrupt,
    ),
    "XX002": Fault(
        "an index of the session store {where} is damaged ({reason})",
        "Run `hermes sessions reindex`, or REINDEX DATABASE on the server.",
        StoreCorrupt,
    ),
}

_AT_CONNECT = (
    (
        "starting up|shutting down|recovery mode|not yet accepting|not accepting|slots|too many",
        Fault(
            "the server of the session store {where} does not take connections now ({reason})",
            "Try again in a moment.",
            InTheWay,
        ),
    ),
    (
        "password authentication failed|no password supplied|authentication failed",
        Fault(
            "the server of the session store {where} refused the user or the password",
            "Correct them in store.url, or keep the password in ~/.pgpass.",
        ),
    ),
    (
        'database "[^"]*" does not exist',
        Fault(
            "there is no database for the session store at {where}",
            "Create it on the server: createdb --encoding=UTF8 --template=template0 NAME",
        ),
    ),
    (
        'role "[^"]*" does not exist',
        Fault(
            "the server of the session store {where} does not know the user",
            "Create it on the server: createuser --pwprompt NAME",
        ),
    ),
    (
        "pg_hba.conf",
        Fault(
            "the server of the session store {where} does not let this machine in ({reason})",
            "Add a line for it to pg_hba.conf on the server.",
        ),
    ),
    (
        "could not translate host name|resolve|Name or service",
        Fault(
            "the host of the session store {where} is not known ({reason})",
            "Look for a slip in the host name of store.url.",
        ),
    ),
    (
        "SSL|TLS|certificate",
        Fault(
            "no secure connection to the session store {where} ({reason})",
            "Look at sslmode and sslrootcert in store.url, and at `ssl` of the server.",
        ),
    ),
    (
        "refused|timeout|timed out|No such file|No route|unreachable|closed the connection",
        Fault(
            "no PostgreSQL server answers at {where} ({reason})",
            "Start it, or correct the host and the port in store.url.",
            Unanswered,
        ),
    ),
)


def is_in_the_way(error: Exception) -> bool:
    """Whether the same work may well succeed in a moment. A lost connection has no SQLSTATE."""
    if not isinstance(error, psycopg.Error):
        return isinstance(error, InTheWay)
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state in IN_THE_WAY or state.startswith("08")


def is_race(error: Exception) -> bool:
    """Whether another writer made or removed a row between our look and our change. A second look
    sees it, and the caller gets the proper error."""
    return isinstance(error, psycopg.errors.UniqueViolation | psycopg.errors.ForeignKeyViolation)


def as_store_error(error: Exception, where: str) -> Exception:
    """The `StoreError` that says what `error` means for the user, or `error` if it is another."""
    if not isinstance(error, psycopg.Error):
        return error
    state = error.sqlstate or ""
    if state in _BY_STATE:
        return _made(_BY_STATE[state], error, where)
    if is_in_the_way(error):
        return _made(_LOST, error, where)
    return _made(_GENERAL, error, where)


def connect_error(error: psycopg.Error, where: str) -> StoreError:
    """What a refused connection means."""
    if error.sqlstate in _BY_STATE:
        return _made(_BY_STATE[error.sqlstate], error, where)
    reason = _reason(error)
    for pattern, fault in _AT_CONNECT:
        if re.search(pattern, reason, re.IGNORECASE):
            return _made(fault, error, where)
    return _made(_GENERAL, error, where)


def _made(fault: Fault, error: psycopg.Error, where: str) -> StoreError:
    return fault.kind(fault.says.format(where=where, reason=_reason(error)), hint=fault.hint)


def _reason(error: psycopg.Error) -> str:
    """The last line that says something: libpq puts the addresses it tried before it."""
    primary = error.diag.message_primary
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    tries = [line for line in lines if "failed: " in line]
    text = primary or (tries or lines or [type(error).__name__])[-1].rpartition("failed: ")[2]
    return text.removeprefix("FATAL:").strip()
