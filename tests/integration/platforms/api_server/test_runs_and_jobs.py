"""Turns that go on by themselves, scheduled jobs, figures, and the rest of the table."""

import asyncio
import json
from typing import Any

import httpx2

from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import UsageError
from hermes.core.messages import Text
from hermes.core.testing import RecordedRequest, Stall, Step, StepLike
from hermes.cron import JobService
from hermes.gateway.platforms.api_server.http import ApiOptions
from hermes.util.concurrency import SystemClock
from tests.integration.platforms.api_server.conftest import KEY, chat


class Jobs:
    """A `Scheduler` that only remembers."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[str, Any]] = {}

    async def create(self, wanted: dict[str, Any]) -> dict[str, Any]:
        if not wanted.get("schedule") or not wanted.get("prompt"):
            raise UsageError("a job needs a schedule and a prompt")
        job = {"id": f"job{len(self._jobs)}", "state": "scheduled", **wanted}
        self._jobs[job["id"]] = job
        return job

    async def list(self) -> list[dict[str, Any]]:
        return list(self._jobs.values())

    async def get(self, job: str) -> dict[str, Any]:
        if job not in self._jobs:
            raise UsageError(f"there is no job {job!r}")
        return self._jobs[job]

    async def update(self, job: str, changes: dict[str, Any]) -> dict[str, Any]:
        if not changes:
            raise UsageError("nothing is to be changed")
        self._jobs[job] |= changes
        return self._jobs[job]

    async def pause(self, job: str) -> dict[str, Any]:
        return await self.update(job, {"state": "paused"})

    async def resume(self, job: str) -> dict[str, Any]:
        return await self.update(job, {"state": "scheduled"})

    async def run(self, job: str) -> dict[str, Any]:
        return await self.update(job, {"asked": True})

    async def remove(self, job: str) -> dict[str, Any]:
        return self._jobs.pop(job)


def holding(_request: RecordedRequest) -> StepLike:
    return Step((Text("one two three"),), faults=(Stall(after=1),))


async def test_run_starts_at_once_and_its_events_can_be_replayed(served):
    begun = await served.http.post("/v1/runs", json={"input": "go", "instructions": "Be brief."})
    assert begun.status_code == 202
    run = begun.json()
    path = f"/v1/runs/{run['run_id']}/events"
    first, second = await asyncio.gather(served.http.get(path), served.http.get(path))
    assert first.text == second.text
    events = [json.loads(line[6:]) for line in first.text.splitlines() if line[:5] == "data:"]
    assert events[0]["type"] == "turn_started"
    assert events[-1]["type"] == "turn_finished"
    assert events[-1]["text"] == "go"
    late = await served.http.get(path, headers={"Last-Event-ID": str(len(events) - 2)})
    assert late.text == first.text[-len(late.text) :]
    assert late.text.count("data: ") == 1
    again = await served.http.post(
        "/v1/runs", json={"input": "on", "session_id": run["session_id"]}
    )
    assert again.json()["session_id"] == run["session_id"]
    await served.http.get(f"/v1/runs/{again.json()['run_id']}/events")
    reply = [each["content"] for each in served.model.calls[-1].body["messages"][1:]]
    assert reply == ["go", "go", "on"]


async def test_run_continues_without_client_and_can_be_stopped(serve):
    async with serve(holding) as server:
        run = (await server.http.post("/v1/runs", json={"input": "go"})).json()["run_id"]
        async with server.http.stream("GET", f"/v1/runs/{run}/events") as stream:
            await anext(stream.aiter_bytes())
        assert (await server.http.get("/health/detailed")).json()["turns_running"] == 1
        stopped = await server.http.post(f"/v1/runs/{run}/stop")
        assert stopped.json() == {"run_id": run, "status": "stopping"}
        events = (await server.http.get(f"/v1/runs/{run}/events")).text
        assert '"exit_reason":"interrupted"' in events
        assert (await server.http.post(f"/v1/runs/{run}/stop")).json()["status"] == "finished"


async def test_invalid_runs_are_refused(served):
    assert (await served.http.get("/v1/runs/run_0/events")).status_code == 404
    assert (await served.http.post("/v1/runs", json={"input": ""})).status_code == 400
    body = {"input": "x", "session_id": "nowhere"}
    assert (await served.http.post("/v1/runs", json=body)).status_code == 404


async def test_jobs(serve):
    async with serve(scheduler=Jobs()) as server:
        wanted = {"schedule": "every 2h", "prompt": "look", "skills": ["a"]}
        made = await server.http.post("/api/jobs", json=wanted)
        assert made.status_code == 201
        job = made.json()["job"]["id"]
        assert (await server.http.get("/api/jobs")).json()["jobs"] == [made.json()["job"]]
        changed = await server.http.patch(
            f"/api/jobs/{job}", json={"prompt": "see", "skills": None}
        )
        assert (changed.json()["job"]["prompt"], changed.json()["job"]["skills"]) == ("see", None)
        for verb, state in (("pause", "paused"), ("resume", "scheduled"), ("run", "scheduled")):
            done = await server.http.post(f"/api/jobs/{job}/{verb}")
            assert done.json()["job"]["state"] == state
        assert (await server.http.get(f"/api/jobs/{job}")).json()["job"]["asked"] is True
        assert (await server.http.delete(f"/api/jobs/{job}")).status_code == 200
        for method, path in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/pause")):
            gone = await server.http.request(method, f"/api/jobs/{job}{path}", json={})
            assert (gone.status_code, gone.json()["error"]["code"]) == (404, "job_not_found")
        assert (await server.http.post("/api/jobs", json={"prompt": "x"})).status_code == 400
        assert (await server.http.post("/api/jobs", json={"schedule": 7})).status_code == 400


async def test_job_with_unknown_names_is_refused(serve, tmp_path):
    home = Home(tmp_path / "home")
    desk = JobService.for_home(home, load(home), None, SystemClock())
    async with serve(scheduler=desk) as server:
        wanted = {"schedule": "every 2h", "prompt": "look", "name": "twin"}
        for field, name, reply in (
            ("skills", "no-such-skill", "there is no skill 'no-such-skill'"),
            ("enabled_toolsets", "no-such-toolset", "the toolsets are browser, "),
        ):
            refused = await server.http.post("/api/jobs", json={**wanted, field: [name]})
            assert refused.status_code == 400
            assert reply in refused.json()["error"]["message"]
        ids = [
            (await server.http.post("/api/jobs", json=wanted)).json()["job"]["id"] for _ in range(2)
        ]
        both = await server.http.get("/api/jobs/twin")
        assert both.status_code == 404
        assert f"use one of these ids: {', '.join(ids)}" in both.json()["error"]["message"]


async def test_job_uses_the_backend_of_clients(serve, tmp_path):
    home = Home(tmp_path / "home")
    desk = JobService.for_home(home, load(home), None, SystemClock())
    of_the_terminal = (await desk.create({"schedule": "every 2h", "prompt": "look"}))["id"]
    async with serve(scheduler=desk, backend="sandbox") as server:
        wanted = {"schedule": "every 2h", "prompt": "look", "by": {"backend": "local"}}
        made = (await server.http.post("/api/jobs", json=wanted)).json()["job"]
        assert made["by"] == {"backend": "sandbox"}
        path = f"/api/jobs/{of_the_terminal}"
        renamed = await server.http.patch(path, json={"name": "another"})
        assert renamed.json()["job"].get("by") is None
        changed = await server.http.patch(path, json={"prompt": "rm -r everything"})
        assert changed.json()["job"]["by"] == {"backend": "sandbox"}


async def test_unknown_objects_get_404(served):
    for path, status in (("/api/jobs", 503), ("/metrics", 404), ("/nothing", 404)):
        reply = await served.http.get(path)
        assert reply.status_code == status
        assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
    wrong = await served.http.put("/v1/chat/completions", json={})
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


async def test_metrics_and_health(serve):
    more = {"metrics": lambda: b"up 1\n", "status": lambda: {"telegram": "ok"}}
    async with serve(**more) as server:
        figures = await server.http.get("/metrics")
        assert (figures.content, figures.headers["content-type"][:10]) == (b"up 1\n", "text/plain")
        detailed = (await server.http.get("/health/detailed")).json()
        assert detailed["gateway"] == {"telegram": "ok"}
        for path in ("/health", "/v1/health"):
            assert (await server.http.get(path, headers={"Authorization": ""})).json() == {
                "status": "ok"
            }
            assert (await server.http.head(path)).status_code == 200
        for path in ("/metrics", "/health/detailed", "/v1/models", "/openapi.json", "/nothing"):
            assert (await server.http.get(path, headers={"Authorization": ""})).status_code == 401


async def test_configured_origin_can_use_it_from_a_browser(serve):
    page = "http://localhost:3000"
    options = ApiOptions(port=0, key=KEY, origins=(page,))
    async with serve(options=options) as server:
        asked = {"Origin": page, "Access-Control-Request-Method": "POST", "Authorization": ""}
        path = "/v1/chat/completions"
        reply = await server.http.options(path, headers=asked)
        assert reply.status_code == 204
        assert reply.headers["access-control-allow-origin"] == page
        assert reply.headers["access-control-max-age"] == "600"
        answer = await server.http.post(path, json=chat("hi"), headers={"Origin": page})
        assert answer.headers["access-control-allow-origin"] == page
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        other = await server.http.options(path, headers=asked | {"Origin": "http://evil.example"})
        assert other.status_code == 401
        assert "access-control-allow-origin" not in other.headers


async def test_without_the_key_nothing_is_answered(served):
    calls = len(served.model.calls)
    async with httpx2.AsyncClient(base_url=served.url, timeout=100) as stranger:
        for headers in ({}, {"Host": "localhost"}, {"Authorization": "Bearer x"}):
            for path in ("/v1/chat/completions", "/api/jobs", "/v1/runs", "/v1/models"):
                reply = await stranger.post(path, json=chat("hi"), headers=headers)
                assert reply.status_code == 401
        assert (await stranger.get("/health")).status_code == 200
    assert len(served.model.calls) == calls


async def test_concurrent_requests_with_one_key_run_one_turn(served):
    headers = {"Idempotency-Key": "k1"}
    asked = [
        served.http.post("/v1/chat/completions", json=chat("once"), headers=headers)
        for _ in range(10)
    ]
    answers = await asyncio.gather(*asked)
    assert len({answer.text for answer in answers}) == 1
    assert len(served.model.calls) == 1
    streamed = [
        served.http.post("/v1/responses", json={"input": "x", "stream": True}, headers=headers)
        for _ in range(3)
    ]
    assert len({answer.text for answer in await asyncio.gather(*streamed)}) == 1
    other = await served.http.post("/v1/chat/completions", json=chat("else"), headers=headers)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")
    assert len(served.model.calls) == 2
