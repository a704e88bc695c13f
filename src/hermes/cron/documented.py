"""`cron.jobs`, `cron.scheduler` and `tools.cronjob_tools`: the documented functions, synchronous.

They work on the jobs of the home in force. A job is a record of jobs.json.
"""

import time
from collections.abc import Callable, Coroutine
from datetime import tzinfo
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.app.app import App
from hermes.app.documented.process import process, tell
from hermes.app.documented.workshop import error_json
from hermes.app.sessions import opened_store
from hermes.core.errors import HermesError, UsageError
from hermes.cron import schedule as schedules
from hermes.cron.desk import JobDesk
from hermes.cron.job import Job, Record, from_dict, new_id
from hermes.cron.opening import book_of, desk_of, runner_of, ticker_of
from hermes.cron.owner import new_owner, retire
from hermes.cron.zone import zone_of
from hermes.store.claims import Run
from hermes.tools.cronjob import Window
from hermes.util.clock import SystemClock

T = TypeVar("T")
DAY = 86_400.0


def parse_duration(s: str) -> int:
    """Minutes of `30m`, `2h` or `1d`. Raises ValueError."""
    try:
        seconds = schedules.duration(s)
    except UsageError as error:
        raise ValueError(str(error)) from error
    if seconds is None:
        raise ValueError(f"{s!r} is no duration, such as 30m, 2h or 1d")
    return seconds // 60


def parse_schedule(schedule: str) -> Record:
    """The field `schedule` of a job. Raises ValueError."""
    try:
        return schedules.to_record(schedules.parse_schedule(schedule, time.time(), _zone()))
    except UsageError as error:
        raise ValueError(f"{error} ({error.hint})" if error.hint else str(error)) from error


def compute_next_run(schedule: Record, last_run_at: str | None = None) -> str | None:
    """When it runs next, as a timestamp in UTC; None when never. What runs once and has run does
    not run again."""
    now = time.time()
    found = schedules.from_record(schedule, now, _zone())
    if found is None or (found.kind == "once" and last_run_at):
        return None
    following = schedules.next_after(found, now, _zone())
    return None if following is None else schedules.iso(following)


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
    """The new job. Raises `UsageError`."""
    said = {
        "prompt": prompt,
        "schedule": schedule,
        "name": name,
        "repeat": repeat,
        "deliver": deliver,
        "origin": origin,
        "skill": skill,
        "skills": skills,
        "model": model,
        "provider": provider,
        "base_url": base_url,
        "script": script,
        **more,
    }
    wanted = {name: value for name, value in said.items() if value is not None}
    return _with_desk(lambda desk: desk.create(wanted))


def list_jobs(include_disabled: bool = False) -> list[Record]:
    jobs = _with_desk(lambda desk: desk.list())
    return [job for job in jobs if include_disabled or job["enabled"]]


def get_job(job_id: str) -> Record | None:
    return next((job for job in list_jobs(include_disabled=True) if job["id"] == job_id), None)


def update_job(job_id: str, updates: Record) -> Record | None:
    """The job with other values; None when there is none of this id. Raises `UsageError`."""
    return _with_job(job_id, lambda desk: desk.update(job_id, updates))


def pause_job(job_id: str, reason: str | None = None) -> Record | None:  # noqa: ARG001 - documented
    return _with_job(job_id, lambda desk: desk.pause(job_id))


def resume_job(job_id: str) -> Record | None:
    return _with_job(job_id, lambda desk: desk.resume(job_id))


def trigger_job(job_id: str) -> Record | None:
    """Have it run at the next look, beside its schedule."""
    return _with_job(job_id, lambda desk: desk.run(job_id))


def remove_job(job_id: str) -> bool:
    return _with_job(job_id, lambda desk: desk.remove(job_id)) is not None


def load_jobs() -> list[Record]:
    return list_jobs(include_disabled=True)


def save_jobs(jobs: list[Record]) -> None:
    """These and no others."""
    shared = process()
    read = [from_dict(job, _zone()) for job in jobs]

    async def work() -> None:
        url = shared.loaded.settings.store.url
        async with opened_store(shared.home, url, tell) as store:
            await book_of(shared.home, shared.loaded, store, _zone()).replace(read)

    shared.run(work())


def tick(verbose: bool = True, **_more: Any) -> int:
    """Run what is due and wait for it; how many runs there were."""
    shared = process()
    ended: list[Run] = []

    def seen(job: Job, run: Run) -> None:
        if run.ended_at is not None:
            ended.append(run)
            if verbose:
                tell(f"{job.name}: {run.state}{run.error and f': {run.error}'}")

    async def work() -> None:
        async with App(shared.home, shared.loaded, Quiet(), tell) as app:
            ticker = ticker_of(app, SystemClock(), on_run=seen)
            try:
                await ticker.drain()
            finally:
                await ticker.close()

    shared.run(work())
    return len(ended)


def run_job(job: Record) -> tuple[bool, str, str, str | None]:
    """Run a job now, beside its schedule: whether it went well, the text of its file, its answer,
    and what went wrong."""
    shared, clock = process(), SystemClock()
    wanted = from_dict({"id": new_id(), **job}, _zone())

    async def work() -> tuple[bool, str, str, str | None]:
        async with App(shared.home, shared.loaded, Quiet(), tell) as app:
            runner, now, owner = runner_of(app, clock), time.time(), new_owner()
            run = await app.store.claim_run(wanted.id, round(now, 3), owner, now, now + DAY)
            if run is None:
                return False, "", "", "it runs already"
            try:
                ended = await runner.run(wanted, run)
                await app.store.report_run(ended)
            finally:
                retire(owner)  # a run that broke down is nobody's any more
            page = Path(ended.output).read_text(encoding="utf-8") if ended.output else ""
            answer = await runner.answer_of(ended)
            return ended.state in ("ok", "silent"), page, answer, ended.error or None

    return shared.run(work())


def cronjob(action: str, job_id: str | None = None, **said: Any) -> str:
    """The tool `cronjob` as a function; the result is JSON, `{"error": …}` when it failed."""
    said.pop("task_id", None)
    given = {name: value for name, value in said.items() if value is not None}
    try:
        done = _with_desk(lambda desk: Window(desk, "", {}).act(action, job_id or "", given))
    except HermesError as error:
        return error_json(f"{error} ({error.hint})" if error.hint else str(error))
    return msgspec.json.encode(done).decode()


class Quiet:
    """A `Progress` of which only words are shown."""

    def report(self, label: str, done: int, total: int) -> None:
        """Too often for lines of text."""

    def say(self, text: str) -> None:
        tell(text)


def _zone() -> tzinfo:
    return zone_of(process().loaded.settings.timezone)


def _with_desk(work: Callable[[JobDesk], Coroutine[Any, Any, T]]) -> T:
    shared = process()

    async def run() -> T:
        url = shared.loaded.settings.store.url
        async with opened_store(shared.home, url, tell) as store:
            desk = desk_of(shared.home, shared.loaded, store, SystemClock())
            desk.check_names.clear()  # a program may make a job before the skill that it names
            return await work(desk)

    return shared.run(run())


def _with_job(job_id: str, work: Callable[[JobDesk], Coroutine[Any, Any, Record]]) -> Record | None:
    return None if get_job(job_id) is None else _with_desk(work)
