"""Reviews of a finished conversation: their tool calls pass the same policy as all others."""

from pathlib import Path

import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer

NOTE = ToolCall("m1", "memory", '{"action":"add","target":"memory","content":"Uses tabs."}')
FLUSHING = "memory:\n  flush_min_turns: 1\n"


@pytest.mark.parametrize(("rule", "saved"), [("allow", 1), ("ask", 0), ("deny", 0)])
async def test_memory_flush_obeys_the_approval_rules(talking, hermes_home, rule, saved) -> None:
    settings = f"{FLUSHING}approvals:\n  effects: {{memory: {rule}}}\n"
    with ModelServer(["Noted.", NOTE, "Done."]) as server:
        async with talking(server, settings) as talk:
            await talk.say("I use tabs")
            assert await talk.app.flush(talk.agent) == saved
            stored = await talk.app.store.messages(talk.agent.session_id)
    assert (hermes_home / "memories" / "MEMORY.md").exists() == bool(saved)
    assert [type(message).__name__ for message in stored] == ["User", "Assistant"]


async def test_hooks_see_the_calls_of_a_review(talking, hermes_home: Path, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    hooks = f"hooks:\n  pre_tool_call:\n    - command: tee -a {log}\n"
    with ModelServer(["Noted.", NOTE, "Done."]) as server:
        async with talking(server, f"{FLUSHING}{hooks}hooks_auto_accept: true\n") as talk:
            await talk.say("I use tabs")
            assert await talk.app.flush(talk.agent) == 1
    assert '"memory"' in log.read_text()
