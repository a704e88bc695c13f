"""The documented functions of `cron.jobs`, `cron.scheduler` and `tools.cronjob_tools`.

They are synchronous and work on the jobs of the current home. A job is a record of jobs.json.
"""

import time
from collections.abc import Callable, Coroutine
from datetime import tzinfo
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.app import App
from hermes.compat.runtime import TextProgress, script_runtime, tell
from hermes.compat.tools import error_json
from hermes.core.errors import HermesError, UsageError
from hermes.cron import schedule as schedules
from hermes.cron.job import Job, Record, new_job_id
from hermes.cron.job_store import open_job_store
from hermes.cron.run_pool import new_owner, retire_owner
from hermes.cron.runner import JobRunner
from hermes.cron.service import JobService
from hermes.cron.ticker import Ticker
from hermes.store import Run, SessionStore
from hermes.tools import JobActions
from hermes.util.concurrency import SystemClock

T = TypeVar("T")

LEASE_SECONDS = 86_400.0


def parse_duration(s: str) -> int:
    """Return the minutes of `30m`, `2h` or `1d`. Raises `ValueError`."""
    try:
        seconds = schedules.parse_duration(s)
    except UsageError as error:
        raise ValueError(str(error)) from error
    if seconds is None:
        raise ValueError(f"{s!r} is not a duration such as 30m, 2h or 1d")
    return seconds // 60


def parse_schedule(schedule: str) -> Record:
    """Return the `schedule` field of a job. Raises `ValueError`."""
    try:
        return schedules.parse_schedule(schedule, time.time(), _zone()).to_record()
    except UsageError as error:
        raise ValueError(f"{error} ({error.hint})" if error.hint else str(error)) from error


def compute_next_run(schedule: Record, last_run_at: str | None = None) -> str | None:
    """Return the UTC timestamp of the next run; None if there is none.

    A schedule that runs once has no next run if `last_run_at` is given.
    """
    now = time.time()
    parsed = schedules.Schedule.from_record(schedule, now, _zone())
    if parsed is None or (parsed.kind == "once" and last_run_at):
        return None
    following = schedules.next_after(parsed, now, _zone())
    return None if following is None else schedules.format_timestamp(following)


def create_job(
    prompt: str,
    schedule: str,
    name: str | None = None,
    repeat: int | None = None,
    deliver: str | None = None,
    origin: Record | None = None,
    skill: str | None = None,
    skills: list[str] | None = None,
    model: str | None = None,
    provider: str | None = None,
    base_url: str | None = None,
    script: str | None = None,
    **more: Any,
) -> Record:
    """Create a job and return it. Raises `UsageError`."""
    fields = locals()  # the parameters are fields of a job
    fields |= fields.pop("more")
    wanted = {name: value for name, value in fields.items() if value is not None}
    return _with_service(lambda service: service.create(wanted))


def list_jobs(include_disabled: bool = False) -> list[Record]:
    jobs = _with_service(lambda service: service.list())
    return [job for job in jobs if include_disabled or job["enabled"]]


def get_job(job_id: str) -> Record | None:
    return next((job for job in load_jobs() if job["id"] == job_id), None)


def update_job(job_id: str, updates: Record) -> Record | None:
    """Change a job and return it; None if it does not exist. Raises `UsageError`."""
    return _with_job(job_id, lambda service: service.update(job_id, updates))


def pause_job(job_id: str, reason: str | None = None) -> Record | None:  # noqa: ARG001 - documented
    return _with_job(job_id, lambda service: service.pause(job_id))


def resume_job(job_id: str) -> Record | None:
    return _with_job(job_id, lambda service: service.resume(job_id))


def trigger_job(job_id: str) -> Record | None:
    """Request an extra run at the next tick."""
    return _with_job(job_id, lambda service: service.run(job_id))


def remove_job(job_id: str) -> bool:
    return _with_job(job_id, lambda service: service.remove(job_id)) is not None


def load_jobs() -> list[Record]:
    return list_jobs(include_disabled=True)


def save_jobs(jobs: list[Record]) -> None:
    """Replace all jobs."""
    runtime, zone = script_runtime(), _zone()
    parsed = [Job.from_record(job, zone) for job in jobs]
    runtime.with_store(
        lambda store: open_job_store(runtime.home, runtime.loaded, store.runs, zone).replace_all(
            parsed
        )
    )


def tick(verbose: bool = True, **_more: Any) -> int:
    """Run everything that is due, wait for it, and return the number of runs."""
    runtime = script_runtime()
    ended: list[Run] = []

    def on_run(job: Job, run: Run) -> None:
        if run.ended_at is not None:
            ended.append(run)
            if verbose:
                tell(f"{job.name}: {run.state}{run.error and f': {run.error}'}")

    async def work() -> None:
        async with App(runtime.home, runtime.loaded, TextProgress(), tell) as app:
            ticker = Ticker.for_app(app, SystemClock(), on_run=on_run)
            try:
                await ticker.drain()
            finally:
                await ticker.close()

    runtime.run(work())
    return len(ended)


def run_job(job: Record) -> tuple[bool, str, str, str | None]:
    """Run a job now, apart from its schedule.

    Returns whether it succeeded, the text of its output file, its answer, and the error.
    """
    runtime = script_runtime()
    wanted = Job.from_record({"id": new_job_id(), **job}, _zone())

    async def work() -> tuple[bool, str, str, str | None]:
        async with App(runtime.home, runtime.loaded, TextProgress(), tell) as app:
            runner, now, owner = JobRunner(app, SystemClock()), time.time(), new_owner()
            lease_until = now + LEASE_SECONDS
            run = await app.store.runs.claim(wanted.id, round(now, 3), owner, now, lease_until)
            if run is None:
                return False, "", "", "the job is already running"
            try:
                ended = await runner.run(wanted, run)
                await app.store.runs.report(ended)
            finally:
                retire_owner(owner)  # another process can take over a run that was interrupted
            page = Path(ended.output).read_text(encoding="utf-8") if ended.output else ""
            answer = await runner.load_answer(ended)
            answered = ended.state in ("ok", "silent", "undelivered")
            return answered, page, answer, ended.error or None

    return runtime.run(work())


def cronjob(action: str, job_id: str | None = None, **said: Any) -> str:
    """Call the `cronjob` tool; return its JSON result, or `{"error": …}`."""
    said.pop("task_id", None)
    given = {name: value for name, value in said.items() if value is not None}
    try:
        result = _with_service(
            lambda service: JobActions(service, "", {}).run(action, job_id or "", given)
        )
    except HermesError as error:
        return error_json(f"{error} ({error.hint})" if error.hint else str(error))
    return msgspec.json.encode(result).decode()


def _zone() -> tzinfo:
    return schedules.resolve_timezone(script_runtime().loaded.settings.timezone)


def _with_service(work: Callable[[JobService], Coroutine[Any, Any, T]]) -> T:
    runtime = script_runtime()

    def run(store: SessionStore) -> Coroutine[Any, Any, T]:
        # A program may create a job before the skill that the job names.
        return work(
            JobService.for_home(
                runtime.home, runtime.loaded, store.runs, SystemClock(), check_names=False
            )
        )

    return runtime.with_store(run)


def _with_job(
    job_id: str, work: Callable[[JobService], Coroutine[Any, Any, Record]]
) -> Record | None:
    return None if get_job(job_id) is None else _with_service(work)
