"""/api/jobs: scheduled work."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hermes.core.errors import UsageError
from hermes.core.ports import Scheduler
from hermes.gateway.platforms.api_server.exchange import Reply, Request, answered
from hermes.gateway.platforms.api_server.refusals import Refused, missing
from hermes.tools.builtin.cronjob import HARMLESS_FIELDS

Text = str | UnsetType | None
Names = str | list[str] | UnsetType | None
Record = dict[str, Any]


class JobWanted(msgspec.Struct, frozen=True):
    """What can be said of a job. null takes something away."""

    schedule: Text = UNSET
    """`every 2h`, `30m`, `0 9 * * *`, or a time."""
    prompt: Text = UNSET
    name: Text = UNSET
    repeat: Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType | None = UNSET
    deliver: Names = UNSET
    skills: Names = UNSET
    model: Text = UNSET
    provider: Text = UNSET
    base_url: Text = UNSET
    script: Text = UNSET
    workdir: Text = UNSET
    context_from: Names = UNSET
    enabled_toolsets: Names = UNSET
    budget_usd: Annotated[float, Meta(ge=0)] | UnsetType | None = UNSET


class JobRecord(msgspec.Struct, frozen=True):
    job: Record


class JobList(msgspec.Struct, frozen=True):
    jobs: list[Record]


class Jobs:
    def __init__(self, scheduler: Scheduler | None, backend: str = "") -> None:
        """`backend` is where commands of clients run: those of their jobs run nowhere else."""
        self._held = scheduler
        self._limits = {"by": {"backend": backend}} if backend else {}

    @property
    def _scheduler(self) -> Scheduler:
        if self._held is None:
            raise Refused(503, "jobs are not scheduled here", code="no_scheduler")
        return self._held

    async def listed(self, _request: Request) -> Reply:
        return answered(JobList(await self._scheduler.list()))

    async def create(self, request: Request) -> Reply:
        wanted = msgspec.to_builtins(request.decoded(JobWanted))
        return answered(JobRecord(await self._scheduler.create(wanted | self._limits)), 201)

    async def get(self, request: Request) -> Reply:
        return answered(JobRecord(await self._found(request)))

    async def update(self, request: Request) -> Reply:
        changes = msgspec.to_builtins(request.decoded(JobWanted))
        job = await self._found(request)
        limits = self._limits if changes.keys() - set(HARMLESS_FIELDS) else {}
        return answered(JobRecord(await self._scheduler.update(job["id"], changes | limits)))

    async def remove(self, request: Request) -> Reply:
        return await self._done(request, lambda scheduler: scheduler.remove)

    async def pause(self, request: Request) -> Reply:
        return await self._done(request, lambda scheduler: scheduler.pause)

    async def resume(self, request: Request) -> Reply:
        return await self._done(request, lambda scheduler: scheduler.resume)

    async def run(self, request: Request) -> Reply:
        return await self._done(request, lambda scheduler: scheduler.run)

    async def _done(
        self, request: Request, verb: Callable[[Scheduler], Callable[[str], Awaitable[Record]]]
    ) -> Reply:
        job = await self._found(request)
        return answered(JobRecord(await verb(self._scheduler)(job["id"])))

    async def _found(self, request: Request) -> Record:
        try:
            return await self._scheduler.get(request.places["job_id"])
        except UsageError as error:
            told = f"{error}; {error.hint}" if error.hint else str(error)
            raise missing(told, "job_not_found") from error
