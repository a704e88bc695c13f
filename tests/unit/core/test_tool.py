"""A tool made of a function: what the model sees and how it is called."""

from typing import Literal

import msgspec
import pytest

from hermes.core.cancel import CancelToken
from hermes.core.model import ToolSpec
from hermes.core.tool import _PLAIN_TYPES, Concern, Effect, Tool, ToolContext
from tests.cases import cases


def spec_of(function):
    return Tool.from_function(function).spec


async def search(
    pattern: str,
    path: str = ".",
    limit: int = 50,
    kind: Literal["content", "files"] = "content",
    globs: list[str] | None = None,
    whole_words: bool = False,
    title: str = "",
) -> str:
    """Search files.

    pattern: a regular expression
    limit: most results
    Note: results are sorted.
    """
    return f"{pattern} {path} {limit} {kind} {globs} {whole_words} {title}"


async def speak(context: ToolContext, text: str) -> str:
    """Say it aloud."""
    context.output(text)
    return f"said in {context.session_id}"


@pytest.fixture
def heard() -> list[str]:
    return []


@pytest.fixture
def context(heard: list[str]) -> ToolContext:
    return ToolContext("s1", "c1", CancelToken(), heard.append)


def test_the_schema_comes_from_the_signature_and_the_texts_from_the_docstring():
    assert spec_of(search) == ToolSpec(
        "search",
        "Search files.\n\nNote: results are sorted.",
        cases(__file__)["search"],
    )
    spec = spec_of(search)
    assert msgspec.json.decode(msgspec.json.encode(spec), type=ToolSpec) == spec


def test_a_function_without_parameters_or_docstring_has_an_empty_schema():
    async def now() -> str:
        return "noon"

    assert spec_of(now) == ToolSpec("now", "", {"type": "object", "properties": {}})


def test_functions_of_one_factory_share_what_is_the_same_and_nothing_else():
    def made(limit: int, kind: type, about: str):
        async def look(what: kind, most: int = limit) -> str:
            return f"{what} {most}"

        look.__doc__ = about
        return look

    first = spec_of(made(3, str, "Look."))
    assert spec_of(made(3, str, "Look.")) is first
    for other in (made(4, str, "Look."), made(3, int, "Look."), made(3, str, "Look there.")):
        assert spec_of(other) != first
    assert spec_of(made(3, str, "Look.")) == first


async def test_a_call_gets_its_arguments_and_the_defaults(context):
    tool = Tool.from_function(search)
    result = await tool.handler(context, {"pattern": "x", "limit": 3})
    assert result == "x . 3 content None False "


async def test_a_call_gets_its_context_which_the_model_cannot_pass(context, heard):
    tool = Tool.from_function(speak)
    assert set(tool.spec.parameters["properties"]) == {"text"}
    arguments = {"text": "hello", "context": "forged", "other": 1}
    assert await tool.handler(context, arguments) == "said in s1"
    assert heard == ["hello"]


async def test_fields_of_the_tool_are_set_by_its_maker():
    concern = Concern("shell", "rm", "deletes")

    async def examine(_arguments):
        return concern

    tool = Tool.from_function(
        speak, effect=Effect.SEND, serial=True, toolset="voice", examine=examine
    )
    assert (tool.name, tool.effect, tool.serial, tool.toolset) == ("speak", "send", True, "voice")
    assert await tool.examine({}) == concern


def test_tool_is_read_only_by_default():
    tool = Tool.from_function(search)
    assert (tool.effect, tool.serial, tool.examine) == (Effect.READ, False, None)


def test_plain_types_have_the_schema_of_msgspec() -> None:
    for kind, name in _PLAIN_TYPES:
        assert msgspec.json.schema(kind) == {"type": name}
