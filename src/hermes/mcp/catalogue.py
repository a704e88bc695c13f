"""What a server offers, and keeping it from one session to the next."""

import hashlib
import logging
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from hermes import __version__
from hermes.config.settings.abilities import McpServer
from hermes.util import atomic

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


class Catalogue(msgspec.Struct, frozen=True):
    tools: tuple[RemoteTool, ...] = ()
    """By name: the order in which the server lists them may change."""
    resources: bool = False
    prompts: bool = False
    problems: tuple[str, ...] = ()
    """Tools that were left out, each with the reason."""


class _Kept(msgspec.Struct, frozen=True):
    key: str
    catalogue: Catalogue


class CatalogueCache:
    """One file for each server in `folder`, which may not exist yet; None keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def load(self, name: str, settings: McpServer) -> Catalogue | None:
        """None when there is none for these settings."""
        if self._folder is None:
            return None
        try:
            data = self._path(self._folder, name).read_bytes()
            kept = msgspec.json.decode(data, type=_Kept)
        except (OSError, msgspec.DecodeError):
            return None
        return kept.catalogue if kept.key == key_of(settings) else None

    def save(self, name: str, settings: McpServer, catalogue: Catalogue) -> None:
        if self._folder is None:
            return
        path = self._path(self._folder, name)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            data = msgspec.json.encode(_Kept(key_of(settings), catalogue))
            atomic.write_bytes(path, data, mode=0o600)
        except OSError as error:
            log.warning("the tools of %s could not be kept: %s", name, error)

    def seen(self, name: str) -> None:
        """The server was connected, and offers what is kept."""
        if self._folder is not None:
            with suppress(OSError):
                os.utime(self._path(self._folder, name))

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

    @staticmethod
    def _path(folder: Path, name: str) -> Path:
        plain = re.sub(r"[^\w-]", "_", name)[:80]
        if plain != name:
            plain += "-" + hashlib.sha256(name.encode()).hexdigest()[:8]
        return folder / f"{plain}.json"


def key_of(settings: McpServer) -> str:
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
