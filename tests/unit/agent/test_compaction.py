"""A conversation that no longer fits: it is made shorter, in a session of its own."""

import asyncio
import copy
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hermes.context.engine import ContextEngine, Dicts
from hermes.core.errors import ContextOverflow
from hermes.core.events import Compacted, CompactionStarted, ModelCalled, Notice, TextFinished
from hermes.core.messages import Assistant, Text, ToolCall, User
from hermes.core.model import Usage
from hermes.core.testing import Step
from hermes.core.tool import Tool
from hermes.store import SessionFilter
from tests.unit.agent.conftest import events_of
from tests.unit.context.compressor.talking import GOOD, Script, compressor

SUMMARY = "[CONTEXT COMPACTION] what happened before"


class KeepLast(ContextEngine):
    """Keeps the last `keep` messages and says that there were others."""

    name = "keep-last"

    def __init__(self, threshold: int = 1000, keep: int = 2) -> None:
        self.threshold_tokens, self.context_length, self.keep = threshold, 2 * threshold, keep
        self.given: list[Dicts] = []
        self.topics: list[str] = []

    def update_from_response(self, usage: dict[str, int]) -> None:
        self.last_prompt_tokens = usage["prompt_tokens"]

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return (prompt_tokens or self.last_prompt_tokens) >= self.threshold_tokens

    def compress(
        self, messages: Dicts, current_tokens: int | None = None, focus_topic: str = ""
    ) -> Dicts:
        self.given.append(messages)
        self.topics.append(focus_topic)
        if len(messages) <= self.keep + 2:
            return messages
        self.compression_count += 1
        return [messages[0], {"role": "user", "content": SUMMARY}, *messages[-self.keep :]]


async def look(at: int) -> str:
    return f"seen {at} " + "x" * 300


LOOK = Tool.from_function(look)


def call(number: int, prompt: int = 100) -> Step:
    return Step((ToolCall(f"c{number}", "look", f'{{"at":{number}}}'),), usage=Usage(prompt, 5))


def said(text: str, prompt: int = 100) -> Step:
    return Step((Text(text),), usage=Usage(prompt, 5))


