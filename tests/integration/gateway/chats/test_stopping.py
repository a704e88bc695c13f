"""How a gateway ends while there is work."""

import asyncio

import httpx2

from hermes.core.errors import StoreError
from hermes.core.messages import Text
from hermes.core.testing import Stall, Step
from hermes.gateway.process import read_state
from tests.integration.gateway.chats.conftest import LONG
from tests.postgres_server import free_port

STALLED = Step((Text("never"),), faults=(Stall(1),))
PATIENT = {"gateway__drain_seconds": 3600}


async def test_second_stop_does_not_wait_for_turns(harness):
    runner = await harness.open([STALLED, "after that"], **PATIENT)
    await harness.begin("begin")
    runner.stop()
    await harness.until(lambda: "1 turn still runs" in "".join(harness.notes), "the note")
    runner.stop()
    assert await harness.wait_exit() == 0
    await harness.wait_for("This turn continues")
    await harness.open(**PATIENT)
    await harness.wait_for("after that")


async def test_stop_is_orderly_when_the_store_is_unavailable(harness, monkeypatch):
    runner = await harness.open([STALLED])
    await harness.begin("begin")

    async def away(*_given: object, **_more: object) -> None:
        raise StoreError("the server is away")

    monkeypatch.setattr(runner.gateway.store.outbox, "enqueue", away)
    assert await harness.close() == 0
    assert runner.gateway.open_agents() == {}
    assert read_state(harness.home).state == "stopped"


async def test_api_clients_are_drained_and_informed(harness, monkeypatch):
    port = free_port()
    monkeypatch.setenv("API_SERVER_PORT", str(port))
    key = "the key of this test"
    monkeypatch.setenv("API_SERVER_KEY", key)
    asked = {"stream": True, "messages": [{"role": "user", "content": "begin"}]}
    runner = await harness.open([STALLED], **PATIENT, platforms__api_server__enabled=True)
    await harness.until(lambda: "API server is connected" in harness.notes, "the API server")
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=LONG) as client:
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        answer = asyncio.create_task(client.post(url, json=asked))
        await harness.until(lambda: harness.server.calls, "the call")
        runner.stop()
        await harness.until(lambda: "1 turn still runs" in "".join(harness.notes), "the note")
        assert not answer.done()
        runner.stop()
        reported = (await answer).text
        assert await harness.wait_exit() == 0
    assert "the server is stopping" in reported


async def test_refused_platform_is_reported_once(harness, monkeypatch):
    monkeypatch.setenv("API_SERVER_PORT", "99999")
    await harness.open(platforms__api_server__enabled=True)
    await harness.until(lambda: "not a port" in "".join(harness.notes), "the note")
    await harness.close()
    reported = [note for note in harness.notes if "API server" in note]
    assert reported == [
        "API server is not connected: API_SERVER_PORT is 99999, which is not a port"
    ]
