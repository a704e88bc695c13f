"""Agents are found again by their conversation; text is sent once."""

import asyncio
from typing import Any, cast

from hermes.agent import Agent
from hermes.core.events import Event, TextFinished, UsageReported
from hermes.core.messages import Aside, Assistant, Image, Message, Text, ToolResult, User
from hermes.core.model import FellBack, Retrying, TextDelta, Usage
from hermes.gateway.platforms.api_server.turns import (
    ApiAgentPool,
    AppendOnlyText,
    ConversationDigest,
    session_key,
)


class Leaving:
    def __init__(self) -> None:
        self.left: list[Any] = []

    async def __call__(self, agent: Agent) -> None:
        self.left.append(agent)


def agent(name: str) -> Agent:
    return cast("Agent", name)


async def test_taken_agent_is_not_found_again():
    live = ApiAgentPool(Leaving(), 3)
    live.keep("s1", agent("one"), ("a", "b"))
    kept = live.take("b")
    assert kept is not None
    assert (kept.agent, kept.session_id) == ("one", "s1")
    assert live.take("a") is None
    assert live.count == 0


async def test_oldest_agent_is_closed_and_its_session_remembered():
    leaving = Leaving()
    live = ApiAgentPool(leaving, 2)
    for number in range(3):
        live.keep(f"s{number}", agent(f"agent {number}"), (f"k{number}",))
    await live.wait_closed("s0")
    assert leaving.left == ["agent 0"]
    kept = live.take("k0")
    assert kept is not None
    assert (kept.agent, kept.session_id) == (None, "s0")


async def test_newer_conversation_replaces_one_with_the_same_key():
    leaving = Leaving()
    live = ApiAgentPool(leaving, 9)
    live.keep("s1", agent("one"), ("same", session_key("s1")))
    live.keep("s2", agent("two"), ("same", session_key("s2")))
    await live.wait_closed("s1")
    assert leaving.left == ["one"]
    assert not live.get(session_key("s1"))
    kept = live.take("same")
    assert kept is not None
    assert kept.agent == "two"


async def test_closing_an_agent_does_not_delay_the_request_that_displaces_it():
    may_end, left = asyncio.Event(), []

    async def leave(agent: Agent) -> None:
        await may_end.wait()
        left.append(agent)

    live = ApiAgentPool(leave, 1)
    live.keep("s1", agent("one"), ("a",))
    live.keep("s2", agent("two"), ("b",))
    await asyncio.sleep(0)
    assert left == []
    may_end.set()
    await live.wait_closed("s1")
    assert left == ["one"]
    await live.close()
    assert left == ["one", "two"]


async def test_failure_to_close_an_agent_is_logged(caplog):
    async def leave(_agent: Agent) -> None:
        raise OSError("broken")

    live = ApiAgentPool(leave, 9)
    live.keep("s1", agent("one"), ("a",))
    await live.close()
    assert "could not be closed" in caplog.text


async def test_close_closes_all_agents():
    leaving = Leaving()
    live = ApiAgentPool(leaving, 9)
    live.keep("s1", agent("one"), ("a",))
    live.keep("s2", agent("two"), ("b",))
    await live.close()
    assert sorted(leaving.left) == ["one", "two"]
    assert live.take("a") is None


def key(*messages: Message, around: str = "") -> str:
    digest = ConversationDigest(around)
    digest.add_messages(messages)
    return digest.key


def test_equal_conversations_have_the_same_key():
    said = (User.say("hi"), Assistant((Text("Hello!"),)))
    assert key(*said) == key(User.say(" hi\n"), Assistant((Text("Hello! "),)))
    digest = ConversationDigest("")
    digest.add_messages(said[:1])
    assert digest.key_after("assistant", "Hello!") == key(*said)
    aside = User((Text("hi"), Aside("by the way")))
    assert key(aside, said[1]) == key(*said)


def test_different_conversations_have_different_keys():
    variants = [
        key(User.say("hi")), key(User.say("hi"), around="another system prompt"),
        key(User.say("hi"), Assistant((Text("hi"),))), key(User.say("h"), User.say("i")),
        key(User((Text("h"), Text("i")))),
        key(User((Text("hi"), Image("data:image/png;base64,AA==")))), key(Assistant((Text("hi"),))),
        key(ToolResult("c1", "t", "hi")), key(ToolResult("c2", "t", "hi")), key(),
    ]  # fmt: skip
    assert len(set(variants)) == len(variants)


AGAIN = Retrying("cut", 1, 0.1)


def spoken(*events: Event | str) -> str:
    """`str` stands for a delta."""
    speech = AppendOnlyText()
    sent = [speech.feed(TextDelta(event) if isinstance(event, str) else event) for event in events]
    assert "".join(sent) == speech.text
    return speech.text


def test_deltas_are_sent_as_they_arrive():
    assert spoken("Hello ", "there", TextFinished("Hello there")) == "Hello there"


def test_reply_without_deltas_is_sent():
    assert spoken(TextFinished("whole")) == "whole"


def test_replies_of_one_turn_are_separated():
    assert spoken("a", TextFinished("a"), "b", TextFinished("b")) == "a\n\nb"


def test_truncated_reply_is_continued_without_separator():
    cut = UsageReported(Usage(), finish_reason="length")
    assert spoken("Hel", TextFinished("Hel"), cut, "lo", TextFinished("lo")) == "Hello"


def test_retry_repeats_no_text():
    assert spoken("Hello", AGAIN, "Hel", "lo the", "re", TextFinished("Hello there")) == (
        "Hello there"
    )


def test_different_text_of_a_fallback_model_is_appended():
    other = FellBack("p", "m", "gone")
    assert spoken("Hello", other, "Go", "od day", TextFinished("Good day")) == ("Hello\n\nGood day")


def test_shorter_text_of_a_retry_removes_nothing():
    assert spoken("Hello there", AGAIN, "Hello", TextFinished("Hello")) == "Hello there"
