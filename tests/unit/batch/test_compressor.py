"""Compression of trajectories: within the target, with valid turns, and resumable."""

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hermes.batch import compressor as module
from hermes.batch.compressor import (
    CompressorOptions,
    EntryMetrics,
    TrajectoryCompressor,
    compress_file,
    count_tokens,
    plan_files,
)
from hermes.core.errors import ServerFault, UsageError
from hermes.core.messages import Assistant, Message, Text, Thinking, ToolCall, ToolResult, User
from hermes.core.model import ToolSpec
from hermes.ops import as_openai
from hermes.store import Turn, to_sharegpt

TERMINAL = ToolSpec("terminal", "Run a command.", {"type": "object", "properties": {}})


def trajectory(steps: int, result_chars: int = 3000, seed: int = 0) -> list[Turn]:
    """A conversation with `steps` tool calls, some in parallel, and a few questions of the user."""
    rng = random.Random(seed)
    messages: list[Message] = [User.say("Find the bug in the parser and repair it.")]
    for number in range(steps):
        calls = [
            ToolCall(f"c{number}-{i}", "terminal", json.dumps({"command": f"step {number} {i}"}))
            for i in range(rng.randint(1, 2))
        ]
        thought = Thinking(f"I think about step {number}.")
        messages.append(Assistant((thought, Text(f"Step {number}."), *calls)))
        for call in calls:
            text = json.dumps({"exit_code": 0, "output": "x" * rng.randint(10, result_chars)})
            messages.append(ToolResult(call.id, call.name, text))
        if rng.random() < 0.2:
            messages.append(Assistant((Text(f"Done with {number}."),)))
            messages.append(User.say(f"Go on after {number}."))
    messages.append(Assistant((Thinking("All done."), Text("The bug is repaired."))))
    return to_sharegpt(messages, [TERMINAL])


