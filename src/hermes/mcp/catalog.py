"""What a server offers, and a cache of it between sessions."""

import hashlib
import logging
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes import __version__
from hermes.config.settings import McpServer
from hermes.util import files

CATALOG_SUFFIX, FAILURE_SUFFIX = ".json", ".failed.json"

log = logging.getLogger(__name__)


class RemoteTool(msgspec.Struct, frozen=True):
    """A tool of a server that passed `admit_tools`."""

    name: str  #: The server's own name of the tool.
    description: str
    parameters: dict[str, Any]
    read_only: bool = False
    destructive: bool = False
    open_world: bool = True


class ServerCatalog(msgspec.Struct, frozen=True):
    tools: tuple[RemoteTool, ...] = ()  #: Sorted by name, because the server's order may change.
    resources: bool = False
    prompts: bool = False
    problems: tuple[str, ...] = ()  #: Rejected tools, each with the reason.


class ConnectFailure(msgspec.Struct, frozen=True):
    """Why the last attempt to connect to a server failed."""

    key: str
    reason: str
    at: float  #: Seconds since the epoch.


class _CachedCatalog(msgspec.Struct, frozen=True):
    key: str
    catalog: ServerCatalog = msgspec.field(name="catalogue")


T = TypeVar("T", _CachedCatalog, ConnectFailure)


class CatalogCache:
    """One file per server in `folder`, and another while it fails. With None nothing is cached."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def load(self, name: str, settings: McpServer) -> ServerCatalog | None:
        """Return the cached catalog for these settings, or None."""
        kept = self._read(name, settings, _CachedCatalog)
        return kept.catalog if kept is not None else None

    def save(self, name: str, settings: McpServer, catalog: ServerCatalog) -> None:
        self._write(self._path(name), _CachedCatalog(cache_key(settings), catalog))
        self._clear_failure(name)

    def seen(self, name: str) -> None:
        """Record a connection that found the cached catalog unchanged."""
        if path := self._path(name):
            with suppress(OSError):
                os.utime(path)
        self._clear_failure(name)

    def failed(self, name: str, settings: McpServer, reason: str) -> None:
        """Record a failed connection."""
        failure = ConnectFailure(cache_key(settings), reason, time.time())
        self._write(self._path(name, FAILURE_SUFFIX), failure)

    def failure(self, name: str, settings: McpServer) -> ConnectFailure | None:
        """Return the last failure with these settings, unless a later connection succeeded."""
        return self._read(name, settings, ConnectFailure, FAILURE_SUFFIX)

    def last_seen(self, name: str) -> float | None:
        """Return the time of the last connection in seconds since the epoch, or None."""
        try:
            return path.stat().st_mtime if (path := self._path(name)) else None
        except OSError:
            return None

    def drop(self, name: str) -> None:
        """Delete the files of a server."""
        for ending in (CATALOG_SUFFIX, FAILURE_SUFFIX):
            if path := self._path(name, ending):
                path.unlink(missing_ok=True)

    def _clear_failure(self, name: str) -> None:
        if path := self._path(name, FAILURE_SUFFIX):
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _read(
        self, name: str, settings: McpServer, kind: type[T], ending: str = CATALOG_SUFFIX
    ) -> T | None:
        try:
            path = self._path(name, ending)
            kept = msgspec.json.decode(path.read_bytes(), type=kind) if path else None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return kept if kept is not None and kept.key == cache_key(settings) else None

    def _path(self, name: str, ending: str = CATALOG_SUFFIX) -> Path | None:
        return server_file(self._folder, name, ending) if self._folder is not None else None

    @staticmethod
    def _write(path: Path | None, kept: Any) -> None:
        if path is None:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write_bytes(path, msgspec.json.encode(kept), mode=0o600)
        except OSError as error:
            log.warning("%s could not be written: %s", path, error)


def server_file(folder: Path, name: str, ending: str) -> Path:
    """Return the file of a server in `folder`; a name that is not a file name gets a hash."""
    plain = re.sub(r"[^\w-]", "_", name)[:80]
    if plain != name:
        plain += "-" + hashlib.sha256(name.encode()).hexdigest()[:8]
    return folder / f"{plain}{ending}"


def cache_key(settings: McpServer) -> str:
    """Return a key of everything that identifies the server, and of the version of Hermes, because
    the rules for admitting tools may change with it."""
    place = (
        __version__,
        settings.command,
        settings.args,
        sorted(settings.env.items()),
        settings.url,
        settings.transport,
        sorted(settings.headers.items()),
        settings.auth,
    )
    return hashlib.sha256(msgspec.json.encode(place)).hexdigest()
