"""What is noted about a worktree, in its administrative folder inside .git: it goes with it."""

import platform
import time
from importlib import import_module
from pathlib import Path

import msgspec

from hermes.util.atomic import write_bytes

NAME = "hermes.json"
LARGEST = 100_000


class Record(msgspec.Struct, frozen=True):
    path: str
    branch: str
    pid: int
    process_began: float
    host: str
    made: float
    """Seconds since 1970."""

    @property
    def in_use(self) -> bool:
        """Whether the process that made it may still be at work. What is not known counts as so."""
        if self.host != platform.node():
            return True
        psutil = import_module("psutil")  # slow to load
        try:
            began: float = psutil.Process(self.pid).create_time()
        except psutil.NoSuchProcess:
            return False
        except psutil.Error:
            return True
        return abs(began - self.process_began) < 2

    @property
    def age(self) -> float:
        return time.time() - self.made


def record_of(path: Path, branch: str) -> Record:
    """For a worktree of this process."""
    process = import_module("psutil").Process()
    return Record(
        str(path), branch, process.pid, process.create_time(), platform.node(), time.time()
    )


def save(record: Record, own: Path) -> None:
    """`own` is the administrative folder of the worktree."""
    write_bytes(own / NAME, msgspec.json.encode(record))


def records(common: Path) -> list[Record]:
    """Of all worktrees of a repository that were made here; what cannot be read is not ours."""
    found = []
    for path in sorted((common / "worktrees").glob(f"*/{NAME}")):
        try:
            if path.stat().st_size <= LARGEST:
                found.append(msgspec.json.decode(path.read_bytes(), type=Record))
        except (OSError, msgspec.MsgspecError):
            continue
    return found
