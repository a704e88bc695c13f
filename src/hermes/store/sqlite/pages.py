"""Reads the pages of a damaged SQLite file and of its log, without SQLite.

The format is described at https://www.sqlite.org/fileformat2.html.
"""

import math
import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec

from hermes.store.sqlite.health import WAL_FRAME_BYTES, WAL_HEADER_BYTES

# The write-ahead log: pages that were committed but are not in the main file yet

_MAGIC = 0x377F0682
"""Little-endian checksums; the next number means big-endian ones."""


class WalPages(msgspec.Struct, frozen=True):
    places: dict[int, int]
    """The offset in the log of the newest committed version of each page."""
    page_count: int = 0
    """Pages of the database after the last commit; 0 when nothing was committed."""


def page_size(log: bytes) -> int | None:
    """Return the page size in the header, or None if the header is damaged."""
    if len(log) < WAL_HEADER_BYTES or not _is_header_whole(log):
        return None
    return int.from_bytes(log[8:12], "big")


def committed(log: bytes, size: int) -> WalPages:
    """Return the pages of frames with a valid checksum, up to the last commit.

    A checksum continues that of the previous frame, as stored there. So a damaged frame loses
    itself and at most the next one, not everything after it.
    """
    salts = log[16:24] if page_size(log) else log[WAL_HEADER_BYTES + 8 : WAL_HEADER_BYTES + 16]
    places: dict[int, int] = {}
    pending: dict[int, int] = {}
    page_count = 0
    starts = range(WAL_HEADER_BYTES, len(log) - size - WAL_FRAME_BYTES + 1, size + WAL_FRAME_BYTES)
    for before, start in pairwise([WAL_HEADER_BYTES - WAL_FRAME_BYTES, *starts]):
        head = log[start : start + WAL_FRAME_BYTES]
        if head[8:16] != salts:
            continue  # left over from before the log was reset
        # The checksum is at the end of the log's header and at the end of that of every frame.
        seed = struct.unpack(">2I", log[before + 16 : before + 24])
        place = start + WAL_FRAME_BYTES
        text = head[:8] + log[place : place + size]
        if checksum(text, seed, _order(log)) != struct.unpack(">2I", head[16:]):
            continue
        number, pages_after = struct.unpack(">2I", head[:8])
        pending[number] = place
        if pages_after:
            places |= pending
            pending, page_count = {}, pages_after
    return WalPages({n: place for n, place in places.items() if 0 < n <= page_count}, page_count)


def checksum(data: bytes, seed: tuple[int, ...], order: str) -> tuple[int, int]:
    first, second = seed
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = first + one + second & 0xFFFFFFFF
        second = second + two + first & 0xFFFFFFFF
    return first, second


def _order(log: bytes) -> str:
    return ">" if int.from_bytes(log[:4], "big") == _MAGIC + 1 else "<"


def _is_header_whole(log: bytes) -> bool:
    return checksum(log[:24], (0, 0), _order(log)) == struct.unpack(">2I", log[24:32]) and (
        int.from_bytes(log[:4], "big") in (_MAGIC, _MAGIC + 1)
    )


# Records: the values of a row

Value = None | int | float | str | bytes

_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_CONSTANTS = {0: None, 8: 0, 9: 1}
_REAL = 7
_FIRST_BLOB = 12


class Unreadable(Exception):
    """The bytes are not what they should be."""


class Record(msgspec.Struct, frozen=True):
    values: tuple[Value, ...]
    is_cut: bool = False
    """The bytes end early: the last value is the readable beginning of a text, or None, and the
    columns after it are unknown."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of one to nine bytes and the offset after it."""
    value = 0
    for count in range(9):
        if at + count >= len(data):
            raise Unreadable("a number is cut off")
        byte = data[at + count]
        if count == 8:
            value = value << 8 | byte
            break
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + count + 1
    return value - (1 << 64) if value >> 63 else value, at + 9


def decode(payload: bytes, size: int) -> Record:
    """Return the record in `payload`, which should have `size` bytes. Text is UTF-8, as in every
    store. Raises `Unreadable`."""
    body, at = varint(payload, 0)
    if not at <= body <= len(payload):
        raise Unreadable("the head of a record is cut off")
    kinds: list[int] = []
    while at < body:
        kind, at = varint(payload, at)
        kinds.append(kind)
    lengths = [_length(kind) for kind in kinds]
    if at != body or body + sum(lengths) != size:
        raise Unreadable("a record does not have the length it says")
    return Record(*_values(payload, body, zip(kinds, lengths, strict=True)))


def _values(
    payload: bytes, at: int, columns: Iterator[tuple[int, int]]
) -> tuple[tuple[Value, ...], bool]:
    values: list[Value] = []
    for kind, length in columns:
        end = at + length
        if end > len(payload):
            is_text = kind > _FIRST_BLOB and kind % 2
            values.append(payload[at:].decode("utf-8", "ignore") if is_text else None)
            return tuple(values), True
        values.append(_value(kind, payload[at:end]))
        at = end
    return tuple(values), False


