"""Datasets and specs of runs of prompts."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.batch.distributions import find_distribution
from hermes.batch.models import RunModel
from hermes.batch.prompts import (
    PromptRow,
    PromptSampling,
    PromptSpec,
    metadata_shape,
    plan_prompts,
    read_dataset,
    read_prefill,
)
from hermes.batch.statistics import count_tools, has_reasoning, known_tools
from hermes.core.errors import UsageError
from hermes.core.messages import ToolResult

MODEL = RunModel(name="m", base_url="http://127.0.0.1:9/v1", home="h", resolved="custom:m")


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def spec(path: Path, **fields: Any) -> PromptSpec:
    given = {"model": MODEL, "distribution": find_distribution("balanced"), **fields}
    return PromptSpec(dataset=str(path), **given)


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Do it."},
        {"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "Do it."}]},
        {
            "messages": [
                {"role": "user", "content": "Do it."},
                {"role": "assistant", "content": "x"},
            ]
        },
    ],
)
def test_prompt_is_the_first_message_of_the_user(row: dict[str, Any]) -> None:
    assert PromptRow.of({**row, "level": 3}) == PromptRow("Do it.", metadata={"level": 3})


@pytest.mark.parametrize("field", ["image", "docker_image", "container_image"])
def test_row_names_an_image_and_a_folder(field: str) -> None:
    row = PromptRow.of({"prompt": "p", field: "python:3.12", "cwd": "/app"})
    assert (row.image, row.folder) == ("python:3.12", "/app")
    assert row.metadata == {field: "python:3.12", "cwd": "/app"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "it is not an object"),
        ('{"text": "x"}', "it has no `prompt`, no `conversations` and no `messages`"),
        ('{"prompt": 3}', "`prompt` is int, not text"),
        ('{"prompt": " "}', "the prompt is empty"),
        ('{"messages": [{"role": "assistant", "content": "x"}]}', "has no message of a user"),
        ('{"messages": [{"role": "user", "content": null}]}', "is not text"),
        ('{"conversations": "x"}', "is not a list of objects"),
        ('{"prompt": "p", "image": 3}', "`image` is not text"),
    ],
)
def test_invalid_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a"}\n\n' + line + "\n")
    with pytest.raises(UsageError) as error:
        list(read_dataset(path))
    assert str(error.value).startswith(f"{path}:3 ") and message in str(error.value)
    assert error.value.hint


def test_empty_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(UsageError, match="has no rows"):
        list(read_dataset(tmp_path / "empty.jsonl"))
    with pytest.raises(UsageError, match="cannot read"):
        list(read_dataset(tmp_path / "missing.jsonl"))


def test_image_needs_a_backend_with_containers(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", {"prompt": "p", "image": "python:3.12"})
    with pytest.raises(UsageError) as error:
        list(spec(path).items())
    assert "python:3.12" in str(error.value) and "--backend docker" in error.value.hint
    assert len(list(spec(path, backend="docker").items())) == 1


def test_repeat_must_not_be_a_field_of_the_dataset(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", {"prompt": "p", "repeat": 1})
    assert len(list(spec(path).items())) == 1
    with pytest.raises(UsageError, match="`repeat`"):
        list(spec(path, repeats=2).items())


def test_equal_rows_are_different_items(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", *[{"prompt": "same"}] * 3)
    items = list(spec(path, repeats=2).items())
    assert [(item.index, item.repeat) for item in items] == [
        (0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1),
    ]  # fmt: skip
    assert len({item.key for item in items}) == 6
    assert [item.key for item in spec(path, repeats=2).items()] == [item.key for item in items]


def test_batches_are_numbered_by_row(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", *({"prompt": str(n)} for n in range(25)))
    run = spec(path, batch_size=10, repeats=2, max_samples=21)
    files = [run.output_file(item) for item in run.items()]
    assert files == (
        ["batch_001_output.jsonl"] * 20
        + ["batch_002_output.jsonl"] * 20
        + ["batch_003_output.jsonl"] * 2
    )


def test_toolsets_depend_on_the_item_only(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", *({"prompt": str(n)} for n in range(40)))
    run = spec(path)
    copy = msgspec.msgpack.decode(msgspec.msgpack.encode(run), type=PromptSpec)
    drawn = [run.toolsets(item) for item in run.items()]
    assert drawn == [copy.toolsets(item) for item in reversed(list(copy.items()))][::-1]
    assert all(drawn) and len(set(drawn)) > 5
    assert drawn != [spec(path, seed=1).toolsets(item) for item in spec(path, seed=1).items()]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"batch_size": 3}, True),
        ({"max_samples": 3}, True),
        ({"dataset": "other.jsonl"}, True),
        ({"model": msgspec.structs.replace(MODEL, base_url="http://x/v1", api_key="k")}, True),
        ({"model": msgspec.structs.replace(MODEL, resolved="custom:n")}, False),
        ({"sampling": PromptSampling(temperature=0.5)}, False),
        ({"max_turns": 11}, False),
        ({"system_prompt": "x"}, False),
        ({"backend": "docker"}, False),
        ({"distribution": find_distribution("safe")}, False),
        ({"keep_without_reasoning": True}, False),
    ],
)
def test_fingerprint_has_what_changes_results(change: dict[str, Any], same: bool) -> None:
    before = spec(Path("p.jsonl"))
    after = msgspec.structs.replace(before, **change)
    assert (before.fingerprint() == after.fingerprint()) is same


def test_shape_has_the_fields_of_all_rows() -> None:
    rows = [
        {"prompt": "a", "x": 1, "in": {"a": 1}},
        {"prompt": "b", "y": "", "in": {"b": {"c": 2}}},
    ]
    assert metadata_shape(iter(rows)) == {"x": None, "in": {"a": None, "b": {"c": None}}, "y": None}


async def test_plan_takes_the_backend_and_its_image_from_the_settings(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("terminal: {backend: docker, docker_image: mine:1}\n")
    path = write(tmp_path / "p.jsonl", {"prompt": "p", "id": 1})
    model = RunModel(name="m", base_url="http://127.0.0.1:9/v1", home=str(home))
    run = await plan_prompts(path, model)
    assert (run.backend, run.settings) == ("docker", {"terminal.docker_image": "mine:1"})
    assert (run.model.resolved, run.shape) == ("custom:m", {"id": None})
    with pytest.raises(UsageError, match="no backend 'nowhere'"):
        await plan_prompts(path, model, backend="nowhere")


async def test_plan_for_a_cluster_has_address_and_key(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text(
        "model: {provider: custom, base_url: 'http://127.0.0.1:9/v1', default: m, api_key: k-77}\n"
    )
    path = write(tmp_path / "p.jsonl", {"prompt": "p"})
    model = RunModel(home=str(home))
    here = await plan_prompts(path, model)
    assert (here.model.base_url, here.model.api_key) == ("", "")
    there = await plan_prompts(path, model, for_cluster=True)
    assert there.model.base_url == "http://127.0.0.1:9/v1" and there.model.api_key == "k-77"
    assert here.fingerprint() == there.fingerprint()


def test_prefill_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "prefill.json"
    path.write_text('[{"role": "user", "content": "Hi."}]')
    assert read_prefill(path) == ({"role": "user", "content": "Hi."},)
    for text in ('{"role": "user"}', '[{"role": "nobody"}]', "["):
        path.write_text(text)
        with pytest.raises(UsageError, match="has no messages"):
            read_prefill(path)


def test_tools_are_counted_by_outcome() -> None:
    counts = count_tools(
        [
            ToolResult("1", "terminal", "ok"),
            ToolResult("2", "terminal", "no", failed=True),
            ToolResult("3", "made_up", "no", failed=True),
        ]
    )
    assert tuple(counts) == known_tools()
    assert counts["terminal"] == {"count": 2, "success": 1, "failure": 1}
    assert sum(each["count"] for each in counts.values()) == 2


def test_reasoning_is_looked_for_in_every_turn_of_the_model() -> None:
    empty = {"from": "gpt", "value": "<think>\n</think>\nYes."}
    full = {"from": "gpt", "value": "<think>\nHm.\n</think>\nYes."}
    human = {"from": "human", "value": "<think>\nHm.\n</think>\n"}
    assert not has_reasoning([human, empty])
    assert has_reasoning([human, empty, full])
