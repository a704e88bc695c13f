"""Small things an adapter keeps: a file written whole, and what was used last."""

import asyncio
from pathlib import Path
from typing import TypeVar

from hermes.util import atomic

K = TypeVar("K")
V = TypeVar("V")


def remember(known: dict[K, V], key: K, value: V, most: int) -> None:
    """Put it last; of more than `most` those used longest ago are forgotten."""
    known.pop(key, None)
    known[key] = value
    while len(known) > most:
        del known[next(iter(known))]


async def write_whole(path: Path, data: bytes) -> None:
    """Beside other work. When it is cancelled it is finished first: nothing that is written later
    is overtaken by it. Raises OSError."""
    writing = asyncio.ensure_future(asyncio.to_thread(write, path, data))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.gather(writing, return_exceptions=True)
        raise


def write(path: Path, data: bytes) -> None:
    """For us alone. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    atomic.write_bytes(path, data)
