"""One memory file, shared with other processes and with people who edit it."""

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hermes.core.errors import ToolError
from hermes.memory import entries
from hermes.memory.places import OWNER_FILE, Place
from hermes.util import atomic
from hermes.util.text import clean

LOCK_FILE = ".lock"
MOST_BYTES = 1_000_000
"""A larger file is not one of ours."""

_PAUSE = 0.02
_ATTEMPTS = 10

Edit = Callable[[tuple[str, ...]], Sequence[str]]
"""The entries as they should be, from those that are there. It may be asked again."""
Stamp = tuple[int, int, int] | None


class NoteFile:
    """`root` is the folder of all memory files, which holds their one lock. `patience` is how many
    seconds to wait for it."""

    def __init__(self, root: Path, place: Place, patience: float) -> None:
        self._root, self._place, self._patience = root, place, patience

    @property
    def name(self) -> str:
        """The path below the folder of all memory files."""
        return self._place.file.relative_to(self._root).as_posix()

    def read(self) -> tuple[str, ...]:
        """The entries. Raises `ToolError` when the file is there and cannot be read."""
        return self._read()[1]

    def change(self, edit: Edit) -> tuple[str, ...]:
        """The entries after `edit`, on disk. Whatever `edit` raises leaves the file as it was.

        The file is read anew under the lock. An editor knows nothing of the lock: when the file
        changed while we looked at it, everything is done again with what it holds now.
        """
        try:
            with self._locked():
                return self._edited(edit)
        except OSError as error:
            raise self._failure("write", error) from error

    def _edited(self, edit: Edit) -> tuple[str, ...]:
        for _ in range(_ATTEMPTS):
            stamp, before = self._read()
            after = tuple(edit(before))
            if after == before:
                return after
            if stamp == self._stamp():
                self._write(after)
                return after
        raise ToolError(
            f"{self.name} keeps changing while it is being written", hint="try again later"
        )

    def _read(self) -> tuple[Stamp, tuple[str, ...]]:
        try:
            stamp = self._stamp()
            if stamp is None:
                return stamp, ()
            with self._place.file.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except FileNotFoundError:  # gone since
            return None, ()
        except OSError as error:
            raise self._failure("read", error) from error
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise self._damaged(f"byte {error.start} is not UTF-8") from error
        if "\0" in text:
            raise self._damaged("it holds binary data")
        if len(data) > MOST_BYTES:
            raise self._damaged(f"it has more than {MOST_BYTES:,} bytes")
        return stamp, entries.split(text)

    def _stamp(self) -> Stamp:
        try:
            found = self._place.file.stat()
        except FileNotFoundError:
            return None
        if stat.S_ISFIFO(found.st_mode):  # opening it would wait for a writer
            raise self._damaged("it is a pipe")
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _write(self, after: Sequence[str]) -> None:
        text = f"{entries.join(after)}\n" if after else ""
        if len(text.encode()) > MOST_BYTES:
            raise ToolError(
                f"{self.name} cannot have more than {MOST_BYTES:,} bytes",
                hint="nothing was changed",
            )
        folder = self._place.file.parent
        self._make(folder)
        if self._place.owner and not (folder / OWNER_FILE).exists():
            owner = " ".join(clean(self._place.owner).split())
            atomic.write_text(folder / OWNER_FILE, f"{owner}\n", mode=0o600)
        atomic.write_text(self._place.file, text, mode=0o600)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone among all processes and threads that write below the folder."""
        self._make(self._root)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._root / LOCK_FILE, flags, 0o600)
        try:
            self._wait_for(descriptor)
            yield
        finally:
            os.close(descriptor)  # which also lets go of the lock

    def _wait_for(self, descriptor: int) -> None:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ToolError(
                        "another process holds the lock of the memory files",
                        hint="nothing was saved; try again later",
                    ) from None
                time.sleep(_PAUSE)
            else:
                return

    @staticmethod
    def _make(folder: Path) -> None:
        """The folder and what is missing above it, for the owner alone."""
        for each in (*reversed(folder.parents), folder):
            if not each.is_dir():
                each.mkdir(mode=0o700, exist_ok=True)

    def _failure(self, action: str, error: OSError) -> ToolError:
        reason = (error.strerror or str(error)).lower()
        return ToolError(
            f"cannot {action} {self.name}: {reason}",
            hint="nothing was changed; tell the user",
        )

    def _damaged(self, what: str) -> ToolError:
        return ToolError(
            f"{self.name} is damaged: {what}",
            hint=f"it was left as it is; ask the user to look at {self._place.file}",
        )
