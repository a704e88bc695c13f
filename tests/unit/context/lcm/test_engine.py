"""When the engine compacts, what stays word for word, and what it remembers."""

from typing import Any

import pytest

from hermes.context.engine import SummaryAnswer, SummaryModel
from hermes.context.lcm import LcmEngine
from hermes.context.lcm.notes import PREFIX, notes_in
from hermes.context.lcm.plan import PlanLimits, make_plan
from hermes.core.errors import Interrupted
from hermes.core.messages import System, ToolResult
from tests.unit.context.lcm.conversations import (
    SMALL,
    WINDOW,
    Conversation,
    answered,
    group,
    reply,
    summariser,
    user,
)

TODO = "Todo list: 2 tasks, 1 completed, 1 in progress\n[x] a: read it\n[>] b: mend it"


def chat(talk: Conversation, turns: int, *, start: int = 0, size: int = 60) -> None:
    for turn in range(start, start + turns):
        talk.say(user(f"question {turn} {'why ' * size}"), reply(f"answer {turn} {'so ' * size}"))


def long_chat(turns: int = 30, *summarisers: SummaryModel) -> Conversation:
    talk = Conversation(LcmEngine(WINDOW, SMALL), summarisers)
    chat(talk, turns)
    return talk


def test_it_compacts_from_the_threshold_on() -> None:
    engine = LcmEngine(1000)
    assert not engine.should_compress()
    engine.update_from_response({"prompt_tokens": 500, "completion_tokens": 7, "total_tokens": 507})
    assert engine.should_compress()
    assert not engine.should_compress(499)
    engine.update_model("bigger", 10_000)
    assert engine.threshold_tokens == 5000
    assert not engine.should_compress()
    assert (engine.last_completion_tokens, engine.last_total_tokens) == (7, 507)


def test_the_window_told_at_the_start_counts() -> None:
    engine = LcmEngine(1000)
    engine.on_session_start("s", context_length=4000)
    assert (engine.context_length, engine.threshold_tokens) == (4000, 2000)


def test_first_exchange_and_recent_messages_stay_as_they_are() -> None:
    talk = long_chat()
    before = talk.compact()
    assert all(one is other for one, other in zip(talk.context[:3], before[:3], strict=True))
    assert notes_in(talk.context[3])
    assert talk.context[-1] is before[-1]
    assert talk.context[-2] is before[-2]
    assert len(talk.context) < len(before) / 2
    assert talk.engine.compression_count == 1
    assert talk.engine.get_status()["notes"] == len(talk.ids())


def test_a_short_conversation_is_left_alone() -> None:
    talk = long_chat(3)
    assert talk.compact() == talk.context
    assert talk.engine.compression_count == 0


def test_nothing_is_compacted_when_only_the_request_lies_before_the_tail() -> None:
    calls = group(("a", "terminal", "{}"), ("b", "terminal", "{}"))
    messages = [System("You are Hermes."), user("Read both."), *calls]
    limits = PlanLimits(tail_tokens=100, first=3, last=4, request_tokens=100)
    assert make_plan(messages, [5, 50, 10, 400, 400], limits, head_end=1, request=1) is None


def test_the_request_stays_word_for_word_through_a_long_run_of_tools() -> None:
    talk = long_chat(3, summariser())
    talk.say(user("Mend src/app.py, but do not touch the tests."))
    request = talk.context[-1]
    for round_ in range(4):
        for step in range(12):
            call = f"c{round_}_{step}"
            talk.say(*answered(call, "terminal", '{"command": "make"}', "line\n" * 100))
        talk.compact()
        assert any(each is request for each in talk.context)
        assert len(talk.context) < 20
    assert talk.originals() == talk.compacted


def test_a_first_exchange_that_fills_the_window_is_compacted_too() -> None:
    talk = Conversation(LcmEngine(WINDOW, SMALL))
    talk.say(user("Read this: " + "word " * 3000), reply("I did."))
    chat(talk, 8)
    talk.compact()
    assert talk.engine.compression_count == 1
    assert "word word" not in str(talk.context[1:3]).replace(str(talk.notes()), "")
    assert talk.originals()[0].startswith("Read this: word")


@pytest.mark.parametrize("again", [False, True])
def test_the_todo_list_survives_as_lines_of_its_own(again: bool) -> None:
    talk = long_chat(4)
    talk.say(*answered("t", "todo", "{}", f"{TODO}\n[2 tasks are in progress]"), reply("ok"))
    chat(talk, 20)
    talk.compact()
    if again:
        chat(talk, 20, start=30)
        talk.compact()
        talk.restart()
    assert f"\n\n{TODO}\n\n## " in talk.notes()["content"]


