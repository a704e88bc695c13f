"""Taking sessions out and in, and looking after the store itself."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from hermes.store.facets.access import Access
from hermes.store.port import Progress, unheard
from hermes.store.queries import activity, sessions, transfer, upkeep
from hermes.store.records import Activity, Record, SessionFilter, StoreStats


class Upkeep(Access):
    """`port.Upkeep`."""

    async def export(self, session_id: str) -> Record:
        return await self.read(partial(transfer.export, session_id=session_id))

    async def restore(self, record: Record) -> str:
        restore = partial(transfer.restore, self._engine.backend)
        return await self.write(partial(restore, record=record, now=self._now()))

    async def delete(self, session_id: str) -> None:
        await self.write(partial(upkeep.delete, session_id=session_id))

    async def prune(self, which: SessionFilter) -> tuple[str, ...]:
        ended = msgspec.structs.replace(which, ended_only=True, archived=False)
        return await self.write(partial(upkeep.prune, which=ended))

    async def set_archived(self, session_id: str, archived: bool) -> None:
        when = self._now() if archived else None
        await self.write(partial(sessions.archive, session_id=session_id, when=when))

    async def stats(self) -> StoreStats:
        return await self.read(partial(upkeep.stats, self._engine.backend))

    async def activity(self, *, since: float, sources: Sequence[str] = ()) -> Activity:
        return await self.read(partial(activity.activity, since=since, sources=tuple(sources)))

    async def reindex(self, progress: Progress = unheard) -> int:
        return await self.write(partial(self._engine.backend.reindex, progress=progress))

    async def vacuum(self) -> None:
        await self.read(self._engine.backend.vacuum)

    async def backup(self, target: Path, progress: Progress = unheard) -> None:
        await self.read(partial(self._engine.backend.backup, target=target, progress=progress))
