"""A job, as it stands in jobs.json. What others wrote into a record is kept."""

import secrets
from datetime import tzinfo
from typing import Any, Literal, cast, get_args

import msgspec

from hermes.cron.limits import By
from hermes.cron.schedule import Schedule, from_record, instant_of, iso, to_record

Record = dict[str, Any]
State = Literal["scheduled", "paused", "completed"]
"""In a record it may also be `running`: whether it runs is known from its runs."""

LOCAL, ORIGIN = "local", "origin"


class Pending(msgspec.Struct, frozen=True):
    """It was decided that this instant is run; nobody may have claimed it yet."""

    instant: float
    missed: int = 0
    """How many instants before it are made up for by it."""
    since: float = 0.0
    """The first of those."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str = ""
    prompt: str = ""
    schedule: Schedule | None = None
    """None: the record has none that is understood, so it never runs."""
    skills: tuple[str, ...] = ()
    deliver: tuple[str, ...] = (LOCAL,)
    times: int | None = None
    """How often it runs in all; None: without an end."""
    completed: int = 0
    """How often it was begun."""
    state: State = "scheduled"
    next_run_at: float | None = None
    last_run_at: float | None = None
    last_status: str = ""
    last_error: str = ""
    created_at: float = 0.0
    model: str = ""
    provider: str = ""
    base_url: str = ""
    script: str = ""
    origin: str = ""
    """The chat it was made in, as a target of messages."""
    workdir: str = ""
    context_from: tuple[str, ...] = ()
    enabled_toolsets: tuple[str, ...] = ()
    budget_usd: float | None = None
    by: By | None = None
    pending: Pending | None = None
    asked_at: float | None = None
    """When somebody wanted it to run once, beside its schedule."""
    rest: Record = {}
    """What else stands in the record, and fields that could not be read."""

    @property
    def ended(self) -> bool:
        return self.times is not None and self.completed >= self.times


def new_id() -> str:
    return secrets.token_hex(6)


def to_dict(job: Job) -> Record:
    """The record of a job."""
    return {
        "id": job.id,
        **job.rest,
        "name": job.name,
        "prompt": job.prompt,
        "schedule": _schedule(job),
        "schedule_display": job.schedule.display if job.schedule else "",
        "skills": list(job.skills),
        "deliver": ",".join(job.deliver),
        "repeat": {"times": job.times, "completed": job.completed},
        "state": job.state,
        "enabled": job.state != "paused",
        "next_run_at": _iso(job.next_run_at),
        "last_run_at": _iso(job.last_run_at),
        "last_status": job.last_status or None,
        "last_error": job.last_error or None,
        "created_at": iso(job.created_at),
        "model": job.model or None,
        "provider": job.provider or None,
        "base_url": job.base_url or None,
        "script": job.script or None,
        "origin": _origin(job),
        "workdir": job.workdir or None,
        "context_from": list(job.context_from),
        "enabled_toolsets": list(job.enabled_toolsets) or None,
        "budget_usd": job.budget_usd,
        "by": msgspec.to_builtins(job.by),
        "pending": _pending(job.pending),
        "asked_at": _iso(job.asked_at),
    }


def from_dict(record: Record, zone: tzinfo) -> Job:
    """A job from a record of ours, of an older version or of another writer. What is not understood
    is left out, and kept."""
    created = instant_of(record.get("created_at")) or 0.0
    schedule = from_record(record.get("schedule"), created, zone)
    repeat = record.get("repeat")
    repeat = repeat if isinstance(repeat, dict) else {"times": repeat}
    pending = record.get("pending")
    return Job(
        id=str(record.get("id") or ""),
        name=_text(record, "name"),
        prompt=_text(record, "prompt"),
        schedule=schedule,
        skills=texts(record.get("skills")) or texts(record.get("skill")),
        deliver=texts(record.get("deliver")) or (LOCAL,),
        times=_count(repeat.get("times")) or None,
        completed=_count(repeat.get("completed")) or 0,
        state=_state(record),
        next_run_at=instant_of(record.get("next_run_at")) if schedule else None,
        last_run_at=instant_of(record.get("last_run_at")),
        last_status=_text(record, "last_status"),
        last_error=_text(record, "last_error"),
        created_at=created,
        model=_text(record, "model"),
        provider=_text(record, "provider"),
        base_url=_text(record, "base_url"),
        script=_text(record, "script"),
        origin=target_of(record.get("origin")),
        workdir=_text(record, "workdir"),
        context_from=texts(record.get("context_from")),
        enabled_toolsets=texts(record.get("enabled_toolsets")),
        budget_usd=_number(record.get("budget_usd")),
        by=_by(record.get("by")),
        pending=_read_pending(pending) if isinstance(pending, dict) else None,
        asked_at=instant_of(record.get("asked_at")),
        rest={
            name: value
            for name, value in record.items()
            if name not in KNOWN
            or (name in ("schedule", "origin") and isinstance(value, dict))
            or (name == "schedule" and schedule is None)
        },
    )


def unread(record: Record, zone: tzinfo) -> tuple[str, ...]:
    """What stands in a record and would be gone when it is written."""
    written = to_dict(from_dict(record, zone))
    return tuple(name for name in TOLD if record.get(name) and not written[name])


def texts(given: Any) -> tuple[str, ...]:
    """Names that are a list, or a text with commas between."""
    if isinstance(given, str):
        given = given.split(",")
    if not isinstance(given, list | tuple):
        return ()
    return tuple(dict.fromkeys(name for each in given if (name := str(each).strip())))


def target_of(origin: Any) -> str:
    """`telegram:-100:17` of a chat; "" when there is none."""
    if isinstance(origin, str):
        return origin
    if not isinstance(origin, dict) or not origin.get("platform") or not origin.get("chat_id"):
        return ""
    place = (origin["platform"], origin["chat_id"], origin.get("thread_id"))
    return ":".join(str(each) for each in place if each)


def targets(job: Job) -> tuple[str, ...]:
    """Where its answer goes: `local`, and the chats."""
    found = (job.origin or LOCAL if each == ORIGIN else each for each in job.deliver)
    return tuple(dict.fromkeys(found))


def _text(record: Record, name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _state(record: Record) -> State:
    """`running` is what a process left that is gone; `enabled: false` is an older `paused`."""
    state = record.get("state")
    if state == "completed":
        return "completed"
    if state == "paused" or record.get("enabled") is False:
        return "paused"
    return cast("State", state) if state in get_args(State) else "scheduled"


def _by(record: Any) -> By | None:
    """Limits that cannot be read must not become none at all."""
    try:
        return msgspec.convert(record, By | None)
    except msgspec.ValidationError:
        return By(user="unknown", toolsets=("safe",), backend="sandbox")


def _number(value: Any) -> float | None:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_one and value >= 0 else None


def _schedule(job: Job) -> Any:
    """With what else was written there."""
    written = job.rest.get("schedule")
    if job.schedule is None:
        return written
    return {**(written or {}), **to_record(job.schedule)}


def _iso(instant: float | None) -> str | None:
    return None if instant is None else iso(instant)


def _origin(job: Job) -> Any:
    """As it was written, unless it was changed."""
    written = job.rest.get("origin")
    return written if target_of(written) == job.origin and written else job.origin or None


def _pending(pending: Pending | None) -> Record | None:
    if pending is None:
        return None
    return {
        "instant": iso(pending.instant),
        "missed": pending.missed,
        "since": iso(pending.since),
    }


def _read_pending(record: Record) -> Pending | None:
    instant = instant_of(record.get("instant"))
    if instant is None:
        return None
    since = instant_of(record.get("since")) or instant
    return Pending(instant, _count(record.get("missed")) or 0, since)


TOLD = (
    "name", "prompt", "skills", "model", "provider", "base_url", "script", "origin", "workdir",
    "context_from", "enabled_toolsets", "budget_usd",
)  # fmt: skip
"""Fields that somebody says, and that have a meaning or none."""
KNOWN = frozenset(to_dict(Job(id=""))) | {"skill"}
"""Fields that are not kept as they were written."""
