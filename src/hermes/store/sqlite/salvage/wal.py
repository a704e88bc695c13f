"""The write-ahead log: pages that were committed but are not in the main file yet."""

import struct
from itertools import pairwise

import msgspec

HEADER_BYTES = 32
FRAME_BYTES = 24
_MAGIC = 0x377F0682
"""Checksums are little-endian; the next number says big-endian."""


class Log(msgspec.Struct, frozen=True):
    places: dict[int, int]
    """Where in the log the newest committed version of a page begins."""
    page_count: int = 0
    """Pages of the database after the last commit; 0 when nothing was committed."""


def page_size(log: bytes) -> int | None:
    """What the header says, when it is whole."""
    if len(log) < HEADER_BYTES or not _is_header_whole(log):
        return None
    return int.from_bytes(log[8:12], "big")


def committed(log: bytes, size: int) -> Log:
    """Frames with a right checksum up to the last commit.

    A checksum goes on from that of the frame before, as it is written there. So a damaged frame
    costs itself and at most the next one, not everything after it.
    """
    salts = log[16:24] if page_size(log) else log[HEADER_BYTES + 8 : HEADER_BYTES + 16]
    places: dict[int, int] = {}
    pending: dict[int, int] = {}
    page_count = 0
    starts = range(HEADER_BYTES, len(log) - size - FRAME_BYTES + 1, size + FRAME_BYTES)
    for before, start in pairwise([HEADER_BYTES - FRAME_BYTES, *starts]):
        head = log[start : start + FRAME_BYTES]
        if head[8:16] != salts:
            continue  # left over from an earlier round of the log
        # The checksum is at the end of the log's header and at the end of that of every frame.
        seed = struct.unpack(">2I", log[before + 16 : before + 24])
        place = start + FRAME_BYTES
        text = head[:8] + log[place : place + size]
        if checksum(text, seed, _order(log)) != struct.unpack(">2I", head[16:]):
            continue
        number, pages_after = struct.unpack(">2I", head[:8])
        pending[number] = place
        if pages_after:
            places |= pending
            pending, page_count = {}, pages_after
    return Log({n: place for n, place in places.items() if 0 < n <= page_count}, page_count)


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
