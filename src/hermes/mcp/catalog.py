"""What a server offers, and keeping it from one session to the next."""

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
from hermes.config.settings.abilities import McpServer
from hermes.util import atomic

FAILURE_SUFFIX = ".failed.json"

log = logging.getLogger(__name__)


class RemoteTool(msgspec.Struct, frozen=True):
    """A tool of a server that was found fit to be offered."""

    name: str
    """The server's own name for it."""
    description: str
    parameters: dict[str, Any]
    read_only: bool = False
    destructive: bool = False
    open_world: bool = True


class ServerCatalog(msgspec.Struct, frozen=True):
    tools: tuple[RemoteTool, ...] = ()
    """By name: the order in which the server lists them may change."""
    resources: bool = False
    prompts: bool = False
    problems: tuple[str, ...] = ()
    """Tools that were left out, each with the reason."""


class ConnectFailure(msgspec.Struct, frozen=True):
    """Why a server could not be connected, the last time that was tried."""

    key: str
    reason: str
    at: float
    """Seconds since the epoch."""


class _CachedCatalog(msgspec.Struct, frozen=True):
    key: str
    catalogue: ServerCatalog


class CatalogCache:
    """One file for each server in `folder`, which may not exist yet, and another while it fails;
    None keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def load(self, name: str, settings: McpServer) -> ServerCatalog | None:
        """None when there is none for these settings."""
        if self._folder is None:
            return None
        try:
            data = self._path(self._folder, name).read_bytes()
            kept = msgspec.json.decode(data, type=_CachedCatalog)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return kept.catalogue if kept.key == cache_key(settings) else None

    def save(self, name: str, settings: McpServer, catalogue: ServerCatalog) -> None:
        if self._folder is not None:
            self._write(
                self._path(self._folder, name), _CachedCatalog(cache_key(settings), catalogue)
            )
            self._works(self._folder, name)

    def seen(self, name: str) -> None:
        """The server was connected, and offers what is kept."""
        if self._folder is not None:
            with suppress(OSError):
                os.utime(self._path(self._folder, name))
            self._works(self._folder, name)

    def failed(self, name: str, settings: McpServer, reason: str) -> None:
        """The server could not be connected."""
        if self._folder is not None:
            failure = ConnectFailure(cache_key(settings), reason, time.time())
            self._write(self._path(self._folder, name, FAILURE_SUFFIX), failure)

    def failure(self, name: str, settings: McpServer) -> ConnectFailure | None:
        """The last one with these settings, while nothing better is known."""
        if self._folder is None:
            return None
        try:
            data = self._path(self._folder, name, FAILURE_SUFFIX).read_bytes()
            kept = msgspec.json.decode(data, type=ConnectFailure)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return kept if kept.key == cache_key(settings) else None

    def last_seen(self, name: str) -> float | None:
        """When the server was last connected, in seconds since the epoch; None when never."""
        if self._folder is None:
            return None
        try:
            return self._path(self._folder, name).stat().st_mtime
        except OSError:
            return None

    def drop(self, name: str) -> None:
        """Forget a server, as when it is removed."""
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
            atomic.write_bytes(path, msgspec.json.encode(kept), mode=0o600)
        except OSError as error:
            log.warning("%s could not be written: %s", path, error)

    @staticmethod
    def _path(folder: Path, name: str, ending: str = ".json") -> Path:
        plain = re.sub(r"[^\w-]", "_", name)[:80]
        if plain != name:
            plain += "-" + hashlib.sha256(name.encode()).hexdigest()[:8]
        return folder / f"{plain}{ending}"


def cache_key(settings: McpServer) -> str:
    """Changes with everything that decides which server it is. The rules by which its tools are
    judged belong to a version of Hermes."""
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
