"""What runs around turns: hooks and memory at the end of a turn, reviews afterwards."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermes.app.turn_hooks import (
    SessionHooks,
    SessionMemory,
    clean_title,
    last_question,
    last_tool_results,
)
from hermes.core.events import TurnFinished
from hermes.core.messages import Assistant, Text, ToolCall, ToolResult, User
from hermes.core.model import Usage
from hermes.core.ports import HookName

HISTORY = (
    User.say("first"),
    ToolResult("c0", "old", "long ago"),
    Assistant((Text("one"),)),
    User.say("second").with_aside("the weather"),
    ToolResult("c1", "read", "page"),
    ToolResult("c2", "read", "next page"),
    Assistant((Text("two"),)),
)
END = TurnFinished("s1", "answered", "two", Usage(), 1)


class Heard:
    """Listens to everything, as hooks and as the manager of a memory provider."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def listens(self, _name: HookName) -> bool:
        return True

    async def fire(self, name: HookName, **details: Any) -> list[Any]:
        self.calls.append((name, details.get("user_message")))
        return []

    def sync_all(self, asked: str, answer: str, *, session_id: str) -> None:
        self.calls.append((asked, answer, session_id))

    def queue_prefetch_all(self, asked: str, *, session_id: str) -> None:
        self.calls.append((asked, session_id))


def test_the_last_question_and_its_calls_are_found() -> None:
    assert last_question(HISTORY) == "second"
    assert [call.text for call in last_tool_results(HISTORY)] == ["page", "next page"]
    assert (last_question(()), last_tool_results(())) == ("", [])


async def test_hooks_of_a_resumed_turn_get_its_question() -> None:
    agent: Any = SimpleNamespace(history=HISTORY, session_id="s1")
    hooks, manager = Heard(), Heard()
    current: Any = SimpleNamespace(session_id="s1", main=SimpleNamespace(model="lab"))
    session = SessionHooks(hooks, current, "cli", new=False)
    await session.on_turn_end(agent, END)
    assert hooks.calls[0] == (HookName.POST_LLM_CALL, "second")
    await SessionMemory(manager, (), "").on_turn_end(agent, END)
    assert manager.calls == [("second", "two", "s1"), ("second", "s1")]


NOTE = ToolCall("m1", "memory", '{"action":"add","target":"memory","content":"Uses tabs."}')
FLUSHING = "memory:\n  flush_min_turns: 1\n"
SCRIPT = ["Noted.", NOTE, "Done."]


@pytest.mark.parametrize(("rule", "saved"), [("allow", 1), ("ask", 0), ("deny", 0)])
async def test_memory_flush_obeys_the_approval_rules(talking, hermes_home, rule, saved) -> None:
    settings = f"{FLUSHING}approvals:\n  effects: {{memory: {rule}}}\n"
    async with talking(SCRIPT, settings) as talk:
        await talk.say("I use tabs")
        assert await talk.app.flush(talk.agent) == saved
        stored = await talk.app.store.messages(talk.agent.session_id)
    assert (hermes_home / "memories" / "MEMORY.md").exists() == bool(saved)
    assert [type(message).__name__ for message in stored] == ["User", "Assistant"]


async def test_hooks_see_the_calls_of_a_review(talking, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    command = f"sh -c 'cat >> {log}'"
    hooks = f"hooks:\n  pre_tool_call:\n    - command: {command}\nhooks_auto_accept: true\n"
    allowed = "approvals:\n  effects: {memory: allow}\n"
    async with talking(SCRIPT, FLUSHING + hooks + allowed) as talk:
        await talk.say("I use tabs")
        assert await talk.app.flush(talk.agent) == 1
    assert '"memory"' in log.read_text()


@pytest.mark.parametrize(
    ("reply", "title"),
    [
        ("Counting Python files", "Counting Python files"),
        ('Title: "Shopping list."', "Shopping list"),
        ("**Title:** Shopping list", "Shopping list"),
        ("User: look at @nums.txt:1-3", "look at @nums.txt:1-3"),
        ("User: hello **bold** `code", "hello bold code"),
        ("# Assistant: A [link](http://example.org) to `x.py`", "A link to x.py"),
        ("Shopping list\nThis title fits.", "Shopping list"),
        ("# Plan\n\n1. Read the file.\n2. Write it.", ""),
        ("## Summary\nThere are twelve files.", ""),
        ("I'm sorry, I cannot do that", ""),
        ('"I can\'t help with this request."', ""),
        ("**Sorry, I am not able to do so**", ""),
        ("Es tut mir leid, dabei kann ich nicht helfen.", ""),
        ("Sorry state of the parser", "Sorry state of the parser"),
        ("Der Nutzer: eine Frage", "Der Nutzer: eine Frage"),
        ("User interfaces in Python", "User interfaces in Python"),
        ("\n \n", ""),
        ("word " * 40, "word " * 15 + "word…"),
    ],
)
def test_titles_are_cleaned_of_prefixes_and_markdown(reply: str, title: str) -> None:
    assert clean_title(reply) == title
