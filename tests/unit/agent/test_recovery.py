"""Replies that cannot be the end of a turn, and turns that were broken off."""

import asyncio
from typing import Any

import pytest

from hermes.agent.turn import IterationBudget
from hermes.core.errors import UsageError
from hermes.core.events import Notice, ToolFinished, TurnFinished
from hermes.core.marks import STEERED
from hermes.core.messages import Assistant, Text, Thinking, ToolCall, ToolResult, User
from hermes.core.testing import Step
from hermes.core.tool import Tool
from tests.unit.agent.conftest import events_of


def cut(text: str) -> Step:
    return Step((Text(text),), "length")


def look(number: int = 1) -> ToolCall:
    return ToolCall(f"c{number}", "look", f'{{"at":{number}}}')


async def seen(at: int) -> str:
    return f"seen {at}"


seen.__name__ = "look"
LOOK = Tool.from_function(seen)


async def test_a_reply_cut_by_the_output_limit_goes_on(script, make_agent, log):
    model = script([cut("one, two, "), cut("three, "), "four."])
    end = (await events_of(make_agent(model), "count"))[-1]
    assert (end.exit_reason, end.text, end.completed) == (
        "answered",
        "one, two, three, four.",
        True,
    )
    told = model.requests[1].messages[-1]
    assert isinstance(told, User) and "cut off" in told.text
    assert [m.role for m in await log.messages("s1")] == [
        "user",
        *["assistant", "user"] * 2,
        "assistant",
    ]


async def test_a_reply_that_never_ends_is_partial(script, make_agent):
    end = (await events_of(make_agent(script([cut(f"{n} ") for n in range(4)]))))[-1]
    assert (end.exit_reason, end.text, end.partial) == ("truncated", "0 1 2 3", True)


async def test_an_answer_after_tools_does_not_begin_with_what_was_said_before(script, make_agent):
    model = script([cut("let me "), Step((Text("look."), look())), "done"])
    end = (await events_of(make_agent(model, LOOK)))[-1]
    assert end.text == "done"


@pytest.mark.parametrize("empty", [(Text("  "),), (Thinking("hm"),), ()])
async def test_a_reply_without_text_is_asked_again(script, make_agent, empty):
    model = script([Step(empty), "here it is"])
    end = (await events_of(make_agent(model)))[-1]
    assert (end.exit_reason, end.text) == ("answered", "here it is")
    assert "no text" in model.requests[1].messages[-1].text


async def test_a_model_that_stays_silent_ends_the_turn_plainly(script, make_agent):
    end = (await events_of(make_agent(script([Step(())] * 3))))[-1]
    assert (end.exit_reason, end.text, end.error) == ("empty", "(empty)", "")


async def test_calls_that_can_never_run_end_the_turn(script, make_agent):
    wrong = [ToolCall(f"c{n}", f"no_such_{n}", "{}") for n in range(6)]
    model = script([*wrong, "I cannot do it"])
    end = (await events_of(make_agent(model, LOOK)))[-1]
    assert (end.exit_reason, end.text) == ("repeating", "I cannot do it")


async def test_the_users_word_reaches_the_running_turn(script, make_agent, log):
    model = script([look(), "as you wish"])
    agent = make_agent(model, LOOK)
    events = []
    async for event in agent.run(User.say("go")):
        events.append(event)
        if isinstance(event, ToolFinished):
            assert agent.steer("in French, please")
    assert model.requests[1].messages[-1] == User.say(f"{STEERED}\nin French, please")
    assert any(isinstance(event, Notice) for event in events)
    assert [m.role for m in await log.messages("s1")][-2:] == ["user", "assistant"]


async def test_a_word_said_during_the_answer_gets_an_answer_of_its_own(script, make_agent):
    model = script(["done", "also in French: fini"])
    agent = make_agent(model)
    async for event in agent.run(User.say("go")):
        if type(event).__name__ == "TextFinished" and event.text == "done":
            agent.steer("in French too")
    assert event.text == "also in French: fini"


