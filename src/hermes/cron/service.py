"""The job service: create, change and list jobs, and check everything a caller asks for."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.schema import platform_names
from hermes.core.errors import UsageError
from hermes.core.ports import Clock
from hermes.cron.job import (
    LOCAL,
    ORIGIN,
    Job,
    JobLimits,
    Record,
    check_prompt,
    new_job_id,
    parse_origin,
    split_names,
)
from hermes.cron.job_store import JobStore, JobUpdate, Notify, open_job_store
from hermes.cron.runner import resolve_script
from hermes.cron.schedule import Schedule, next_after, parse_schedule, resolve_timezone
from hermes.store import ENDED_STATES, RunClaims
from hermes.util.concurrency import in_thread

log = logging.getLogger(__name__)

TargetCheck = Callable[[str], Awaitable[None]]
"""Raises `UsageError` if messages cannot be delivered to a target."""
NameCheck = Callable[[Sequence[str]], None]
"""Raises `UsageError` if one of the names does not exist. May block."""

MAX_NAME = 60
PLATFORMS = frozenset({*platform_names(), "qqbot"})
LIST_HINT = "`hermes cron list` shows the jobs"

_TEXT_FIELDS = ("name", "prompt", "model", "provider", "base_url", "script", "workdir")
_LIST_FIELDS = ("deliver", "skills", "context_from", "enabled_toolsets")
_STORED_FIELDS = (*_TEXT_FIELDS, *_LIST_FIELDS, "budget_usd", "origin")
"""Fields whose new value does not depend on the stored job."""
_UNLISTED_FIELDS = ("skill", "origin", "by")
"""An older name, and fields that users do not set themselves."""

_Names = str | list[str] | None


class JobFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields that a caller may set. None and "" clear a field."""

    schedule: str | None = None
    prompt: str | None = None
    name: str | None = None
    repeat: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Total number of runs; None or 0 for no limit."""
    deliver: _Names = None
    skills: _Names = None
    skill: str | None = None
    model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    script: str | None = None
    workdir: str | None = None
    context_from: _Names = None
    enabled_toolsets: _Names = None
    budget_usd: Annotated[float, msgspec.Meta(ge=0)] | None = None
    origin: str | dict[str, Any] | None = None
    by: JobLimits | None = None


async def check_platform(target: str) -> None:
    """A `TargetCheck` that only checks the name of the platform."""
    name = target.partition(":")[0].partition("@")[0].strip().lower().replace("-", "_")
    if name not in PLATFORMS:
        raise UsageError(
            f"there is no platform {name!r} to deliver to",
            hint="use local, origin, or a platform such as telegram or telegram:CHAT:THREAD",
        )


class JobService:
    """Implements `core.ports.Scheduler`. Jobs are passed in and out as records of jobs.json.

    `claims` is None if nothing was stored yet; no job is shown as running then. `scripts` is the
    folder for scripts. `name_checks` maps `skills` and `enabled_toolsets` to their checks.
    `on_change` is called when a job may be due earlier than before.
    """

    def __init__(
        self,
        jobs: JobStore,
        claims: RunClaims | None,
        zone: tzinfo,
        scripts: Path,
        *,
        now: Callable[[], float] = time.time,
        check_target: TargetCheck = check_platform,
        name_checks: Mapping[str, NameCheck] | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._jobs, self._claims, self._zone, self._scripts = jobs, claims, zone, scripts
        self._now, self._name_checks = now, name_checks or {}
        self.check_target, self.on_change = check_target, on_change

    @classmethod
    def for_home(
        cls,
        home: Home,
        loaded: Loaded,
        claims: RunClaims | None,
        clock: Clock,
        *,
        check_target: TargetCheck = check_platform,
        check_names: bool = True,
        on_change: Callable[[], None] = lambda: None,
        notify: Notify = log.warning,
    ) -> "JobService":
        """Create the service for the jobs of a home; `claims` is its store.

        `notify` gets a message when jobs move to a shared store.
        """
        name_checks: dict[str, NameCheck] = {
            "skills": lambda names: check_skills(home, loaded, names),
            "enabled_toolsets": lambda names: check_toolsets(loaded, names),
        }
        zone = resolve_timezone(loaded.settings.timezone)
        return cls(
            open_job_store(home, loaded, claims, zone, notify),
            claims,
            zone,
            home.scripts,
            now=lambda: clock.now().timestamp(),
            check_target=check_target,
            name_checks=name_checks if check_names else None,
            on_change=on_change,
        )

    async def create(self, wanted: Record) -> Record:
        fields = _parse_fields(wanted)
        if not fields.get("schedule"):
            raise UsageError("a job needs a schedule", hint="for example `every 2h` or `0 9 * * *`")
        if "deliver" not in fields:
            fields["deliver"] = ORIGIN if parse_origin(fields.get("origin")) else LOCAL
        new = Job(id=new_job_id(), created_at=float(int(self._now())))
        job = await self._apply(new, fields)
        await self._jobs.add(job)
        self.on_change()
        return job.to_record()

    async def list(self) -> list[Record]:
        """Return all jobs; their state may also be `running`, or `broken` without a schedule."""
        runs = await self._claims.history("", 500) if self._claims else ()
        running = {run.job_id for run in runs if run.state not in ENDED_STATES}
        newest = {run.job_id: run for run in reversed(runs)}
        records = []
        for job in await self._jobs.all():
            idle = job.state if job.schedule else "broken"
            state = "running" if job.id in running else idle
            record = {**job.to_record(), "state": state}
            # The platform may have refused the answer after the run had ended.
            if (last := newest.get(job.id)) is not None and last.state == "undelivered":
                record |= {"last_status": last.state, "last_error": last.error or last.delivered}
            records.append(record)
        return records

    async def invalid_records(self) -> tuple[str, ...]:
        """Describe the records of the store that are not jobs."""
        return await self._jobs.invalid_records()

    async def get(self, job: str) -> Record:
        found = await self._find(job)
        return next(each for each in await self.list() if each["id"] == found.id)

    async def update(self, job: str, changes: Record) -> Record:
        found, fields = await self._find(job), _parse_fields(changes)
        if not fields:
            raise UsageError("nothing to change", hint="name a field, such as schedule or prompt")
        checked = await self._apply(found, fields)
        values = {name: getattr(checked, name) for name in _STORED_FIELDS if name in fields}
        limits: JobLimits | None = fields.get("limits")

        # The job may have run, or another user may have narrowed its limits, since it was read
        # above. So schedule and limits are applied to the job as it is stored now.
        def change(current: Job) -> Job:
            narrowed = limits.intersect(current.limits or JobLimits()) if limits else current.limits
            return self._apply_schedule(replace(current, **values, limits=narrowed), fields)

        return await self._change(found.id, change)

    async def pause(self, job: str) -> Record:
        found = await self._find(job)
        if found.state == "completed":
            raise UsageError(f"{found.name!r} has already completed; it cannot be paused")
        return await self._change(
            found.id,
            lambda current: replace(_cancel_pending(current), state="paused", triggered_at=None),
        )

    async def resume(self, job: str) -> Record:
        found = await self._find(job)
        if found.schedule is None:
            raise UsageError(f"{found.name!r} has no schedule", hint="set a schedule first")
        following = next_after(found.schedule, self._now(), self._zone)
        if following is None or found.is_exhausted:
            raise UsageError(
                f"{found.name!r} has already completed", hint="set a new schedule or more runs"
            )

        def change(current: Job) -> Job:
            if current.state == "scheduled":  # it may be due, which must not be lost
                return current
            return replace(current, state="scheduled", next_run_at=following)

        return await self._change(found.id, change)

    async def run(self, job: str) -> Record:
        """Request an extra run at the next tick."""
        found, at = await self._find(job), round(self._now(), 3)
        if float(at).is_integer():
            at += 0.001  # runs are identified by instant, and those of schedules are whole seconds
        return await self._change(found.id, lambda current: replace(current, triggered_at=at))

    async def remove(self, job: str) -> Record:
        found = await self._find(job)
        await self._jobs.remove(found.id)
        return found.to_record()

    async def _change(self, job_id: str, change: JobUpdate) -> Record:
        job = await self._jobs.update(job_id, change)
        if job is None:
            raise UsageError(f"the job {job_id} no longer exists", hint=LIST_HINT)
        self.on_change()
        return job.to_record()

    async def _find(self, name: str) -> Job:
        """Find a job by its id, its name, or at least four characters of its id."""
        jobs, wanted = await self._jobs.all(), name.strip()
        if not wanted:
            raise UsageError("no job was named", hint=LIST_HINT)
        for matches in (
            [job for job in jobs if job.id == wanted],
            [job for job in jobs if job.name.lower() == wanted.lower()],
            [job for job in jobs if len(wanted) >= 4 and job.id.startswith(wanted)],
        ):
            if len(matches) == 1:
                return matches[0]
            if matches:
                ids = ", ".join(job.id for job in matches)
                raise UsageError(
                    f"several jobs are called {wanted!r}", hint=f"use one of these ids: {ids}"
                )
        raise UsageError(f"there is no job {wanted!r}", hint=LIST_HINT)

    async def _apply(self, job: Job, fields: dict[str, Any]) -> Job:
        """Return the job with new field values, all of them checked. Raises `UsageError`."""
        before, job = job, self._apply_schedule(job, fields)
        values: Record = {name: fields[name] or "" for name in _TEXT_FIELDS if name in fields}
        values |= {name: split_names(fields[name]) for name in _LIST_FIELDS if name in fields}
        values |= {name: fields[name] for name in ("budget_usd", "limits") if name in fields}
        if "origin" in fields:
            values["origin"] = parse_origin(fields["origin"])
        if "context_from" in fields:
            others = [(await self._find(name)).id for name in values["context_from"]]
            values["context_from"] = tuple(others)
        job = replace(job, **values)
        await self._check(job, fields, before)
        if not job.prompt and not job.skills:
            raise UsageError("a job needs a prompt or a skill")
        if not job.name:
            title = " ".join((job.prompt or ", ".join(job.skills)).split())
            title = title if len(title) <= MAX_NAME else f"{title[: MAX_NAME - 1]}…"
            job = replace(job, name=title)
        return replace(job, deliver=job.deliver or (LOCAL,))

    def _apply_schedule(self, job: Job, fields: dict[str, Any]) -> Job:
        if "schedule" in fields:
            schedule = parse_schedule(fields["schedule"] or "", self._now(), self._zone)
            job = self._reschedule(job, schedule)
        if "repeat" in fields:
            job = self._limit_runs(job, fields["repeat"] or None)
        return job

    def _reschedule(self, job: Job, schedule: Schedule) -> Job:
        """Return the job with another schedule. A completed job starts again.

        The number of runs is reset if the old or the new schedule runs only once.
        """
        job = _cancel_pending(job)
        restarts = job.state == "completed" or (job.schedule and job.schedule.kind == "once")
        is_once = schedule.kind == "once"
        return replace(
            job,
            schedule=schedule,
            extra={name: value for name, value in job.extra.items() if name != "schedule"},
            next_run_at=next_after(schedule, self._now(), self._zone),
            state="paused" if job.state == "paused" else "scheduled",
            completed=0 if restarts or is_once else job.completed,
            times=1 if is_once else None if restarts else job.times,
        )

    def _limit_runs(self, job: Job, times: int | None) -> Job:
        """Return the job with another total of runs, which may complete or restart it."""
        if job.schedule is not None and job.schedule.kind == "once":
            if (times or 1) > 1:
                raise UsageError(
                    f"{job.schedule.display!r} runs only once",
                    hint="for a job that repeats, use `every 2h` or a cron expression",
                )
            return job
        job = replace(job, times=times)
        if job.is_exhausted and job.pending is None:
            return replace(job, state="completed", next_run_at=None)
        if job.state != "completed" or job.schedule is None or job.is_exhausted:
            return job
        following = next_after(job.schedule, self._now(), self._zone)
        return replace(job, state="scheduled", next_run_at=following)

    async def _check(self, job: Job, fields: dict[str, Any], before: Job) -> None:
        if job.prompt and "prompt" in fields:
            check_prompt(job.prompt)
        if job.script and "script" in fields:
            resolve_script(self._scripts, job.script)
        if job.workdir and "workdir" in fields and not Path(job.workdir).is_dir():
            raise UsageError(f"there is no folder {job.workdir}")
        for field, check in self._name_checks.items():
            # Names that the job already has may have been removed since; they can stay.
            old = getattr(before, field)
            if new := [name for name in getattr(job, field) if name not in old]:
                await in_thread(check, new)
        if "deliver" in fields:
            for target in job.deliver:
                if target not in (LOCAL, ORIGIN):
                    await self.check_target(target)


def _cancel_pending(job: Job) -> Job:
    """Drop a run that was decided but not claimed; it was counted when it was decided."""
    return replace(job, pending=None, completed=job.completed - (job.pending is not None))


def _parse_fields(wanted: Record) -> dict[str, Any]:
    """Return the given fields with checked types and normalised text. Raises `UsageError`."""
    try:
        parsed = msgspec.convert(wanted, JobFields)
    except msgspec.ValidationError as error:
        problem, _, field = str(error).partition(" - at `$.")
        if field:
            raise UsageError(f"invalid {field.rstrip('`')}: {problem.lower()}") from error
        names = ", ".join(f for f in JobFields.__struct_fields__ if f not in _UNLISTED_FIELDS)
        raise UsageError(f"invalid job: {error}", hint=f"the fields are {names}") from error
    fields = {"limits" if name == "by" else name: getattr(parsed, name) for name in wanted}
    if skill := fields.pop("skill", None):
        fields.setdefault("skills", [skill])
    for name in ("prompt", "script", "model"):
        if isinstance(fields.get(name), str):
            fields[name] = fields[name].strip()
    if "name" in fields:
        fields["name"] = " ".join((fields["name"] or "").split())
    if "deliver" in fields:
        fields["deliver"] = [
            each.lower() if each.lower() in (LOCAL, ORIGIN) else each
            for each in split_names(fields["deliver"])
        ]
    if folder := fields.get("workdir"):
        try:
            fields["workdir"] = str(Path(folder).expanduser().absolute())
        except RuntimeError as error:  # `~user` of an unknown user
            raise UsageError(f"there is no folder {folder}") from error
    return fields


def check_skills(home: Home, loaded: Loaded, names: Sequence[str]) -> None:
    """Raise `SkillNotFound`, with similar names, if a skill does not exist."""
    # Imported here: these load over 100 modules, which only jobs that name a skill need.
    from hermes.app import Extensions, skill_roots
    from hermes.skills import SkillIndex, SkillNotFound

    plugins = Extensions.in_force()
    roots = skill_roots(loaded, home, plugins.skills if plugins else ())
    skills = SkillIndex(roots, home.cache / "skills.json")
    for name in names:
        try:
            skills.get(name)
        except SkillNotFound:
            if plugins or not loaded.settings.plugins.enabled:
                raise  # otherwise a plugin that is not loaded may provide it


def check_toolsets(loaded: Loaded, names: Sequence[str]) -> None:
    """Raise `UsageError`, with the existing names, if a toolset does not exist."""
    # Imported here for the same reason as in `check_skills`.
    from hermes.app import Extensions, find_toolsets
    from hermes.tools import MCP_PREFIXES, PRESETS, expand

    toolsets = find_toolsets(loaded)
    # The toolsets of MCP servers are known only while these are connected.
    own = [name for name in names if not name.lstrip("-").startswith(MCP_PREFIXES)]
    try:
        expand(own, toolsets.known)
    except UsageError as error:
        if loaded.settings.plugins.enabled and not Extensions.in_force():
            return  # a plugin that is not loaded may provide it
        known = ", ".join(name for name in toolsets.known if name not in PRESETS)
        raise UsageError(str(error), hint=f"the toolsets are {known}") from None
