"""Which store it is."""

import logging
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from hermes.core.errors import ConfigError
from hermes.store.engine import Engine
from hermes.store.session_store import SqlSessionStore
from hermes.store.sql import Backend
from hermes.store.sqlite.backend import SqliteBackend

log = logging.getLogger(__name__)


def open_store(url: str, path: Path, tell: Callable[[str], None] = log.warning) -> SqlSessionStore:
    """The store at `url`, or in the SQLite file `path` when there is none.

    Nothing is opened before the first use. `tell` gets what the user must know, such as that a
    damaged file was repaired.
    """
    return SqlSessionStore(open_engine(url, path, tell))


def open_engine(url: str, path: Path, tell: Callable[[str], None] = log.warning) -> Engine:
    backend: Backend = _postgres(url) if url else SqliteBackend(path, tell)
    return Engine(backend)


def _postgres(url: str) -> Backend:
    if not url.startswith(("postgresql://", "postgres://")):
        raise ConfigError(
            "store.url must begin with postgresql://",
            hint="Leave it empty to keep sessions in a file of your home.",
        )
    try:
        module = import_module("hermes.store.postgres.backend")
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("psycopg"):
            raise
        raise ConfigError(
            "store.url names a PostgreSQL server, but psycopg is not installed",
            hint="Install it into Hermes' environment: pip install 'psycopg[binary]'",
        ) from None
    backend: Backend = module.PostgresBackend(url)
    return backend
