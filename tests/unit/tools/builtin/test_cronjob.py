"""cronjob: what the model can schedule, and what a user other than the owner cannot."""

import json
from functools import partialmethod
from typing import Any

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import ConfigError, StoreError, ToolDenied, ToolError, UsageError
from hermes.core.tool import Concern, Effect, Tool, ToolContext
from hermes.tools.builtin.cronjob import OWNER_FIELDS
from tests.workspace import make_tool


def cronjob_tool(jobs: Any, origin: str = "", limits: dict[str, Any] | None = None) -> Tool:
    return make_tool("cronjob", scheduler=jobs, origin=origin, job_limits=limits or {})


class Jobs:
    """A `Scheduler` in memory."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.heard: list[tuple[str, str]] = []

    async def create(self, wanted: dict[str, Any]) -> dict[str, Any]:
        if not wanted.get("schedule"):
            raise UsageError("a job needs a schedule", hint="such as every 2h")
        job = {"id": f"job{len(self.jobs)}", "state": "scheduled", **wanted}
        self.jobs[job["id"]] = job
        return job

    async def list(self) -> list[dict[str, Any]]:
        return list(self.jobs.values())

    async def get(self, job: str) -> dict[str, Any]:
        if job not in self.jobs:
            raise UsageError(f"there is no job {job!r}")
        return self.jobs[job]

    async def update(self, job: str, changes: dict[str, Any]) -> dict[str, Any]:
        self.jobs[job] |= changes
        return self.jobs[job]

    async def remove(self, job: str) -> dict[str, Any]:
        self.heard.append(("remove", job))
        return self.jobs.pop(job)

    async def _did(self, what: str, job: str) -> dict[str, Any]:
        self.heard.append((what, job))
        return self.jobs[job]

    pause = partialmethod(_did, "pause")
    resume = partialmethod(_did, "resume")
    run = partialmethod(_did, "run")


async def call(tool, **arguments: Any) -> dict[str, Any]:
    context = ToolContext("s", "c", CancelToken(), lambda _text: None)
    return json.loads(await tool.handler(context, arguments))


async def test_job_lifecycle():
    jobs = Jobs()
    tool = cronjob_tool(jobs, "telegram:1:2")
    assert await call(tool, action="list") == {"jobs": []}
    made = await call(tool, action="create", schedule="every 2h", prompt="look", skill="mail")
    assert made["job"]["id"] == "job0"
    assert jobs.jobs["job0"]["origin"] == "telegram:1:2"
    assert jobs.jobs["job0"]["skills"] == ["mail"]
    assert "by" not in jobs.jobs["job0"]
    await call(tool, action="update", job_id="job0", skills=[], name="mail")
    assert (jobs.jobs["job0"]["skills"], jobs.jobs["job0"]["name"]) == ([], "mail")
    for action in ("pause", "resume", "run", "remove"):
        await call(tool, action=action, job_id="job0")
    assert [what for what, _ in jobs.heard] == ["pause", "resume", "run", "remove"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"action": "explode"}, "there is no action"),
        ({"action": "pause"}, "job_id is needed"),
        ({"action": "pause", "job_id": "gone"}, "there is no job"),
        ({"action": "create", "prompt": "x"}, "needs a schedule"),
    ],
)
async def test_errors_are_reported_to_the_model(arguments, told):
    with pytest.raises(ToolError, match=told):
        await call(cronjob_tool(Jobs()), **arguments)


async def test_guest_sees_and_changes_only_own_jobs():
    jobs = Jobs()
    await call(cronjob_tool(jobs), action="create", schedule="30m", prompt="of the owner")
    limits = {"user": "telegram:7", "backend": "sandbox", "toolsets": ["safe"]}
    guest = cronjob_tool(jobs, "telegram:7", limits)
    await call(guest, action="create", schedule="30m", prompt="of the guest")
    assert jobs.jobs["job1"]["by"] == limits
    assert [job["id"] for job in (await call(guest, action="list"))["jobs"]] == ["job1"]
    other = cronjob_tool(jobs, "telegram:8", {"user": "telegram:8"})
    for tool in (guest, other):
        for action in ("update", "pause", "resume", "run", "remove"):
            with pytest.raises(ToolError, match="there is no job"):
                await call(tool, action=action, job_id="job0", name="mine")
    assert len((await call(cronjob_tool(jobs), action="list"))["jobs"]) == 2


@pytest.mark.parametrize("field", [*OWNER_FIELDS, "deliver"])
async def test_guest_cannot_widen_their_limits(field):
    jobs = Jobs()
    guest = cronjob_tool(jobs, "telegram:7", {"user": "telegram:7"})
    wanted = {"schedule": "30m", "prompt": "x", field: "telegram:9"}
    with pytest.raises(ToolError, match="only the owner"):
        await call(guest, action="create", **wanted)
    await call(guest, action="create", schedule="30m", prompt="x", deliver="origin,local")
    with pytest.raises(ToolError, match="only the owner"):
        await call(guest, action="update", job_id="job0", **{field: "telegram:9"})
    assert not set(guest.spec.parameters["properties"]) & set(OWNER_FIELDS)


async def test_name_of_another_users_job_is_not_ambiguous_for_a_guest():
    jobs = Jobs()
    await call(cronjob_tool(jobs), action="create", schedule="30m", prompt="x", name="mail")
    guest = cronjob_tool(jobs, "telegram:7", {"user": "telegram:7"})
    await call(guest, action="create", schedule="30m", prompt="x", name="mail")
    await call(guest, action="pause", job_id="mail")
    assert jobs.heard == [("pause", "job1")]
    await call(guest, action="create", schedule="30m", prompt="x", name="mail")
    with pytest.raises(ToolError, match="several jobs") as caught:
        await call(guest, action="pause", job_id="mail")
    assert caught.value.hint == "their ids: job1, job2"


async def test_conversation_gives_its_jobs_no_more_tools_than_it_has():
    jobs = Jobs()
    tool = cronjob_tool(jobs, "", {"toolsets": ["web", "cronjob"]})
    wanted = {"action": "create", "schedule": "30m", "prompt": "x"}
    with pytest.raises(ToolError, match="does not have the toolsets terminal"):
        await call(tool, **wanted, enabled_toolsets=["web", "terminal"])
    await call(tool, **wanted, enabled_toolsets=["web"])
    with pytest.raises(ToolError, match="does not have"):
        await call(tool, action="update", job_id="job0", enabled_toolsets=["terminal"])


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": "y"}, {"skills": []}, {"script": ""}, {"workdir": ""}, {"model": "m"},
        {"context_from": []}, {"enabled_toolsets": []}, {"name": "n", "prompt": "y"},
    ],
)  # fmt: skip
async def test_changing_a_job_applies_the_limits_of_the_changer(changes):
    jobs = Jobs()
    await call(cronjob_tool(jobs), action="create", schedule="30m", prompt="x")
    chat = cronjob_tool(jobs, "telegram:1", {"backend": "sandbox"})
    for change in ({"name": "n"}, {"schedule": "2h"}, {"repeat": 2}, {"deliver": "local"}):
        await call(chat, action="update", job_id="job0", **change)
    assert "by" not in jobs.jobs["job0"]
    await call(chat, action="update", job_id="job0", **changes)
    assert jobs.jobs["job0"]["by"] == {"backend": "sandbox"}


async def test_folder_outside_of_the_chat_needs_approval():
    jobs, asked = Jobs(), []

    async def require_approval(concern):
        asked.append(concern.subject)

    chat = cronjob_tool(jobs, "telegram:1", {"backend": "sandbox"})
    wanted = {"action": "create", "schedule": "30m", "prompt": "x", "workdir": "/home/me"}
    with pytest.raises(ToolDenied):
        await call(chat, **wanted)
    await call(cronjob_tool(jobs), **wanted)  # no limits, no question
    change = {"action": "update", "job_id": "job0"}
    with pytest.raises(ToolDenied):
        await call(chat, **change, prompt="write there")
    assert jobs.jobs["job0"]["prompt"] == "x"
    context = ToolContext(
        "s", "c", CancelToken(), lambda _text: None, require_approval=require_approval
    )
    await chat.handler(context, {**change, "prompt": "y"})
    await chat.handler(context, {**change, "prompt": "z", "workdir": ""})
    assert (asked, jobs.jobs["job0"]["prompt"]) == (["/home/me"], "z")


@pytest.mark.parametrize("error", [ConfigError, StoreError])
async def test_broken_jobs_file_is_reported_with_a_hint(error):
    class Broken(Jobs):
        async def list(self):
            raise error("no job can run", hint="mend the file")

    with pytest.raises(ToolError, match="no job can run") as caught:
        await call(cronjob_tool(Broken()), action="list")
    assert caught.value.hint == "mend the file"


async def test_what_runs_later_is_persistence_and_a_script_is_a_class_of_its_own():
    tool = cronjob_tool(Jobs())
    assert tool.examine is not None and tool.effect is Effect.PERSIST
    for action in ("create", "update", "resume", "run"):
        assert await tool.examine({"action": action, "prompt": "x"}) is Effect.PERSIST
    for action in ("pause", "remove"):
        assert await tool.examine({"action": action, "job_id": "x"}) is None
    assert await tool.examine({"action": "list", "script": "a.py"}) is Effect.READ
    for action in ("create", "update"):
        concern = await tool.examine({"action": action, "prompt": "x", "script": "a.py"})
        assert isinstance(concern, Concern)
        assert (concern.kind, concern.effect) == ("cron script", Effect.PERSIST)
        assert "prompt: x" in concern.subject and "script: a.py" in concern.subject
