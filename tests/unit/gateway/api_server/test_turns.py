"""Agents are found again by their conversation; text is sent once."""

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


async def test_who_takes_an_agent_has_it_alone() -> None:
    live = ApiAgentPool(Leaving(), 3)
    await live.keep("s1", agent("one"), ("a", "b"))
    kept = live.take("b")
    assert kept is not None
    assert (kept.agent, kept.session_id) == ("one", "s1")
    assert live.take("a") is None
    assert live.count == 0


async def test_beyond_the_most_the_oldest_is_left_and_its_session_remembered() -> None:
    leaving = Leaving()
    live = ApiAgentPool(leaving, 2)
    for number in range(3):
        await live.keep(f"s{number}", agent(f"agent {number}"), (f"k{number}",))
    assert leaving.left == ["agent 0"]
    kept = live.take("k0")
    assert kept is not None
    assert (kept.agent, kept.session_id) == (None, "s0")


async def test_another_conversation_of_the_same_words_takes_the_place() -> None:
    leaving = Leaving()
    live = ApiAgentPool(leaving, 9)
    await live.keep("s1", agent("one"), ("same", session_key("s1")))
    await live.keep("s2", agent("two"), ("same", session_key("s2")))
    assert leaving.left == ["one"]
    assert not live.has(session_key("s1"))
    kept = live.take("same")
    assert kept is not None
    assert kept.agent == "two"


async def test_all_are_left_at_the_end() -> None:
    leaving = Leaving()
    live = ApiAgentPool(leaving, 9)
    await live.keep("s1", agent("one"), ("a",))
    await live.keep("s2", agent("two"), ("b",))
    await live.close()
    assert sorted(leaving.left) == ["one", "two"]
    assert live.take("a") is None


def key(*messages: Message, around: str = "") -> str:
    digest = ConversationDigest(around)
    digest.add_messages(messages)
    return digest.key


def test_the_same_words_make_the_same_key() -> None:
    said = (User.say("hi"), Assistant((Text("Hello!"),)))
    assert key(*said) == key(User.say(" hi\n"), Assistant((Text("Hello! "),)))
    digest = ConversationDigest("")
    digest.add_messages(said[:1])
    assert digest.key_after("assistant", "Hello!") == key(*said)
    aside = User((Text("hi"), Aside("by the way")))
    assert key(aside, said[1]) == key(*said)


def test_anything_else_makes_another() -> None:
    variants = [
        key(User.say("hi")),
        key(User.say("hi"), around="another system prompt"),
        key(User.say("hi"), Assistant((Text("hi"),))),
        key(User.say("h"), User.say("i")),
        key(User((Text("h"), Text("i")))),
        key(User((Text("hi"), Image("data:image/png;base64,AA==")))),
        key(Assistant((Text("hi"),))),
        key(ToolResult("c1", "t", "hi")),
        key(ToolResult("c2", "t", "hi")),
        key(),
    ]
    assert len(set(variants)) == len(variants)


AGAIN = Retrying("cut", 1, 0.1)


def spoken(*events: Event | str) -> str:
    """`str` stands for a delta."""
    speech = AppendOnlyText()
    sent = [speech.feed(TextDelta(event) if isinstance(event, str) else event) for event in events]
    assert "".join(sent) == speech.text
    return speech.text


def test_text_comes_as_it_is_said() -> None:
    assert spoken("Hello ", "there", TextFinished("Hello there")) == "Hello there"


def test_a_reply_that_came_in_one_piece_is_sent_too() -> None:
    assert spoken(TextFinished("whole")) == "whole"


def test_replies_of_one_turn_are_apart() -> None:
    assert spoken("a", TextFinished("a"), "b", TextFinished("b")) == "a\n\nb"


def test_a_reply_that_was_cut_goes_on_in_the_same_word() -> None:
    cut = UsageReported(Usage(), finish_reason="length")
    assert spoken("Hel", TextFinished("Hel"), cut, "lo", TextFinished("lo")) == "Hello"


def test_a_call_made_again_repeats_nothing() -> None:
    assert spoken("Hello", AGAIN, "Hel", "lo the", "re", TextFinished("Hello there")) == (
        "Hello there"
    )


def test_another_model_that_says_something_else_is_heard_after_it() -> None:
    other = FellBack("p", "m", "gone")
    assert spoken("Hello", other, "Go", "od day", TextFinished("Good day")) == ("Hello\n\nGood day")


def test_a_second_try_that_says_less_takes_nothing_back() -> None:
    assert spoken("Hello there", AGAIN, "Hello", TextFinished("Hello")) == "Hello there"
