"""Conversations as ShareGPT trajectories."""

import json
import logging
import multiprocessing
import re
import resource
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.core.errors import HermesError
from hermes.core.messages import (
    Assistant,
    Image,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from hermes.core.model import ToolSpec
from hermes.store.trajectory import (
    COMPLETED,
    FAILED,
    convert_scratchpad_to_think,
    save_trajectory,
    to_sharegpt,
)

TERMINAL = ToolSpec(
    "terminal", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}}
)


def said(*parts):
    return Assistant(tuple(parts))


def values(*messages, tools=()):
    """The turns after the system turn, as (from, value)."""
    system, *turns = to_sharegpt(messages, tools)
    assert system["from"] == "system"
    return [(turn["from"], turn["value"]) for turn in turns]


def test_a_conversation_with_a_tool_has_the_documented_form():
    call = ToolCall("call_1", "terminal", '{"command": "python3 --version"}')
    assert values(
        System("be brief"),
        User.say("which Python?"),
        said(Thinking("I look."), call),
        ToolResult("call_1", "terminal", "Python 3.11.6"),
        said(Text("It is 3.11.6.")),
    ) == [
        ("human", "which Python?"),
        (
            "gpt",
            (
                "<think>\nI look.\n</think>\n"
                '<tool_call>\n{"name": "terminal", "arguments": {"command": "python3 --version"}}\n'
                "</tool_call>"
            ),
        ),
        (
            "tool",
            (
                '<tool_response>\n{"tool_call_id": "call_1", "name": "terminal", '
                '"content": "Python 3.11.6"}\n</tool_response>'
            ),
        ),
        ("gpt", "<think>\n</think>\nIt is 3.11.6."),
    ]


@pytest.mark.parametrize(
    ("parts", "value"),
    [
        ((Thinking("a"), Thinking("b"), Text("c")), "<think>\na\nb\n</think>\nc"),
        ((Text("c"),), "<think>\n</think>\nc"),
        ((), "<think>\n</think>\n"),
        ((Thinking(details=({"signature": "x"},)), Text("c")), "<think>\n</think>\nc"),
        (
            (Text("<REASONING_SCRATCHPAD>\na\n</REASONING_SCRATCHPAD>\n\nc"),),
            "<think>\na\n</think>\nc",
        ),
        ((Text("<think>a</think>c"),), "<think>\na\n</think>\nc"),
        ((Text("<think>cut short"),), "<think>\ncut short\n</think>\n"),
        (
            (Text("so <think>a</think> c"),),
            "<think>\n</think>\nso <think>a</think> c",
        ),
        (
            (Thinking("a"), Text("<REASONING_SCRATCHPAD>b</REASONING_SCRATCHPAD>c")),
            "<think>\na\n</think>\n<think>b</think>c",
        ),
    ],
)
def test_every_reply_begins_with_a_think_block(parts, value):
    assert values(said(*parts)) == [("gpt", value)]


def test_scratchpad_tags_become_think_tags():
    text = "<REASONING_SCRATCHPAD>\na <b>\n</REASONING_SCRATCHPAD>\nrest"
    assert convert_scratchpad_to_think(text) == "<think>\na <b>\n</think>\nrest"
    assert convert_scratchpad_to_think("nothing to do") == "nothing to do"


def test_several_calls_and_their_results_are_one_turn_each():
    turns = values(
        said(Text("Both."), ToolCall("a", "read_file", '{"path": "x"}'), ToolCall("b", "todo", "")),
        ToolResult("a", "", '{"lines": [1, 2]}'),
        ToolResult("b", "", "[no JSON after all"),
        said(Text("done")),
    )
    assert turns == [
        (
            "gpt",
            (
                "<think>\n</think>\nBoth.\n"
                '<tool_call>\n{"name": "read_file", "arguments": {"path": "x"}}\n</tool_call>\n'
                '<tool_call>\n{"name": "todo", "arguments": {}}\n</tool_call>'
            ),
        ),
        (
            "tool",
            (
                '<tool_response>\n{"tool_call_id": "a", "name": "read_file", '
                '"content": {"lines": [1, 2]}}\n</tool_response>\n'
                '<tool_response>\n{"tool_call_id": "b", "name": "todo", '
                '"content": "[no JSON after all"}\n</tool_response>'
            ),
        ),
        ("gpt", "<think>\n</think>\ndone"),
    ]


def responses(value):
    return [json.loads(text) for text in re.findall(r"<tool_response>\n(.*)\n</", value)]


@pytest.mark.parametrize(
    ("calls", "results", "expected"),
    [
        (["same:read", "same:write"], ["same", "same"], ["read", "write"]),
        (["a:read", "b:write"], ["x", "y"], ["read", "write"]),
        (["a:read", "b:write"], ["b"], ["write"]),
        (["a:read"], ["a", "z"], ["read", "own name"]),
        ([], ["z"], ["own name"]),
    ],
)
def test_results_have_the_names_of_their_calls(calls, results, expected):
    parts = [ToolCall(*call.split(":"), "{}") for call in calls]
    turns = values(
        said(Text("."), *parts), *(ToolResult(call_id, "own name", "") for call_id in results)
    )
    assert [each["name"] for each in responses(turns[-1][1])] == expected


