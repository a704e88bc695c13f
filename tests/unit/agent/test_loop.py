"""What comes out of a turn, whatever the model and the tools do."""

import asyncio
from typing import Any

import pytest

from hermes.agent import Agent, IterationBudget, PendingMessages
from hermes.agent.agent import event_stream
from hermes.core.errors import CredentialRefused, ToolError, UsageError
from hermes.core.events import (
    ModelCalled,
    Notice,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from hermes.core.messages import STEERED, Assistant, Text, Thinking, ToolCall, ToolResult, User
from hermes.core.model import Price, Retrying, TextDelta, Usage
from hermes.core.ports import HookName, NoHooks
from hermes.core.testing import Stall, Step
from hermes.core.tool import Tool, ToolContext
from tests.unit.agent.conftest import events_of


def call(name: str, call_id: str = "c1", arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def tool_that(answer: Any, name: str = "look", **fields: Any) -> Tool:
    async def run() -> str:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    run.__name__ = name
    return Tool.from_function(run, **fields)


def end_of(events: list) -> TurnFinished:
    assert isinstance(events[0], TurnStarted)
    assert [event for event in events if isinstance(event, TurnFinished)] == [events[-1]]
    return events[-1]


async def test_reply_with_text_ends_the_turn(script, make_agent, log):
    events = await events_of(make_agent(script(["hello there"])), "hi")
    end = end_of(events)
    assert (end.exit_reason, end.text) == ("answered", "hello there")
    assert (end.api_calls, end.exit_code) == (1, 0)
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "hello there"
    assert await log.messages("s1") == (User.say("hi"), Assistant((Text("hello there"),)))


async def test_tool_result_is_sent_to_the_model(script, make_agent, log):
    model = script([call("look"), "seen"])
    events = await events_of(make_agent(model, tool_that("42 things")))
    assert end_of(events).text == "seen"
    assert model.requests[1].messages[-1] == ToolResult("c1", "look", "42 things")
    assert [m.role for m in await log.messages("s1")] == ["user", "assistant", "tool", "assistant"]


async def test_everything_is_stored_before_the_next_model_call(script, make_agent, log):
    counts: list[int] = []

    class Watching:
        name, provider = "scripted", "testing"

        def __init__(self, inner):
            self.inner = inner

        async def call(self, request, emit):
            counts.append(len(await log.messages("s1")))
            return await self.inner.call(request, emit)

    await events_of(make_agent(Watching(script([call("look"), "done"])), tool_that("x")))
    assert counts == [1, 3]


async def test_independent_calls_run_concurrently_in_order(script, make_agent):
    both_run = asyncio.Barrier(2)

    async def meet(who: str) -> str:
        await both_run.wait()
        return who

    calls = [call("meet", "a", '{"who":"first"}'), call("meet", "b", '{"who":"second"}')]
    model = script([calls, "ok"])
    end_of(await events_of(make_agent(model, Tool.from_function(meet))))
    assert [m.text for m in model.requests[1].messages[-2:]] == ["first", "second"]


async def test_serial_tool_runs_alone_and_in_order(script, make_agent):
    running, seen = 0, []

    async def change(n: int) -> str:
        nonlocal running
        running += 1
        seen.append((n, running))
        await asyncio.sleep(0)
        running -= 1
        return "ok"

    calls = [call("change", f"c{n}", f'{{"n":{n}}}') for n in range(3)]
    model = script([calls, "ok"])
    await events_of(make_agent(model, Tool.from_function(change, serial=True)))
    assert seen == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (call("lok"), "there is no tool 'lok'"),
        (call("look", arguments="{not json"), "JSON"),
        (call("look", arguments="[1]"), "object"),
    ],
)
async def test_invalid_call_is_explained_to_the_model(script, make_agent, wrong, message):
    model = script([wrong, "sorry"])
    events = await events_of(make_agent(model, tool_that("never")))
    assert end_of(events).exit_reason == "answered"
    result = model.requests[1].messages[-1]
    assert message in result.text
    assert result.failed