def test_an_older_todo_list_in_the_head_does_not_hide_the_newest() -> None:
    talk = Conversation(LcmEngine(WINDOW, SMALL))
    talk.say(user("Begin"), *answered("t0", "todo", "{}", "Todo list: 1 task\n[ ] a: read it"))
    talk.say(*answered("t1", "todo", "{}", TODO))
    for _ in range(2):
        chat(talk, 20)
        talk.compact()
        assert TODO in talk.notes()["content"]


def test_a_todo_list_that_stays_is_not_repeated() -> None:
    talk = long_chat(20)
    talk.say(user("now"), *answered("t", "todo", "{}", TODO), reply("ok"))
    talk.compact()
    assert "Todo list" not in talk.notes()["content"]


def test_the_focus_reaches_the_summariser() -> None:
    asked: list[str] = []

    def write(question: str) -> str:
        asked.append(question)
        return "question answer why so and the rest of it"

    long_chat(30, summariser(write)).compact("the database")
    assert asked
    assert all("the database" in question for question in asked)


def test_stopping_leaves_everything_as_it_was() -> None:
    talk = long_chat(30, summariser())
    talk.compact()
    chat(talk, 30, start=30)
    context, ids, status = list(talk.context), talk.ids(), talk.engine.get_status()
    calls: list[int] = []

    def ask(messages: list[dict[str, Any]], most: int) -> SummaryAnswer:
        calls.append(most)
        raise Interrupted

    talk.engine.on_session_start(f"s{talk.sessions}", summarisers=(SummaryModel(ask, 9000),))
    with pytest.raises(Interrupted):
        talk.engine.compress(talk.context)
    assert len(calls) == 1
    assert (talk.context, talk.ids(), talk.engine.get_status()) == (context, ids, status)


def test_ids_are_the_same_in_every_process() -> None:
    one, other = long_chat(), long_chat()
    other.restart()
    one.compact()
    other.compact()
    assert one.ids() == other.ids()


def test_without_a_log_the_messages_are_kept_in_memory() -> None:
    talk = long_chat()
    talk.engine.on_session_start("s1", history=None)
    talk.history = None  # type: ignore[assignment]
    talk.compact()
    chat(talk, 30, start=30)
    talk.compact()
    assert "~0-" in talk.notes()["content"]
    assert len(talk.originals()) == len(talk.compacted) > 60
    assert talk.originals() == talk.compacted
    talk.restart()
    chat(talk, 30, start=60)
    talk.compact()
    oldest = talk.call("lcm_expand", id=talk.ids()[0])
    assert "not in the log any more" in oldest


def test_messages_in_front_that_no_log_has_do_not_confuse_the_rest() -> None:
    talk = Conversation(LcmEngine(WINDOW, SMALL))
    prefill = [{"role": "user", "content": "question 1"}, {"role": "assistant", "content": "Hm."}]
    talk.context += [dict(each) for each in prefill * 3]
    chat(talk, 30)
    talk.compact()
    content = talk.notes()["content"]
    assert "~0-3/" in content
    assert " 0-" in content
    assert talk.originals() == talk.compacted


def test_another_conversation_knows_nothing_of_this_one() -> None:
    talk = long_chat()
    talk.compact()
    node = talk.ids()[0]
    talk.engine.on_session_reset()
    talk.engine.on_session_start("other")
    assert "nothing was compacted yet" in talk.call("lcm_expand", id=node)
    assert talk.engine.compression_count == 0


def test_a_message_that_quotes_notes_is_an_ordinary_message() -> None:
    talk = long_chat()
    talk.compact()
    quoted = f"{talk.notes()['content']}\nWhat does this mean?"
    chat(talk, 5, start=30)
    talk.say(user(quoted))
    chat(talk, 20, start=40)
    talk.compact()
    assert quoted in talk.compacted
    assert talk.originals() == talk.compacted


def test_the_summary_of_another_engine_is_no_request() -> None:
    talk = Conversation(LcmEngine(WINDOW, SMALL))
    talk.say(user("Write the report."), reply("I begin."))
    talk.say(user(f"{PREFIX} Goal: the report"))
    for step in range(30):
        talk.say(*answered(f"c{step}", "terminal", "{}", "line\n" * 60))
    request = talk.context[1]
    talk.compact()
    assert talk.context[1] is request
    assert any("Goal: the report" in text for text in talk.compacted)


def test_text_no_store_can_hold_is_found_in_the_log_again() -> None:
    talk = Conversation(LcmEngine(WINDOW, SMALL))
    talk.say(user("go"), *answered("c", "terminal", "{}", "ok"))
    stored = ToolResult("x", "terminal", "broken text")
    call, result = answered("x", "terminal", "{}", "broken \x00\udc80text")
    talk.say(call)
    talk.context.append({"role": "tool", "tool_call_id": "x", "content": result.text})
    talk.log.append(
        {"role": "tool", "tool_call_id": "x", "name": "terminal", "content": stored.text}
    )
    chat(talk, 20)
    talk.compact()
    assert "~" not in talk.notes()["content"].splitlines()[2]
