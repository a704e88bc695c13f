"""A whole gateway with nothing but the API server: its turns are counted as those of chats are."""

import asyncio
import gc
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from hermes.app.log_files import start_logging, stop_logging
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.config.settings import LoggingSettings
from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, Stall, Step, StepLike
from hermes.gateway.runner import GatewayRunner
from hermes.security import Redactor
from tests.integration.platforms.api_server.conftest import chat

HELD, TOOL = "hold still", "use a tool"


def holding(request: RecordedRequest) -> StepLike:
    text = str(request.body["messages"][-1]["content"])
    if text == TOOL:
        return ToolCall("call_1", "todo", "{}")
    return Step((Text("one two"),), faults=(Stall(after=1),)) if text == HELD else text


@pytest.fixture
async def http(tmp_path, monkeypatch):
    monkeypatch.setenv("API_SERVER_PORT", "0")
    async with started(tmp_path) as client:
        yield client


@asynccontextmanager
async def started(folder: Path, settings: str = "") -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a running gateway whose home is in `folder`."""
    home = Home(folder / "home")
    home.root.mkdir(exist_ok=True)
    with ModelServer(holding) as model:
        home.config_file.write_text(
            "model:\n  default: lab-model\n  provider: custom\n"
            f"  base_url: {model.url}/v1\n  api_key: no-key-is-needed-here\n"
            f"gateway:\n  cwd: {folder}\n  drain_seconds: 0\n"
            f"platforms:\n  api_server:\n    enabled: true\n{settings}"
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


async def test_client_that_leaves_is_an_outcome_of_its_own(http, caplog):
    caplog.set_level(logging.INFO)
    for path, body in (
        ("/v1/chat/completions", chat(HELD, stream=True)),
        ("/v1/responses", {"input": HELD, "stream": True}),
        ("/v1/chat/completions", chat(HELD)),
    ):
        request = asyncio.create_task(http.post(path, json=body))
        while not (await state(http))["turns"]:
            await asyncio.sleep(0.01)
        request.cancel()
        while (await state(http))["turns"]:
            await asyncio.sleep(0.01)
    figures = (await http.get("/metrics")).text
    assert 'hermes_answers_total{outcome="client_left",platform="api_server"} 3.0' in figures
    assert 'outcome="failed"' not in figures
    assert caplog.messages.count("the client left, and its turn was stopped") == 3
    ours = [each for each in caplog.records if each.name.startswith("hermes")]
    assert [each.getMessage() for each in ours if each.levelno > logging.INFO] == []


PLUGIN = """
import json, pathlib

def register(ctx):
    def listen(name):
        def note(**details):
            with pathlib.Path(__file__).with_name("seen").open("a") as file:
                file.write(json.dumps([name, details.get("platform", "")]) + "\\n")
        ctx.register_hook(name, note)
    for name in ("on_session_start", "pre_tool_call", "post_tool_call", "on_session_end",
                 "on_session_finalize"):
        listen(name)
"""
HANDLER = """
import json, pathlib

async def handle(event_type, context):
    with pathlib.Path(__file__).with_name("seen").open("a") as file:
        file.write(json.dumps([event_type, context]) + "\\n")
"""


@pytest.mark.parametrize("stream", [True, False])
async def test_hooks_are_called_for_turns_of_clients(tmp_path, monkeypatch, stream):
    monkeypatch.setenv("API_SERVER_PORT", "0")
    plugin, hook = tmp_path / "home" / "plugins" / "notes", tmp_path / "home" / "hooks" / "notes"
    for folder in (plugin, hook):
        folder.mkdir(parents=True)
    (plugin / "plugin.yaml").write_text("name: notes\nversion: '1'\ndescription: notes\n")
    (plugin / "__init__.py").write_text(PLUGIN)
    events = "session:start, session:end, agent:start, agent:step, agent:end"
    (hook / "HOOK.yaml").write_text(f"name: notes\nevents: [{events}]\n")
    (hook / "handler.py").write_text(HANDLER)
    async with started(tmp_path, "plugins:\n  enabled: [notes]\n") as http:
        reply = await http.post("/v1/chat/completions", json=chat(TOOL, stream=stream))
        session_id = reply.headers["X-Hermes-Session-Id"]
    seen = [json.loads(line) for line in (hook / "seen").read_text().splitlines()]
    assert [name for name, _facts in seen] == [
        "session:start", "agent:start", "agent:step", "agent:end", "session:end",
    ]  # fmt: skip
    assert {facts["session_key"] for _name, facts in seen} == {
        f"agent:main:api_server:dm:{session_id}"
    }
    assert seen[2][1]["tool_names"] == ["todo"]
    assert seen[3][1]["message"] == TOOL
    fired = [json.loads(line) for line in (plugin / "seen").read_text().splitlines()]
    assert [name for name, _platform in fired] == [
        "on_session_start", "pre_tool_call", "post_tool_call", "on_session_end",
        "on_session_finalize",
    ]  # fmt: skip
    assert fired[0][1] == "api-server"


class BrokenHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise OSError(28, "No space left on device")


async def test_turns_are_answered_while_every_log_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("API_SERVER_PORT", "0")
    home = Home(tmp_path / "home")
    home.logs.mkdir(parents=True)
    for name in ("agent", "errors", "gateway"):
        (home.logs / f"{name}.log").symlink_to("/dev/full")
    start_logging(home, LoggingSettings(level="DEBUG"), Redactor(()))
    broken = BrokenHandler()
    logging.getLogger().addHandler(broken)
    try:
        async with started(tmp_path) as http:
            for path, body in (
                ("/v1/chat/completions", chat(TOOL)),
                ("/v1/responses", {"input": TOOL, "stream": True}),
            ):
                reply = await http.post(path, json=body)
                assert reply.status_code == 200
            assert 'outcome="failed"' not in (await http.get("/metrics")).text
    finally:
        logging.getLogger().removeHandler(broken)
        stop_logging()


async def state(http: httpx2.AsyncClient) -> dict[str, object]:
    found: dict[str, object] = (await http.get("/health/detailed")).json()["gateway"]
    return found


async def test_answers_of_the_api_name_files_and_send_none(http, tmp_path):
    text = "MEDIA:/proc/self/environ"
    reply = (await http.post("/v1/chat/completions", json=chat(text))).json()
    assert reply["choices"][0]["message"]["content"] == text
    assert not (tmp_path / "home" / "cache" / "outbox").exists()