async def test_exception_in_a_tool_becomes_a_failed_result(script, make_agent):
    model = script([call("look"), "hm"])
    events = await events_of(make_agent(model, tool_that(ZeroDivisionError("by zero"))))
    assert end_of(events).exit_reason == "answered"
    assert "ZeroDivisionError: by zero" in model.requests[1].messages[-1].text


async def test_hook_can_block_a_call(script, make_agent):
    fired: list[tuple[HookName, str]] = []

    class Veto:
        async def fire(self, name: HookName, **details: Any) -> list[Any]:
            fired.append((name, details["tool_name"]))
            return [{"action": "block", "message": "not today"}]

    model = script([call("look"), "ok"])
    await events_of(make_agent(model, tool_that("never"), hooks=Veto()))
    assert "not today" in model.requests[1].messages[-1].text
    assert fired == [(HookName.PRE_TOOL_CALL, "look")]


async def test_hooks_see_and_may_change_a_failed_result(script, make_agent):
    class Masking(NoHooks):
        async def fire(self, name: HookName, **details: Any) -> list[Any]:
            heard.append((name, details.get("result", "")))
            changes = name is HookName.TRANSFORM_TOOL_RESULT
            return [details["result"].replace("s3cret", "***")] if changes else []

    heard: list[tuple[HookName, str]] = []
    model = script([call("look"), "ok"])
    agent = make_agent(model, tool_that(ToolError("no s3cret there")), hooks=Masking())
    await events_of(agent)
    assert "no *** there" in model.requests[1].messages[-1].text
    assert [name for name, _ in heard] == [
        HookName.PRE_TOOL_CALL, HookName.POST_TOOL_CALL, HookName.TRANSFORM_TOOL_RESULT,
    ]  # fmt: skip
    assert "no s3cret there" in heard[1][1]


async def test_hanging_hook_does_not_delay_a_stop(script, make_agent):
    class Hanging(NoHooks):
        async def fire(self, name: HookName, **_details: Any) -> list[Any]:
            if name is HookName.POST_TOOL_CALL:
                agent.interrupt()
                await asyncio.Event().wait()
            return []

    agent = make_agent(script([call("look")]), tool_that("seen"), hooks=Hanging())
    events = await events_of(agent)
    assert events[-1].exit_reason == "interrupted"
    assert agent.history[-1].text == "seen", "what the tool found is kept"


async def test_tool_output_is_emitted_as_events(script, make_agent):
    async def noisy(context: ToolContext) -> str:
        context.output("half way")
        return "done"

    agent = make_agent(script([call("noisy"), "ok"]), Tool.from_function(noisy))
    events = await events_of(agent)
    kinds = [type(e) for e in events if isinstance(e, ToolStarted | ToolOutput | ToolFinished)]
    assert kinds == [ToolStarted, ToolOutput, ToolFinished]


async def test_model_error_ends_the_turn_with_its_exit_code(script, make_agent, log):
    refused = CredentialRefused("acme refused the key", hint="set a key")
    end = end_of(await events_of(make_agent(script([refused]))))
    assert (end.exit_reason, end.exit_code, end.hint) == ("failed", 4, "set a key")
    assert [m.role for m in await log.messages("s1")] == ["user"]


async def test_iteration_limit_ends_with_a_summary_without_tools(script, make_agent):
    model = script([call("look", f"c{n}") for n in range(2)] + ["so far: nothing"])
    end = end_of(await events_of(make_agent(model, tool_that("x"), max_iterations=2)))
    assert (end.exit_reason, end.text) == ("max_iterations", "so far: nothing")
    assert model.requests[-1].tools == ()


async def test_usage_and_cost_add_up_over_the_turn(script, make_agent):
    usage = Usage(input=1000, output=100)
    steps = [Step((call("look"),), usage=usage), Step((Text("ok"),), usage=usage)]
    price = Price(input=1.0, output=10.0, cache_read=0.1, cache_write=1.25)
    end = end_of(await events_of(make_agent(script(steps, price=price), tool_that("x"))))
    assert end.usage == Usage(input=2000, output=200)
    assert end.cost_usd == pytest.approx(0.004)


