"""Scheduled work, claimed so that each instant of a job is run once, by whoever comes first."""

from typing import Literal, Protocol

import msgspec

RunState = Literal["claimed", "running", "ok", "failed", "silent", "skipped", "missed", "lost"]
OVER = ("ok", "failed", "silent", "skipped", "missed", "lost")
"""`lost`: the process that ran it died, and it was not run again."""


class Run(msgspec.Struct, frozen=True):
    """One instant of a job."""

    job_id: str
    instant: float
    """When it was due, seconds since 1970."""
    state: RunState
    owner: str = ""
    lease_until: float = 0.0
    fence: int = 0
    """Grows with each claim; what an earlier owner reports is refused."""
    attempt: int = 1
    claimed_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    session_id: str = ""
    output: str = ""
    """The file with what came out of it."""
    error: str = ""
    delivered: str = ""
    """What became of its delivery, for people."""


class StoredJob(msgspec.Struct, frozen=True):
    """A job of a shared store; on one machine they are in jobs.json."""

    id: str
    record: bytes
    """JSON."""
    version: int


class Claims(Protocol):
    """`LeaseLost` is raised where the fence is no longer the run's newest."""

    async def claim_run(
        self, job_id: str, instant: float, owner: str, now: float, until: float
    ) -> Run | None:
        """The run, ours now; None when the instant was claimed before, by whomever."""
        ...

    async def note_run(self, run: Run) -> bool:
        """Write down an instant that is not run (`missed`, `skipped`); False when it is known."""
        ...

    async def take_over(
        self, owner: str, now: float, until: float, *, dead: tuple[str, ...] = ()
    ) -> tuple[Run, ...]:
        """Unfinished runs of others whose lease has run out or whose owner is named in `dead`, ours
        now: a higher fence, one more attempt, the state as it was left. Earliest first."""
        ...

    async def report_run(self, run: Run) -> None:
        """Keep the new state of a run that is ours."""
        ...

    async def renew_runs(self, owner: str, until: float) -> int: ...

    async def run_owners(self) -> tuple[str, ...]:
        """Who holds unfinished runs at present."""
        ...

    async def runs(self, job_id: str = "", limit: int = 50) -> tuple[Run, ...]:
        """The history, newest first."""
        ...

    async def clean_runs(self, before: float, keep: int = 100) -> int:
        """Forget runs that ended before then, but keep the newest of each job; how many."""
        ...

    async def jobs(self) -> tuple[StoredJob, ...]: ...

    async def save_job(self, job_id: str, record: bytes, version: int | None) -> int:
        """Keep a job: None makes a new one, else `version` must be the stored one. The new version.
        Raises `StoreConflict` when somebody else changed or made it meanwhile."""
        ...

    async def drop_job(self, job_id: str) -> bool: ...
