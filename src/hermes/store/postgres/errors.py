"""PostgreSQL errors as `StoreError`.

Errors of a statement are classified by their SQLSTATE. A refused connection has none, only a text;
a text in a language other than English gives the general message, which contains it.
"""

import re

import msgspec
import psycopg

from hermes.core.errors import StoreCorrupt, StoreError, StoreFull


class TemporaryStoreError(StoreError):
    """A temporary failure: the same work may succeed in a moment."""


class ServerNotReached(StoreError):
    """No server answers at the address."""


class CommitOutcomeUnknown(StoreError):
    """The connection was lost during a commit, and the server could not be asked about the
    outcome."""


class ErrorTemplate(msgspec.Struct, frozen=True):
    message: str  #: May contain `{where}` and `{reason}`.
    hint: str
    kind: type[StoreError] = StoreError


TEMPORARY_STATES = frozenset(
    {
        "40001",  # serialization failure
        "40P01",  # deadlock
        "55P03",  # lock timeout
        "57P01",  # the server is shutting down, or an administrator ended this connection
        "57P02",
        "57P03",  # starting up
        "57P05",  # ended for being idle
        "25P03",  # ended for being idle in a transaction
        "53300",  # too many connections
    }
)

_LOST = ErrorTemplate(
    "the connection to the session store {where} was lost ({reason})",
    "Check whether the server runs; nothing confirmed is lost.",
    TemporaryStoreError,
)
_LOCKED = ErrorTemplate(
    "the session store {where} is held by another process ({reason})",
    "Try again. If it happens again, look for a hanging process in pg_stat_activity.",
    TemporaryStoreError,
)
_GENERAL = ErrorTemplate(
    "the session store {where} cannot be used ({reason})", "Check the log of the server."
)

_BY_STATE = {
    "53100": ErrorTemplate(
        "no space left on the disk of the session store {where}",
        "Free some space on the server and continue; everything confirmed so far is stored.",
        StoreFull,
    ),
    "25006": ErrorTemplate(
        "the session store {where} is read-only",
        "Connect to the primary server, not to a standby, or check "
        "default_transaction_read_only of the database.",
    ),
    "42501": ErrorTemplate(
        "this user may not do that in the session store {where} ({reason})",
        "Grant it: GRANT USAGE, CREATE ON SCHEMA … TO …; or give Hermes a database of its own.",
    ),
    "57014": ErrorTemplate(
        "the session store {where} took too long and was interrupted",
        "Try again; a longer limit is set with ?options=-cstatement_timeout%3D5min in store.url.",
    ),
    **dict.fromkeys(("55P03", "40001", "40P01"), _LOCKED),
    "XX001": ErrorTemplate(
        "the session store {where} is damaged ({reason})",
        "Stop the server, copy its folder, and restore a backup.",
        StoreCorrupt,
    ),
    "XX002": ErrorTemplate(
        "an index of the session store {where} is damaged ({reason})",
        "Run `hermes sessions reindex`, or REINDEX DATABASE on the server.",
        StoreCorrupt,
    ),
}

_AT_CONNECT = {
    "starting up|shutting down|recovery mode|not (yet )?accepting|slots|too many": ErrorTemplate(
        "the server of the session store {where} does not accept connections now ({reason})",
        "Try again in a moment.",
        TemporaryStoreError,
    ),
    "password authentication failed|no password supplied|authentication failed": ErrorTemplate(
        "the server of the session store {where} refused the user or the password",
        "Correct them in store.url, or keep the password in ~/.pgpass.",
    ),
    'database "[^"]*" does not exist': ErrorTemplate(
        "there is no database for the session store at {where}",
        "Create it on the server: createdb --encoding=UTF8 --template=template0 NAME",
    ),
    'role "[^"]*" does not exist': ErrorTemplate(
        "the server of the session store {where} does not know the user",
        "Create it on the server: createuser --pwprompt NAME",
    ),
    "pg_hba.conf": ErrorTemplate(
        "the server of the session store {where} does not allow this machine ({reason})",
        "Add a line for it to pg_hba.conf on the server.",
    ),
    "could not translate host name|resolve|Name or service": ErrorTemplate(
        "the host of the session store {where} is not known ({reason})",
        "Check the host name in store.url.",
    ),
    "SSL|TLS|certificate": ErrorTemplate(
        "no secure connection to the session store {where} ({reason})",
        "Check sslmode and sslrootcert in store.url, and `ssl` of the server.",
    ),
    "refused|time(d )?out|No such file|No route|unreachable|closed the connection": ErrorTemplate(
        "no PostgreSQL server answers at {where} ({reason})",
        "Start it, or correct the host and the port in store.url.",
        ServerNotReached,
    ),
}


def is_temporary(error: Exception) -> bool:
    """Return whether the same work may succeed in a moment. A lost connection has no SQLSTATE."""
    if not isinstance(error, psycopg.Error):
        return isinstance(error, TemporaryStoreError)
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state in TEMPORARY_STATES or state.startswith("08")


def is_race(error: Exception) -> bool:
    """Return whether another writer inserted or deleted a row between our check and our change. The
    next attempt sees it, and the caller gets the proper error."""
    return isinstance(error, psycopg.errors.UniqueViolation | psycopg.errors.ForeignKeyViolation)


def as_store_error(error: Exception, where: str) -> Exception:
    """Return the `StoreError` for an error of psycopg, or `error` itself."""
    if not isinstance(error, psycopg.Error):
        return error
    state = error.sqlstate or ""
    if state in _BY_STATE:
        return _build(_BY_STATE[state], error, where)
    if is_temporary(error):
        return _build(_LOST, error, where)
    return _build(_GENERAL, error, where)


def connect_error(error: psycopg.Error, where: str) -> StoreError:
    """Return the `StoreError` for a refused connection."""
    if error.sqlstate in _BY_STATE:
        return _build(_BY_STATE[error.sqlstate], error, where)
    reason = _reason(error)
    for pattern, fault in _AT_CONNECT.items():
        if re.search(pattern, reason, re.IGNORECASE):
            return _build(fault, error, where)
    return _build(_GENERAL, error, where)


def _build(fault: ErrorTemplate, error: psycopg.Error, where: str) -> StoreError:
    return fault.kind(fault.message.format(where=where, reason=_reason(error)), hint=fault.hint)


def _reason(error: psycopg.Error) -> str:
    """Return the last line of the text: libpq writes the addresses it tried before it."""
    primary = error.diag.message_primary
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    tries = [line for line in lines if "failed: " in line]
    text = primary or (tries or lines or [type(error).__name__])[-1].rpartition("failed: ")[2]
    return text.removeprefix("FATAL:").strip()
