"""`hermes trajectory`: what is in trajectory files, and other forms of them and of sessions."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hermes.config.home import Home
from hermes.core.messages import Assistant, Text, Thinking, ToolCall, ToolResult, User, from_dict
from hermes.core.model import ToolSpec
from hermes.store.session_store import open_store
from hermes.store.trajectory import save_trajectory, to_sharegpt
from hermes.util.text import human_size
from tests.unit.cli.terminal import Hermes, Outcome

TERMINAL = ToolSpec("terminal", "Run a command.", {"type": "object", "properties": {}})
CONVERSATION = (
    User.say("list the\nfiles"),
    Assistant(
        (
            Thinking("I look."),
            Text("One moment."),
            ToolCall("call_a", "terminal", '{"command": "ls </tool_call>"}'),
            ToolCall("call_b", "terminal", "{}"),
        ),
        finish_reason="tool_calls",
    ),
    ToolResult("call_a", "terminal", "\x1b[31ma.txt\x1b[0m" + "x" * 5000),
    ToolResult("call_b", "terminal", '{"exit_code": 0}'),
    Assistant((Text("There is a.txt."),)),
)


class TrajectoryOutcome(Outcome):
    @property
    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Command(Hermes):
    def __call__(self, *words: object) -> TrajectoryOutcome:
        return TrajectoryOutcome(*super().__call__(*words))


@pytest.fixture
def hermes(tmp_path: Path) -> Command:
    return Command("trajectory", tmp_path / "home")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two entries: one completed, one failed."""
    turns = to_sharegpt(CONVERSATION, [TERMINAL])
    path = save_trajectory(turns, "model-a", True, "all.jsonl", tmp_path)
    return save_trajectory(to_sharegpt([User.say("hi")], []), "model-b", False, path.name, tmp_path)


def test_the_entries_of_a_file_are_listed(hermes, file):
    out = hermes("show", file).expect().out
    first, second = out.splitlines()
    size = human_size(len(file.read_bytes().splitlines(keepends=True)[0]))
    assert first.split() == f"1 completed 5 turns {size} model-a list the files".split()
    assert second.split()[:4] == ["2", "failed", "2", "turns"]
    listed = json.loads(hermes("show", file, "--json").out)
    assert [(one["index"], one["model"], one["completed"]) for one in listed] == [
        (1, "model-a", True),
        (2, "model-b", False),
    ]
    assert sum(one["bytes"] for one in listed) == file.stat().st_size


def test_one_entry_is_shown_turn_by_turn(hermes, file):
    out = hermes("show", file, "--index", 1).expect().out
    head, _, rest = out.partition("\n")
    assert head.startswith("model-a  completed  ")
    assert "\ntools: terminal\n" in rest and "\nuser: list the\nfiles\n" in rest
    assert "\n[thought] I look.\nassistant: One moment.\n[call of terminal] {" in rest
    assert "\n[result of terminal]\na.txtxxx" in rest and "characters left out" in rest
    assert rest.endswith("\nassistant: There is a.txt.\n")
    assert "\x1b" not in out and "<think>" not in out


def test_one_entry_is_given_whole_to_programs(hermes, file):
    shown = json.loads(hermes("show", file, "--index", -1, "--json").out)
    assert shown == json.loads(file.read_text().splitlines()[1])


@pytest.mark.parametrize("index", ["3", "0", "-3"])
def test_missing_entry_is_reported(hermes, file, index):
    hermes("show", file, "--index", index).expect(2, err=f"has no entry {index}")


def test_messages_come_back_as_they_were(hermes, file):
    out = hermes("convert", file, "--to", "openai").expect().out
    entry = json.loads(out.splitlines()[0])
    assert list(entry) == ["messages", "tools", "timestamp", "model", "completed"]
    assert tuple(from_dict(message) for message in entry["messages"]) == CONVERSATION
    assert entry["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "terminal",
                "description": "Run a command.",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ]


def test_of_each_conversation_the_last_line_can_be_exported(hermes, tmp_path):
    def save(*said: str, tools: tuple[ToolSpec, ...] = ()) -> None:
        talk = [
            Assistant((Text(text),)) if number % 2 else User.say(text)
            for number, text in enumerate(said)
        ]
        save_trajectory(to_sharegpt(talk, tools), "m", True, "all.jsonl", tmp_path)

    save("one", "1")
    save("hello", "hi")
    save("one", "1", "two", "2", tools=(TERMINAL,))  # another system prompt
    save("one", "1")  # the same question in a new session
    save("one", "1", "two", "2", "three", "3")
    save("hello", "hi", "bye", "bye")
    save("hello", "servus")
    file = tmp_path / "all.jsonl"
    kept = hermes("convert", file, "--last", "--to", "openai").entries
    said = [[message["content"] for message in entry["messages"]] for entry in kept]
    assert said == [
        ["one", "1", "two", "2", "three", "3"],
        ["hello", "hi", "bye", "bye"],
        ["hello", "servus"],
    ]
    assert len(hermes("convert", file).entries) == 7


def test_there_and_back_again_nothing_changes(hermes, file, tmp_path):
    out = tmp_path / "openai.jsonl"
    code, said, _ = hermes("convert", file, "--to", "openai", "-o", out)
    assert (code, said) == (0, f"wrote 2 trajectories to {out}\n")
    back = hermes("convert", out, "--to", "sharegpt")
    assert back.entries == [json.loads(line) for line in file.read_text().splitlines()]
    assert hermes("convert", file).entries == back.entries