async def test_stop_reaches_a_stalled_stream(script, make_agent, log):
    agent = make_agent(script([Step((Text("never finished"),), faults=(Stall(1),))]))
    events = []
    async for event in agent.run(User.say("go")):
        events.append(event)
        if isinstance(event, TextDelta):
            assert agent.interrupt("enough")
    end = end_of(events)
    assert (end.exit_reason, end.error, end.exit_code) == ("interrupted", "enough", 130)


async def stop_at_first_text(agent: Agent, text: str = "go", **how: bool) -> None:
    async for event in agent.run(User.say(text)):
        if isinstance(event, TextDelta):
            assert agent.interrupt(**how)


async def test_text_of_a_stopped_answer_stays_in_the_conversation(script, make_agent, log):
    model = script([Step((Text("never finished"),), faults=(Stall(1),)), "I said: never"])
    agent = make_agent(model)
    await stop_at_first_text(agent)
    assert not agent.unfinished
    await events_of(agent, "what did you say?")
    sent = model.requests[1].messages[1:]
    assert [(m.role, m.text) for m in sent] == [
        ("user", "go"),
        ("assistant", "never fi\n\n[interrupted by the user]"),
        ("user", "what did you say?"),
    ]
    assert (await log.messages("s1"))[:3] == sent
    assert sent[1].finish_reason == "interrupted"


async def test_stop_that_is_not_the_users_leaves_the_turn_resumable(script, make_agent, log):
    model = script([Step((Text("never finished"),), faults=(Stall(1),)), "all of it"])
    agent = make_agent(model)
    await stop_at_first_text(agent, by_user=False)
    assert agent.unfinished
    assert [event async for event in agent.resume()][-1].text == "all of it"
    assert [m.text for m in await log.messages("s1")] == ["go", "all of it"]


async def test_stop_during_a_call_with_text_keeps_the_text_without_the_call(script, make_agent):
    step = Step((Text("I look."), call("look", arguments='{"a": 1}')), faults=(Stall(1),))
    agent = make_agent(script([step]), tool_that("42"))
    await stop_at_first_text(agent)
    assert agent.history[-1] == Assistant(
        (Text("I look.\n\n[interrupted by the user]"),), "interrupted"
    )


async def test_voided_text_of_a_retried_call_is_not_stored(script, make_agent, log):
    class Retried:
        name, provider = "scripted", "testing"

        async def call(self, _request, emit):
            emit(TextDelta("void"))
            emit(Retrying("cut", 1, 0))
            agent.interrupt()
            await asyncio.Event().wait()

    agent = make_agent(Retried())
    await events_of(agent)
    assert await log.messages("s1") == (User.say("go"),)


async def test_message_without_an_answer_is_sent_with_the_next_one(script, make_agent, log):
    model = script([Stall(0), "both"])
    agent = make_agent(model)
    async for event in agent.run(User.say("first")):
        if isinstance(event, ModelCalled):
            asyncio.get_running_loop().call_later(0.01, agent.interrupt)
    await events_of(agent, "second")
    assert [(m.role, m.text) for m in model.requests[1].messages[1:]] == [
        ("user", "first\n\nsecond")
    ]
    assert [m.text for m in await log.messages("s1")] == ["first", "second", "both"]


async def test_stop_reaches_a_running_tool_and_history_stays_valid(script, make_agent, log):
    async def forever() -> str:
        await asyncio.Event().wait()
        return "never"

    agent = make_agent(
        script([[call("forever", "a"), call("look", "b")]]),
        Tool.from_function(forever),
        tool_that("quick"),
    )
    events = []
    async for event in agent.run(User.say("go")):
        events.append(event)
        if isinstance(event, ToolFinished) and event.name == "look":
            agent.interrupt()
    assert end_of(events).exit_reason == "interrupted"
    results = {m.call_id: m.text for m in agent.history if isinstance(m, ToolResult)}
    assert results == {"a": "[interrupted: this call did not finish]", "b": "quick"}
    assert len(await log.messages("s1")) == 4


async def test_next_turn_continues_the_conversation(script, make_agent):
    model = script(["one", "two"])
    agent = make_agent(model)
    await events_of(agent, "first")
    await events_of(agent, "second")
    said = [m.text for m in model.requests[1].messages]
    assert said == ["be brief", "first", "one", "second"]