def _length(kind: int) -> int:
    if kind in _CONSTANTS:
        return 0
    if kind in _INTEGER_BYTES:
        return _INTEGER_BYTES[kind]
    if kind == _REAL:
        return 8
    if kind < _FIRST_BLOB:
        raise Unreadable("a value of an unknown kind")
    return (kind - _FIRST_BLOB) // 2


def _value(kind: int, data: bytes) -> Value:
    if kind in _CONSTANTS:
        return _CONSTANTS[kind]
    if kind in _INTEGER_BYTES:
        return int.from_bytes(data, "big", signed=True)
    if kind == _REAL:
        number: float = struct.unpack(">d", data)[0]
        return None if math.isnan(number) else number
    return data.decode("utf-8", "replace") if kind % 2 else data


SIZES = tuple(2**power for power in range(9, 17))
DEFAULT_SIZE = 4096
MAGIC = b"SQLite format 3\0"
TABLE_LEAF = 0x0D
_SAMPLES = 2000


class Geometry(msgspec.Struct, frozen=True):
    size: int
    reserved: int = 0
    """Unused bytes at the end of each page."""

    @property
    def usable(self) -> int:
        return self.size - self.reserved

    def local_bytes(self, payload: int) -> int:
        """Return how many bytes of a row are in its leaf page; the rest is in overflow pages."""
        most = self.usable - 35
        if payload <= most:
            return payload
        least = (self.usable - 12) * 32 // 255 - 23
        fitting = least + (payload - least) % (self.usable - 4)
        return fitting if fitting <= most else least


def geometry_of(data: bytes, size: int | None) -> Geometry:
    """Return the geometry with the known `size`, or else the one that fits most leaf pages; on a
    tie the one in the header."""
    header = _geometry_in_header(data)
    if size is not None and size in SIZES:
        return header if header and header.size == size else Geometry(size)
    candidates = (
        ([header] if header else []) + [Geometry(DEFAULT_SIZE)] + [Geometry(one) for one in SIZES]
    )
    return max(candidates, key=lambda one: _fitting_leaves(data, one))


def _geometry_in_header(data: bytes) -> Geometry | None:
    if len(data) < 100 or data[:16] != MAGIC:
        return None
    size = int.from_bytes(data[16:18], "big")
    found = Geometry(65536 if size == 1 else size, data[20])
    return found if found.size in SIZES and found.usable >= 480 else None


