"""What is saved when a conversation is left."""

from pathlib import Path

import pexpect

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.integration.chat.conftest import UNTITLED, at


def note(text: str) -> ToolCall:
    return ToolCall("m1", "memory", f'{{"action":"add","target":"memory","content":"{text}"}}')


def talk(terminal, hermes_home: Path, server: ModelServer, then: str) -> pexpect.spawn:
    (hermes_home / "config.yaml").write_text(f"memory:\n  flush_min_turns: 1\n{UNTITLED}")
    child = terminal("chat", *at(server))
    child.expect("›")
    child.send("I always use tabs\r")
    child.expect("Noted")
    child.expect("›")
    child.send(f"{then}\r")
    return child


def test_a_new_conversation_begins_when_the_old_one_is_saved(terminal, hermes_home: Path) -> None:
    with ModelServer(
        ["Noted.", note("The user uses tabs."), "Saved.", "Tabs, of course."]
    ) as server:
        child = talk(terminal, hermes_home, server, "/new")
        child.expect("A new conversation")
        child.expect("›")
        child.send("how do I indent?\r")
        child.expect("Tabs, of course")
        child.expect("›")
        child.sendeof()
        child.expect(pexpect.EOF)
        first, flushed, _again, second = (call.body for call in server.calls)
    assert flushed["messages"][:2] == first["messages"][:2], "the prompt cache holds"
    assert flushed["tools"] == first["tools"]
    assert "The user uses tabs." in (hermes_home / "memories" / "MEMORY.md").read_text()
    assert [m["role"] for m in second["messages"]] == ["system", "user"]
    assert "The user uses tabs." in second["messages"][0]["content"]


def test_nothing_but_notes_is_written_then(terminal, hermes_home: Path) -> None:
    with ModelServer(
        ["Noted.", ToolCall("x", "terminal", '{"command":"touch no"}'), "Bye."]
    ) as server:
        child = talk(terminal, hermes_home, server, "/new")
        child.expect("A new conversation")
        child.expect("›")
        child.sendeof()
        child.expect(pexpect.EOF)
        assert "only memory" in server.calls[2].body["messages"][-1]["content"]
