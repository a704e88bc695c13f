"""Connections to PostgreSQL: errors, the address, `?` placeholders, and settings of the session."""

import re
import selectors
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from hermes.core.errors import ConfigError, StoreCorrupt, StoreError, StoreFull
from hermes.store.engine import Row

# Errors of PostgreSQL as `StoreError`, with the texts of `errors.toml`


class TemporaryStoreError(StoreError):
    """A temporary failure: the same work may succeed in a moment."""


class ServerNotReached(StoreError):
    """No server answers at the address."""


class CommitOutcomeUnknown(StoreError):
    """The connection was lost during a commit, and the server could not be asked about the
    outcome."""


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

_KINDS: dict[str, type[StoreError]] = {
    "": StoreError,
    "temporary": TemporaryStoreError,
    "full": StoreFull,
    "corrupt": StoreCorrupt,
    "unreachable": ServerNotReached,
}


class ErrorText(msgspec.Struct, frozen=True):
    message: str  #: May contain `{where}` and `{reason}`.
    hint: str
    kind: str = ""
    pattern: str = ""  #: Identifies the error by its text.


class _ErrorTexts(msgspec.Struct, frozen=True):
    general: ErrorText
    lost: ErrorText
    state: dict[str, ErrorText]  #: By SQLSTATE.
    connect: list[ErrorText]


@cache
def _texts() -> _ErrorTexts:
    file = Path(__file__).with_name("errors.toml")
    return msgspec.toml.decode(file.read_bytes(), type=_ErrorTexts)


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
    texts = _texts()
    otherwise = texts.lost if is_temporary(error) else texts.general
    return _build(texts.state.get(error.sqlstate or "", otherwise), error, where)


def connect_error(error: psycopg.Error, where: str) -> StoreError:
    """Return the `StoreError` for a refused connection."""
    texts, reason = _texts(), _reason(error)
    matches = (one for one in texts.connect if re.search(one.pattern, reason, re.IGNORECASE))
    found = texts.state.get(error.sqlstate or "") or next(matches, texts.general)
    return _build(found, error, where)


def _build(text: ErrorText, error: psycopg.Error, where: str) -> StoreError:
    message = text.message.format(where=where, reason=_reason(error))
    return _KINDS[text.kind](message, hint=text.hint)


def _reason(error: psycopg.Error) -> str:
    """Return the last line of the text: libpq writes the addresses it tried before it."""
    primary = error.diag.message_primary
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    tries = [line for line in lines if "failed: " in line]
    text = primary or (tries or lines or [type(error).__name__])[-1].rpartition("failed: ")[2]
    return text.removeprefix("FATAL:").strip()


# The address

_DEFAULTS: dict[str, Any] = {
    "application_name": "hermes",
    "connect_timeout": 10,
    # A machine that vanished is noticed within about a minute.
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}


