"""The conversation put together again, and the list made without a model."""

from hermes.context.conversation import estimate_messages_tokens_rough
from hermes.context.notes import ACTIONS, ACTIVE, CRITICAL, DECISIONS, GOAL, SummaryNotes
from hermes.context.pruning import STUB, FitCheck, repair_calls
from hermes.context.summary import UNWRITTEN, extract_notes
from hermes.core.tokens import text_tokens
from tests.unit.context.compressor.talking import (
    SYSTEM,
    asks,
    call,
    faults,
    reads,
    result,
    says,
    user,
    work,
)


def test_a_valid_conversation_is_returned_as_it_is():
    messages = [SYSTEM, user("go"), *work(3), says("done")]
    assert all(new is old for new, old in zip(repair_calls(messages), messages, strict=True))


def test_results_without_a_call_are_dropped():
    messages = [SYSTEM, result(9, "read_file", "x"), user("go"), result(8, "read_file", "y")]
    assert repair_calls(messages) == [SYSTEM, user("go")]


def test_calls_whose_results_went_get_a_stub():
    calls = asks(call(1, "read_file", path="a"), call(2, "terminal", command="ls"))
    made = repair_calls([SYSTEM, user("go"), calls, result(2, "terminal", "x"), user("?")])
    assert faults(made) == []
    assert made[3] == result(1, "read_file", STUB)
    assert made[4] == result(2, "terminal", "x")


def test_a_second_result_for_a_call_is_dropped():
    messages = [SYSTEM, *reads(1, "a.py", "x"), result(1, "read_file", "again"), user("?")]
    assert repair_calls(messages) == [*messages[:3], messages[4]]


def test_calls_nobody_answered_yet_stay_open_at_the_end():
    messages = [SYSTEM, user("go"), asks(call(1, "terminal", command="ls"))]
    assert repair_calls(messages) == messages


def test_the_list_has_the_request_the_calls_the_errors_and_the_last_words():
    messages = [
        user("Port the parser."),
        *reads(1, "src/a.py"),
        asks(call(2, "terminal", command="make"), say="I build it."),
        result(2, "terminal", "boom\n[exit code 2]"),
        asks(call(3, "terminal", command="make")),
        result(3, "terminal", "boom\n[exit code 2]"),
        says("The build is broken."),
    ]
    notes = extract_notes(messages, SummaryNotes(), 2_000)
    assert notes[ACTIVE] == "“Port the parser.”"
    assert notes[GOAL] == "“Port the parser.”"
    lines = notes[ACTIONS].splitlines()
    assert lines[0].startswith("- read_file src/a.py: ok: 1|line 1 of src/a.py (79 lines")
    assert lines[1:] == [
        "- said: I build it.",
        "- terminal make: exit code 2 (2 times)",
        "- said: The build is broken.",
    ]
    assert notes[CRITICAL].splitlines() == [
        UNWRITTEN,
        "- terminal make: exit code 2",
        "- Last words of the assistant: The build is broken.",
    ]


def test_the_list_goes_on_from_earlier_notes():
    earlier = SummaryNotes(
        {GOAL: "win", DECISIONS: "- by force", ACTIONS: "- began", ACTIVE: "old"}
    )
    notes = extract_notes([user("now the end"), *work(1)], earlier, 2_000)
    assert notes[GOAL] == "win"
    assert notes[DECISIONS] == "- by force"
    assert notes[ACTIVE] == "“now the end”"
    assert notes[ACTIONS].startswith("- began\n- read_file src/part_0.py")


def test_the_list_is_bounded_and_keeps_the_newest():
    notes = extract_notes(
        [user("x " * 9_000), *work(500), says("end " * 900)], SummaryNotes(), 1_000
    )
    assert text_tokens(notes.text()) <= 1_000
    assert "src/part_499.py" in notes[ACTIONS]
    assert notes[ACTIVE].startswith("“x x")


def test_what_fits_is_judged_by_the_size_the_request_really_has():
    messages = [SYSTEM, *work(40)]
    size = estimate_messages_tokens_rough(messages)
    half = messages[:41]
    assert FitCheck(size, None, size).forced(half) is half
    assert not FitCheck(size, size, size // 3)(half)
    assert FitCheck(size, size // 2, size // 3)(half)
    assert not FitCheck(size, size // 2, size // 5)(half)
    assert not FitCheck(size, 2 * size, size)(half)


def test_results_in_the_tail_are_cut_only_when_nothing_else_helps():
    messages = [SYSTEM, user("go"), *reads(1, "a.py", "head " + "x" * 60_000 + " tail")]
    made = FitCheck(20_000, None, 5_000).forced(messages)
    assert made[:3] == messages[:3]
    text = made[3]["content"]
    assert text.startswith("head ")
    assert text.endswith(" tail")
    assert "characters left out" in text
    assert len(text) < 9_000
