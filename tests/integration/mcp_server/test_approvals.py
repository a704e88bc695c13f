"""Approvals of a gateway, answered by an MCP client in another process."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import UsageError
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer, Step
from hermes.mcp_server import ConversationService
from hermes.security import Redactor
from hermes.store import open_store
from hermes.util.concurrency import SystemClock
from tests.fakes.local.server import LocalServer
from tests.integration.gateway.chats.conftest import LONG, harness
from tests.screens.chat import HERMES

__all__ = ["harness"]

RISKY = Step((ToolCall("c1", "terminal", '{"command": "rm -rf junk"}'),))
AGAIN = Step((ToolCall("c2", "terminal", '{"command": "rm -rf junk"}'),))
OTHER = Step((ToolCall("c3", "terminal", '{"command": "rm -rf other"}'),))


@pytest.fixture
def cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Anna, who is the owner, works."""
    monkeypatch.setenv("LOCAL_ALLOWED_USERS", "anna")
    folder = tmp_path / "work"
    for name in ("junk", "other"):
        (folder / name).mkdir(parents=True)
    return folder


@asynccontextmanager
async def gateway_process() -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(*HERMES, "gateway", "run", "--quiet"),
        stdin=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def shown(platform: LocalServer, text: str, times: int = 1) -> None:
    async with asyncio.timeout(LONG):
        while sum(text in each.text for each in platform.shown("anna")) < times:
            await asyncio.sleep(0.02)


async def call(client, tool: str, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    return result.structured_content


async def next_event(client, cursor: str, kind: str) -> tuple[dict, str]:
    """The next event of a kind, and the cursor after it."""
    async with asyncio.timeout(LONG):
        while True:
            found = await call(client, "events_wait", after_cursor=cursor, limit=1)
            cursor = found["next_cursor"]
            if found["events"] and found["events"][0]["type"] == kind:
                return found["events"][0], cursor


async def test_client_answers_a_question_of_a_gateway_that_was_killed_and_restarted(
    connect, home: Home, cwd: Path, tmp_path: Path
):
    platform = LocalServer()
    await platform.listen(tmp_path / "s")
    with ModelServer([RISKY, AGAIN, "removed"]) as server:
        settings = {
            "model": {"provider": "custom", "base_url": f"{server.url}/v1", "default": "m"},
            "sessions": {"auto_title": False},
            "display": {"tool_progress": "off"},
            "gateway": {"terminal": "local", "cwd": str(cwd)},
        }
        (home.root / "config.yaml").write_text(json.dumps(settings))
        first = await connect("stdio")
        cursor = (await call(first, "events_poll"))["next_cursor"]
        async with gateway_process() as gateway:
            platform.say("anna", "anna", "clean up")
            asked, cursor = await next_event(first, cursor, "approval_requested")
            assert "rm -rf junk" in asked["text"]
            assert "terminal wants to run this:" in asked["text"]
            (opened,) = (await call(first, "permissions_list_open"))["approvals"]
            assert opened["id"] == asked["id"]
            assert opened["asked_in"] == "local:anna"
            gateway.kill()
            await gateway.wait()
        lost, cursor = await next_event(first, cursor, "approval_resolved")
        assert (lost["id"], lost["answer"]) == (asked["id"], "expired")
        late = await first.call_tool("permissions_respond", {"id": asked["id"], "decision": "once"})
        assert late.is_error
        assert "has expired" in late.content[0].text
        assert (cwd / "junk").exists()

        second = await connect("http", "legacy")
        async with gateway_process():
            again, cursor = await next_event(second, cursor, "approval_requested")
            assert again["id"] != asked["id"]
            answers = await asyncio.gather(
                *(
                    client.call_tool("permissions_respond", {"id": again["id"], "decision": "once"})
                    for client in (first, second)
                )
            )
            assert sorted(bool(each.is_error) for each in answers) == [False, True]
            (accepted,) = [each.structured_content for each in answers if not each.is_error]
            assert accepted == {**accepted, "accepted": True, "answer": "once", "by": "mcp"}
            await shown(platform, "removed")
            assert not (cwd / "junk").exists()
            await shown(platform, "Allowed once. (answered by an MCP client)")
            done, cursor = await next_event(second, cursor, "approval_resolved")
            assert (done["id"], done["answer"], done["by"]) == (again["id"], "once", "mcp")
            assert (await call(second, "permissions_list_open"))["approvals"] == []

            for client in (first, second):
                sent = await call(
                    client, "messages_send", target="local:anna", message="soup", key="soup"
                )
                assert (sent["state"], sent["gateway_running"]) == ("sent", True)
            assert [each.text for each in platform.shown("anna")].count("soup") == 1
    await platform.close()


async def test_answer_in_the_chat_and_answer_of_a_client_count_once(harness, cwd):
    await harness.open([RISKY, OTHER, "done"], gateway__terminal="local", gateway__cwd=str(cwd))
    home = Home(harness.home)
    store = open_store("", home.state_db)
    service = ConversationService(home, load(home), store, SystemClock(), Redactor())
    harness.say("clean up")
    await harness.wait_for("rm -rf junk")

    async def open_approval() -> dict:
        async with asyncio.timeout(LONG):
            while not (found := (await service.permissions_list_open())["approvals"]):
                await asyncio.sleep(0.02)
        return found[0]

    first = await open_approval()
    harness.say("/deny")
    await harness.wait_for("rm -rf other")
    with pytest.raises(UsageError, match="was answered already: deny"):
        await service.permissions_respond(first["id"], "once", "", confirm=False)
    second = await open_approval()
    assert second["id"] != first["id"]
    done = await service.permissions_respond(second["id"], "deny", "", confirm=False)
    assert (done["accepted"], done["answer"]) == (True, "deny")
    await harness.wait_for("done")
    assert (cwd / "junk").exists()
    assert (cwd / "other").exists()
    harness.say("/approve")
    await harness.wait_for("no approval is pending")
    store.close()


async def test_question_that_is_withdrawn_is_reported_as_expired(harness, cwd):
    await harness.open([RISKY], gateway__terminal="local", gateway__cwd=str(cwd))
    home = Home(harness.home)
    store = open_store("", home.state_db)
    service = ConversationService(home, load(home), store, SystemClock(), Redactor())
    harness.say("clean up")
    await harness.wait_for("rm -rf junk")
    harness.say("/stop")
    async with asyncio.timeout(LONG):
        while not (found := (await service.events_poll("0", "", 50))["events"]) or (
            found[-1]["type"] != "approval_resolved"
        ):
            await asyncio.sleep(0.05)
    assert found[-1]["answer"] == "expired"
    assert (await service.permissions_list_open())["approvals"] == []
    store.close()
