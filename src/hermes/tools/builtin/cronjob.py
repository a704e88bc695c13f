"""cronjob: schedule work, and look after what is scheduled."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from hermes.core.errors import ConfigError, StoreError, ToolError, UsageError
from hermes.core.model import ToolSpec
from hermes.core.ports import Scheduler
from hermes.core.tool import Concern, Tool, ToolContext
from hermes.tools.registry import ToolDeps, ToolEntry, require

NAME = "cronjob"
ACTIONS = ("create", "list", "update", "pause", "resume", "run", "remove")
OWNER_FIELDS = ("script", "workdir", "model", "enabled_toolsets", "context_from")
"""What somebody else than the owner cannot say: it would lead out of their limits."""
HARMLESS_FIELDS = ("name", "schedule", "repeat", "deliver")
"""What changes nothing of what a run does."""
SHOWN_FIELDS = (
    "id", "name", "schedule_display", "state", "next_run_at", "last_run_at", "last_status",
    "last_error", "deliver", "skills", "script", "workdir", "model", "provider", "context_from",
    "enabled_toolsets", "prompt",
)  # fmt: skip

_LIST = {"type": "array", "items": {"type": "string"}}
_FIELDS: dict[str, dict[str, Any]] = {
    "prompt": {
        "type": "string",
        "description": "all the run needs to know: it sees nothing of this conversation",
    },
    "schedule": {
        "type": "string",
        "description": "30m (once), every 2h, 0 9 * * 1-5, or 2030-01-31T09:00",
    },
    "name": {"type": "string"},
    "repeat": {"type": "integer", "description": "how often in all"},
    "skills": {**_LIST, "description": "loaded before the prompt; [] clears"},
    "deliver": {
        "type": "string",
        "description": "origin (this chat), local (a file), telegram[:CHAT[:THREAD]], …;"
        " commas between",
    },
    "script": {"type": "string", "description": "Python file in scripts/, run before the prompt"},
    "workdir": {"type": "string"},
    "model": {"type": "string", "description": "[provider:]model"},
    "context_from": {**_LIST, "description": "jobs whose last result it gets"},
    "enabled_toolsets": _LIST,
}


def cronjob_tool(
    scheduler: Scheduler, origin: str = "", by: Mapping[str, Any] | None = None
) -> Tool:
    """`origin` is the chat of the conversation. `by` are the limits its user has, as the field of
    that name in a job; with a `user` in it, only jobs of that user are seen.

    What a job's agent does is judged when it runs, by the policy for when nobody is there; so
    scheduling it needs no consent. A script is run as it is, so that is asked about, and so is a
    folder that a conversation with limits may not have itself."""
    window = JobActions(scheduler, origin, dict(by or {}))

    async def handler(call: ToolContext, arguments: dict[str, Any]) -> str:
        said = {name: value for name, value in arguments.items() if name in _FIELDS}
        if skill := arguments.get("skill"):
            said.setdefault("skills", [skill])
        try:
            done = await window.act(
                str(arguments["action"]), str(arguments.get("job_id") or ""), said, call.consent
            )
        except (UsageError, ConfigError, StoreError) as error:
            raise ToolError(str(error), hint=error.hint) from error
        return msgspec.json.encode(done).decode()

    spec = _spec(window.guest)
    return Tool(spec, handler, examine=_examine, serial=True, toolset="cronjob")


async def _examine(arguments: dict[str, Any]) -> Concern | None:
    if not arguments.get("script") or arguments.get("action") not in ("create", "update"):
        return None
    reason = "the script runs on this machine at each run of the job, without being asked about"
    return Concern("cron script", str(arguments["script"]), reason)


async def _no_approval(_concern: Concern) -> None:
    """For code, which has no limits to be asked about."""


class JobActions(msgspec.Struct, frozen=True):
    """What the user of a conversation may see and do of a schedule."""

    scheduler: Scheduler
    origin: str
    by: dict[str, Any]

    @property
    def guest(self) -> str:
        """ "" for the owner."""
        return str(self.by.get("user") or "")

    async def act(
        self,
        action: str,
        job_id: str,
        said: dict[str, Any],
        consent: Callable[[Concern], Awaitable[None]] = _no_approval,
    ) -> dict[str, Any]:
        """Raises `UsageError`."""
        if action not in ACTIONS:
            raise UsageError(f"there is no action {action!r}", hint=", ".join(ACTIONS))
        if action == "list":
            jobs = await self.scheduler.list()
            return {
                "jobs": [_summarize_job(each) for each in jobs if _is_visible(each, self.guest)]
            }
        _check_guest_fields(said, self.guest)
        self._refuse_toolsets(said)
        if action == "create":
            made = {"origin": self.origin or None, **await self._limited(said, {}, consent)}
            return {"job": _summarize_job(await self.scheduler.create(made))}
        job = await self._own(job_id)
        if action == "update":
            changes = await self._limited(said, job, consent)
            return {"job": _summarize_job(await self.scheduler.update(job["id"], changes))}
        return {"job": _summarize_job(await getattr(self.scheduler, action)(job["id"]))}

    async def _limited(
        self,
        said: dict[str, Any],
        job: Mapping[str, Any],
        consent: Callable[[Concern], Awaitable[None]],
    ) -> dict[str, Any]:
        """What was said, with the limits of who said it: a run must not do for a conversation what
        that may not do itself."""
        if not self.by or (job and all(name in HARMLESS_FIELDS for name in said)):
            return said
        if self.by.get("backend") and (folder := said.get("workdir", job.get("workdir"))):
            reason = "a run of the job may change what is there, beside the folder of this chat"
            await consent(Concern("cron folder", str(folder), reason))
        return {**said, "by": self.by}

    def _refuse_toolsets(self, said: Mapping[str, Any]) -> None:
        """A job may do no more than the conversation that makes it."""
        own = self.by.get("toolsets")
        if own and (
            more := [name for name in said.get("enabled_toolsets") or () if name not in own]
        ):
            raise UsageError(
                f"this conversation does not have the toolsets {', '.join(map(str, more))}",
                hint=f"it has {', '.join(own)}",
            )

    async def _own(self, job_id: str) -> dict[str, Any]:
        if not job_id:
            raise UsageError("job_id is needed", hint="action list shows the jobs")
        if not self.guest:
            return await self.scheduler.get(job_id)
        # Jobs of others do not exist for a guest, not even as twins of a name.
        jobs = [each for each in await self.scheduler.list() if _is_visible(each, self.guest)]
        wanted = job_id.strip()
        fits = [each for each in jobs if wanted in (each["id"], each.get("name"))]
        if len(fits) > 1:
            ids = ", ".join(str(each["id"]) for each in fits)
            raise UsageError(f"several jobs are called {wanted!r}", hint=f"their ids: {ids}")
        if not fits:
            raise UsageError(f"there is no job {wanted!r}", hint="action list shows the jobs")
        return fits[0]


def _is_visible(record: Mapping[str, Any], guest: str) -> bool:
    return not guest or (record.get("by") or {}).get("user") == guest


def _check_guest_fields(said: Mapping[str, Any], guest: str) -> None:
    """What only the owner may ask for."""
    if not guest:
        return
    if refused := [name for name in OWNER_FIELDS if said.get(name)]:
        raise UsageError(f"only the owner may set {', '.join(refused)}")
    targets = str(said.get("deliver") or "").split(",")
    if any(target.strip() not in ("", "origin", "local") for target in targets):
        raise UsageError("only the owner may deliver to other chats")


def _summarize_job(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in SHOWN_FIELDS if record.get(name)}


def _spec(guest: str) -> ToolSpec:
    fields = {
        name: field for name, field in _FIELDS.items() if not guest or name not in OWNER_FIELDS
    }
    return ToolSpec(
        name=NAME,
        description="Schedule work: at its time a new session gets the prompt, and its answer is"
        " delivered. run does it once, now.",
        parameters={
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": list(ACTIONS)},
                "job_id": {"type": "string", "description": "id or name"},
                **fields,
            },
            "required": ["action"],
        },
    )


def make(deps: ToolDeps) -> Tool:
    services = deps.services
    return cronjob_tool(require(services.scheduler), services.origin, services.job_limits)


def unavailable(deps: ToolDeps) -> str:
    return "" if deps.services.scheduler else "this session cannot schedule jobs"


ENTRY = ToolEntry("cronjob", "cronjob", make, unavailable, emoji="⏰")
