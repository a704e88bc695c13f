"""How big a page is. The header says so, if it can be believed."""

import struct

import msgspec

from hermes.store.sqlite.salvage.records import Unreadable, varint

SIZES = tuple(2**power for power in range(9, 17))
USUAL = 4096
MAGIC = b"SQLite format 3\0"
TABLE_LEAF = 0x0D
_SAMPLES = 2000


class Geometry(msgspec.Struct, frozen=True):
    size: int
    reserved: int = 0
    """Bytes at the end of each page that SQLite leaves alone."""

    @property
    def usable(self) -> int:
        return self.size - self.reserved

    def local_bytes(self, payload: int) -> int:
        """How much of a row is in its leaf page; the rest is in overflow pages."""
        most = self.usable - 35
        if payload <= most:
            return payload
        least = (self.usable - 12) * 32 // 255 - 23
        fitting = least + (payload - least) % (self.usable - 4)
        return fitting if fitting <= most else least


def geometry_of(data: bytes, size: int | None) -> Geometry:
    """`size` where it is known; else what fits the leaf pages best, the header's word first."""
    said = _said(data)
    if size is not None and size in SIZES:
        return said if said and said.size == size else Geometry(size)
    candidates = ([said] if said else []) + [Geometry(USUAL)] + [Geometry(one) for one in SIZES]
    return max(candidates, key=lambda one: _fitting_leaves(data, one))


def _said(data: bytes) -> Geometry | None:
    if len(data) < 100 or data[:16] != MAGIC:
        return None
    size = int.from_bytes(data[16:18], "big")
    found = Geometry(65536 if size == 1 else size, data[20])
    return found if found.size in SIZES and found.usable >= 480 else None


def _fitting_leaves(data: bytes, geometry: Geometry) -> int:
    """Pages whose last cell ends where the page ends, as it does in no other size."""
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
    # A row of less than four bytes takes four.
    return payload > 0 and geometry.usable - 1 <= end <= geometry.usable
