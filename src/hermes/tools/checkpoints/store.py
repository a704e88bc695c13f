"""The checkpoints of one workspace: taking them, listing them, going back."""

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hermes.core.errors import StoreError, UsageError
from hermes.security.paths import below
from hermes.store.git import GitFailed
from hermes.tools.checkpoints.records import Record, new_id
from hermes.tools.checkpoints.restoring import Restored, Restorer, plan
from hermes.tools.checkpoints.shelf import Shelf
from hermes.tools.checkpoints.snapshots import Limits, Snapshot, TooManyFiles
from hermes.tools.checkpoints.trees import Trees


class CheckpointOptions(msgspec.Struct, frozen=True):
    max_snapshots: int = 50
    """The setting `checkpoints.max_snapshots`."""
    max_age_days: float = 30
    limits: Limits = Limits()


class Checkpoint(msgspec.Struct, frozen=True):
    """One line of the list."""

    number: int
    """1 is the newest."""
    id: str
    time: float
    reason: str
    session: str
    changed: int
    """Files changed from here to the next one; 0 while it is not over."""
    ended: bool
    kind: str


class Checkpoints:
    """`folder` holds the stores of all workspaces; `user_home` is never a workspace itself.

    Every operation may be cancelled; several processes may work on the same workspace. `git` is
    the program, looked up when not given; "" means that there is none.
    """

    def __init__(
        self,
        folder: Path,
        workspace: Path,
        user_home: Path,
        options: CheckpointOptions | None = None,
        *,
        git: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.workspace = Path(os.path.realpath(workspace))
        self._options = options or CheckpointOptions()
        self._now = now
        self._notices: list[str] = []
        program = shutil.which("git") if git is None else git
        self._shelf = Shelf(
            folder, self.workspace, program or "git", self._options.limits, self._notices.append
        )
        self._trees = Trees(self._shelf.git)
        self.problem = "" if program else "git is not installed, so there are no checkpoints"
        """Why there are no checkpoints here; "" when there are."""
        self.problem = self.problem or _unfit(str(self.workspace), folder.parent, user_home)

    def notices(self) -> list[str]:
        """What the user should know; each is told once."""
        told = list(self._notices)
        self._notices.clear()
        return told

    async def take(self, reason: str, session: str = "") -> Record | None:
        """A checkpoint before changes; None when there is none, and a notice says why."""
        if self.problem:
            return None
        try:
            async with self._shelf.opened():
                try:
                    return await self._taken(reason, session)
                except GitFailed:
                    if not await self._shelf.mended():
                        raise
                return await self._taken(reason, session)
        except TooManyFiles as error:
            self.problem = f"no checkpoints: {error}"
        except (StoreError, OSError) as error:
            self._notices.append(f"no checkpoint was made: {error}")
        return None

    async def _taken(self, reason: str, session: str) -> Record:
        record = self._new(reason, session, await self._shelf.snapshot())
        await self._shelf.keep(record)
        return record

    async def finish(self, record: Record) -> None:
        """The changes that `record` stands before are over; without any it is dropped."""
        try:
            async with self._shelf.opened():
                try:
                    await self._finish(record, await self._shelf.snapshot())
                    await self._prune()
                except GitFailed:
                    if not await self._shelf.mended():
                        raise
        except (StoreError, OSError) as error:
            self._notices.append(f"the checkpoint is not complete: {error}")

    async def _finish(self, record: Record, snapshot: Snapshot) -> None:
        if snapshot.tree == record.before:
            await self._shelf.drop([record])
            return
        changed = len(await self._trees.deltas(record.before, snapshot.tree))
        done = msgspec.structs.replace(record, after=snapshot.tree, changed=changed)
        await self._shelf.keep(done)

    async def diff(self, number: int, file: str = "") -> str:
        """What is different now from what was there at checkpoint `number`."""
        self._require_fit()
        only = self.relative(file)
        async with self._shelf.opened():
            record = self._numbered(number)[-1]
            now = await self._shelf.snapshot()
            return await self._trees.diff(record.before, now.tree, only)

    async def restore(self, number: int, file: str = "", *, force: bool = False) -> Restored:
        """Undo what the agent changed since checkpoint `number`, in one file or everywhere.

        What the user changed since stays. Where both changed the same lines the file is left as it
        is and named in the result; `force` takes the version of the checkpoint there. The state
        before is a checkpoint itself, so that this can be undone.
        """
        self._require_fit()
        only = self.relative(file)
        async with self._shelf.opened():
            chain = self._numbered(number)
            now = await self._shelf.snapshot()
            made = await plan(self._trees, chain, now.tree, only, force=force)
            if only and not made.goal and not made.kept:
                raise UsageError(
                    f"{file} was not changed since checkpoint {number}",
                    hint="the diff of a checkpoint shows what was",
                )
            record = self._new(f"rollback to {number}", "", now, kind="rollback")
            await self._shelf.keep(record)
            restored = await Restorer(self._shelf.git, self.workspace).carry_out(number, made)
            await self._finish(record, await self._shelf.snapshot())
            await self._prune()
            return restored

    async def prune(self) -> int:
        """Drop what is too old or too much, and free the room; says how many went."""
        if not self._shelf.exists or self.problem:
            return 0
        async with self._shelf.opened():
            dropped = await self._prune()
            await self._shelf.tidy(thoroughly=True)
            return dropped

    async def clear(self) -> None:
        """Forget every checkpoint of the workspace."""
        if self._shelf.exists:
            await self._shelf.clear()

    def relative(self, file: str) -> str:
        """A file or folder of the workspace as the store names it; "" is everything."""
        if not file:
            return ""
        path = os.path.normpath(self.workspace / file)
        if not below(path, str(self.workspace)):
            raise UsageError(f"{file} is not in {self.workspace}")
        return "" if path == str(self.workspace) else os.path.relpath(path, self.workspace)

    def _require_fit(self) -> None:
        if self.problem:
            raise UsageError(self.problem)

    def _numbered(self, number: int) -> Sequence[Record]:
        """The records from the newest to the one with this number."""
        records = self._shelf.records.all()
        if 1 <= number <= len(records):
            return records[:number]
        there = f"the oldest is {len(records)}" if records else "there are none yet"
        raise UsageError(f"there is no checkpoint {number}", hint=there)

    def _new(self, reason: str, session: str, snapshot: Snapshot, **fields: str) -> Record:
        now = self._now()
        record = Record(new_id(now), now, reason, session, snapshot.tree, skipped=snapshot.skipped)
        return msgspec.structs.replace(record, **fields)

    async def _prune(self) -> int:
        records = self._shelf.records.all()
        oldest = self._now() - self._options.max_age_days * 86_400
        most = self._options.max_snapshots
        going = [each for n, each in enumerate(records) if n >= most or each.time < oldest]
        if going:
            await self._shelf.drop(going)
            await self._shelf.tidy(thoroughly=False)
        return len(going)

    async def list(self) -> list[Checkpoint]:
        records = await asyncio.to_thread(self._shelf.records.all)
        return [
            Checkpoint(
                number, each.id, each.time, each.reason, each.session, each.changed,
                bool(each.after), each.kind,
            )
            for number, each in enumerate(records, 1)
        ]  # fmt: skip


def _unfit(workspace: str, own_home: Path, user_home: Path) -> str:
    if below(os.path.realpath(user_home), workspace):
        return f"no checkpoints: {workspace} holds your whole home folder"
    if os.path.realpath(own_home) == workspace:
        return f"no checkpoints: {workspace} is the home of Hermes itself"
    if not Path(workspace).is_dir():
        return f"no checkpoints: there is no folder {workspace}"
    return ""
