"""A conversation that grows finds its agent again, and nobody else does."""

from typing import Any, cast

from hermes.agent import Agent
from hermes.core.messages import Aside, Assistant, Image, Message, Text, ToolResult, User
from hermes.gateway.platforms.api_server.turns import Fingerprint, LiveAgents, session_key


class Leaving:
    def __init__(self) -> None:
        self.left: list[Any] = []

    async def __call__(self, agent: Agent) -> None:
        self.left.append(agent)


def agent(name: str) -> Agent:
    return cast("Agent", name)


async def test_who_takes_an_agent_has_it_alone() -> None:
    live = LiveAgents(Leaving(), 3)
    await live.keep("s1", agent("one"), ("a", "b"))
    slot = live.take("b")
    assert slot is not None
    assert (slot.agent, slot.session_id) == ("one", "s1")
    assert live.take("a") is None
    assert live.count == 0


async def test_beyond_the_most_the_oldest_is_left_and_its_session_remembered() -> None:
    leaving = Leaving()
    live = LiveAgents(leaving, 2)
    for number in range(3):
        await live.keep(f"s{number}", agent(f"agent {number}"), (f"k{number}",))
    assert leaving.left == ["agent 0"]
    slot = live.take("k0")
    assert slot is not None
    assert (slot.agent, slot.session_id) == (None, "s0")


async def test_another_conversation_of_the_same_words_takes_the_place() -> None:
    leaving = Leaving()
    live = LiveAgents(leaving, 9)
    await live.keep("s1", agent("one"), ("same", session_key("s1")))
    await live.keep("s2", agent("two"), ("same", session_key("s2")))
    assert leaving.left == ["one"]
    assert not live.knows(session_key("s1"))
    slot = live.take("same")
    assert slot is not None
    assert slot.agent == "two"


async def test_all_are_left_at_the_end() -> None:
    leaving = Leaving()
    live = LiveAgents(leaving, 9)
    await live.keep("s1", agent("one"), ("a",))
    await live.keep("s2", agent("two"), ("b",))
    await live.close()
    assert sorted(leaving.left) == ["one", "two"]
    assert live.take("a") is None


def key(*messages: Message, around: str = "") -> str:
    return Fingerprint(around).added(messages).key


def test_the_same_words_make_the_same_key() -> None:
    said = (User.say("hi"), Assistant((Text("Hello!"),)))
    assert key(*said) == key(User.say(" hi\n"), Assistant((Text("Hello! "),)))
    assert Fingerprint("").added(said[:1]).and_then("assistant", "Hello!") == key(*said)
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
