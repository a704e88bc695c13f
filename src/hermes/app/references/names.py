"""Names for the completion menu, found without holding up a keystroke."""

import os
import subprocess
import threading
import time
from collections.abc import Callable
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from hermes.app.user_git import CAUTION, git_environment, git_program
from hermes.core.errors import HermesError

AT_ONCE = 6_000
"""Entries of a folder that are read while somebody waits: some milliseconds."""
MOST = 300_000
"""Names that are kept of one folder or repository."""
MOST_KEPT = 16
"""Folders whose names are kept."""
FRESH_SECONDS = 5.0
GIT_SECONDS = 10.0

T = TypeVar("T")
Entry = tuple[str, str, bool]
"""The name in small letters, the name, and whether it is a folder."""
LowerPath = tuple[str, str]
"""In small letters, and as it is."""


class Listing(NamedTuple):
    """What is in a folder, in order."""

    all: list[Entry]
    folders: list[Entry]


class Later(Generic[T]):
    """A value that is made in a thread, again when it is old; the last one serves meanwhile."""

    def __init__(self, make: Callable[[], T], value: T) -> None:
        self._make, self._value = make, value
        self._made = -FRESH_SECONDS
        self._making = threading.Lock()

    def get(self) -> T:
        if time.monotonic() - self._made >= FRESH_SECONDS and self._making.acquire(blocking=False):
            threading.Thread(target=self._renew, name="hermes-names", daemon=True).start()
        return self._value

    def _renew(self) -> None:
        try:
            self._value = self._make()
            self._made = time.monotonic()
        finally:
            self._making.release()


class Names:
    def __init__(self) -> None:
        self._large: dict[str, Later[Listing]] = {}
        self._repositories: dict[str, Later[list[LowerPath]]] = {}

    def in_folder(self, folder: str) -> Listing:
        """Of a very large folder the first ones now, and all of them a moment later."""
        if folder in self._large:
            return self._large[folder].get()
        listing, more = _listing(folder, AT_ONCE)
        if not more:
            return listing
        later = Later(lambda: _listing(folder, MOST)[0], listing)
        return _kept(self._large, folder, later).get()

    def in_repository(self, folder: str) -> list[LowerPath]:
        """Paths below `folder` that git knows or does not ignore; none until it has answered."""
        later = self._repositories.get(folder)
        if later is None:
            nothing: list[LowerPath] = []
            later = _kept(self._repositories, folder, Later(lambda: _files_of(folder), nothing))
        return later.get()


def _kept(shelf: dict[str, Later[T]], folder: str, later: Later[T]) -> Later[T]:
    if len(shelf) >= MOST_KEPT:
        shelf.clear()
    shelf[folder] = later
    return later


def _listing(folder: str, most: int) -> tuple[Listing, bool]:
    try:
        with os.scandir(folder) as found:
            entries = [
                (entry.name.lower(), entry.name, _is_folder(entry)) for entry in islice(found, most)
            ]
            more = next(found, None) is not None
    except OSError:
        return Listing([], []), False
    entries.sort()
    return Listing(entries, [entry for entry in entries if entry[2]]), more


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _files_of(folder: str) -> list[LowerPath]:
    """Nothing when it is no repository, or too slow."""
    command = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    try:
        done = subprocess.run(
            [git_program(), *CAUTION, *command],
            cwd=folder,
            env=git_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (HermesError, OSError, subprocess.TimeoutExpired):
        return []
    names = (os.fsdecode(name) for name in done.stdout.split(b"\0")[:MOST] if name)
    return [(name.lower(), name) for name in names]
