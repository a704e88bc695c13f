"""What old messages lose before any model is asked."""

import copy
import json

import pytest

from hermes.context.compression import (
    STUB,
    FitCheck,
    drop_duplicates,
    prune,
    repair_calls,
    shorten_json,
)
from hermes.context.conversation import estimate_messages_tokens_rough
from hermes.context.notes import ACTIONS, ACTIVE, CRITICAL, DECISIONS, GOAL, SummaryNotes
from hermes.context.summary import UNWRITTEN, extract_notes
from hermes.core.model import text_tokens
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

LONG = "\n".join(f"{n}|some line of the file" for n in range(1, 60))


def test_an_old_long_result_says_which_tool_ran_on_what_and_how_it_ended():
    messages = [
        *(SYSTEM, user("go")),
        asks(call(1, "terminal", command="npm test"), call(2, "read_file", path="src/a.py")),
        result(1, "terminal", "line\n" * 200 + "3 failing\n[exit code 1]"),
        result(2, "read_file", LONG),
        says("done"),
    ]
    made = prune(messages, len(messages))
    size = f"({LONG.count(chr(10)) + 1} lines, {len(LONG):,} characters)"
    assert made[3]["content"] == "[terminal npm test: exit code 1 (202 lines, 1,023 characters)]"
    assert made[4]["content"] == f"[read_file src/a.py: ok: 1|some line of the file {size}]"
    assert [made[n] is messages[n] for n in range(6)] == [True, True, True, False, False, True]


def test_an_error_of_a_tool_is_named():
    error = json.dumps({"error": "there is no file src/b.py" + " (did you mean a.py?)" * 20})
    messages = [SYSTEM, asks(call(1, "read_file", path="src/b.py")), result(1, "read_file", error)]
    line = prune(messages, 3)[2]["content"]
    assert line.startswith("[read_file src/b.py: error: there is no file src/b.py")
    assert len(line) <= 200


def test_short_results_old_placeholders_and_the_tail_stay_as_they_are():
    cleared = "[Old tool output cleared to save context space]"
    messages = [SYSTEM, *reads(1, "a.py", cleared), *reads(2, "b.py", "x" * 200), *reads(3, "c.py")]
    assert all(new is old for new, old in zip(prune(messages, 5), messages, strict=True))


def test_pruning_twice_changes_nothing_more():
    messages = [SYSTEM, *reads(1, "a" * 300), *reads(2, "b.py"), user("?")]
    once = prune(messages, len(messages))
    assert all(new is old for new, old in zip(prune(once, len(once)), once, strict=True))


def test_of_equal_results_only_the_newest_is_kept_whole():
    messages = [SYSTEM, *reads(1, "a.py", LONG), *reads(2, "a.py", "other" * 60)]
    messages += [*reads(3, "a.py", LONG), *reads(4, "b.py", LONG)]
    made = drop_duplicates(messages)
    assert made[2]["content"].startswith("[same as later: read_file a.py: ok")
    assert made[6]["content"].startswith("[same as later: read_file a.py: ok")
    assert made[4] is messages[4]
    assert made[8] is messages[8]


def test_ids_that_are_used_again_do_not_mix_up_the_calls():
    messages = [SYSTEM, *reads(1, "first.py"), *reads(1, "second.py")]
    made = prune(messages, 5)
    assert "first.py" in made[2]["content"]
    assert "second.py" in made[4]["content"]


def test_long_arguments_keep_their_keys_and_paths_and_stay_json():
    path = "packages/" + "deep/" * 60 + "view.ts"
    arguments = {
        "path": path,
        "content": "a" * 4_000,
        "options": {"mode": "w", "note": "b" * 900},
        "lines": list(range(400)),
        "force": True,
    }
    text = json.dumps(arguments)
    made = json.loads(shorten_json(text))
    assert list(made) == list(arguments)
    assert made["path"] == path
    assert made["content"] == "a" * 200 + "...[truncated]"
    assert made["options"] == {"mode": "w", "note": "b" * 200 + "...[truncated]"}
    assert made["lines"][-1] == "...[truncated]"
    assert made["force"] is True