def check_turns(turns: list[Turn]) -> None:
    """Speakers alternate, and every call has its result in the next turn."""
    assert [turn["from"] for turn in turns[:2]] == ["system", "human"]
    for before, after in pairwise(turns[1:]):
        allowed = {"human": {"gpt"}, "gpt": {"tool", "human"}, "tool": {"gpt", "human"}}
        assert after["from"] in allowed[before["from"]]
        calls = before["value"].count("<tool_call>\n") if before["from"] == "gpt" else 0
        results = after["value"].count("<tool_response>\n") if after["from"] == "tool" else 0
        assert calls == results
    assert turns[-1]["from"] != "tool"
    for message in as_openai({"conversations": turns})["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] and message["name"] == "terminal"


@pytest.mark.parametrize("seed", range(30))
async def test_result_is_within_the_target_and_valid(seed: int) -> None:
    rng = random.Random(seed)
    turns = trajectory(rng.randint(5, 60), rng.choice([200, 3000, 20_000]), seed)
    options = CompressorOptions(
        target_tokens=rng.randint(2500, 9000),
        protect_first=rng.randint(1, 6),
        protect_last=rng.randint(1, 5),
        summary_tokens=300,
    )
    short, method = await TrajectoryCompressor(options).compress(turns)
    check_turns(short)
    assert short[-1] == turns[-1]
    assert short[:2] == turns[:2]
    if method == "unchanged":
        assert short == turns
    else:
        assert count_tokens(short) < count_tokens(turns)
    protected = turns[: options.protect_first + 1], turns[-options.protect_last - 1 :]
    if sum(map(count_tokens, protected)) + 700 < options.target_tokens:
        assert count_tokens(short) <= options.target_tokens


async def test_short_trajectory_is_unchanged() -> None:
    turns = trajectory(3)
    assert await TrajectoryCompressor().compress(turns) == (turns, "unchanged")


async def test_old_tool_results_are_shortened_before_turns_are_replaced() -> None:
    turns = trajectory(8, 6000)
    target = count_tokens(turns) - 2000
    short, method = await TrajectoryCompressor(CompressorOptions(target_tokens=target)).compress(
        turns
    )
    assert method == "shortened"
    assert len(short) == len(turns)
    changed = [i for i, (a, b) in enumerate(zip(turns, short, strict=True)) if a != b]
    assert all(turns[i]["from"] == "tool" for i in changed)
    assert changed and max(changed) < len(turns) - 4
    check_turns(short)


async def test_extract_names_calls_and_results_of_the_replaced_turns() -> None:
    turns = trajectory(40, 300)
    options = CompressorOptions(target_tokens=4000, summary_tokens=1500)
    short, method = await TrajectoryCompressor(options).compress(turns)
    assert method == "extract"
    (summary,) = [turn for turn in short if turn["value"].startswith("[Summary of ")]
    assert summary["from"] == "human"
    assert "assistant: Step 1." in summary["value"]
    assert 'call: {"name": "terminal", "arguments": {"command": "step 1 0"}}' in summary["value"]
    assert "result: " in summary["value"]
    again = await TrajectoryCompressor(options).compress(turns)
    assert again == (short, method), "no model: the same input gives the same bytes"


async def test_model_writes_the_summary() -> None:
    asked: list[tuple[str, int]] = []

    async def summarize(text: str, tokens: int) -> str:
        asked.append((text, tokens))
        return "The parser was read and repaired."

    options = CompressorOptions(target_tokens=4000)
    short, method = await TrajectoryCompressor(options, summarize).compress(trajectory(40, 300))
    ((text, tokens),) = asked
    assert method == "model"
    assert "Step 1." in text and 0 < tokens <= options.summary_tokens
    assert any("The parser was read and repaired." in turn["value"] for turn in short)
    check_turns(short)


async def test_failing_model_is_replaced_by_the_extract() -> None:
    async def summarize(text: str, tokens: int) -> str:
        raise ServerFault("no")

    options = CompressorOptions(target_tokens=4000)
    _, method = await TrajectoryCompressor(options, summarize).compress(trajectory(40, 300))
    assert method == "extract"


# Files.


def write_entries(path: Path, count: int) -> list[dict[str, Any]]:
    entries = [
        {"prompt_index": i, "conversations": trajectory(20 + i, 900, i), "metadata": {"n": i}}
        for i in range(count)
    ]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return entries


async def test_file_keeps_the_other_fields_and_has_metrics(tmp_path: Path) -> None:
    entries = write_entries(tmp_path / "in.jsonl", 5)
    with (tmp_path / "in.jsonl").open("a") as file:
        file.write("not json\n")
    compressor = TrajectoryCompressor(CompressorOptions(target_tokens=4000))
    done = await compress_file(compressor, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [entry["metadata"] for entry in written] == [entry["metadata"] for entry in entries]
    assert all(count_tokens(entry["conversations"]) <= 4000 for entry in written)
    assert len(done.invalid) == 1 and "in.jsonl:6" in done.invalid[0]
    metrics = (tmp_path / "out.jsonl.metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["line"] for line in metrics] == [1, 2, 3, 4, 5]
    before, after = done.tokens
    assert before == sum(count_tokens(entry["conversations"]) for entry in entries)
    assert after == sum(count_tokens(entry["conversations"]) for entry in written)
    assert not (tmp_path / "out.jsonl.part").exists()


async def test_existing_output_is_replaced_only_on_request(tmp_path: Path) -> None:
    write_entries(tmp_path / "in.jsonl", 1)
    (tmp_path / "out.jsonl").write_text("mine")
    compressor = TrajectoryCompressor(CompressorOptions(target_tokens=4000))
    with pytest.raises(UsageError, match="exists already"):
        await compress_file(compressor, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text() == "mine"
    await compress_file(compressor, tmp_path / "in.jsonl", tmp_path / "out.jsonl", overwrite=True)
    assert (tmp_path / "out.jsonl").read_text() != "mine"


class Stopped(Exception):
    pass


async def test_stopped_file_continues_without_asking_the_model_again(tmp_path: Path) -> None:
    write_entries(tmp_path / "in.jsonl", 20)
    options = CompressorOptions(target_tokens=3000)
    asked: list[str] = []

    async def summarize(text: str, tokens: int) -> str:
        asked.append(text)
        return f"Summary of {len(text)} characters."

    def stop(metrics: EntryMetrics) -> None:
        if metrics.line == module.AT_ONCE + 2:
            raise Stopped

    compressor = TrajectoryCompressor(options, summarize)
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    with pytest.raises(Stopped):
        await compress_file(compressor, source, output, on_entry=stop)
    assert not output.exists()
    with (tmp_path / "out.jsonl.part").open("ab") as part:
        part.write(b'{"line": 3')  # the process was killed while it wrote
    await compress_file(compressor, source, output)
    once = len(asked)
    whole = tmp_path / "whole.jsonl"
    await compress_file(compressor, source, whole)
    assert once == len(asked) - once, "each entry was summarized once"
    assert output.read_bytes() == whole.read_bytes()


async def test_part_of_other_options_is_not_continued(tmp_path: Path) -> None:
    write_entries(tmp_path / "in.jsonl", 3)
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"

    def stop(metrics: EntryMetrics) -> None:
        raise Stopped

    large = TrajectoryCompressor(CompressorOptions(target_tokens=100_000))
    with pytest.raises(Stopped):
        await compress_file(large, source, output, on_entry=stop)
    small = TrajectoryCompressor(CompressorOptions(target_tokens=3000))
    done = await compress_file(small, source, output)
    assert all(not metrics.over(3000) for metrics in done.metrics)


def test_folder_of_a_run_has_one_input(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in ("batch_001_output.jsonl", "batch_002_output.jsonl"):
        (run / name).write_text("")
    target = tmp_path / "run_compressed"
    assert plan_files(run, None) == [
        (run / name, target / name) for name in ("batch_001_output.jsonl", "batch_002_output.jsonl")
    ]
    (run / "trajectories.jsonl").write_text("")
    assert plan_files(run, None) == [(run / "trajectories.jsonl", target / "trajectories.jsonl")]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="has no"):
        plan_files(tmp_path / "empty", None)
