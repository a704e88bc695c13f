"""One sign of an injection."""

import msgspec


class Finding(msgspec.Struct, frozen=True):
    id: str
    line: int
    """Of the source, from 1."""
    excerpt: str
    """That line, stripped and cut."""
