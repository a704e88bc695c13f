"""Whatever a provider returns becomes plain data, or one line that says what is wrong with it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from hermes.memory.manager import MAX_RESULT_CHARS, MAX_TEXT_CHARS, MAX_TOOLS, validate_answer


class Unclear:
    def __bool__(self) -> bool:
        raise ValueError("both")


@pytest.mark.parametrize(
    ("method", "found", "problem"),
    [
        ("prefetch", 7, "prefetch returned int, not text"),
        ("system_prompt_block", ["a"], "system_prompt_block returned list, not text"),
        ("get_tool_schemas", "look", "get_tool_schemas returned str, not a list"),
        ("entries", {"id": 1}, "entries returned dict, not a list"),
        ("handle_tool_call", object(), "handle_tool_call returned object, not text or what JSON"),
        ("handle_tool_call", {"a": object()}, "returned dict, not text or what JSON can hold"),
    ],
)
def test_another_type_is_named(method: str, found: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        validate_answer(method, found)


def test_a_method_that_is_async_is_named_and_leaves_no_warning() -> None:
    async def prefetch() -> str:
        return "never"

    with pytest.raises(TypeError, match="prefetch is async"):
        validate_answer("prefetch", prefetch())


def test_what_a_tool_returns_becomes_json_where_it_can() -> None:
    found = {"when": datetime(2026, 1, 2, tzinfo=UTC), "tags": {"a"}, "no": None}
    assert json.loads(validate_answer("handle_tool_call", found)) == {
        "when": "2026-01-02T00:00:00Z",
        "tags": ["a"],
        "no": None,
    }


def test_nothing_is_nothing() -> None:
    assert validate_answer("prefetch", None) == ""
    assert validate_answer("get_tool_schemas", None) == validate_answer("entries", None) == []
    assert validate_answer("sync_turn", object()) is None


def test_a_yes_that_is_none_is_a_failure_of_the_provider() -> None:
    assert validate_answer("is_available", "some key") is True
    with pytest.raises(ValueError, match="both"):
        validate_answer("is_available", Unclear())


def test_long_texts_are_cut_and_what_cannot_be_written_is_dropped() -> None:
    assert len(validate_answer("prefetch", "x" * 10 * MAX_TEXT_CHARS)) == MAX_TEXT_CHARS
    assert len(validate_answer("handle_tool_call", ["x" * 1000] * 10_000)) == MAX_RESULT_CHARS
    assert validate_answer("summary", "a\0b\udc80c") == "abc"


def test_entries_have_an_id_a_text_and_plain_values() -> None:
    found = validate_answer(
        "entries", [{"id": 3, "text": None, "tags": {"a"}, "trust": 0.5}, "junk"]
    )
    assert found == [{"id": "3", "text": "None", "tags": "{'a'}", "trust": 0.5}]
    json.dumps(found)


def test_tools_that_an_endpoint_would_refuse_are_left_out() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    tools = validate_answer(
        "get_tool_schemas",
        [
            {"name": "good", "description": 5, "parameters": {"properties": {}}},
            {"name": "no name"},
            {"name": "x" * 65},
            {"name": "sets", "parameters": {"type": "object", "enum": {1, 2}}},
            {"name": "circle", "parameters": circle},
            {"name": "text", "parameters": {"type": "string"}},
            {"name": "listed", "parameters": {"properties": ["a"]}},
            {"name": "huge", "parameters": {"description": "x" * 100_000}},
            {"name": "good"},
        ],
    )
    parameters = {"type": "object", "properties": {}}
    assert tools == [{"name": "good", "description": "5", "parameters": parameters}]


def test_there_are_not_endless_tools() -> None:
    many = [{"name": f"tool{number}", "description": "d" * 9999} for number in range(999)]
    tools = validate_answer("get_tool_schemas", many)
    assert len(tools) == MAX_TOOLS
    assert len(json.dumps(tools)) < 150_000
