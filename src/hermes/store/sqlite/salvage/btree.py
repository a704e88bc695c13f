"""The rows of a leaf page, and the leaf pages under a root."""

import struct
from collections.abc import Iterator

import msgspec

from hermes.store.sqlite.salvage.geometry import TABLE_LEAF
from hermes.store.sqlite.salvage.pages import Pages
from hermes.store.sqlite.salvage.records import Record, Unreadable, decode, varint

TABLE_INTERIOR = 0x05


class Cell(msgspec.Struct, frozen=True):
    rowid: int
    record: Record


def is_leaf(pages: Pages, number: int) -> bool:
    return _kind(pages, number) == TABLE_LEAF


def leaves(pages: Pages, root: int) -> Iterator[int]:
    """The leaf pages under `root` in order, each once. What leads nowhere is passed over."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        number = waiting.pop()
        if number in seen or not 1 <= number <= pages.count:
            continue
        seen.add(number)
        kind = _kind(pages, number)
        if kind == TABLE_LEAF:
            yield number
        elif kind == TABLE_INTERIOR:
            waiting.extend(reversed(_children(pages, number)))


def cells(pages: Pages, number: int) -> Iterator[Cell | None]:
    """The rows of a leaf page; None for each that cannot be read."""
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
    """The first page begins with the header of the file."""
    return 100 if number == 1 else 0


def _cell_starts(page: bytes, array: int, number: int) -> tuple[int, ...]:
    """The places in the array that begins at `array`; none when its length cannot be right."""
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
    """The rest of a row, as far as the chain of its pages is whole.

    A page counts only when its link is what it must be, so the text of a page that was written
    over is not taken for that of the row.
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
