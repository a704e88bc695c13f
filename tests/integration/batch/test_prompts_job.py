"""The job of a run of prompts: real agents and tools, with a model that answers by the prompt."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hermes.batch.distributions import Distribution
from hermes.batch.models import RunModel
from hermes.batch.prompts import (
    NO_REASONING,
    PromptJob,
    PromptSampling,
    PromptSpec,
    metadata_shape,
)
from hermes.batch.work import ItemResult
from hermes.core.messages import Text, Thinking, ToolCall
from hermes.core.model import Reply
from hermes.core.testing import ModelServer, RecordedRequest, Refuse, Step, StepLike

TERMINAL = Distribution("t", "", {"terminal": 100, "file": 50})


class MemoryJournal:
    def __init__(self) -> None:
        self.replies: dict[str, Reply] = {}

    def find(self, digest: str) -> Reply | None:
        return self.replies.get(digest)

    def add(self, digest: str, reply: Reply) -> None:
        self.replies[digest] = reply


def answer(request: RecordedRequest) -> StepLike:
    """Answer by the prompt, so that the order of requests does not matter."""
    messages = request.body["messages"]
    asked = [m["content"] for m in messages if m["role"] == "user"][-1]
    results = [m for m in messages if m["role"] == "tool"]
    if "no thoughts" in asked:
        return Step((Text("Plain."),))
    if "refused" in asked:
        return Step((), faults=(Refuse("unauthorized"),))
    if "tools" in asked and not results:
        return [
            Thinking("I look."),
            ToolCall("c1", "terminal", '{"command": "echo hello"}'),
            ToolCall("c2", "read_file", '{"path": "missing.txt"}'),
            ToolCall("c3", "no_such_tool", "{}"),
        ]
    if "forever" in asked:
        number = len(results)
        return [Thinking("More."), ToolCall(f"c{number}", "terminal", '{"command": "true"}')]
    return [Thinking("Simple."), Text(f"Answer to {asked}.")]


@pytest.fixture
def server():
    with ModelServer(answer) as server:
        yield server


Rows = list[dict[str, Any]]


def spec(server: ModelServer, rows: Rows, tmp_path: Path, **more: Any) -> PromptSpec:
    dataset = tmp_path / "prompts.jsonl"
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = RunModel(
        name="lab-model", base_url=f"{server.url}/v1", home=str(tmp_path / "home"), api_key="k-1"
    )
    given = {"distribution": TERMINAL, "shape": metadata_shape(iter(rows)), **more}
    return PromptSpec(dataset=str(dataset), model=model, **given)


async def work(run: PromptSpec, journal: MemoryJournal | None = None) -> list[ItemResult]:
    async with PromptJob(run, "") as job:
        pending = (job.run(item, journal or MemoryJournal()) for item in run.items())
        return await asyncio.gather(*pending)


async def test_line_has_exactly_the_documented_fields(server, tmp_path) -> None:
    rows = [{"prompt": "use tools", "source": "a"}, {"prompt": "no tools here", "level": {"n": 1}}]
    run = spec(server, rows, tmp_path)
    results = await work(run)
    lines = [json.loads(result.line) for result in results]
    assert [result.state for result in results] == ["done", "done"]
    first = lines[0]
    assert list(first) == [
        "prompt_index", "conversations", "metadata", "completed", "partial", "api_calls",
        "toolsets_used", "tool_stats", "tool_error_counts",
    ]  # fmt: skip
    assert (first["completed"], first["partial"], first["api_calls"]) == (True, False, 2)
    assert [turn["from"] for turn in first["conversations"]] == [
        "system", "human", "gpt", "tool", "gpt",
    ]  # fmt: skip
    assert first["tool_stats"]["terminal"] == {"count": 1, "success": 1, "failure": 0}
    assert first["tool_stats"]["todo"] == {"count": 0, "success": 0, "failure": 0}
    assert "no_such_tool" not in first["tool_stats"]
    used = dict(first["tool_stats"])
    assert first["tool_error_counts"] == {name: used[name]["failure"] for name in used}
    assert [line["metadata"] for line in lines] == [
        {"source": "a", "level": {"n": None}},
        {"source": None, "level": {"n": 1}},
    ]
    assert lines[0]["tool_stats"].keys() == lines[1]["tool_stats"].keys()


async def test_bytes_and_toolsets_are_the_same_in_every_run(server, tmp_path) -> None:
    rows = [{"prompt": f"question {number}"} for number in range(12)]
    run = spec(server, rows, tmp_path)
    first, second = await work(run), await work(run)
    assert [result.line for result in first] == [result.line for result in second]
    drawn = {tuple(json.loads(result.line)["toolsets_used"]) for result in first}
    assert drawn == {("terminal",), ("terminal", "file")}


async def test_sample_without_reasoning_is_discarded_unless_kept(server, tmp_path) -> None:
    rows = [{"prompt": "no thoughts"}]
    (result,) = await work(spec(server, rows, tmp_path))
    assert (result.state, result.reason, result.line) == ("discarded", NO_REASONING, b"")
    assert result.usage.total > 0 and result.api_calls == 1
    (kept,) = await work(spec(server, rows, tmp_path, keep_without_reasoning=True))
    assert kept.state == "done" and b"Plain." in kept.line


async def test_failure_names_its_boundary(server, tmp_path) -> None:
    (result,) = await work(spec(server, [{"prompt": "refused"}], tmp_path))
    assert (result.state, result.boundary, result.line) == ("failed", "provider", b"")
    assert result.reason


async def test_limit_of_model_calls_gives_an_incomplete_trajectory(server, tmp_path) -> None:
    (result,) = await work(spec(server, [{"prompt": "go on forever"}], tmp_path, max_turns=3))
    line = json.loads(result.line)
    assert (line["completed"], line["partial"], line["api_calls"]) == (False, False, 3)
    assert line["tool_stats"]["terminal"]["count"] == 2, "the last results were never sent"


async def test_request_has_the_sampling_the_prompts_and_the_key(server, tmp_path) -> None:
    sampling = PromptSampling(
        max_tokens=77,
        temperature=0.3,
        reasoning_effort="low",
        providers={"only": ["a"], "ignore": ["b"], "order": ["c"], "sort": "price"},
    )
    run = spec(
        server,
        [{"prompt": "hello"}],
        tmp_path,
        sampling=sampling,
        system_prompt="Answer in verse.",
        prefill=(
            {"role": "user", "content": "Are you ready?"},
            {"role": "assistant", "content": "Yes."},
        ),
    )
    (result,) = await work(run)
    (call,) = server.calls
    assert call.body["max_tokens"] == 77 and call.body["temperature"] == 0.3
    assert call.body["provider"] == sampling.providers
    assert call.headers["authorization"] == "Bearer k-1"
    contents = [message["content"] for message in call.body["messages"]]
    assert "Answer in verse." in contents[0]
    assert contents[1:] == ["Are you ready?", "Yes.", "hello"]
    for unsaved in ("Answer in verse.", "Are you ready?", "Yes."):
        assert unsaved not in result.line.decode()


async def test_repeat_is_named_in_the_metadata(server, tmp_path) -> None:
    results = await work(spec(server, [{"prompt": "a", "id": 5}], tmp_path, repeats=3))
    lines = [json.loads(result.line) for result in results]
    assert [line["metadata"] for line in lines] == [
        {"id": 5, "repeat": 0},
        {"id": 5, "repeat": 1},
        {"id": 5, "repeat": 2},
    ]
    assert {line["prompt_index"] for line in lines} == {0}


async def test_stored_replies_are_not_paid_for_again(server, tmp_path) -> None:
    run, journal = spec(server, [{"prompt": "use tools"}], tmp_path), MemoryJournal()
    (first,) = await work(run, journal)
    calls = len(server.calls)
    (again,) = await work(run, journal)
    assert len(server.calls) == calls == 2
    assert again.line == first.line


async def test_row_names_its_folder(tmp_path) -> None:
    place = tmp_path / "project"
    place.mkdir()

    def pwd(request: RecordedRequest) -> StepLike:
        if any(message["role"] == "tool" for message in request.body["messages"]):
            return [Thinking("Good."), Text("Done.")]
        return [Thinking("Where?"), ToolCall("c1", "terminal", '{"command": "pwd"}')]

    with ModelServer(pwd) as other:
        run = spec(other, [{"prompt": "use tools", "cwd": str(place)}], tmp_path)
        (result,) = await work(run)
    assert str(place) in result.line.decode()
