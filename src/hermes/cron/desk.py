"""`core.ports.Scheduler`: making, changing and looking at jobs, with every check on the way in."""

import time
from collections.abc import Awaitable, Callable
from datetime import tzinfo
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from hermes.config.settings.platforms import PlatformsSettings
from hermes.core.errors import UsageError
from hermes.cron.book import JobBook
from hermes.cron.job import LOCAL, ORIGIN, Job, Record, new_id, target_of, texts, to_dict
from hermes.cron.limits import By
from hermes.cron.running import check_prompt
from hermes.cron.schedule import Schedule, next_after, parse_schedule
from hermes.cron.script import script_path
from hermes.store.claims import OVER, Claims
from hermes.util.threads import in_thread

CheckTarget = Callable[[str], Awaitable[None]]
"""Raises `UsageError` for a target of messages that is not there."""
CheckNames = Callable[[tuple[str, ...]], None]
"""Blocks, and raises `UsageError` for a name that nothing has."""
LONGEST_NAME = 60
Names = str | list[str] | None
Text = str | None


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What can be said of a job. None and "" take something away."""

    schedule: Text = None
    prompt: Text = None
    name: Text = None
    repeat: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """How often in all; None or 0: without an end."""
    deliver: Names = None
    skills: Names = None
    skill: Text = None
    model: Text = None
    provider: Text = None
    base_url: Text = None
    script: Text = None
    workdir: Text = None
    context_from: Names = None
    enabled_toolsets: Names = None
    budget_usd: Annotated[float, msgspec.Meta(ge=0)] | None = None
    origin: str | dict[str, Any] | None = None
    by: By | None = None


PLATFORMS = frozenset({*PlatformsSettings.__struct_fields__, "qqbot"})


async def named_platform(target: str) -> None:
    """A `CheckTarget` that knows the names of platforms, and nothing of chats."""
    name = target.partition(":")[0].partition("@")[0].strip().lower().replace("-", "_")
    if name not in PLATFORMS:
        raise UsageError(
            f"there is no platform {name!r} to deliver to",
            hint="write local, origin, or a platform such as telegram or telegram:CHAT:THREAD",
        )


class JobDesk:
    def __init__(
        self,
        book: JobBook,
        claims: Claims | None,
        zone: tzinfo,
        scripts: Path,
        *,
        now: Callable[[], float] = time.time,
        check_target: CheckTarget = named_platform,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Without `claims` nobody knows what runs. `scripts` is `<home>/scripts`; `changed` hears
        that something may be due sooner."""
        self._book, self._claims, self._zone, self._scripts = book, claims, zone, scripts
        self._now, self.check_target, self.changed = now, check_target, changed
        self.check_names: dict[str, CheckNames] = {}
        """For `skills` and `enabled_toolsets`."""

    async def create(self, wanted: Record) -> Record:
        said = _read(wanted)
        if not said.get("schedule"):
            raise UsageError("a job needs a schedule", hint="such as `every 2h` or `0 9 * * *`")
        now = self._now()
        blank = Job(id=new_id(), created_at=float(int(now)))
        if "deliver" not in said:
            said["deliver"] = ORIGIN if target_of(said.get("origin")) else LOCAL
        job = await self._with(blank, said)
        if not job.prompt and not job.skills:
            raise UsageError("a job needs a prompt or a skill")
        job = replace(job, name=job.name or _name_of(job))
        await self._book.add(job)
        self.changed()
        return to_dict(job)

    async def list(self) -> list[Record]:
        """Those that run have the state `running`; those without a schedule, which stand so in a
        file, `broken`."""
        runs = await self._claims.runs("", 500) if self._claims else ()
        busy = {run.job_id for run in runs if run.state not in OVER}
        return [_shown(job, busy) for job in await self._book.all()]

    async def left_out(self) -> tuple[str, ...]:
        """Records that are no jobs, and why."""
        return await self._book.left_out()

    async def get(self, job: str) -> Record:
        found = await self._find(job)
        return next(each for each in await self.list() if each["id"] == found.id)

    async def update(self, job: str, changes: Record) -> Record:
        found, said = await self._find(job), _read(changes)
        if not said:
            raise UsageError("nothing is to be changed", hint="say what: a schedule, a prompt, …")
        new = await self._with(found, said)
        if not new.prompt and not new.skills:
            raise UsageError("a job needs a prompt or a skill")
        fields = {name: getattr(new, name) for name in SAID if name in said}
        if "name" in said:
            fields["name"] = new.name or _name_of(new)
        # When it runs is worked out again: it may have begun, or come to its end, meanwhile. The
        # same with its limits, which somebody else may have narrowed.
        return await self._changed(
            found.id,
            lambda it: self._scheduled(replace(it, **fields, by=_limited(it, said)), said),
        )

    async def pause(self, job: str) -> Record:
        found = await self._find(job)
        if found.state == "completed":
            raise UsageError(f"{found.name!r} has come to its end; there is nothing to pause")
        return await self._changed(
            found.id, lambda it: replace(_called_off(it), state="paused", asked_at=None)
        )

    async def resume(self, job: str) -> Record:
        found = await self._find(job)
        if found.schedule is None:
            raise UsageError(f"{found.name!r} has no schedule", hint="give it one")
        following = next_after(found.schedule, self._now(), self._zone)
        if following is None or found.ended:
            raise UsageError(
                f"{found.name!r} has come to its end", hint="give it another schedule or more runs"
            )
        # One that is not paused may be due, and keeps that.
        return await self._changed(
            found.id,
            lambda it: (
                it
                if it.state == "scheduled"
                else replace(it, state="scheduled", next_run_at=following)
            ),
        )

    async def run(self, job: str) -> Record:
        found = await self._find(job)
        asked = round(self._now(), 3)
        asked += 0.001 if float(asked).is_integer() else 0.0  # never an instant of the schedule
        return await self._changed(found.id, lambda it: replace(it, asked_at=asked))

    async def remove(self, job: str) -> Record:
        found = await self._find(job)
        await self._book.drop(found.id)
        return to_dict(found)

    async def _changed(self, job_id: str, how: Callable[[Job], Job]) -> Record:
        job = await self._book.change(job_id, how)
        if job is None:
            raise UsageError(f"the job {job_id} is gone")
        self.changed()
        return to_dict(job)

    async def _find(self, name: str) -> Job:
        """By id, the beginning of one, or name."""
        jobs, wanted = await self._book.all(), name.strip()
        if not wanted:
            raise UsageError("which job?", hint="`hermes cron list` shows them")
        for fits in (
            [job for job in jobs if job.id == wanted],
            [job for job in jobs if job.name.lower() == wanted.lower()],
            [job for job in jobs if len(wanted) >= 4 and job.id.startswith(wanted)],
        ):
            if len(fits) == 1:
                return fits[0]
            if fits:
                raise UsageError(
                    f"several jobs are called {wanted!r}",
                    hint=f"say which by its id: {', '.join(job.id for job in fits)}",
                )
        raise UsageError(f"there is no job {wanted!r}", hint="`hermes cron list` shows them")

    async def _with(self, job: Job, said: dict[str, Any]) -> Job:
        """The job with what was said. Raises `UsageError`."""
        before = job
        job = self._scheduled(job, said)
        job = replace(job, **{name: said[name] or "" for name in PLAIN if name in said})
        job = replace(job, **{name: texts(said[name]) for name in LISTS if name in said})
        for name in ("budget_usd", "by"):
            if name in said:
                job = replace(job, **{name: said[name]})
        if "origin" in said:
            job = replace(job, origin=target_of(said["origin"]))
        if job.prompt and "prompt" in said:
            check_prompt(job.prompt)
        if "context_from" in said:
            found = [(await self._find(name)).id for name in job.context_from]
            job = replace(job, context_from=tuple(found))
        await self._check(job, said, before)
        return replace(job, deliver=job.deliver or (LOCAL,))

    def _scheduled(self, job: Job, said: dict[str, Any]) -> Job:
        if "schedule" in said:
            job = self._anew(job, parse_schedule(said["schedule"] or "", self._now(), self._zone))
        if "repeat" in said:
            job = self._repeated(job, said["repeat"] or None)
        return job

    def _anew(self, job: Job, schedule: Schedule) -> Job:
        """With another schedule. One that came to its end begins anew, and so does the count of
        what ran once, or will."""
        again = job.state == "completed" or (job.schedule and job.schedule.kind == "once")
        once = schedule.kind == "once"
        return replace(
            _called_off(job),
            schedule=schedule,
            rest={name: value for name, value in job.rest.items() if name != "schedule"},
            next_run_at=next_after(schedule, self._now(), self._zone),
            state="paused" if job.state == "paused" else "scheduled",
            completed=0 if again or once else _called_off(job).completed,
            times=1 if once else None if again else job.times,
        )

    def _repeated(self, job: Job, times: int | None) -> Job:
        """With so many runs in all: that may be its end, or give it new life."""
        if job.schedule is not None and job.schedule.kind == "once":
            if (times or 1) > 1:
                raise UsageError(
                    f"{job.schedule.display!r} happens once",
                    hint="to have it again and again, write `every 2h` or a cron expression",
                )
            return job
        job = replace(job, times=times)
        if job.ended and job.pending is None:
            return replace(job, state="completed", next_run_at=None)
        if job.state != "completed" or job.schedule is None or job.ended:
            return job
        following = next_after(job.schedule, self._now(), self._zone)
        return replace(job, state="scheduled", next_run_at=following)

    async def _check(self, job: Job, said: dict[str, Any], before: Job) -> None:
        if job.script and "script" in said:
            script_path(self._scripts, job.script)
        if job.workdir and "workdir" in said and not Path(job.workdir).is_dir():
            raise UsageError(f"there is no folder {job.workdir}")
        for name, check in self.check_names.items():
            had = getattr(before, name)
            if new := tuple(each for each in getattr(job, name) if each not in had):
                await in_thread(check, new)
        if "deliver" in said:
            for target in job.deliver:
                if target not in (LOCAL, ORIGIN):
                    await self.check_target(target)