def test_a_long_patch_keeps_the_names_of_its_files():
    body = "\n".join(f"+line {n}" for n in range(300))
    patch = f"*** Begin Patch\n*** Update File: a/one.py\n{body}\n*** Add File: b/two.py\n{body}"
    made = json.loads(shorten_json(json.dumps({"mode": "patch", "patch": patch})))
    assert made["mode"] == "patch"
    assert "*** Update File: a/one.py" in made["patch"]
    assert "*** Add File: b/two.py" in made["patch"]
    assert made["patch"].endswith("...[truncated]")


def test_invalid_json_arguments_become_json():
    made = json.loads(shorten_json('{"path": "a.py", "content": "' + "x" * 900))
    assert made["arguments"].startswith('{"path": "a.py"')
    assert made["arguments"].endswith("...[truncated]")


def test_only_old_calls_are_cut_and_nothing_given_is_changed():
    big = asks(call(1, "write_file", path="a.py", content="z" * 5_000), call(2, "todo"))
    messages = [SYSTEM, big, result(1, "write_file", "created"), result(2, "todo", "x")]
    messages += [asks(call(3, "write_file", path="b.py", content="z" * 5_000))]
    before = copy.deepcopy(messages)
    made = prune(messages, 4)
    assert messages == before
    assert made[1]["tool_calls"][1] is big["tool_calls"][1]
    assert json.loads(made[1]["tool_calls"][0]["function"]["arguments"])["path"] == "a.py"
    assert made[4] is messages[4]


def test_the_newest_todo_list_is_not_pruned():
    lines = "\n".join(f"[ ] {n}: task number {n}" for n in range(40))
    old = [asks(call(1, "todo")), result(1, "todo", f"Todo list: 41 tasks\n{lines}")]
    new = [asks(call(2, "todo")), result(2, "todo", f"Todo list: 40 tasks\n{lines}")]
    messages = [SYSTEM, *old, *new, user("go on")]
    made = prune(messages, 5)
    assert made[2]["content"].startswith("[todo")
    assert made[4] is messages[4]


@pytest.mark.parametrize("end", [says("done"), asks(call(9, "terminal", command="ls"))])
def test_a_valid_or_unfinished_conversation_is_returned_as_it_is(end):
    messages = [SYSTEM, user("go"), *work(3), end]
    assert all(new is old for new, old in zip(repair_calls(messages), messages, strict=True))


def test_results_without_a_call_and_second_results_are_dropped():
    messages = [SYSTEM, result(9, "read_file", "x"), user("go"), result(8, "read_file", "y")]
    assert repair_calls(messages) == [SYSTEM, user("go")]
    twice = [SYSTEM, *reads(1, "a.py", "x"), result(1, "read_file", "again"), user("?")]
    assert repair_calls(twice) == [*twice[:3], twice[4]]


def test_calls_whose_results_went_get_a_stub():
    calls = asks(call(1, "read_file", path="a"), call(2, "terminal", command="ls"))
    made = repair_calls([SYSTEM, user("go"), calls, result(2, "terminal", "x"), user("?")])
    assert faults(made) == []
    assert made[3] == result(1, "read_file", STUB)
    assert made[4] == result(2, "terminal", "x")


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


def test_action_list_continues_from_earlier_notes():
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


def test_fit_check_uses_the_real_size_of_the_request():
    messages = [SYSTEM, *work(40)]
    size = estimate_messages_tokens_rough(messages)
    half = messages[:41]
    assert FitCheck(size, None, size).force(half) is half
    assert not FitCheck(size, size, size // 3)(half)
    assert FitCheck(size, size // 2, size // 3)(half)
    assert not FitCheck(size, size // 2, size // 5)(half)
    assert not FitCheck(size, 2 * size, size)(half)


def test_results_in_the_tail_are_cut_only_when_nothing_else_helps():
    messages = [SYSTEM, user("go"), *reads(1, "a.py", "head " + "x" * 60_000 + " tail")]
    made = FitCheck(20_000, None, 5_000).force(messages)
    assert made[:3] == messages[:3]
    text = made[3]["content"]
    assert text.startswith("head ")
    assert text.endswith(" tail")
    assert "characters left out" in text
    assert len(text) < 9_000