def kinds(events: list[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_long_turn_is_compacted_after_tools_and_continues(script, make_agent, log):
    engine = KeepLast()
    model = script([call(1), call(2, prompt=1100), said("done")])
    agent = make_agent(model, LOOK, engine=engine)
    events = await events_of(agent, "look around")
    (compacted,) = kinds(events, Compacted)
    assert len(kinds(events, CompactionStarted)) == 1
    assert (compacted.messages_before, compacted.messages_after) == (5, 3)
    assert compacted.tokens_after < compacted.tokens_before
    assert agent.session_id == compacted.session_id == events[-1].session_id != "s1"
    sent = model.requests[2].messages
    assert [m.role for m in sent] == ["system", "user", "assistant", "tool"]
    assert sent[0] is model.requests[0].messages[0], "the system prompt stays byte-identical"
    assert sent[2].calls[0].id == "c2"
    old, new = await log.info("s1"), await log.info(agent.session_id)
    assert (old.end_reason, new.parent_id, new.end_reason) == ("compression", "s1", "answered")
    starts = [m.text[:8] for m in await log.messages(agent.session_id)]
    assert starts == [SUMMARY[:8], "", "seen 2 x", "done"]
    assert len(await log.messages("s1")) == 5, "what was said stays in the log"


async def test_long_history_is_compacted_before_the_first_call(script, make_agent):
    history = tuple(User.say(f"{n} " + "word " * 400) for n in range(8))
    model = script([said("ok")])
    agent = make_agent(model, engine=KeepLast(threshold=2000), history=history)
    events = await events_of(agent, "and now?")
    assert [type(e) for e in events].index(Compacted) < [type(e) for e in events].index(ModelCalled)
    [sent] = model.requests[0].messages[1:]
    starts = [paragraph.strip()[:9] for paragraph in sent.text.split("\n\n")]
    assert starts == [SUMMARY[:9], "7 word wo", "and now?"]


async def test_context_overflow_triggers_a_compaction(script, make_agent):
    model = script([call(1), call(2), ContextOverflow("too long"), said("done")])
    engine = KeepLast(threshold=50_000)
    events = await events_of(make_agent(model, LOOK, engine=engine))
    assert events[-1].exit_reason == "answered"
    assert len(kinds(events, Compacted)) == 1
    assert engine.context_length < 100_000, "the window is smaller than was thought"


async def test_overflow_is_reported_if_compaction_does_not_help(script, make_agent):
    model = script([ContextOverflow("too long")])
    end = (await events_of(make_agent(model, engine=KeepLast())))[-1]
    assert (end.exit_reason, end.error) == ("failed", "too long")
    assert "new conversation" in end.hint


@pytest.mark.parametrize(("reply", "most"), [(GOOD, 6), ("I cannot help with that.", 3)])
async def test_a_long_conversation_becomes_few_sessions(make_agent, script, log, reply, most):
    async def look(at: int) -> str:
        return f"seen {at} " + "".join(f"{at * 7 + n} row, " for n in range(190))

    turns, summaries, steps = 50, Script(reply), list[Step]()
    for number in range(turns):
        steps += [call(number), said(f"Step {number} is done: " + "the rows fit. " * 12)]
    # The tools and the prompt of a real agent take 5,100 tokens.
    tool = Tool.from_function(look)
    tool = msgspec.structs.replace(
        tool, spec=msgspec.structs.replace(tool.spec, description="x" * 20_000)
    )
    model = script([msgspec.structs.replace(step, usage=None) for step in steps])
    agent = make_agent(model, tool, engine=compressor(summaries, window=16_000))
    for number in range(turns):
        await events_of(agent, f"Next, step {number}: convert the table of year {1900 + number}.")
    assert len(await log.sessions(SessionFilter(limit=1_000))) <= most
    assert len(summaries.asked) <= most


async def test_shortened_tool_results_stay_in_the_session(script, make_agent, log):
    class Prune(KeepLast):
        def compress(self, messages: Dicts, *_more: Any) -> Dicts:
            return [
                {**each, "content": "[cut]"} if each["role"] == "tool" else each
                for each in messages
            ]

    model = script([call(1), call(2, prompt=1100), said("done"), said("again")])
    agent = make_agent(model, LOOK, engine=Prune())
    events = await events_of(agent, "look around")
    (compacted,) = kinds(events, Compacted)
    assert compacted.session_id == agent.session_id == "s1"
    assert compacted.messages_before == compacted.messages_after
    assert [m.text for m in model.requests[2].messages if m.role == "tool"] == ["[cut]"] * 2
    assert (await log.info("s1")).end_reason == "answered"
    kept = [m.text for m in await log.messages("s1")]
    assert kept == ["look around", "", "[cut]", "", "[cut]", "done"]
    logged = [entry.message.text for entry in await log.log("s1")]
    assert logged[2].startswith("seen 1 x"), "the log has the whole result"
    await events_of(agent, "and now?")
    assert [m.text for m in await log.messages("s1")][-2:] == ["and now?", "again"]


async def test_futile_compactions_are_not_repeated(script, make_agent):
    engine = KeepLast(threshold=10, keep=100)
    model = script([*(call(n, prompt=1000) for n in range(5)), said("done")])
    events = await events_of(make_agent(model, LOOK, engine=engine))
    assert events[-1].exit_reason == "answered"
    assert len(engine.given) == 2
    assert not kinds(events, Compacted)


async def test_user_is_warned_once_near_the_threshold(script, make_agent):
    model = script([call(1, prompt=860), call(2, prompt=870), said("done", prompt=880)])
    events = await events_of(make_agent(model, LOOK, engine=KeepLast(threshold=1300)))
    (warning,) = kinds(events, Notice)
    assert warning.text.startswith("⚠️  Context is ")
    assert "/1,300 tokens)" in warning.text


async def test_user_can_request_a_compaction_with_a_focus(script, make_agent, log):
    engine = KeepLast(threshold=10**6)
    agent = make_agent(script([said("one"), said("two"), said("three")]), engine=engine)
    nothing = await agent.compress()
    assert isinstance(nothing, Notice)
    for text in ("a" * 500, "b" * 500):
        await events_of(agent, text)
    event = await agent.compress("the port")
    assert isinstance(event, Compacted)
    assert engine.topics[-1] == "the port"
    assert agent.session_id == event.session_id
    assert len(agent.history) == 3
    await events_of(agent, "go on")
    assert (await log.messages(event.session_id))[-1].text == "three"


def small_talk(turns: int) -> tuple[Any, ...]:
    pairs = [
        (User.say(f"question {n} {'x' * 90}"), Assistant((Text("yes"),))) for n in range(turns)
    ]
    return tuple(message for pair in pairs for message in pair)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def test_compaction_is_prepared_between_turns(script, make_agent):
    engine = KeepLast(threshold=1000)
    model = script([said("one", prompt=900), said("two", prompt=300)])
    agent = make_agent(model, engine=engine, history=small_talk(5))
    first = await events_of(agent, "a")
    assert not kinds(first, Compacted)
    await until(lambda: agent._compactor._background.done())
    second = await events_of(agent, "b")
    assert len(kinds(second, Compacted)) == 1
    assert not kinds(second, CompactionStarted), "nothing had to be waited for"
    sent = [m.text for m in model.requests[1].messages[1:]]
    assert sent == [f"{SUMMARY}\n\na", "one", "b"]


async def test_result_that_is_refused_between_turns_is_reported(script, make_agent):
    engine = KeepLast(threshold=1000)
    engine.compress = lambda messages, *_given, **_more: messages[1:]  # type: ignore[method-assign]
    model = script([said("one", prompt=900), said("two", prompt=300), said("three", prompt=300)])
    agent = make_agent(model, engine=engine, history=small_talk(5))
    await events_of(agent, "a")
    await until(lambda: agent._compactor._background.done())
    notices = kinds([*await events_of(agent, "b"), *await events_of(agent, "c")], Notice)
    assert sum("without the system prompt" in notice.text for notice in notices) == 1


async def test_slow_preparation_does_not_delay_the_next_turn(script, make_agent):
    release = threading.Event()

    class Slow(KeepLast):
        def compress(self, messages: Dicts, current_tokens: int | None = None) -> Dicts:
            assert release.wait(20)
            return super().compress(messages, current_tokens)

    model = script([said("one", prompt=900), said("two", prompt=950), said("three", prompt=300)])
    agent = make_agent(model, engine=Slow(threshold=1000), history=small_talk(5))
    await events_of(agent, "a")
    second = await events_of(agent, "b")
    assert not kinds(second, Compacted)
    release.set()
    await until(lambda: agent._compactor._background.done())
    third = await events_of(agent, "c")
    assert len(kinds(third, Compacted)) == 1
    sent = [m.text for m in model.requests[2].messages[1:]]
    assert sent == [f"{SUMMARY}\n\na", "one", "b", "two", "c"]


async def test_nothing_is_prepared_without_a_next_turn(script, make_agent):
    engine = KeepLast(threshold=1000)
    agent = make_agent(
        script([said("one", prompt=900)]), engine=engine, history=small_talk(5), has_next_turn=False
    )
    await events_of(agent, "a")
    await asyncio.sleep(0.05)
    assert not engine.given


async def test_stop_cancels_a_compaction(script, make_agent):
    begun, release = threading.Event(), threading.Event()

    class Stuck(KeepLast):
        def compress(self, messages: Dicts, current_tokens: int | None = None) -> Dicts:
            begun.set()
            release.wait(20)
            return messages

    agent = make_agent(script([call(1, prompt=2000)]), LOOK, engine=Stuck())
    events = []
    async for event in agent.run(User.say("go")):
        events.append(event)
        if isinstance(event, CompactionStarted):
            asyncio.get_running_loop().call_later(0.05, agent.interrupt)
    release.set()
    assert begun.is_set()
    assert events[-1].exit_reason == "interrupted"


async def test_engine_may_copy_kept_messages_and_change_others(script, make_agent):
    class Copying(KeepLast):
        def compress(self, messages: Dicts, current_tokens: int | None = None) -> Dicts:
            messages[-1]["content"] = "shorter"
            return [messages[0], *copy.deepcopy(messages[-2:-1]), messages[-1], dict(messages[1])]

    model = script([call(1), call(2, prompt=1100), said("done")])
    await events_of(make_agent(model, LOOK, engine=Copying()), "look around")
    sent = model.requests[2].messages
    assert sent[1].calls[0].id == "c2"
    assert sent[2].text == "shorter"
    assert sent[3] is model.requests[0].messages[1]


class Raises(KeepLast):
    """An engine with a bug."""

    name = "faulty"

    def __init__(self, method: str) -> None:
        super().__init__(threshold=200)

        def fault(*_given: Any, **_more: Any) -> Any:
            raise RuntimeError("out of order")

        setattr(self, method, fault)


@pytest.mark.parametrize("method", ["update_from_response", "should_compress", "compress"])
async def test_raising_engine_is_reported_once_and_turn_continues(script, make_agent, method):
    model = script([call(1, 500), call(2, 500), said("done", 500), said("more", 500)])
    agent = make_agent(model, LOOK, engine=Raises(method))
    events = [*await events_of(agent), *await events_of(agent)]
    assert [event.text for event in events if isinstance(event, TextFinished)] == ["done", "more"]
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert sum("the context engine faulty failed: RuntimeError" in text for text in notices) == 1


@pytest.mark.parametrize(
    ("compress", "problem"),
    [
        (lambda _messages: None, "keep-last failed"),
        (lambda _messages: [], "keep-last returned a conversation without the system prompt"),
        (lambda messages: messages[1:], "without the system prompt"),
        (lambda messages: messages[:1], "without a message of the user"),
        (lambda messages: messages[:2], "without the newest message"),
    ],
)
async def test_invalid_engine_answer_is_reported_once_and_the_turn_continues(
    script, make_agent, compress, problem
):
    engine = KeepLast(threshold=200)
    engine.compress = lambda messages, *_given, **_more: compress(messages)  # type: ignore[method-assign]
    model = script([call(1, 500), call(2, 500), said("done", 500)])
    events = await events_of(make_agent(model, LOOK, engine=engine))
    assert sum(problem in notice.text for notice in kinds(events, Notice)) == 1
    assert [text.text for text in kinds(events, TextFinished)] == ["done"]
    assert events[-1].exit_reason == "answered"
