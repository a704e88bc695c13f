"""The tool `cronjob`: create and manage scheduled jobs."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from hermes.core.errors import ConfigError, StoreError, ToolError, UsageError
from hermes.core.model import ToolSpec
from hermes.core.ports import Scheduler
from hermes.core.tool import Concern, Effect, ToolContext
from hermes.tools.approval import describe_call
from hermes.tools.registry import ToolDeps, require, tool

ACTIONS = ("create", "list", "update", "pause", "resume", "run", "remove")
RUNS_LATER = ("create", "update", "resume", "run")
"""Actions after which a run does something new; the others only look or stop."""
OWNER_FIELDS = ("script", "workdir", "model", "enabled_toolsets", "context_from")
"""Fields that guests cannot set, because a job could use them to exceed the guest's limits."""
HARMLESS_FIELDS = ("name", "schedule", "repeat", "deliver")
"""Fields that do not affect what a run does, so changing them keeps the limits of the job."""
SHOWN_FIELDS = (
    "id", "name", "schedule_display", "state", "next_run_at", "last_run_at", "last_status",
    "last_error", "deliver", "skills", "script", "workdir", "model", "provider", "context_from",
    "enabled_toolsets", "prompt",
)  # fmt: skip

_LIST = {"type": "array", "items": {"type": "string"}}
_FIELDS: dict[str, dict[str, Any]] = {
    "prompt": {
        "type": "string",
        "description": "everything the run needs to know; it does not see this conversation",
    },
    "schedule": {
        "type": "string",
        "description": "30m (once), every 2h, 0 9 * * 1-5, or 2030-01-31T09:00",
    },
    "name": {"type": "string"},
    "repeat": {"type": "integer", "description": "number of runs in total"},
    "skills": {**_LIST, "description": "loaded before the prompt; [] removes them"},
    "deliver": {
        "type": "string",
        "description": "origin (this chat), local (a file), telegram[:CHAT[:THREAD]], …;"
        " comma-separated",
    },
    "script": {"type": "string", "description": "Python file in scripts/, run before the prompt"},
    "workdir": {"type": "string"},
    "model": {"type": "string", "description": "[provider:]model"},
    "context_from": {**_LIST, "description": "jobs whose last result is included"},
    "enabled_toolsets": _LIST,
}


async def _examine(_deps: ToolDeps, arguments: dict[str, Any]) -> Concern | Effect | None:
    """Ask about what makes something run later. A script is a class of its own, because it runs
    without further checks; so is a folder outside of what a limited conversation may use itself
    (`_apply_limits`)."""
    if arguments.get("action") not in RUNS_LATER:
        return Effect.READ if arguments.get("action") == "list" else None
    if not arguments.get("script"):
        return Effect.PERSIST
    reason = "the script runs on this machine at each run of the job, without being asked about"
    subject = describe_call("cronjob", arguments)
    return Concern("cron script", subject, reason, effect=Effect.PERSIST)


async def _no_approval(_concern: Concern) -> None:
    """Approve everything: callers in code have no limits."""


