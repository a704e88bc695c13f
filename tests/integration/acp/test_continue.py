"""One conversation in an editor, in the terminal and in a chat."""

import asyncio

from tests.integration.acp.test_sdk_client import said
from tests.integration.gateway.chats.conftest import harness
from tests.screens.chat import HERMES

__all__ = ["harness"]


async def test_a_conversation_goes_on_in_the_terminal_and_in_a_chat(
    editor, work, harness, monkeypatch
):
    monkeypatch.setenv("LOCAL_ALLOWED_USERS", "anna")  # so she is the owner
    await harness.open(None, gateway__terminal="local", gateway__cwd=str(work))
    async with editor(harness.server) as e:
        session = await e.agent.new_session(cwd=str(work), mcp_servers=[])
        await e.agent.prompt(session_id=session.session_id, prompt=said("first, in the editor"))
        await e.agent.close_session(session_id=session.session_id)

        command = (*HERMES, "chat", "-Q", "--resume", session.session_id, "-q", "second, typed")
        terminal = await asyncio.create_subprocess_exec(
            *command, cwd=work, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        output, errors = await terminal.communicate()
        assert terminal.returncode == 0, errors.decode()
        assert b"second, typed" in output

        await harness.ask(f"/resume {session.session_id}", "Back in")
        await harness.ask("third, in a chat", "third, in a chat")

        await e.agent.load_session(cwd=str(work), mcp_servers=[], session_id=session.session_id)
        shown = [each.content.text for each in e.of("user_message_chunk")]
        assert shown == ["first, in the editor", "second, typed", "third, in a chat"]
        await e.agent.prompt(session_id=session.session_id, prompt=said("fourth"))
        sent = harness.server.calls[-1].body["messages"]
    assert [m["content"] for m in sent if m["role"] == "user"] == [*shown, "fourth"]
