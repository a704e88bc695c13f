"""What was sent once is read from the endpoint's cache ever after."""

from itertools import pairwise

import pytest

from hermes.core.messages import (
    Assistant,
    Image,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from hermes.core.model import ModelRequest, ToolSpec
from hermes.core.testing import ModelServer
from tests.cases import table_test
from tests.unit.providers.wire.calling import ask, body_of, wire

TOOL = ToolSpec("read", "Read a file. " * 40, {"type": "object", "properties": {"path": {}}})
MARK = {"type": "ephemeral"}


@table_test
@pytest.mark.parametrize("calls", [1, 2, 15])
async def test_a_tool_conversation_is_read_from_the_cache(client, mode, marks, calls):
    script = [
        [ToolCall(f"c{step}-{call}", "read", '{"path":"a"}') for call in range(calls)]
        for step in range(10)
    ]
    messages = [System("You are an assistant. " * 300), User.say("go")]
    usages = []
    with ModelServer([*script, "done"]) as server:
        model = wire(server, client, mode, cache_marks=marks)
        for _ in range(11):
            _, reply = await ask(model, ModelRequest(tuple(messages), (TOOL,)))
            usages.append(reply.usage)
            messages.append(reply.message)
            messages += [ToolResult(c.id, "read", "y" * 3000) for c in reply.message.calls]
        report = server.session_report()
    for before, now in pairwise(usages):
        assert now.cache_read >= before.prompt - 128
    assert report.read_share > 0.7


def history(*more) -> ModelRequest:
    return ModelRequest((System("s"), User.say("one"), Assistant((Text("two"),)), *more))


def marked(body: dict) -> list[str]:
    """The texts that carry a mark."""
    blocks = [*body.get("system", ())]
    for message in body["messages"]:
        blocks += message["content"] if isinstance(message["content"], list) else ()
    return [block.get("text") or block["type"] for block in blocks if "cache_control" in block]


@pytest.mark.parametrize("mode", ["chat_completions", "anthropic_messages"])
class TestMarks:
    def test_the_system_prompt_and_the_last_three_messages_are_marked(self, mode):
        request = history(User.say("three"), Assistant((Text("four"),)), User.say("five"))
        body = body_of(mode, request, cache_marks=True)
        assert marked(body) == ["s", "three", "four", "five"]

    def test_without_a_system_prompt_the_last_four_are(self, mode):
        texts = [User.say("1"), Assistant((Text("2"),)), User.say("3"), Assistant((Text("4"),))]
        body = body_of(mode, ModelRequest((*texts, User.say("5"))), cache_marks=True)
        assert marked(body) == ["2", "3", "4", "5"]

    def test_a_message_that_cannot_carry_a_mark_gives_its_slot_away(self, mode):
        silent = Assistant((Thinking("hm"),), "stop")
        body = body_of(mode, history(User.say("3"), silent, User.say("")), cache_marks=True)
        assert marked(body) == ["s", "one", "two", "3"]

    def test_a_picture_can_carry_one(self, mode):
        picture = User((Text("see"), Image("https://x.example/a.png"), Text(" ")))
        body = body_of(mode, ModelRequest((picture,)), cache_marks=True)
        assert marked(body)[0].startswith("image")

    def test_the_longer_life_is_asked_for(self, mode):
        body = body_of(mode, history(), cache_marks=True, cache_ttl="1h")
        last = body["messages"][-1]["content"][-1]
        assert last["cache_control"] == {"type": "ephemeral", "ttl": "1h"}

    def test_nothing_is_marked_unless_the_model_needs_it(self, mode):
        assert "cache_control" not in str(body_of(mode, history(), cache_ttl="1h"))


def test_behind_chat_completions_the_last_result_of_a_reply_is_marked():
    calls = Assistant((ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")), "tool_calls")
    request = history(User.say("go"), calls, ToolResult("a", "f", "1"), ToolResult("b", "f", "2"))
    messages = body_of("chat_completions", request, cache_marks=True)["messages"]
    assert messages[-1] == {
        "role": "tool",
        "tool_call_id": "b",
        "content": [{"type": "text", "text": "2", "cache_control": MARK}],
    }
    assert messages[-2]["content"] == "1"
    assert messages[-3]["content"] is None