def connection_parameters(url: str) -> dict[str, Any]:
    """Return the parameters of a connection: those of the URL, and defaults. The variables and
    files of libpq (`PGHOST`, `~/.pgpass`, …) supply the rest. Raises `ConfigError`."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        # The message of the parser may quote the password, so it is not shown.
        raise ConfigError(
            "store.url is not a PostgreSQL address",
            hint="It has the form postgresql://user:password@host:5432/database; "
            "write special characters of the password as %XX.",
        ) from None
    return {**_DEFAULTS, **given, "client_encoding": "UTF8"}


def display_address(parameters: dict[str, Any]) -> str:
    """Return the address for messages and commands, without secrets."""
    text = {name: quote(str(parameters.get(name, "")), safe=",:") for name in _SHOWN}
    user = f"{text['user']}@" if text["user"] else ""
    several = "," in text["host"]
    host = f"[{text['host']}]" if ":" in text["host"] and not several else text["host"]
    port = f":{text['port']}" if text["port"] and not several else ""
    return f"postgresql://{user}{host}{port}/{text['dbname']}"


_SHOWN = ("user", "host", "port", "dbname")


# Placeholders

_TOKENS = re.compile(
    r"""
      '(?:[^']|'')*'      # text
    | "(?:[^"]|"")*"      # a quoted name
    | --[^\n]*            # comments
    | /\*.*?\*/
    | [?%]
    """,
    re.VERBOSE | re.DOTALL,
)


@lru_cache(maxsize=1024)
def to_psycopg(statement: str) -> bytes:
    """Return `statement` for psycopg: `?` becomes `%s`, except inside quotes and comments, and `%`
    is doubled everywhere."""
    return _TOKENS.sub(
        lambda found: "%s" if found[0] == "?" else found[0].replace("%", "%%"), statement
    ).encode()


# Connections

Connection = psycopg.Connection[Row]

_USABLE = (TransactionStatus.IDLE, TransactionStatus.INTRANS)


class PostgresDatabase:
    """`Database` over a connection in autocommit mode; transactions are explicit."""

    def __init__(self, connection: Connection) -> None:
        connection.adapters.register_loader("numeric", NumericLoader)
        self.connection = connection
        self.writer_id = uuid.uuid4().hex
        """The id of this connection in the table `writers` (see `backend.transaction`)."""
        self.has_written = False
        self.backend_pid = connection.info.backend_pid

    def rows(
        self, statement: str, values: Sequence[Any] = (), *, prepare: bool | None = None
    ) -> list[Row]:
        """With `prepare=False` the statement is planned for these values."""
        cursor = self.connection.execute(to_psycopg(statement), values, prepare=prepare)
        return cursor.fetchall() if cursor.description else []

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        return max(self.connection.execute(to_psycopg(statement), values).rowcount, 0)

    def run(self, script: str) -> str:
        """Run statements without values in one round trip; return the status of the last one."""
        cursor = self.connection.execute(script.encode(), prepare=False)
        while cursor.nextset():
            pass
        return cursor.statusmessage or ""

    def close(self) -> None:
        """Close the connection and delete its row in `writers`; `vacuum` deletes leftover rows."""
        if self.has_written and not self.is_lost and not self.in_transaction:
            with suppress(psycopg.Error):
                self.change("DELETE FROM writers WHERE id = ?", (self.writer_id,))
        self.connection.close()

    @property
    def is_lost(self) -> bool:
        return self.connection.closed

    @property
    def in_transaction(self) -> bool:
        return self.connection.info.transaction_status != TransactionStatus.IDLE

    @contextmanager
    def without_time_limits(self) -> Iterator[None]:
        """For work that may take minutes."""
        [before] = self.rows(
            "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')"
        )
        self._set_timeouts("0", "0")
        try:
            yield
        finally:
            # A failed transaction resets the settings itself.
            if self.connection.info.transaction_status in _USABLE:
                self._set_timeouts(*before)

    def _set_timeouts(self, statement: str, lock: str) -> None:
        self.rows(
            "SELECT set_config('statement_timeout', ?, false),"
            " set_config('lock_timeout', ?, false)",
            (statement, lock),
        )

    def is_alive(self) -> bool:
        """Return whether the connection is usable. Usually this costs nothing: the server is asked
        only if an idle connection has something to read."""
        if self.connection.closed:
            return False
        if self.in_transaction:
            return True
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection.fileno(), selectors.EVENT_READ)
            if not selector.select(0):
                return True
        try:
            self.rows("SELECT 1", prepare=False)
        except psycopg.Error:
            self.connection.close()
            return False
        return True


class NumericLoader(Loader):
    """Loads `numeric`, the type of a sum of BIGINT, as the int or float that SQLite returns."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


MIN_VERSION = 13

# Defaults that the server, the database, the user and `store.url` may override.
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
    with ExitStack() as undo:
        try:
            database = PostgresDatabase(psycopg.connect(**parameters, autocommit=True))
            undo.callback(database.close)
            _check_server(database, where)
            database.rows(_SET, [text for setting in _SETTINGS for text in setting])
        except psycopg.Error as error:
            raise connect_error(error, where) from error
        undo.pop_all()
    return database


def _check_server(database: PostgresDatabase, where: str) -> None:
    info = database.connection.info
    version = info.server_version // 10_000
    if version < MIN_VERSION:
        raise StoreError(
            f"the server of the session store {where} is PostgreSQL {version}",
            hint=f"Hermes needs PostgreSQL {MIN_VERSION} or newer; update the server.",
        )
    encoding = info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(
            f"the database of the session store {where} has the encoding {encoding}",
            hint="Create one that can store every script: "
            "createdb --encoding=UTF8 --template=template0 NAME",
        )
