"""Where jobs are kept: jobs.json of a home, or the store that several machines share."""

from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Protocol

import msgspec

from hermes.core.errors import StoreConflict
from hermes.cron.job import Job, from_dict, to_dict
from hermes.store.claims import Claims, StoredJob

Change = Callable[[Job], Job]


class JobBook(Protocol):
    """A returned call means the change is safe, and no change of somebody else was lost."""

    async def all(self) -> tuple[Job, ...]:
        """In the order they were made."""
        ...

    def token(self) -> object:
        """Another one when somebody, perhaps another process, has changed something. What cannot
        tell that at once has always the same."""
        ...

    async def left_out(self) -> tuple[str, ...]:
        """Records that are no jobs, and why: broken, or without an id of their own."""
        ...

    async def add(self, job: Job) -> None: ...

    async def change(self, job_id: str, how: Change) -> Job | None:
        """The job as `how` made it; None when it is gone. `how` is quick, has no effects, and may
        be called more than once."""
        ...

    async def drop(self, job_id: str) -> bool: ...

    async def replace(self, jobs: Sequence[Job]) -> None:
        """These and no others."""
        ...


class SharedBook:
    """Jobs in a store that several machines share; each change names the version it is made on."""

    def __init__(self, claims: Claims, zone: tzinfo) -> None:
        self._claims, self._zone = claims, zone

    async def all(self) -> tuple[Job, ...]:
        jobs = [self._job(stored) for stored in await self._claims.jobs()]
        return tuple(sorted(jobs, key=lambda job: (job.created_at, job.id)))

    def token(self) -> object:
        return None

    async def left_out(self) -> tuple[str, ...]:
        return ()

    async def add(self, job: Job) -> None:
        await self._claims.save_job(job.id, _encoded(job), None)

    async def change(self, job_id: str, how: Change) -> Job | None:
        while True:
            stored = await self._stored(job_id)
            if stored is None:
                return None
            before = self._job(stored)
            after = how(before)
            if after == before:
                return before
            try:
                await self._claims.save_job(job_id, _encoded(after), stored.version)
            except StoreConflict:
                continue
            return after

    async def drop(self, job_id: str) -> bool:
        return await self._claims.drop_job(job_id)

    async def replace(self, jobs: Sequence[Job]) -> None:
        there = {stored.id: stored.version for stored in await self._claims.jobs()}
        for job in jobs:
            await self._claims.save_job(job.id, _encoded(job), there.pop(job.id, None))
        for gone in there:
            await self._claims.drop_job(gone)

    async def _stored(self, job_id: str) -> StoredJob | None:
        return next((each for each in await self._claims.jobs() if each.id == job_id), None)

    def _job(self, stored: StoredJob) -> Job:
        return from_dict(msgspec.json.decode(stored.record), self._zone)


def _encoded(job: Job) -> bytes:
    return msgspec.json.encode(to_dict(job))
