"""A page by its number, as the last commit left it."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hermes.store.sqlite.salvage import wal
from hermes.store.sqlite.salvage.geometry import Geometry, geometry_of
from hermes.store.sqlite.salvage.records import Unreadable

Bytes = bytes | mmap.mmap


class Pages:
    def __init__(self, main: Bytes, log: Bytes) -> None:
        # Slices of a map are bytes, and slices are all that is taken of one.
        self._main: bytes = main  # type: ignore[assignment]
        self._log: bytes = log  # type: ignore[assignment]
        self.geometry: Geometry = geometry_of(self._main, wal.page_size(self._log))
        committed = wal.committed(self._log, self.geometry.size)
        self._places = committed.places
        self.count = committed.page_count or -(-len(main) // self.geometry.size)

    def __getitem__(self, number: int) -> bytes:
        """Shorter than a page, down to nothing, where the file was cut off. Raises `Unreadable`
        for a number that no page has."""
        if not 1 <= number <= self.count:
            raise Unreadable(f"there is no page {number}")
        size = self.geometry.size
        place = self._places.get(number)
        if place is not None:
            return self._log[place : place + size]
        return self._main[(number - 1) * size : number * size]


@contextmanager
def opened(path: Path) -> Iterator[Pages]:
    """The pages of the database at `path` and of the log beside it. Both stay unchanged."""
    with _mapped(path) as main, _mapped(Path(f"{path}-wal")) as log:
        yield Pages(main, log)


@contextmanager
def _mapped(path: Path) -> Iterator[Bytes]:
    if not path.exists() or path.stat().st_size == 0:
        yield b""
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data