class JobActions(msgspec.Struct, frozen=True):
    """The job operations that the user of a conversation may perform."""

    scheduler: Scheduler
    origin: str
    limits: dict[str, Any]

    @property
    def guest(self) -> str:
        """The user that limits apply to; "" for the owner."""
        return str(self.limits.get("user") or "")

    async def run(
        self,
        action: str,
        job_id: str,
        fields: dict[str, Any],
        require_approval: Callable[[Concern], Awaitable[None]] = _no_approval,
    ) -> dict[str, Any]:
        """Perform `action` and return the record for the model; raises `UsageError`."""
        if action not in ACTIONS:
            raise UsageError(f"there is no action {action!r}", hint=", ".join(ACTIONS))
        if action == "list":
            jobs = await self.scheduler.list()
            return {
                "jobs": [_summarize_job(each) for each in jobs if _is_visible(each, self.guest)]
            }
        _check_guest_fields(fields, self.guest)
        self._check_toolsets(fields)
        if action == "create":
            made = {
                "origin": self.origin or None,
                **await self._apply_limits(fields, {}, require_approval),
            }
            return {"job": _summarize_job(await self.scheduler.create(made))}
        job = await self._find_job(job_id)
        if action == "update":
            changes = await self._apply_limits(fields, job, require_approval)
            return {"job": _summarize_job(await self.scheduler.update(job["id"], changes))}
        return {"job": _summarize_job(await getattr(self.scheduler, action)(job["id"]))}

    async def _apply_limits(
        self,
        fields: dict[str, Any],
        job: Mapping[str, Any],
        require_approval: Callable[[Concern], Awaitable[None]],
    ) -> dict[str, Any]:
        """Return `fields` with the limits of the conversation, which its jobs must not exceed."""
        if not self.limits or (job and all(name in HARMLESS_FIELDS for name in fields)):
            return fields
        if self.limits.get("backend") and (folder := fields.get("workdir", job.get("workdir"))):
            reason = "a run of the job may change files outside the folder of this chat"
            concern = Concern("cron folder", str(folder), reason, effect=Effect.PERSIST)
            await require_approval(concern)
        return {**fields, "by": self.limits}

    def _check_toolsets(self, fields: Mapping[str, Any]) -> None:
        """Refuse toolsets that the conversation itself does not have."""
        own = self.limits.get("toolsets")
        if own and (
            more := [name for name in fields.get("enabled_toolsets") or () if name not in own]
        ):
            raise UsageError(
                f"this conversation does not have the toolsets {', '.join(map(str, more))}",
                hint=f"it has {', '.join(own)}",
            )

    async def _find_job(self, job_id: str) -> dict[str, Any]:
        if not job_id:
            raise UsageError("job_id is needed", hint="action list shows the jobs")
        if not self.guest:
            return await self.scheduler.get(job_id)
        # A guest must not learn of jobs of others, not even through an ambiguous name.
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


def _check_guest_fields(fields: Mapping[str, Any], guest: str) -> None:
    """Refuse what only the owner may set."""
    if not guest:
        return
    if refused := [name for name in OWNER_FIELDS if fields.get(name)]:
        raise UsageError(f"only the owner may set {', '.join(refused)}")
    targets = str(fields.get("deliver") or "").split(",")
    if any(target.strip() not in ("", "origin", "local") for target in targets):
        raise UsageError("only the owner may deliver to other chats")


def _summarize_job(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in SHOWN_FIELDS if record.get(name)}


def _hide_owner_fields(deps: ToolDeps, spec: ToolSpec) -> ToolSpec:
    if not deps.services.job_limits.get("user"):
        return spec
    fields = spec.parameters["properties"].items()
    shown = {name: field for name, field in fields if name not in OWNER_FIELDS}
    return msgspec.structs.replace(spec, parameters={**spec.parameters, "properties": shown})


@tool(
    toolset="cronjob",
    effect=Effect.PERSIST,
    description="Schedule work: at the given time a new session gets the prompt, and its answer is"
    " delivered. run starts a job once, now.",
    parameters={
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": list(ACTIONS)},
            "job_id": {"type": "string", "description": "id or name"},
            **_FIELDS,
        },
        "required": ["action"],
    },
    adapt=_hide_owner_fields,
    examine=_examine,
    unavailable=lambda deps: "" if deps.services.scheduler else "this session cannot schedule jobs",
    serial=True,
    emoji="⏰",
)
async def cronjob(deps: ToolDeps, call: ToolContext, **arguments: Any) -> str:
    services = deps.services
    actions = JobActions(require(services.scheduler), services.origin, dict(services.job_limits))
    fields = {name: value for name, value in arguments.items() if name in _FIELDS}
    if skill := arguments.get("skill"):
        fields.setdefault("skills", [skill])
    job_id = str(arguments.get("job_id") or "")
    try:
        done = await actions.run(str(arguments["action"]), job_id, fields, call.require_approval)
    except (UsageError, ConfigError, StoreError) as error:
        raise ToolError(str(error), hint=error.hint) from error
    return msgspec.json.encode(done).decode()
