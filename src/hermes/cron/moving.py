"""Jobs of one machine, brought into the store that several share."""

from collections.abc import Callable, Sequence

from hermes.config.home import tilde
from hermes.core.errors import HermesError, StoreConflict
from hermes.cron.book import Change, JobBook
from hermes.cron.job import Job
from hermes.cron.jobs_file import JobsFile
from hermes.util.text import many

Tell = Callable[[str], None]


class MovedBook:
    """A `JobBook` of a shared store. Whoever uses it first brings in the jobs of jobs.json, which
    is put away after that: they are in one place."""

    def __init__(self, shared: JobBook, earlier: JobsFile, tell: Tell) -> None:
        self._shared, self._earlier, self._tell = shared, earlier, tell
        self._asked = False

    async def all(self) -> tuple[Job, ...]:
        return await (await self._book()).all()

    def token(self) -> object:
        return self._shared.token()

    async def left_out(self) -> tuple[str, ...]:
        return await (await self._book()).left_out()

    async def add(self, job: Job) -> None:
        await (await self._book()).add(job)

    async def change(self, job_id: str, how: Change) -> Job | None:
        return await (await self._book()).change(job_id, how)

    async def drop(self, job_id: str) -> bool:
        return await (await self._book()).drop(job_id)

    async def replace(self, jobs: Sequence[Job]) -> None:
        await (await self._book()).replace(jobs)

    async def _book(self) -> JobBook:
        """Once in a process: who dies on the way leaves the file, and brings nothing in twice."""
        if not self._asked:
            self._asked = True
            try:
                await self._bring()
            except HermesError as error:  # those of the shared store go on
                self._tell(f"the jobs of {tilde(self._earlier.file)} are not brought in: {error}")
        return self._shared

    async def _bring(self) -> None:
        while self._earlier.file.is_file():
            jobs, new = await self._earlier.all(), 0
            for job in jobs:
                try:
                    await self._shared.add(job)
                    new += 1
                except StoreConflict:  # another machine had the same file, or we were here before
                    continue
            if (away := await self._earlier.put_away(jobs)) is not None:
                self._tell(
                    f"{many(new, 'job')} of {tilde(self._earlier.file)} moved to the shared store;"
                    f" the file is {away.name} now"
                )
