"""/api/jobs: the scheduled jobs."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from hermes.core.errors import UsageError
from hermes.core.ports import Scheduler
from hermes.gateway.platforms.api_server.app import F, operation
from hermes.gateway.platforms.api_server.http import (
    ApiError,
    ApiRequest,
    json_response,
    not_found,
)
from hermes.gateway.platforms.api_server.idempotency import KEY_HEADER
from hermes.tools import HARMLESS_FIELDS

Text = str | UnsetType | None
Names = str | list[str] | UnsetType | None
Record = dict[str, Any]


class JobChanges(msgspec.Struct, frozen=True):
    """The fields of a job. null clears a field."""

    schedule: Text = UNSET  #: `every 2h`, `30m`, `0 9 * * *`, or a time.
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


def _job_operation(
    method: str, path: str, name: str, summary: str, **more: Any
) -> Callable[[F], F]:
    """Declare an operation on one job."""
    route = f"{method} /api/jobs/{{job_id}}{path}"
    return operation(route, name, summary, result=JobRecord, errors=(503,), **more)


class JobsEndpoint:
    def __init__(self, scheduler: Scheduler | None, backend: str = "") -> None:
        """`backend` is where commands of clients run; their jobs may not use another one."""
        self._given_scheduler = scheduler
        self._limits = {"by": {"backend": backend}} if backend else {}

    @property
    def _scheduler(self) -> Scheduler:
        if self._given_scheduler is None:
            raise ApiError(503, "jobs are not scheduled here", code="no_scheduler")
        return self._given_scheduler

    @operation("GET /api/jobs", "jobs", "Scheduled jobs", result=JobList, errors=(503,))
    async def list(self, _request: ApiRequest) -> Response:
        return json_response(JobList(await self._scheduler.list()))

    @operation(
        "POST /api/jobs",
        "new_job",
        "Create a job",
        result=JobRecord,
        status=201,
        errors=(503,),
        body=JobChanges,
        headers=(KEY_HEADER,),
    )
    async def create(self, request: ApiRequest) -> Response:
        fields = msgspec.to_builtins(request.decode(JobChanges))
        return json_response(JobRecord(await self._scheduler.create(fields | self._limits)), 201)

    @_job_operation("GET", "", "job", "A job")
    async def get(self, request: ApiRequest) -> Response:
        return json_response(JobRecord(await self._job(request)))

    @_job_operation("PATCH", "", "change_job", "Change a job", body=JobChanges)
    async def update(self, request: ApiRequest) -> Response:
        changes = msgspec.to_builtins(request.decode(JobChanges))
        job = await self._job(request)
        limits = self._limits if changes.keys() - set(HARMLESS_FIELDS) else {}
        return json_response(JobRecord(await self._scheduler.update(job["id"], changes | limits)))

    @_job_operation("DELETE", "", "delete_job", "Remove a job")
    async def remove(self, request: ApiRequest) -> Response:
        return json_response(JobRecord(await self._scheduler.remove(await self._job_id(request))))

    @_job_operation("POST", "/pause", "pause_job", "Pause its schedule")
    async def pause(self, request: ApiRequest) -> Response:
        return json_response(JobRecord(await self._scheduler.pause(await self._job_id(request))))

    @_job_operation("POST", "/resume", "resume_job", "Resume its schedule")
    async def resume(self, request: ApiRequest) -> Response:
        return json_response(JobRecord(await self._scheduler.resume(await self._job_id(request))))

    @_job_operation("POST", "/run", "run_job", "Run it soon, in addition to its schedule")
    async def run(self, request: ApiRequest) -> Response:
        return json_response(JobRecord(await self._scheduler.run(await self._job_id(request))))

    async def _job_id(self, request: ApiRequest) -> str:
        job_id: str = (await self._job(request))["id"]
        return job_id

    async def _job(self, request: ApiRequest) -> Record:
        try:
            return await self._scheduler.get(request.path_params["job_id"])
        except UsageError as error:
            text = f"{error}; {error.hint}" if error.hint else str(error)
            raise not_found(text, "job_not_found") from error
