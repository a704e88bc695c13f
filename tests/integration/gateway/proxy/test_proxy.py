"""A gateway whose chats are answered by the API server of another Hermes."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from hermes.app.sessions import REMOTE_PROMPT
from hermes.core.errors import ConfigError
from hermes.core.messages import Text, ToolCall
from hermes.core.testing import Cut, ModelServer, RecordedRequest, Stall, Step, StepLike, echo
from hermes.gateway.runner import GatewayRunner
from hermes.store.records import SessionFilter
from tests.integration.gateway.chats.conftest import LONG, GatewayHarness
from tests.integration.platforms.api_server.conftest import KEY, Served, serving
from tests.postgres_server import free_port

SOURCES = Path(__file__).parents[4] / "src"
PROXY_KEY = "GATEWAY_PROXY_KEY"
Far = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def far(tmp_path):
    return lambda script=echo: serving(tmp_path / "far", script)


@asynccontextmanager
async def near(
    harness: GatewayHarness, far: Served, **settings: object
) -> AsyncIterator[GatewayRunner]:
    with ModelServer([]) as unused:
        yield await harness.open(unused, gateway__proxy_url=far.url, **settings)
        await harness.close()


async def ends(far: Served) -> list[str | None]:
    """How the turns over there ended."""
    return [each.end_reason for each in await far.app.store.sessions(SessionFilter())]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv(PROXY_KEY, KEY)


async def test_the_other_hermes_answers_and_knows_the_conversation(harness, far):
    def script(request: RecordedRequest) -> StepLike:
        return f"{len(request.body['messages']) - 1} messages so far"

    async with far(script) as other, near(harness, other):
        await harness.ask("hello", "1 messages so far")
        await harness.ask("and again", "3 messages so far")
        assert await other.sessions() == 1, "one conversation is one session over there"
        first = other.model.calls[0].body["messages"][0]["content"]
        assert REMOTE_PROMPT in first
        assert "You are in a private chat" in first
    assert harness.texts() == ["1 messages so far", "3 messages so far"]


async def test_nothing_of_this_side_goes_along(harness, far):
    harness.home.mkdir(exist_ok=True)
    (harness.home / "SOUL.md").write_text("You are the near one.")
    async with far() as other, near(harness, other) as runner:
        await harness.ask("hello", "hello")
        (agent,) = runner.gateway.open_agents().values()
        assert agent is not None
        assert agent.tools == ()
        assert agent.system.text == REMOTE_PROMPT


async def test_status_shows_that_the_remote_context_length_is_unknown(harness, far):
    async with far() as other, near(harness, other):
        await harness.ask("hello", "hello")
        shown = await harness.ask("/status", "Context")
        assert "tokens; how many there may be is not known here" in shown.text


async def test_an_answer_grows_and_tools_over_there_are_seen(harness, far):
    script = [
        Step((Text("let me look"), ToolCall("c1", "todo", '{"todos": []}'))),
        "The list is empty, as far as I can see from over here.",
    ]
    shown = {"streaming__enabled": True, "display__tool_progress": "all"}
    async with far(script) as other, near(harness, other, **shown):
        await harness.ask("what is there to do?", "as far as I can see")
        await harness.wait_idle()
        assert any("**todo**" in text for text in harness.texts())


async def test_stop_ends_the_turn_over_there(harness, far):
    script = [Step((Text("never"),), faults=(Stall(1),)), "here again"]
    async with far(script) as other, near(harness, other):
        harness.say("begin")
        await harness.until(lambda: other.model.calls, "the call over there")
        await harness.ask("/stop", "Stopped.")
        async with asyncio.timeout(LONG):
            while await ends(other) != ["interrupted"]:
                await asyncio.sleep(0.02)
        await harness.ask("and now", "here again")


async def test_a_turn_that_broke_off_is_not_asked_for_twice(harness, far):
    """What it did over there would be done again."""
    with ModelServer([Step((Text("I begin"),), faults=(Cut(after=1),))]) as other:
        await harness.open(other, gateway__proxy_url=other.url)
        harness.say("begin")
        shown = await harness.wait_for("⚠️")
        await harness.wait_idle()
        await harness.close()
    assert "the connection to the other Hermes was cut" in shown.text


async def test_wrong_key_is_reported_without_showing_it(harness, far, monkeypatch, caplog):
    monkeypatch.setenv(PROXY_KEY, "a-key-that-is-wrong")
    caplog.set_level(logging.DEBUG)
    async with far() as other, near(harness, other):
        shown = await harness.ask("hello", "refused the key")
        assert "GATEWAY_PROXY_KEY must be its API_SERVER_KEY" in shown.text
    assert "a-key-that-is-wrong" not in caplog.text
    assert "a-key-that-is-wrong" not in "".join(harness.texts())
    assert "the other Hermes refused the key" in caplog.text, "also at the start"


async def test_unreachable_proxy_is_reported(harness):
    with ModelServer([]) as unused:
        await harness.open(unused, gateway__proxy_url=f"http://127.0.0.1:{free_port()}")
        shown = await harness.ask("hello", "cannot reach the other Hermes")
    assert "start the server" in shown.text


@pytest.mark.parametrize(
    ("url", "key", "message"),
    [
        ("ftp://example.org", KEY, "is not a valid address"),
        ("example.org:8642", KEY, "is not a valid address"),
        ("http://user:secret-word@example.org", KEY, "is not a valid address"),
        ("https://hermes.example.org", "", "GATEWAY_PROXY_KEY is not set"),
    ],
)
async def test_wrong_settings_keep_it_from_starting(harness, monkeypatch, url, key, message):
    monkeypatch.setenv(PROXY_KEY, key)
    with ModelServer([]) as unused, pytest.raises(ConfigError, match=message) as failed:
        await harness.open(unused, gateway__proxy_url=url)
    harness.runner = None
    assert "secret-word" not in f"{failed.value} {failed.value.hint}"


async def test_guests_are_not_let_through(harness, far, monkeypatch):
    """The other side could not keep them from using the terminal."""
    monkeypatch.setenv("LOCAL_ALLOW_ALL_USERS", "true")
    async with far() as other, near(harness, other):
        await harness.ask("hello", "you may not use every tool", user="eve")
        assert not other.model.calls


async def test_files_of_this_machine_are_not_sent_because_the_other_names_them(
    harness, far, tmp_path
):
    file = tmp_path / "private.txt"
    file.write_text("mine")
    async with far([f"Look:\nMEDIA:{file}"]) as other, near(harness, other):
        shown = await harness.ask("hello", "Look:")
        await harness.wait_idle()
    assert "file not sent" in shown.text
    assert not any(each.media for each in harness.shown())


async def test_conversations_had_here_are_not_gone_on_with_there(harness, far):
    with ModelServer(["said here"]) as here:
        await harness.open(here)
        await harness.ask("hello", "said here")
        await harness.close()
    async with far() as other, near(harness, other):
        await harness.ask("who are you?", "who are you?")
        assert "said here" not in str(other.model.calls[-1].body)
    with ModelServer(echo) as here:
        await harness.open(here)
        await harness.ask("back again", "back again")
        assert REMOTE_PROMPT not in str(here.calls[-1].body)


async def test_the_model_is_the_business_of_the_other(harness, far):
    async with far() as other, near(harness, other):
        await harness.ask("/model gpt-5", "chooses its model itself")
        await harness.ask("hello", "hello")


async def test_a_second_gateway_in_a_process_of_its_own(harness, tmp_path):
    home, port = tmp_path / "second", free_port()
    home.mkdir()
    with ModelServer(echo) as model:
        (home / "config.yaml").write_text(
            "model:\n  default: lab-model\n  provider: custom\n"
            f"  base_url: {model.url}/v1\nplatforms:\n  api_server:\n    enabled: true\n"
        )
        variables = {
            **os.environ, "PYTHONPATH": str(SOURCES), "HERMES_HOME": str(home),
            "API_SERVER_KEY": KEY, "API_SERVER_PORT": str(port),
        }  # fmt: skip
        variables.pop("LOCAL_SOCKET")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hermes", "gateway", "run",
            env=variables, cwd=tmp_path, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stderr is not None
            async with asyncio.timeout(60):
                while b"is connected" not in (line := await process.stderr.readline()):
                    assert line, "it ended"
            with ModelServer([]) as unused:
                await harness.open(unused, gateway__proxy_url=f"http://127.0.0.1:{port}/v1/")
                await harness.ask("over two machines", "over two machines")
                await harness.close()
        finally:
            process.terminate()
            await process.wait()
    assert process.returncode == 0