def test_bad_lines_are_named_and_the_rest_is_converted(hermes, file, tmp_path):
    good = file.read_bytes()
    bad = (
        b"not json",
        b'"text"',
        b"{}",
        b'{"conversations": [{"from": "robot", "value": ""}]}',
        b'{"conversations": "x"}',
        b'{"messages": [{"role": "assistant", "tool_calls": [{"function": "f"}]}]}',
        b'{"messages": ["\xff"]}',
    )
    file.write_bytes(b"\n".join(bad) + b"\n\n" + good)
    code, out, err = hermes("convert", file)
    assert code == 1
    assert len(out.splitlines()) == 2
    problems = err.splitlines()
    assert [line.partition(": not a trajectory: ")[0] for line in problems] == [
        f"hermes: {file}:{number}" for number in range(1, len(bad) + 1)
    ]
    shown = hermes("show", file).expect(1)
    assert [line.split()[0] for line in shown.out.splitlines()] == [*"1234567", "9", "10"]
    assert "not a trajectory" in hermes("show", file, "--index", 3).err
    target = tmp_path / "out.jsonl"
    assert hermes("convert", file, "-o", target).code == 1
    assert len(target.read_text().splitlines()) == 2


def test_a_file_without_any_trajectory_makes_no_output(hermes, tmp_path):
    source, target = tmp_path / "bad.jsonl", tmp_path / "out.jsonl"
    source.write_text("nothing\n")
    err = hermes("convert", source, "-o", target).expect(2).err
    assert f"{source}:1: not a trajectory" in err and f"there is no trajectory in {source}" in err
    assert not target.exists()


def test_file_is_not_overwritten_without_force(hermes, file, tmp_path):
    target = tmp_path / "out.jsonl"
    target.write_text("precious")
    hermes("convert", file, "-o", target).expect(2, err="--force")
    assert target.read_text() == "precious"
    assert hermes("convert", file, "-o", target, "--force").code == 0
    assert len(target.read_text().splitlines()) == 2


def test_unsafe_characters_reach_no_terminal(hermes, tmp_path):
    turns = to_sharegpt([User.say("a\x9b31m b\u202e c \u2028")], [])
    path = save_trajectory(turns, "m\x1b[31m", True, folder=tmp_path)
    for words in (("show", path), ("show", path, "--index", 1), ("show", path, "--json")):
        assert not set(hermes(*words).out) & set("\x1b\x9b\u202e\u2028")
    [entry] = hermes("convert", path).entries
    assert entry["conversations"] == turns


def test_entries_with_broken_characters_are_read_and_written(hermes, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"conversations": [{"from": "human", "value": "a \\ud800 b"}]}\n')
    assert hermes("show", path, "--index", 1).out.endswith("user: a  b\n")
    assert hermes("convert", path, "-o", tmp_path / "y.jsonl").code == 0
    assert '"a  b"' in (tmp_path / "y.jsonl").read_text()


def test_turns_other_programs_wrote_are_taken_as_they_are(hermes, tmp_path):
    turns = [
        {"from": "system", "value": "be brief"},
        {"from": "human", "value": "go"},
        {"from": "gpt", "value": 'As in\n<tool_call>\nnot json\n</tool_call>\nor\n<tool_call>\n{"name": "f"}\n</tool_call>'},  # noqa: E501
        {"from": "tool", "value": "just text"},
    ]  # fmt: skip
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"conversations": turns, "prompt_index": 7}) + "\n")
    [entry] = hermes("convert", path, "--to", "openai").entries
    system, user, assistant, result = entry["messages"]
    assert (system["content"], user["content"], result["content"]) == (
        "be brief",
        "go",
        "just text",
    )
    assert assistant["content"] == "As in\n<tool_call>\nnot json\n</tool_call>\nor"
    [call] = assistant["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": "{}"}
    assert call["id"]
    assert entry["prompt_index"] == 7
    assert "tools" not in entry


def add_session(home: Home, session_id: str, title: str) -> None:
    async def add() -> None:
        store = open_store("", home.state_db)
        try:
            await store.create(session_id, source="cli", model="model-c", system_prompt="secret")
            for message in CONVERSATION:
                await store.append(session_id, message)
            await store.set_title(session_id, title)
            await store.finish(session_id, "answered")
        finally:
            store.close()

    home.root.mkdir(parents=True, exist_ok=True)
    asyncio.run(add())


@pytest.mark.parametrize("name", ["20260101_aaaa", "the plan"])
def test_a_stored_session_becomes_a_trajectory(hermes, name):
    add_session(hermes.home, "20260101_aaaa", "the plan")
    [entry] = hermes("convert", name).entries
    assert entry["model"] == "model-c"
    assert entry["completed"] is True
    assert entry["conversations"][1:] == to_sharegpt(CONVERSATION, [])[1:]
    system = entry["conversations"][0]["value"]
    assert '"name": "read_file"' in system and "secret" not in system
    [entry] = hermes("convert", name, "--session", "--to", "openai").entries
    assert [message["role"] for message in entry["messages"]] == [
        *("user", "assistant", "tool", "tool", "assistant")
    ]


def test_a_file_comes_before_a_session_of_the_same_name(hermes, file, monkeypatch):
    add_session(hermes.home, "20260101_aaaa", file.name)
    monkeypatch.chdir(file.parent)
    assert len(hermes("convert", file.name).entries) == 2
    assert len(hermes("convert", file.name, "--session").entries) == 1


def test_argument_that_is_neither_file_nor_session_is_refused(hermes, tmp_path):
    missing = "there is no file and no session nothing.jsonl"
    hermes("convert", "nothing.jsonl").expect(2, err=missing)
    add_session(hermes.home, "20260101_aaaa", "the plan")
    hermes("convert", "nothing.jsonl").expect(2, err=missing)
    hermes("show", tmp_path / "nothing.jsonl").expect(2, err="no such file")
