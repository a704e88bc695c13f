"""A whole gateway with nothing but the API server: its turns are counted as those of chats are."""

import asyncio
import gc

import httpx2
import pytest

from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.messages import Text
from hermes.core.testing import ModelServer, RecordedRequest, Stall, Step, StepLike
from hermes.gateway.runner import GatewayRunner
from tests.integration.platforms.api_server.conftest import chat

HELD = "hold still"


def holding(request: RecordedRequest) -> StepLike:
    text = str(request.body["messages"][-1]["content"])
    return Step((Text("one two"),), faults=(Stall(after=1),)) if text == HELD else text


@pytest.fixture
async def http(tmp_path, monkeypatch):
    monkeypatch.setenv("API_SERVER_PORT", "0")
    home = Home(tmp_path / "home")
    home.root.mkdir()
    with ModelServer(holding) as model:
        home.config_file.write_text(
            "model:\n  default: lab-model\n  provider: custom\n"
            f"  base_url: {model.url}/v1\n  api_key: no-key-is-needed-here\n"
            f"gateway:\n  cwd: {tmp_path}\n  drain_seconds: 0\n"
            "platforms:\n  api_server:\n    enabled: true\n"
        )
        runner = GatewayRunner(home, load(home), note=print, quiet=True)
        work = asyncio.create_task(runner.run())
        await runner.began.wait()
        (supervisor,) = runner.gateway.supervisors
        while supervisor.health.state != "healthy":
            await asyncio.sleep(0.01)
        base = f"http://127.0.0.1:{supervisor.adapter.port}"
        key = load(home).secret("API_SERVER_KEY")
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=100) as client:
            yield client
        runner.stop()
        await work


async def test_a_key_is_generated_at_the_first_start(http, tmp_path):
    home = Home(tmp_path / "home")
    assert home.env_file.stat().st_mode & 0o777 == 0o600
    async with httpx2.AsyncClient(base_url=http.base_url, timeout=100) as stranger:
        assert (await stranger.get("/v1/models")).status_code == 401
    assert (await http.get("/v1/models")).status_code == 200
    adapter = (await http.get("/health/detailed")).json()["gateway"]["adapters"][0]
    assert "API_SERVER_KEY in" in adapter["hint"]
    assert len(load(home).secret("API_SERVER_KEY") or "") == 48


@pytest.fixture
def collected_rarely():
    usual = gc.get_threshold()
    gc.set_threshold(10_000, 10, 10)  # as the command line does
    yield
    gc.set_threshold(*usual)


@pytest.mark.usefixtures("collected_rarely", "http")
async def test_garbage_of_conversations_is_collected_as_often_as_usual():
    async with asyncio.timeout(60):
        while gc.get_threshold() != (700, 10, 10):
            await asyncio.sleep(0.01)


async def test_status_and_metrics_know_its_turns(http):
    before = (await http.get("/health/detailed")).json()["gateway"]
    assert before["adapters"][0]["detail"] == str(http.base_url).rstrip("/")
    assert before["adapters"][0]["last_in"] is None
    assert (await http.post("/v1/chat/completions", json=chat("hi"))).status_code == 200
    await http.post("/v1/responses", json={"input": "hi", "stream": True})
    run = (await http.post("/v1/runs", json={"input": HELD})).json()["run_id"]
    assert (await state(http))["turns"] == 1
    assert "hermes_turns_running 1.0" in (await http.get("/metrics")).text
    await http.post(f"/v1/runs/{run}/stop")
    while (await state(http))["turns"]:
        await asyncio.sleep(0.01)
    after = await state(http)
    assert after["last_in"] == after["adapters"][0]["last_in"] > before["started_at"] - 1
    assert after["last_out"] == after["adapters"][0]["last_out"] is not None
    figures = (await http.get("/metrics")).text
    assert 'hermes_messages_received_total{platform="api_server"} 3.0' in figures
    assert 'hermes_answers_total{outcome="ok",platform="api_server"} 3.0' in figures


async def state(http: httpx2.AsyncClient) -> dict[str, object]:
    found: dict[str, object] = (await http.get("/health/detailed")).json()["gateway"]
    return found


async def test_answers_of_the_api_name_files_and_send_none(http, tmp_path):
    text = "MEDIA:/proc/self/environ"
    reply = (await http.post("/v1/chat/completions", json=chat(text))).json()
    assert reply["choices"][0]["message"]["content"] == text
    assert not (tmp_path / "home" / "cache" / "outbox").exists()
