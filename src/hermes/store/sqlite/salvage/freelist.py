"""Pages that hold nothing any more. Their old rows were deleted and must stay so."""

import struct

from hermes.store.sqlite.salvage.geometry import MAGIC
from hermes.store.sqlite.salvage.pages import Pages


def free_pages(pages: Pages) -> set[int]:
    """As the header lists them; where that list is broken, also what looks like a part of it."""
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
    """The next trunk page and the pages listed in this one; None when it is no trunk page."""
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