PLAIN = ("name", "prompt", "model", "provider", "base_url", "script", "workdir")
LISTS = ("deliver", "skills", "context_from", "enabled_toolsets")
HIDDEN = ("skill", "origin", "by")
"""An older name, and what nobody says by hand."""
SAID = (*PLAIN, *LISTS, "budget_usd", "origin")
"""What is as it was said, whatever became of the job meanwhile."""


def _read(wanted: Record) -> dict[str, Any]:
    """What was said, checked in kind."""
    try:
        read = msgspec.convert(wanted, Wanted)
    except msgspec.ValidationError as error:
        what, _, field = str(error).partition(" - at `$.")
        if field:
            raise UsageError(f"{field.rstrip('`')} is wrong: {what.lower()}") from error
        names = ", ".join(name for name in Wanted.__struct_fields__ if name not in HIDDEN)
        raise UsageError(f"the job is wrong: {error}", hint=f"a job has {names}") from error
    said = {name: getattr(read, name) for name in wanted}
    if skill := said.pop("skill", None):
        said.setdefault("skills", [skill])
    for name in ("prompt", "script", "model"):
        if isinstance(said.get(name), str):
            said[name] = said[name].strip()
    if "name" in said:
        said["name"] = " ".join((said["name"] or "").split())
    if "deliver" in said:
        said["deliver"] = [_target(each) for each in texts(said["deliver"])]
    if folder := said.get("workdir"):
        said["workdir"] = str(_absolute(folder))
    return said


def _limited(job: Job, said: dict[str, Any]) -> By | None:
    """Whoever changes a job can take from its limits, but add nothing."""
    by: By | None = said.get("by")
    return by.within(job.by or By()) if by else job.by


def _called_off(job: Job) -> Job:
    """What was decided and has not begun was no run."""
    return replace(job, pending=None, completed=job.completed - (job.pending is not None))


def _target(text: str) -> str:
    return text.lower() if text.lower() in (LOCAL, ORIGIN) else text


def _absolute(folder: str) -> Path:
    try:
        return Path(folder).expanduser().absolute()
    except RuntimeError as error:  # ~nobody
        raise UsageError(f"there is no folder {folder}") from error


def _name_of(job: Job) -> str:
    first = " ".join((job.prompt or ", ".join(job.skills)).split())
    return first if len(first) <= LONGEST_NAME else f"{first[: LONGEST_NAME - 1]}…"


def _shown(job: Job, busy: set[str]) -> Record:
    state = "running" if job.id in busy else job.state if job.schedule else "broken"
    return {**to_dict(job), "state": state}