async def test_concurrent_turns_are_refused(script, make_agent):
    agent = make_agent(script(["one"]))
    running = agent.run(User.say("go"))
    await anext(running)
    with pytest.raises(UsageError, match="already running"):
        await anext(agent.run(User.say("again")))
    assert [e async for e in running][-1].exit_reason == "answered"


@pytest.mark.parametrize("pauses", [0, 1, 5])
async def test_slow_reader_gets_all_events_in_order(pauses):
    async def work(emit):
        for number in range(6):
            emit(number)
            if number % 2:
                await asyncio.sleep(0)

    seen = []
    async for number in event_stream(work):
        seen.append(number)
        for _ in range(pauses):
            await asyncio.sleep(0)
    assert seen == [*range(6)]


async def test_turn_that_is_not_iterated_cleans_the_question_too(script, make_agent, log):
    events = []
    await make_agent(script(["ok"])).turn(User.say("</memory-context>hi"), events.append)
    assert end_of(events).text == "ok"
    assert (await log.messages("s1"))[0] == User.say("hi")


async def test_exception_in_the_model_or_the_store_ends_the_turn(script, make_agent, log):
    agent = make_agent(script([RuntimeError("oops")]))
    end = end_of(await events_of(agent))
    assert (end.exit_reason, end.exit_code) == ("failed", 1)
    assert end.error == "internal error: RuntimeError: oops"
    log.close()
    end = end_of(await events_of(agent))
    assert (end.exit_reason, end.exit_code) == ("failed", 6)


def cut(text: str) -> Step:
    return Step((Text(text),), "length")


def look(number: int = 1) -> ToolCall:
    return ToolCall(f"c{number}", "look", f'{{"at":{number}}}')


async def seen(at: int) -> str:
    return f"seen {at}"


seen.__name__ = "look"
LOOK = Tool.from_function(seen)


async def test_reply_cut_at_the_length_limit_is_continued(script, make_agent, log):
    model = script([cut("one, two, "), cut("three, "), "four."])
    end = (await events_of(make_agent(model), "count"))[-1]
    assert (end.exit_reason, end.completed) == ("answered", True)
    assert end.text == "one, two, three, four."
    message = model.requests[1].messages[-1]
    assert isinstance(message, User) and "cut off" in message.text
    assert [m.role for m in await log.messages("s1")] == ["user", "assistant"] * 3


async def test_endless_reply_ends_truncated(script, make_agent):
    end = (await events_of(make_agent(script([cut(f"{n} ") for n in range(4)]))))[-1]
    assert (end.exit_reason, end.text, end.partial) == ("truncated", "0 1 2 3", True)


async def test_answer_after_tools_excludes_earlier_text(script, make_agent):
    model = script([cut("let me "), Step((Text("look."), look())), "done"])
    end = (await events_of(make_agent(model, LOOK)))[-1]
    assert end.text == "done"


@pytest.mark.parametrize("empty", [(Text("  "),), (Thinking("hm"),), ()])
async def test_empty_reply_is_asked_again(script, make_agent, empty):
    model = script([Step(empty), "here it is"])
    end = (await events_of(make_agent(model)))[-1]
    assert (end.exit_reason, end.text) == ("answered", "here it is")
    assert "no text" in model.requests[1].messages[-1].text


async def test_model_that_stays_silent_ends_the_turn_as_empty(script, make_agent):
    end = (await events_of(make_agent(script([Step(())] * 3))))[-1]
    assert (end.exit_reason, end.text, end.error) == ("empty", "(empty)", "")


async def test_repeated_unusable_calls_end_the_turn(script, make_agent):
    wrong = [ToolCall(f"c{n}", f"no_such_{n}", "{}") for n in range(6)]
    model = script([*wrong, "I cannot do it"])
    end = (await events_of(make_agent(model, LOOK)))[-1]
    assert (end.exit_reason, end.text) == ("repeating", "I cannot do it")


async def test_steering_reaches_the_running_turn(script, make_agent, log):
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


