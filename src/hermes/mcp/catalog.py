"""What a server offers, and a cache of it between sessions."""

import hashlib
import logging
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from hermes import __version__
from hermes.config.settings.tools import McpServer
from hermes.util import files

FAILURE_SUFFIX = ".failed.json"

log = logging.getLogger(__name__)


class RemoteTool(msgspec.Struct, frozen=True):
    """A tool of a server that passed `admit_tools`."""

    name: str
    """The server's own name of the tool."""
    description: str
    parameters: dict[str, Any]
    read_only: bool = False
    destructive: bool = False
    open_world: bool = True


class ServerCatalog(msgspec.Struct, frozen=True):
    tools: tuple[RemoteTool, ...] = ()
    """Sorted by name, because the server's order may change."""
    resources: bool = False
    prompts: bool = False
    problems: tuple[str, ...] = ()
    """Rejected tools, each with the reason."""


class ConnectFailure(msgspec.Struct, frozen=True):
    """Why the last attempt to connect to a server failed."""

    key: str
    reason: str
    at: float
    """Seconds since the epoch."""


class _CachedCatalog(msgspec.Struct, frozen=True):
    key: str
    catalog: ServerCatalog = msgspec.field(name="catalogue")


class CatalogCache:
    """One file per server in `folder`, and another while it fails. With None nothing is cached."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def load(self, name: str, settings: McpServer) -> ServerCatalog | None:
        """Return the cached catalog for these settings, or None."""
        if self._folder is None:
            return None
        try:
            data = self._path(self._folder, name).read_bytes()
            kept = msgspec.json.decode(data, type=_CachedCatalog)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return kept.catalog if kept.key == cache_key(settings) else None

    def save(self, name: str, settings: McpServer, catalog: ServerCatalog) -> None:
        if self._folder is not None:
            self._write(
                self._path(self._folder, name), _CachedCatalog(cache_key(settings), catalog)
            )
            self._works(self._folder, name)

    def seen(self, name: str) -> None:
        """Record a connection that found the cached catalog unchanged."""
        if self._folder is not None:
            with suppress(OSError):
                os.utime(self._path(self._folder, name))
            self._works(self._folder, name)

    def failed(self, name: str, settings: McpServer, reason: str) -> None:
        """Record a failed connection."""
        if self._folder is not None:
            failure = ConnectFailure(cache_key(settings), reason, time.time())
            self._write(self._path(self._folder, name, FAILURE_SUFFIX), failure)

    def failure(self, name: str, settings: McpServer) -> ConnectFailure | None:
        """Return the last failure with these settings, unless a later connection succeeded."""
        if self._folder is None:
            return None
        try:
            data = self._path(self._folder, name, FAILURE_SUFFIX).read_bytes()
            kept = msgspec.json.decode(data, type=ConnectFailure)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return kept if kept.key == cache_key(settings) else None

    def last_seen(self, name: str) -> float | None:
        """Return the time of the last connection in seconds since the epoch, or None."""
        if self._folder is None:
            return None
        try:
            return self._path(self._folder, name).stat().st_mtime
        except OSError:
            return None

    def drop(self, name: str) -> None:
        """Delete the files of a server."""
        if self._folder is not None:
            self._path(self._folder, name).unlink(missing_ok=True)
            self._path(self._folder, name, FAILURE_SUFFIX).unlink(missing_ok=True)

    def _works(self, folder: Path, name: str) -> None:
        with suppress(OSError):
            self._path(folder, name, FAILURE_SUFFIX).unlink(missing_ok=True)

    @staticmethod
    def _write(path: Path, kept: Any) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write_bytes(path, msgspec.json.encode(kept), mode=0o600)
        except OSError as error:
            log.warning("%s could not be written: %s", path, error)

    @staticmethod
    def _path(folder: Path, name: str, ending: str = ".json") -> Path:
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
