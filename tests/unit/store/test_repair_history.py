from hypothesis import given

from hermes.core.messages import (
    INTERRUPTED_RESULT,
    Assistant,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from hermes.store.rows import repair_history
from tests.unit.store import conversations

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


def test_results_nobody_asked_for_are_dropped():
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
def test_repair_loses_nothing_a_person_or_model_said(history):
    def said(messages):
        return [m for m in messages if not isinstance(m, ToolResult) and getattr(m, "text", "")]

    assert said(repair_history(history)) == said(history)
