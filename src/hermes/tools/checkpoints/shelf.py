"""Where the checkpoints of one workspace lie: a git store, records beside it, and a lock."""

import asyncio
import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Sequence
from importlib import import_module
from pathlib import Path

from hermes.core.errors import StoreError
from hermes.security.paths import below
from hermes.store.git import Git, GitFailed
from hermes.tools.checkpoints.records import Record, Records
from hermes.tools.checkpoints.snapshots import Limits, Snapshot, Snapshots

LOCK_SECONDS = 10.0
STARTS_OVER = "if it stays so, `hermes checkpoints clear` starts over"
REFS = "refs/checkpoints"


class Shelf:
    """`notify` is told what the user should know."""

    def __init__(
        self,
        folder: Path,
        workspace: Path,
        program: str,
        limits: Limits,
        notify: Callable[[str], None],
    ) -> None:
        self._folder = store_folder(folder, workspace)
        self._workspace, self._notify = workspace, notify
        self._lock = self._folder.with_suffix(".lock")
        self.git = Git(program, self._folder / "git", workspace, STARTS_OVER)
        self.records = Records(self._folder / "records")
        excluded = _excluded(folder.parent, workspace)
        self._snapshots = Snapshots(self.git, workspace, limits, excluded)

    @property
    def exists(self) -> bool:
        return self._folder.exists()

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """The store, made if need be, for this task alone."""
        async with self._locked():
            self._prepare()
            yield

    async def snapshot(self) -> Snapshot:
        """The workspace as it is."""
        return await self._snapshots.take()

    async def mended(self) -> bool:
        """Whether the store was damaged; then it is put aside now, and an empty one takes over."""
        try:
            await self.git.run("fsck", "--connectivity-only", "--no-dangling", "--no-progress")
        except GitFailed:
            aside = self._folder.with_name(f"{self._folder.name}.broken-{time.time_ns()}")
            await asyncio.to_thread(self._folder.rename, aside)
            self._notify(
                f"the checkpoints of {self._workspace} were damaged; they are now in {aside}"
            )
            self._prepare()
            return True
        return False

    async def keep(self, record: Record) -> None:
        lines = [f"update {REFS}/{record.id}/before {record.before}\n"]
        if record.after:
            lines.append(f"update {REFS}/{record.id}/after {record.after}\n")
        await self.git.run("update-ref", "--stdin", data="".join(lines).encode())
        await asyncio.to_thread(self.records.save, record)

    async def drop(self, records: Sequence[Record]) -> None:
        for record in records:
            self.records.drop(record)
        await self._drop_loose()

    async def _drop_loose(self) -> None:
        """References without a record, also those of a checkpoint that was stopped half-way."""
        known = {record.id for record in self.records.all()}
        names = (await self.git.run("for-each-ref", "--format=%(refname)", REFS)).decode().split()
        loose = [name for name in names if name.split("/")[2] not in known]
        data = "".join(f"delete {name}\n" for name in loose).encode()
        if data:
            await self.git.run("update-ref", "--stdin", data=data)

    async def tidy(self, *, thoroughly: bool) -> None:
        """Free the room of what was dropped: when it is worth it, or now."""
        await self._drop_loose()
        await self.git.run("gc", "--quiet", *(["--prune=now"] if thoroughly else ["--auto"]))

    async def clear(self) -> None:
        async with self._locked():
            await asyncio.to_thread(shutil.rmtree, self._folder)

    def _prepare(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._snapshots.prepare()
        name = self._folder / "workspace"
        if not name.exists():
            name.write_bytes(os.fsencode(self._workspace))

    @contextlib.asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """One process and one task at a time; the lock goes with the process that holds it."""
        self._lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        filelock = import_module("filelock")  # slow to load, and a turn may change nothing
        lock = filelock.FileLock(self._lock, mode=0o600, fallback_to_soft=False)
        end = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                lock.acquire(blocking=False)
                break
            except filelock.Timeout as error:
                if time.monotonic() > end:
                    raise StoreError("another Hermes is busy with the checkpoints") from error
                await asyncio.sleep(0.02)
        try:
            yield
        finally:
            lock.release()


def store_folder(folder: Path, workspace: Path) -> Path:
    """Where the store of a workspace (a real path) is."""
    return folder / hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]


def workspace_of(folder: Path, place: Path) -> Path:
    """The nearest folder at or above `place` that has checkpoints, else `place` itself."""
    real = Path(os.path.realpath(place))
    above = (real, *real.parents)
    return next((each for each in above if store_folder(folder, each).exists()), real)


def _excluded(own_home: Path, workspace: Path) -> list[str]:
    """Our own home when it is inside the workspace."""
    home = os.path.realpath(own_home)
    if not below(home, str(workspace)) or home == str(workspace):
        return []
    name = os.path.relpath(home, workspace)
    return ["/" + "".join(f"\\{c}" if c in "*?[\\" else c for c in name) + "/"]
