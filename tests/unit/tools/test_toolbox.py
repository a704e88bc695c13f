"""Arguments as models write them, and results of any size."""

from typing import Literal

import pytest

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.core.model import ToolSpec
from hermes.core.tool import Tool
from hermes.tools.toolbox import LocalResultStore, Toolbox
from tests.cases import cases

CASES = cases(__file__)


async def sample(
    path: str,
    count: int = 1,
    ratio: float = 0.5,
    deep: bool = False,
    names: list[str] | None = None,
    mode: Literal["fast", "slow"] = "fast",
) -> str:
    """A tool."""
    return f"{path} {count} {ratio} {deep} {names} {mode}"


@pytest.fixture
def tool():
    return Tool.from_function(sample)


@pytest.fixture
def box(tool, tmp_path):
    return Toolbox([tool], LocalResultStore(tmp_path / "spill").save, max_chars=1_000)


def test_tools_are_found_by_name(box, tool):
    assert box.get("sample") is tool
    assert box.get("other") is None
    assert [spec.name for spec in box.specs] == ["sample"]


@pytest.mark.parametrize(("text", "expected"), CASES["arguments_are_converted_to_the_schema_types"])
def test_arguments_are_converted_to_the_schema_types(box, tool, text, expected):
    decoded = box.decode(tool, text)
    assert decoded == expected
    assert [type(value) for value in decoded.values()] == [type(v) for v in expected.values()]


@pytest.mark.parametrize(("text", "message"), CASES["invalid_arguments_are_explained"])
def test_invalid_arguments_are_explained(box, tool, text, message):
    with pytest.raises(ToolArgumentsInvalid, match=message) as wrong:
        box.decode(tool, text)
    assert "\n" not in str(wrong.value)
    if "JSON" not in message:
        assert "sample(path: string" in wrong.value.hint


@pytest.mark.parametrize("schema", CASES["invalid_schema_is_reported_as_a_tool_error"])
def test_invalid_schema_is_reported_as_a_tool_error(box, tool, schema):
    odd = Tool(ToolSpec("odd", "", {"type": "object", **schema}), tool.handler)
    with pytest.raises(ToolError, match="the schema of odd is wrong"):
        box.decode(odd, '{"a": 1}')


async def test_short_result_passes_unchanged(box, tool, tmp_path):
    assert await box.fit(tool.name, "c1", "short") == "short"
    assert not (tmp_path / "spill").exists()
    assert await box.fit(tool.name, "c1", "a\udce9b") == "ab", "without lone surrogates"


async def test_long_result_is_saved_and_names_its_file(box, tool, tmp_path):
    result = "start" + "x" * 5_000 + "end"
    text = await box.fit(tool.name, "call/../1", result)
    assert text.startswith("start")
    assert text.endswith("end")
    assert len(text) < 500
    (path,) = (tmp_path / "spill").iterdir()
    assert str(path) in text
    assert path.read_text() == result


async def test_long_result_is_shortened_when_it_cannot_be_saved(tool, tmp_path):
    (tmp_path / "file").touch()
    box = Toolbox([tool], LocalResultStore(tmp_path / "file" / "spill").save, max_chars=100)
    assert "could not be stored" in await box.fit(tool.name, "c1", "x" * 1_000)
