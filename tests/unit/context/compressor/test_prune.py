"""What old messages lose before any model is asked."""

import copy
import json

from hermes.context.pruning import drop_duplicates, prune, shorten_json
from tests.unit.context.compressor.talking import (
    SYSTEM,
    asks,
    call,
    reads,
    result,
    says,
    user,
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


def test_arguments_that_are_no_json_become_json():
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
