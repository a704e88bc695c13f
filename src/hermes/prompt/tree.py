"""Where project files are read: on this machine, or wherever the agent works."""

import logging
import os
import stat
from typing import Protocol

log = logging.getLogger(__name__)

LARGEST_FILE = 1_000_000
"""Bytes. What is larger was not written to be read by a model."""
MOST_NAMES = 1_000
"""Files of one folder that are looked at."""
TEXT_ENDINGS = (".md", ".mdc", ".txt", ".cursorrules")
"""A link is followed to such a file only, so that none in a foreign project leads to a key."""


class Tree(Protocol):
    """Files by absolute path. Nothing here raises: what cannot be read is not there."""

    def read(self, path: str) -> str | None:
        """The text of a regular file; None when there is none."""
        ...

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted; empty when it is none."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_folder(self, path: str) -> bool: ...


class LocalTree:
    """Files of this machine."""

    def read(self, path: str) -> str | None:
        try:
            data = _read_bytes(path)
        except (OSError, ValueError):  # a NUL in the path is a ValueError
            return None
        if data is None:
            return None
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            log.warning("%r is not loaded: it is not UTF-8 text", path)
            return None
        return text

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(folder))[:MOST_NAMES]  # noqa: PTH208 - names, not paths
        except (OSError, ValueError):
            return []

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)  # noqa: PTH112 - answers False where Path raises


def _read_bytes(path: str) -> bytes | None:
    """None for what is not a file, leads somewhere else or is too large."""
    # A pipe of that name must not hold us up.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(handle, "rb") as file:  # noqa: PTH123 - of a handle
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            return None
        if not os.path.realpath(path).lower().endswith(TEXT_ENDINGS):
            log.warning("%r is not loaded: it leads to a file that is no text for models", path)
            return None
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        log.warning("%r is not loaded: it has more than %s bytes", path, f"{LARGEST_FILE:,}")
        return None
    return data
