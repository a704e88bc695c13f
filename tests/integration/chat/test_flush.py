"""What is saved when a conversation is left."""

from pathlib import Path

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.integration.chat.conftest import UNTITLED, at
from tests.screens.chat import Chat


def note(text: str) -> ToolCall:
    return ToolCall("m1", "memory", f'{{"action":"add","target":"memory","content":"{text}"}}')


def begun_anew(screen, hermes_home: Path, server: ModelServer) -> Chat:
    (hermes_home / "config.yaml").write_text(f"memory:\n  flush_min_turns: 1\n{UNTITLED}")
    it = screen("chat", *at(server)).ready()
    it.ask("I always use tabs", "Noted").ask("/new", "A new conversation")
    return it


def test_a_new_conversation_begins_when_the_old_one_is_saved(screen, hermes_home: Path) -> None:
    with ModelServer(
        ["Noted.", note("The user uses tabs."), "Saved.", "Tabs, of course."]
    ) as server:
        it = begun_anew(screen, hermes_home, server)
        it.ask("how do I indent?", "Tabs, of course")
        assert it.leave() == 0
        first, flushed, _again, second = (call.body for call in server.calls)
    assert flushed["messages"][:2] == first["messages"][:2], "the prompt cache holds"
    assert flushed["tools"] == first["tools"]
    assert "The user uses tabs." in (hermes_home / "memories" / "MEMORY.md").read_text()
    assert [m["role"] for m in second["messages"]] == ["system", "user"]
    assert "The user uses tabs." in second["messages"][0]["content"]


def test_nothing_but_notes_is_written_then(screen, hermes_home: Path) -> None:
    with ModelServer(
        ["Noted.", ToolCall("x", "terminal", '{"command":"touch no"}'), "Bye."]
    ) as server:
        assert begun_anew(screen, hermes_home, server).leave() == 0
        assert "only memory" in server.calls[2].body["messages"][-1]["content"]
