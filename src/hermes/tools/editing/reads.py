"""What this session has seen of the files it works on."""

import hashlib
from collections import OrderedDict
from typing import TypeVar

import msgspec

from hermes.terminal.base import FileInfo

MOST_PAGES = 500
MOST_FILES = 5_000
WORTH_A_NOTE = 400
"""Characters; a shorter page is simply shown again."""

K = TypeVar("K")
V = TypeVar("V")


class Page(msgspec.Struct, frozen=True):
    """What was asked for."""

    path: str
    offset: int
    limit: int


class Stamp(msgspec.Struct, frozen=True):
    size: int
    modified_ns: int

    @classmethod
    def of(cls, info: FileInfo) -> "Stamp":
        return cls(info.size, info.modified_ns)


class Reads:
    """One for each session. `forget` when the model no longer has what it read.

    It saves the model from paying twice for a page it still has, and it notices when a file was
    changed by somebody else since the session last saw it.
    """

    def __init__(self) -> None:
        self._pages: OrderedDict[Page, bytes] = OrderedDict()
        self._files: OrderedDict[str, Stamp] = OrderedDict()

    def repeats(self, page: Page, text: str) -> bool:
        """Whether the model was shown this very text for this page.

        After a yes the page counts as not shown, so whoever asks once more gets the text.
        """
        if len(text) < WORTH_A_NOTE:
            return False
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if self._pages.pop(page, None) == digest:
            return True
        _keep(self._pages, page, digest, MOST_PAGES)
        return False

    def saw(self, path: str, info: FileInfo) -> None:
        """The session knows the file `path` (a real path) as it is now."""
        _keep(self._files, path, Stamp.of(info), MOST_FILES)

    def knows(self, path: str) -> bool:
        return path in self._files

    def changed(self, path: str, info: FileInfo) -> bool:
        """Whether somebody else changed the file since the session saw it."""
        seen = self._files.get(path)
        return seen is not None and seen != Stamp.of(info)

    def forget(self) -> None:
        """The conversation was shortened: pages may be gone from it. Files stay known."""
        self._pages.clear()

    def lost(self, path: str) -> None:
        """The file is gone."""
        self._files.pop(path, None)


def _keep(kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