async def test_steering_during_the_answer_gets_its_own_answer(script, make_agent):
    agent = make_agent(script(["done", "also in French: fini"]))
    assert not agent.steer("hello?"), "there is no turn yet"
    async for event in agent.run(User.say("go")):
        if type(event).__name__ == "TextFinished" and event.text == "done":
            agent.steer("in French too")
    assert event.text == "also in French: fini"


async def test_abandoned_turn_is_resumed_without_a_new_message(script, make_agent, log):
    asked = Assistant((look(),), "tool_calls")
    history = (User.say("go"), asked, ToolResult("c1", "look", "seen 1"))
    model = script(["it is there"])
    agent = make_agent(model, LOOK, history=history, abandoned=True)
    assert agent.abandoned
    events = [event async for event in agent.resume()]
    assert events[-1].text == "it is there"
    assert model.requests[0].messages[1:] == history
    assert [m.role for m in await log.messages("s1")] == ["assistant"]
    assert not agent.abandoned
    with pytest.raises(UsageError, match="no unfinished turn to continue"):
        await anext(agent.resume())


async def test_turn_and_subagents_share_one_budget(script, make_agent):
    budget = IterationBudget(3)
    budget.used = 2
    model = script([look(1), "that is all"])
    end = (await events_of(make_agent(model, LOOK, budget=budget)))[-1]
    assert (end.exit_reason, end.text, budget.left) == ("iteration_budget", "that is all", 0)


async def test_each_turn_has_a_fresh_budget(script, make_agent):
    model = script([look(1), "one", look(2), "two"])
    agent = make_agent(model, LOOK, max_iterations=2)
    ends = [(await events_of(agent, text))[-1] for text in ("a", "b")]
    assert [end.exit_reason for end in ends] == ["answered", "answered"]


async def test_added_context_is_sent_but_not_stored(script, make_agent, log):
    async def aside(history, question):
        return f"({len(history)} before {question.text})"

    model = script(["one", "two"])
    agent = make_agent(
        model,
        add_context=aside,
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


async def test_turn_can_be_stopped_while_context_is_looked_up(script, make_agent, log):
    async def aside(_history, _question):
        agent.interrupt()
        await asyncio.Event().wait()

    agent = make_agent(script([]), add_context=aside)
    events = await events_of(agent, "hello")
    assert events[-1].exit_reason == "interrupted"
    assert [m.text for m in await log.messages("s1")] == ["hello"], "what was said is kept"
    assert [m.text for m in agent.history] == ["hello"]


async def test_on_turn_end_work_completes_before_the_turn_ends(script, make_agent):
    done: list[Any] = []

    async def save(agent: Any, end: TurnFinished) -> None:
        done.append((len(agent.history), end.text))

    async def fail(_agent: Any, _end: TurnFinished) -> None:
        raise OSError("disk full")

    agent = make_agent(script(["hello"]), on_turn_end=(fail, save))
    events = await events_of(agent)
    assert events[-1].exit_reason == "answered"
    assert [event.text for event in events if isinstance(event, Notice)] == ["disk full"]
    assert done == [(2, "hello")]


async def test_user_message_is_sanitized(script, make_agent, log):
    agent = make_agent(script(["ok"]), redact=lambda text: text.replace("hunter2", "…"))
    await events_of(agent, "a\ud800b <memory-context source='x'>c</memory-context> hunter2")
    assert (await log.messages("s1"))[0] == User.say("ab c …")


async def test_pending_message_is_delivered_after_tool_calls(script, make_agent, log):
    pending = PendingMessages()
    model = script([call("look"), "heard"])
    agent = make_agent(model, tool_that("seen"), pending=pending)
    pending.add("[background process p1: finished]")
    pending.add("[background process p2: finished]")
    events = await events_of(agent)
    news = User.say("[background process p1: finished]\n\n[background process p2: finished]")
    assert model.requests[1].messages[-1] == news
    assert news in await log.messages("s1")
    assert Notice(news.text) in events


async def test_late_pending_message_stays_pending(script, make_agent):
    pending = PendingMessages()
    agent = make_agent(script(["done"]), pending=pending)
    pending.add("late")
    await events_of(agent)
    await pending.wait()
    assert pending.take() == User.say("late")
    assert pending.take() is None
