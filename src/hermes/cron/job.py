"""A scheduled job, and its record in jobs.json.

Records may come from older versions, from other programs or from a text editor. Fields that cannot
be read get their default; fields that are not ours are kept in `Job.extra` and written back.
"""

import secrets
from datetime import tzinfo
from typing import Any, Literal

import msgspec

from hermes.core.errors import UsageError
from hermes.cron.schedule import Schedule, format_timestamp, parse_timestamp
from hermes.security.injection import scan
from hermes.tools import ALL_TOOLS

Record = dict[str, Any]
JobState = Literal["scheduled", "paused", "completed"]
"""`running` is not a state of the job: it follows from its runs."""

_OPTIONAL_TEXTS = (
    "last_status", "last_error", "model", "provider", "base_url", "script", "workdir",
)  # fmt: skip
_TEXT_FIELDS = ("name", "prompt", *_OPTIONAL_TEXTS)
LOCAL, ORIGIN = "local", "origin"
"""Delivery targets: the output file only, and the chat in which the job was created."""


class JobLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the chat user who created or changed a job may do; the job may do no more."""

    user: str = ""  #: Whose memory and budget are used; "" is the owner.
    folder: str = ""
    backend: str = ""
    toolsets: tuple[str, ...] = ()
    day_usd: float | None = None
    no_files: bool = False  #: Files that the answer names are not sent.

    def intersect(self, other: "JobLimits") -> "JobLimits":
        """Return what both allow. If both name a user or a folder, those of `self` are used."""
        caps = [cap for cap in (self.day_usd, other.day_usd) if cap is not None]
        backend = self.backend
        if backend != other.backend:
            # "" is the configured backend, which is never less confined than "local".
            confined = (each for each in (backend, other.backend) if each not in ("", "local"))
            backend = next(confined, "")
        return JobLimits(
            self.user or other.user,
            self.folder or other.folder,
            backend,
            intersect_toolsets(self.toolsets, other.toolsets),
            min(caps, default=None),
            self.no_files or other.no_files,
        )


def intersect_toolsets(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Return the toolsets in both lists; an empty list means all of them."""
    if not first or not second:
        return first or second
    excluded = [name for name in (*first, *second) if name.startswith("-")]
    kept = [
        name
        for names, limits in ((first, second), (second, first))
        for name in names
        if name not in excluded and {name, *ALL_TOOLS}.intersection(limits)
    ]
    return tuple(dict.fromkeys((*kept, *excluded))) or ("-all",)


class PendingRun(msgspec.Struct, frozen=True):
    """An instant that was decided to run but may not have been claimed yet."""

    instant: float
    missed: int = 0  #: Number of earlier instants that this run makes up for.
    since: float = 0.0  #: The first of those.


