"""Rollouts of the capture endpoint as a trainer sees them: show, finish, write."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec
import pytest

from hermes.envs import CaptureServer, Trace
from tests.unit.envs.token_server import END, TokenServer, sampled

QUESTION = {"messages": [{"role": "user", "content": "?"}]}


class Written:
    """Takes the traces of finished rollouts; raises `OSError` while `full`."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.full = False

    def __call__(self, trace: Trace) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.traces.append(trace)


@asynccontextmanager
async def capturing(
    *replies: str, delay: float = 0.0
) -> AsyncIterator[tuple[httpx2.AsyncClient, Written, TokenServer, CaptureServer]]:
    written = Written()
    with TokenServer(replies, delay=delay) as server:
        async with (
            CaptureServer(server.url, "vllm", model="lab", on_finish=written) as capture,
            httpx2.AsyncClient(base_url=capture.url("").removesuffix("//v1")) as client,
        ):
            yield client, written, server, capture


async def test_finished_rollout_is_written_with_its_reward_and_forgotten() -> None:
    async with capturing("A.", "B.") as (client, written, _server, _capture):
        await client.post("/r1/v1/chat/completions", json=QUESTION)
        shown = (await client.get("/r1/trace")).json()
        done = await client.post(
            "/r1/finish", json={"reward": 0.5, "metrics": {"turns": 1}, "task": "sum"}
        )
        again = await client.post("/r1/finish", json={"reward": 1.0})
    assert shown["reward"] is None
    body: dict[str, Any] = done.json()
    assert (body["reward"], body["token_exact"]) == (0.5, True)
    (sample,) = body["samples"]
    ids = [token for token, flag in zip(sample["token_ids"], sample["mask"], strict=True) if flag]
    assert ids == [*sampled("A."), END]
    assert shown["samples"] == body["samples"]
    (trace,) = written.traces
    assert (trace.id, trace.task_key, trace.model) == ("r1", "sum", "lab")
    assert (trace.reward, trace.metrics, trace.exit_reason) == (0.5, {"turns": 1.0}, "finished")
    assert msgspec.convert(body["trace"], Trace) == trace
    assert (again.status_code, len(written.traces)) == (404, 1)


async def test_rollout_named_by_the_key_is_finished_by_the_key() -> None:
    async with capturing("A.") as (client, written, _server, _capture):
        key = {"Authorization": "Bearer r7"}
        await client.post("/v1/chat/completions", json=QUESTION, headers=key)
        await client.post("/finish", json={"rewards": {"a": 1, "b": 2}}, headers=key)
    (trace,) = written.traces
    assert (trace.id, trace.reward) == ("r7", 3.0)


async def test_failed_rollout_has_no_reward() -> None:
    failure = {"boundary": "sandbox", "error": "Gone", "message": "the container is gone"}
    async with capturing("A.") as (client, written, _server, _capture):
        await client.post("/r1/v1/chat/completions", json=QUESTION)
        done = await client.post("/r1/finish", json={"reward": 0, "failure": failure})
    assert done.json()["reward"] is None
    assert written.traces[0].failure is not None
    assert written.traces[0].rewards == {}


async def test_rollout_is_kept_while_it_cannot_be_written() -> None:
    async with capturing("A.") as (client, written, _server, _capture):
        await client.post("/r1/v1/chat/completions", json=QUESTION)
        written.full = True
        refused = await client.post("/r1/finish", json={"reward": 1})
        written.full = False
        done = await client.post("/r1/finish", json={"reward": 1})
    assert (refused.status_code, done.status_code) == (500, 200)
    assert "No space left" in refused.json()["error"]["message"]
    assert len(written.traces) == 1


async def test_rollout_with_a_running_call_is_not_finished() -> None:
    async with capturing("A.", delay=60.0) as (client, written, server, capture):
        call = asyncio.ensure_future(client.post("/r1/v1/chat/completions", json=QUESTION))
        while not server.prompts:
            await asyncio.sleep(0.01)
        refused = await client.post("/r1/finish", json={"reward": 1})
        call.cancel()
        while not server.hangups:
            await asyncio.sleep(0.01)
        assert capture.rollouts() == []
    assert (refused.status_code, written.traces) == (409, [])


@pytest.mark.parametrize("body", [b"[", b'{"rewrad": 1}', b'{"reward": "much"}'])
async def test_invalid_result_is_refused_and_the_rollout_kept(body) -> None:
    async with capturing("A.") as (client, written, _server, capture):
        await client.post("/r1/v1/chat/completions", json=QUESTION)
        refused = await client.post("/r1/finish", content=body)
        assert capture.rollouts() == ["r1"]
        assert capture.rollouts(idle=3600) == []
    assert (refused.status_code, written.traces) == (400, [])
