"""What is known of each checkpoint, one small file each."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Literal

import msgspec

from hermes.util.atomic import write_bytes

MOST_SKIPPED = 1_000


class Record(msgspec.Struct, frozen=True):
    """A stretch of time in which the agent (or a rollback) changed files.

    What changed between `before` and `after` is the agent's. What changed between the `after` of
    one record and the `before` of the next is the user's.
    """

    id: str
    """Sorts by time."""
    time: float
    reason: str
    session: str
    before: str
    """Tree of the workspace when it began."""
    after: str = ""
    """Tree when it ended; "" while it goes on, or when it never came to its end."""
    changed: int = 0
    """Files that differ between the two."""
    kind: Literal["turn", "rollback"] = "turn"
    skipped: tuple[str, ...] = ()
    """Files that were there but are too big to keep."""


def new_id(now: float) -> str:
    return f"{int(now * 1_000_000):017d}-{secrets.token_hex(3)}"


class Records:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> list[Record]:
        """The newest first. A file that cannot be read is none of ours."""
        found: list[Record] = []
        names = sorted(self._folder.glob("*.json"), reverse=True)
        for path in names:
            with contextlib.suppress(OSError, msgspec.DecodeError):
                found.append(msgspec.json.decode(path.read_bytes(), type=Record))
        return found

    def save(self, record: Record) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_bytes(self._path(record.id), msgspec.json.encode(record), mode=0o600)

    def get(self, record_id: str) -> Record | None:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode(self._path(record_id).read_bytes(), type=Record)
        return None

    def drop(self, record: Record) -> None:
        self._path(record.id).unlink(missing_ok=True)

    def _path(self, record_id: str) -> Path:
        return self._folder / f"{os.path.basename(record_id)}.json"  # noqa: PTH119 - a name only