def _fitting_leaves(data: bytes, geometry: Geometry) -> int:
    """Count the pages whose last cell ends at the end of the page, which is so only for the right
    size."""
    starts = range(0, len(data) - geometry.size + 1, geometry.size)
    step = max(1, len(starts) // _SAMPLES)
    return sum(_fits(data[at : at + geometry.size], geometry) for at in starts[::step])


def _fits(page: bytes, geometry: Geometry) -> bool:
    start = 100 if page[:16] == MAGIC else 0
    if page[start] != TABLE_LEAF:
        return False
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    if not 0 < count <= (geometry.size - start - 8) // 6:
        return False
    at = max(struct.unpack_from(f">{count}H", page, start + 8))
    try:
        payload, at = varint(page, at)
        _, at = varint(page, at)
    except Unreadable:
        return False
    local = geometry.local_bytes(payload)
    end = at + local + (4 if local < payload else 0)
    # A row takes at least four bytes.
    return payload > 0 and geometry.usable - 1 <= end <= geometry.usable


# Pages by number, as of the last commit

Bytes = bytes | mmap.mmap


class Pages:
    def __init__(self, main: Bytes, log: Bytes) -> None:
        # Only slices of the map are used, and those are bytes.
        self._main: bytes = main  # type: ignore[assignment]
        self._log: bytes = log  # type: ignore[assignment]
        self.geometry: Geometry = geometry_of(self._main, page_size(self._log))
        wal = committed(self._log, self.geometry.size)
        self._places = wal.places
        self.count = wal.page_count or -(-len(main) // self.geometry.size)

    def __getitem__(self, number: int) -> bytes:
        """Return a page, which may be truncated or empty at the end of the file. Raises
        `Unreadable` for an invalid number."""
        if not 1 <= number <= self.count:
            raise Unreadable(f"there is no page {number}")
        size = self.geometry.size
        place = self._places.get(number)
        if place is not None:
            return self._log[place : place + size]
        return self._main[(number - 1) * size : number * size]


@contextmanager
def open_pages(path: Path) -> Iterator[Pages]:
    """Map the database at `path` and its log, read-only."""
    with _map_file(path) as main, _map_file(Path(f"{path}-wal")) as log:
        yield Pages(main, log)


@contextmanager
def _map_file(path: Path) -> Iterator[Bytes]:
    if not path.exists() or path.stat().st_size == 0:
        yield b""
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


# Free pages. Their old rows were deleted and must not be restored.


def free_pages(pages: Pages) -> set[int]:
    """Return the pages of the free list; if the list is damaged, also pages that look like parts of
    it."""
    head = pages[1][:40] if pages.count else b""
    is_header = len(head) == 40 and head.startswith(MAGIC)
    number, expected = struct.unpack(">2I", head[32:]) if is_header else (0, -1)
    free: set[int] = set()
    while number and number not in free and (trunk := _trunk(pages, number)) is not None:
        free |= {number, *trunk[1]}
        number = trunk[0]
    if len(free) == expected:
        return free
    for number in range(2, pages.count + 1):
        trunk = _trunk(pages, number)
        if trunk is not None and trunk[1]:
            free |= {number, *trunk[1]}
    return free


def _trunk(pages: Pages, number: int) -> tuple[int, set[int]] | None:
    """Return the next trunk page and the pages listed in this one; None if it is not a trunk
    page."""
    if not 2 <= number <= pages.count:
        return None
    page = pages[number]
    if len(page) < pages.geometry.size:
        return None
    following, count = struct.unpack(">2I", page[:8])
    if following > pages.count or count > pages.geometry.usable // 4 - 2:
        return None
    listed = struct.unpack_from(f">{count}I", page, 8)
    if len(set(listed)) != count or not all(2 <= one <= pages.count for one in listed):
        return None
    return following, set(listed)


# Trees: the leaf pages under a root, and the rows of a leaf page

TABLE_INTERIOR = 0x05


class Cell(msgspec.Struct, frozen=True):
    rowid: int
    record: Record


def is_leaf(pages: Pages, number: int) -> bool:
    return _kind(pages, number) == TABLE_LEAF


def leaves(pages: Pages, root: int) -> Iterator[int]:
    """Yield the leaf pages under `root` in order, each once. Invalid links are skipped."""
    seen: set[int] = set()
    to_visit = [root]
    while to_visit:
        number = to_visit.pop()
        if number in seen or not 1 <= number <= pages.count:
            continue
        seen.add(number)
        kind = _kind(pages, number)
        if kind == TABLE_LEAF:
            yield number
        elif kind == TABLE_INTERIOR:
            to_visit.extend(reversed(_children(pages, number)))


def cells(pages: Pages, number: int) -> Iterator[Cell | None]:
    """Yield the rows of a leaf page; None for each that cannot be read."""
    page = pages[number]
    for at in _cell_starts(page, _start(number) + 8, number):
        try:
            yield _cell(pages, page, at)
        except Unreadable:
            yield None


def _kind(pages: Pages, number: int) -> int:
    start = _start(number)
    return int.from_bytes(pages[number][start : start + 1], "big")


def _start(number: int) -> int:
    """Return the offset of the page header: the first page begins with the file header."""
    return 100 if number == 1 else 0


def _cell_starts(page: bytes, array: int, number: int) -> tuple[int, ...]:
    """Return the cell offsets in the array at `array`; none if its length is invalid."""
    at = _start(number) + 3
    count = int.from_bytes(page[at : at + 2], "big")
    if array + 2 * count > len(page):
        return ()
    return struct.unpack_from(f">{count}H", page, array)


def _children(pages: Pages, number: int) -> list[int]:
    page = pages[number]
    start = _start(number)
    left = _cell_starts(page, start + 12, number)
    places = [*left, start + 8]
    return [int.from_bytes(page[at : at + 4], "big") for at in places]


def _cell(pages: Pages, page: bytes, at: int) -> Cell:
    geometry = pages.geometry
    size, at = varint(page, at)
    rowid, at = varint(page, at)
    if not 0 < size <= pages.count * geometry.size:
        raise Unreadable("a row longer than the file")
    local = geometry.local_bytes(size)
    payload = page[at : at + local]
    if len(payload) < local:
        raise Unreadable("a row beyond the end of its page")
    if local < size:
        first = int.from_bytes(page[at + local : at + local + 4], "big")
        payload += _overflow(pages, first, size - local)
    return Cell(rowid, decode(payload, size))


def _overflow(pages: Pages, number: int, missing: int) -> bytes:
    """Return the rest of a row, as far as the chain of its overflow pages is intact.

    A page counts only if its link is valid, so that the text of an overwritten page is not taken
    for that of the row.
    """
    room = pages.geometry.usable - 4
    parts: list[bytes] = []
    seen: set[int] = set()
    while missing > 0 and 2 <= number <= pages.count and number not in seen:
        seen.add(number)
        page = pages[number]
        following = int.from_bytes(page[:4], "big")
        part = page[4 : 4 + min(room, missing)]
        is_last = missing <= room
        is_linked = following == 0 if is_last else 2 <= following <= pages.count
        if not is_linked or len(part) < min(room, missing):
            break
        parts.append(part)
        missing -= room
        number = following
    return b"".join(parts)
