"""Scheduled work."""

from functools import partial

from hermes.store.claims import Run, StoredJob
from hermes.store.facets.access import Access
from hermes.store.queries import claims


class Claims(Access):
    """`claims.Claims`."""

    async def claim_run(
        self, job_id: str, instant: float, owner: str, now: float, until: float
    ) -> Run | None:
        work = partial(claims.claim, job_id=job_id, instant=instant, owner=owner)
        return await self.write(partial(work, now=now, until=until), is_small=True)

    async def note_run(self, run: Run) -> bool:
        return await self.write(partial(claims.note, run=run), is_small=True)

    async def take_over(
        self, owner: str, now: float, until: float, *, dead: tuple[str, ...] = ()
    ) -> tuple[Run, ...]:
        return await self.write(
            partial(claims.take_over, owner=owner, now=now, until=until, dead=dead), is_small=True
        )

    async def report_run(self, run: Run) -> None:
        await self.write(partial(claims.report, run=run), is_small=True)

    async def renew_runs(self, owner: str, until: float) -> int:
        return await self.write(partial(claims.renew, owner=owner, until=until), is_small=True)

    async def run_owners(self) -> tuple[str, ...]:
        return await self.read(claims.owners)

    async def runs(self, job_id: str = "", limit: int = 50) -> tuple[Run, ...]:
        return await self.read(partial(claims.runs, job_id=job_id, limit=limit))

    async def clean_runs(self, before: float, keep: int = 100) -> int:
        return await self.write(partial(claims.clean, before=before, keep=keep))

    async def jobs(self) -> tuple[StoredJob, ...]:
        return await self.read(claims.jobs)

    async def save_job(self, job_id: str, record: bytes, version: int | None) -> int:
        work = partial(claims.save_job, job_id=job_id, record=record, version=version)
        return await self.write(work, is_small=True)

    async def drop_job(self, job_id: str) -> bool:
        return await self.write(partial(claims.drop_job, job_id=job_id), is_small=True)