class Job(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str = ""
    prompt: str = ""
    schedule: Schedule | None = None
    """None if the record has no valid schedule; the job then never runs."""
    skills: tuple[str, ...] = ()
    deliver: tuple[str, ...] = (LOCAL,)
    times: int | None = None  #: Total number of runs; None for no limit.
    completed: int = 0  #: Number of runs that were started.
    state: JobState = "scheduled"
    next_run_at: float | None = None
    last_run_at: float | None = None
    last_status: str = ""
    last_error: str = ""
    created_at: float = 0.0
    model: str = ""
    provider: str = ""
    base_url: str = ""
    script: str = ""
    origin: str = ""  #: Target of the chat in which the job was created.
    workdir: str = ""
    context_from: tuple[str, ...] = ()
    enabled_toolsets: tuple[str, ...] = ()
    budget_usd: float | None = None
    limits: JobLimits | None = None  #: Stored as `by`.
    pending: PendingRun | None = None
    triggered_at: float | None = None
    """When a user requested an extra run that has not started yet. Stored as `asked_at`."""
    extra: Record = {}  #: Fields of the record that are not ours or could not be read.

    @property
    def is_exhausted(self) -> bool:
        """True once all of a limited number of runs were started."""
        return self.times is not None and self.completed >= self.times

    @property
    def targets(self) -> tuple[str, ...]:
        """Delivery targets, with `origin` replaced by the chat it stands for."""
        resolved = (self.origin or LOCAL if each == ORIGIN else each for each in self.deliver)
        return tuple(dict.fromkeys(resolved))

    @property
    def platforms(self) -> frozenset[str]:
        """The chat platforms that the answer goes to."""
        chats = (each for each in self.targets if each != LOCAL)
        names = (each.partition(":")[0].partition("@")[0].strip().lower() for each in chats)
        return frozenset(names)

    def to_record(self) -> Record:
        """Return the record of the job, including the fields of `extra`."""
        schedule, origin, pending = self.extra.get("schedule"), self.extra.get("origin"), None
        if self.schedule is not None:
            schedule = {**(schedule or {}), **self.schedule.to_record()}
        if parse_origin(origin) != self.origin:  # changed since it was read
            origin = self.origin
        if self.pending is not None:
            pending = {
                "instant": format_timestamp(self.pending.instant),
                "missed": self.pending.missed,
                "since": format_timestamp(self.pending.since),
            }
        return {
            "id": self.id,
            **self.extra,
            "name": self.name,
            "prompt": self.prompt,
            "schedule": schedule,
            "schedule_display": self.schedule.display if self.schedule else "",
            "skills": list(self.skills),
            "deliver": ",".join(self.deliver),
            "repeat": {"times": self.times, "completed": self.completed},
            "state": self.state,
            "enabled": self.state != "paused",
            "next_run_at": _timestamp(self.next_run_at),
            "last_run_at": _timestamp(self.last_run_at),
            **{name: getattr(self, name) or None for name in _OPTIONAL_TEXTS},
            "created_at": format_timestamp(self.created_at),
            "origin": origin or None,
            "context_from": list(self.context_from),
            "enabled_toolsets": list(self.enabled_toolsets) or None,
            "budget_usd": self.budget_usd,
            "by": msgspec.to_builtins(self.limits),
            "pending": pending,
            "asked_at": _timestamp(self.triggered_at),
        }

    @classmethod
    def from_record(cls, record: Record, zone: tzinfo) -> "Job":
        """Read a record. This never fails: what cannot be read is kept in `extra`."""
        created = parse_timestamp(record.get("created_at")) or 0.0
        schedule = Schedule.from_record(record.get("schedule"), created, zone)
        repeat = record.get("repeat")
        repeat = repeat if isinstance(repeat, dict) else {"times": repeat}
        state: JobState = "scheduled"  # also for `running`, left behind by a process that died
        if record.get("state") == "completed":
            state = "completed"
        elif record.get("state") == "paused" or record.get("enabled") is False:
            state = "paused"
        return cls(
            id=str(record.get("id") or ""),
            **{name: value for name in _TEXT_FIELDS if isinstance(value := record.get(name), str)},
            schedule=schedule,
            skills=split_names(record.get("skills")) or split_names(record.get("skill")),
            deliver=split_names(record.get("deliver")) or (LOCAL,),
            times=_count(repeat.get("times")) or None,
            completed=_count(repeat.get("completed")),
            state=state,
            next_run_at=parse_timestamp(record.get("next_run_at")) if schedule else None,
            last_run_at=parse_timestamp(record.get("last_run_at")),
            created_at=created,
            origin=parse_origin(record.get("origin")),
            context_from=split_names(record.get("context_from")),
            enabled_toolsets=split_names(record.get("enabled_toolsets")),
            budget_usd=_amount(record.get("budget_usd")),
            limits=_parse_limits(record.get("by")),
            pending=_parse_pending(record.get("pending")),
            triggered_at=parse_timestamp(record.get("asked_at")),
            extra={
                name: value
                for name, value in record.items()
                if name not in _OWN_FIELDS
                or (name in ("schedule", "origin") and isinstance(value, dict))
                or (name == "schedule" and schedule is None)
            },
        )


def new_job_id() -> str:
    return secrets.token_hex(6)


def check_prompt(prompt: str) -> None:
    """Raise `UsageError` if the prompt looks like prompt injection."""
    if found := scan(prompt):
        raise UsageError(
            f"the prompt looks like prompt injection ({', '.join(found)})", hint="rephrase it"
        )


def split_names(value: Any) -> tuple[str, ...]:
    """Read names from a list, or from a string with commas, without duplicates."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple):
        return ()
    return tuple(dict.fromkeys(name for each in value if (name := str(each).strip())))


def parse_origin(origin: Any) -> str:
    """Return the target of a chat, such as `telegram:-100:17`; "" if it does not name one."""
    if isinstance(origin, str):
        return origin
    if not isinstance(origin, dict) or not origin.get("platform") or not origin.get("chat_id"):
        return ""
    parts = (origin["platform"], origin["chat_id"], origin.get("thread_id"))
    return ":".join(str(part) for part in parts if part)


def _timestamp(instant: float | None) -> str | None:
    return None if instant is None else format_timestamp(instant)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _amount(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and value >= 0 else None


def _parse_limits(record: Any) -> JobLimits | None:
    try:
        return msgspec.convert(record, JobLimits | None)
    except msgspec.ValidationError:
        # Unreadable limits must not turn into no limits.
        return JobLimits(user="unknown", toolsets=("safe",), backend="sandbox", no_files=True)


def _parse_pending(record: Any) -> PendingRun | None:
    if not isinstance(record, dict) or (at := parse_timestamp(record.get("instant"))) is None:
        return None
    since = parse_timestamp(record.get("since")) or at
    return PendingRun(at, _count(record.get("missed")), since)


# At the end of the module, because `to_record` uses the functions above.
_OWN_FIELDS = frozenset(Job(id="").to_record()) | {"skill"}
