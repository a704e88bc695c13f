"""Messages as rows and back, and the repair of damaged histories."""

from typing import Any

import pytest
from hypothesis import given

from hermes.core.messages import (
    INTERRUPTED_RESULT,
    Assistant,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
    to_dict,
)
from hermes.store.rows import COLUMNS, from_row, repair_history, to_row, user_text
from hermes.util.text import clean
from tests.unit.store import conversations

IMAGE = User((Text("what is this?"), Image("data:image/png;base64,AAAA")))


def cleaned(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case list():
            return [cleaned(item) for item in value]
        case dict():
            return {cleaned(key): cleaned(item) for key, item in value.items()}
        case _:
            return value


@given(conversations.messages)
def test_every_message_comes_back_as_it_was(message):
    stored = from_row(to_row(message))
    assert stored is not None
    assert to_dict(stored) == cleaned(to_dict(message))
    assert getattr(stored, "failed", None) == getattr(message, "failed", None)
    assert all(value is None or "\0" not in value for value in to_row(message))


def test_text_that_looks_like_an_image_message_stays_text():
    content = to_row(IMAGE)[1]
    assert content is not None
    assert from_row(to_row(IMAGE)) == IMAGE
    assert from_row(to_row(User.say(content))) == User.say(content)


def test_the_preview_of_an_image_message_is_its_text():
    assert user_text(to_row(IMAGE)[1]) == "what is this?"
    assert user_text(None) == ""


def row(**values: str) -> list[str | None]:
    return [values.get(column) for column in COLUMNS]


@pytest.mark.parametrize("tool_calls", ["{", "7", "null", "[1]", '[{"function": "x"}]', '{"a":1}'])
def test_broken_tool_calls_of_an_old_database_lose_only_themselves(tool_calls):
    message = from_row(row(role="assistant", content="hello", tool_calls=tool_calls))
    assert isinstance(message, Assistant)
    assert (message.text, message.calls) == ("hello", ())


def test_a_row_with_an_unknown_role_is_left_out(caplog):
    assert from_row(row(role="session_meta", content="x")) is None
    assert "unknown role" in caplog.text


def test_a_failed_tool_is_still_a_failed_tool():
    result = ToolResult("call_1", "terminal", "no such file", failed=True)
    assert from_row(to_row(result)) == result


ASK = User.say("list the files")
CALLS = Assistant((ToolCall("a", "ls", "{}"), ToolCall("b", "pwd", "{}")), "tool_calls")
A, B = ToolResult("a", "ls", "x.py"), ToolResult("b", "pwd", "/")
DONE = Assistant((Text("done"),))


def lost(call_id: str, name: str) -> ToolResult:
    return ToolResult(call_id, name, INTERRUPTED_RESULT, failed=True)


def test_a_sound_history_is_left_alone():
    history = (ASK, CALLS, A, B, DONE, ASK)
    assert repair_history(history) == history


def test_results_stand_in_the_order_of_the_calls_whichever_finished_first():
    assert repair_history([ASK, CALLS, B, A, DONE]) == (ASK, CALLS, A, B, DONE)


def test_calls_that_were_never_answered_get_an_answer():
    assert repair_history([ASK, CALLS]) == (ASK, CALLS, lost("a", "ls"), lost("b", "pwd"))
    assert repair_history([ASK, CALLS, B, ASK]) == (ASK, CALLS, lost("a", "ls"), B, ASK)


def test_results_without_a_call_are_dropped():
    assert repair_history([A, ASK, DONE, B, CALLS, A, A, B]) == (ASK, DONE, CALLS, A, B)


def test_a_result_behind_a_user_message_is_moved_to_its_call():
    assert repair_history([CALLS, A, ASK, B, DONE]) == (CALLS, A, B, ASK, DONE)


def test_a_history_may_begin_with_a_reply():
    assert repair_history([DONE, ASK]) == (DONE, ASK)


def test_a_reply_with_nothing_to_send_is_dropped():
    assert repair_history([ASK, Assistant(()), Assistant((Thinking("hm"),)), ASK]) == (ASK, ASK)
    signed = Assistant((Thinking("hm", ({"signature": "x"},)),))
    assert repair_history([ASK, signed]) == (ASK, signed)


@given(conversations.histories)
def test_every_repaired_history_can_be_sent(history):
    repaired = repair_history(history)
    assert repair_history(repaired) == repaired
    waiting: set[str] = set()
    for message in repaired:
        if isinstance(message, ToolResult):
            assert message.call_id in waiting
            waiting.remove(message.call_id)
        else:
            assert not waiting
        if isinstance(message, Assistant):
            waiting = {call.id for call in message.calls}
    assert not waiting


@given(conversations.histories)
def test_repair_keeps_all_user_and_model_text(history):
    def said(messages):
        return [m for m in messages if not isinstance(m, ToolResult) and getattr(m, "text", "")]

    assert said(repair_history(history)) == said(history)