@pytest.mark.parametrize("arguments", ["{broken", "[1]", '"text"', '{"a": NaN}', "null"])
def test_arguments_that_are_not_a_json_object_are_left_out_and_logged(arguments, caplog):
    with caplog.at_level(logging.WARNING, logger="hermes.store.trajectory"):
        [(_, value)] = values(said(ToolCall("a", "todo", arguments)))
    assert '{"name": "todo", "arguments": {}}' in value
    assert "todo" in caplog.text
    assert arguments not in caplog.text


def test_content_too_deep_to_parse_stays_text():
    deep = "[" * 100_000 + "]" * 100_000
    [_, (_, value)] = values(said(ToolCall("a", "todo", "{}")), ToolResult("a", "todo", deep))
    assert responses(value)[0]["content"] == deep


def test_images_and_added_hints_are_not_in_a_trajectory():
    question = User((Text("look"), Image("data:image/png;base64,AAAA"))).with_aside("[a hint]")
    assert values(question) == [("human", "look\n[image]")]


def test_the_system_turn_describes_the_tools():
    [system] = to_sharegpt([System("my own prompt, 100% mine")], [TERMINAL])
    text = system["value"]
    listed = json.loads(re.search(r"<tools>\n(.*)\n</tools>", text)[1])
    assert listed == [
        {
            "name": "terminal",
            "description": "Run a command.",
            "parameters": TERMINAL.parameters,
            "required": None,
        }
    ]
    assert '"title": "FunctionCall"' in text
    example = re.search(r"<tool_call>\n(.*)\n</tool_call>$", text)[1]
    assert set(json.loads(example)) == {"name", "arguments"}
    assert "my own prompt" not in text


def entries(path: Path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_entries_go_to_the_file_for_their_outcome(tmp_path):
    turns = to_sharegpt([User.say("hi"), said(Text("ho"))], [])
    moment = datetime(2026, 11, 15, 3, 17, tzinfo=UTC)
    done = save_trajectory(turns, "m", True, folder=tmp_path, timestamp=moment)
    assert done == tmp_path / COMPLETED == tmp_path / "trajectory_samples.jsonl"
    assert done.stat().st_mode & 0o777 == 0o600
    assert entries(done) == [
        {
            "conversations": turns,
            "timestamp": "2026-11-15T03:17:00+00:00",
            "model": "m",
            "completed": True,
        }
    ]
    assert list(entries(done)[0]) == ["conversations", "timestamp", "model", "completed"]
    failed = save_trajectory(turns, "m", False, folder=tmp_path)
    assert failed == tmp_path / FAILED == tmp_path / "failed_trajectories.jsonl"
    assert entries(failed)[0]["completed"] is False
    assert save_trajectory(turns, "m", False, "mine.jsonl", tmp_path) == tmp_path / "mine.jsonl"
    save_trajectory(turns, "n", True, folder=tmp_path)
    assert [entry["model"] for entry in entries(done)] == ["m", "n"]


def test_lone_surrogates_do_not_break_the_file(tmp_path):
    messages = [
        User.say("a \ud83d b \x00"),
        said(ToolCall("c", "todo", r'{"text": "x\udc00y"}')),
        ToolResult("c", "todo", '["\\ud800 z"]'),
    ]
    path = save_trajectory(to_sharegpt(messages, []), "m\ud800", True, folder=tmp_path)
    [entry] = entries(path)
    _, human, gpt, tool = (turn["value"] for turn in entry["conversations"])
    assert human == "a  b "
    assert '{"text": "xy"}' in gpt
    assert responses(tool)[0]["content"] == [" z"]
    assert entry["model"] == "m"


def test_a_line_left_unfinished_does_not_swallow_the_next(tmp_path):
    path = tmp_path / COMPLETED
    path.write_text('{"conversations": [{"from": "hum')
    save_trajectory([], "m", True, folder=tmp_path)
    torn, whole = path.read_text().splitlines()
    assert torn == '{"conversations": [{"from": "hum'
    assert json.loads(whole)["model"] == "m"


def test_a_folder_that_cannot_be_written_is_an_error_with_a_hint(tmp_path):
    with pytest.raises(HermesError, match="cannot save the trajectory") as caught:
        save_trajectory([], "m", True, folder=tmp_path / "not there")
    assert "save_trajectories" in caught.value.hint


def _append_many(folder: Path, name: str) -> None:
    turns = [{"from": "human", "value": f"{name} " * 20_000}]
    for _ in range(40):
        save_trajectory(turns, name, True, folder=folder)


def test_processes_that_write_at_the_same_time_never_mix_their_lines(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=_append_many, args=(tmp_path, f"writer{number}"))
        for number in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    found = entries(tmp_path / COMPLETED)
    assert len(found) == 160
    for entry in found:
        assert entry["conversations"][0]["value"] == f"{entry['model']} " * 20_000


def _append_too_much(folder: Path) -> None:
    sys.dont_write_bytecode = True  # Python would keep half a file as if it were whole
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    with pytest.raises(HermesError, match="file too large"):
        save_trajectory([{"from": "human", "value": "x" * 5000}], "m", True, folder=folder)


def test_entry_without_disk_space_leaves_the_file_unchanged(tmp_path):
    path = save_trajectory([], "m", True, folder=tmp_path)
    before = path.read_bytes()
    writer = multiprocessing.get_context("spawn").Process(target=_append_too_much, args=(tmp_path,))
    writer.start()
    writer.join()
    assert writer.exitcode == 0
    assert path.read_bytes() == before