async def test_without_a_turn_there_is_nothing_to_steer(script, make_agent):
    agent = make_agent(script([]))
    assert not agent.steer("hello?")


async def test_a_broken_turn_goes_on_without_a_new_message(script, make_agent, log):
    history = (
        User.say("go"),
        Assistant((look(),), "tool_calls"),
        ToolResult("c1", "look", "seen 1"),
    )
    model = script(["it is there"])
    agent = make_agent(model, LOOK, history=history, broken_off=True)
    assert agent.broken_off
    events = [event async for event in agent.resume()]
    assert events[-1].text == "it is there"
    assert model.requests[0].messages[1:] == history
    assert [m.role for m in await log.messages("s1")] == ["assistant"]
    assert not agent.broken_off
    with pytest.raises(UsageError, match="no turn to go on with"):
        await anext(agent.resume())


async def test_a_turn_and_its_helpers_share_one_budget(script, make_agent):
    budget = IterationBudget(3)
    budget.used = 2
    model = script([look(1), "that is all"])
    end = (await events_of(make_agent(model, LOOK, budget=budget)))[-1]
    assert (end.exit_reason, end.text, budget.left) == ("iteration_budget", "that is all", 0)


async def test_every_turn_has_the_whole_budget_again(script, make_agent):
    model = script([look(1), "one", look(2), "two"])
    agent = make_agent(model, LOOK, max_iterations=2)
    ends = [(await events_of(agent, text))[-1] for text in ("a", "b")]
    assert [end.exit_reason for end in ends] == ["answered", "answered"]


async def test_asides_are_sent_and_not_stored(script, make_agent, log):
    async def aside(history, question):
        return f"({len(history)} before {question.text})"

    model = script(["one", "two"])
    agent = make_agent(
        model,
        aside=aside,
        ephemeral_system="speak softly",
        prefill=(User.say("hi"), Assistant((Text("hello"),))),
    )
    await events_of(agent, "first")
    await events_of(agent, "second")
    sent = model.requests[1].messages
    assert sent[0].text == "be brief\n\nspeak softly"
    assert [m.text for m in sent[1:3]] == ["hi", "hello"]
    assert sent[3].text == "first\n\n(0 before first)"
    assert sent[:4] == model.requests[0].messages, "the prefix stays what it was"
    stored = await log.messages("s1")
    assert [m.text for m in stored] == ["first", "one", "second", "two"]


async def test_a_turn_is_stopped_while_what_is_said_beside_is_looked_for(script, make_agent, log):
    async def aside(_history, _question):
        agent.interrupt()
        await asyncio.Event().wait()

    agent = make_agent(script([]), aside=aside)
    events = await events_of(agent, "hello")
    assert events[-1].exit_reason == "interrupted"
    assert [m.text for m in await log.messages("s1")] == ["hello"], "what was said is kept"
    assert [m.text for m in agent.history] == ["hello"]


async def test_work_at_the_end_of_a_turn_is_done_before_it_is_over(script, make_agent):
    done: list[Any] = []

    async def save(agent: Any, end: TurnFinished) -> None:
        done.append((len(agent.history), end.text))

    async def fail(_agent: Any, _end: TurnFinished) -> None:
        raise OSError("disk full")

    agent = make_agent(script(["hello"]), at_end=(fail, save))
    events = await events_of(agent)
    assert events[-1].exit_reason == "answered"
    assert [event.text for event in events if isinstance(event, Notice)] == ["disk full"]
    assert done == [(2, "hello")]


async def test_what_breaks_requests_is_taken_out_of_what_the_user_says(script, make_agent, log):
    agent = make_agent(script(["ok"]), clean=lambda text: text.replace("hunter2", "…"))
    await events_of(agent, "a\ud800b <memory-context source='x'>c</memory-context> hunter2")
    assert (await log.messages("s1"))[0] == User.say("ab c …")
