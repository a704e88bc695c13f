"""A small model is offered a few tools with few parameters, under a strict grammar."""

import json

import jsonschema_rs
import pytest

from hermes.core.model import ToolSpec
from hermes.providers.small_model import SMALL, describe_tool, reply_schema, select_tools

TEXT = {"type": "string", "description": "words that only cost tokens", "default": "x"}


def spec(name: str, required: tuple[str, ...] = (), **properties: dict[str, object]) -> ToolSpec:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSpec(name, f"Does {name}. And much more.\nReally.", parameters)


READ = spec("read_file", ("path",), path=TEXT, offset={"type": "integer"})
SEARCH = spec("search_files", ("pattern",), pattern=TEXT, target={"enum": ["content", "files"]})
TERMINAL = spec("terminal", ("command",), command=TEXT, timeout={"type": "integer"})
WRITE = spec("write_file", ("path", "content"), path=TEXT, content=TEXT)


def test_of_ten_tools_the_five_most_useful_are_offered_in_a_fixed_order():
    others = [spec(f"other_{number}") for number in range(6)]
    names = [s.name for s in select_tools((*others, WRITE, TERMINAL, SEARCH, READ), SMALL)]
    assert names == ["terminal", "read_file", "write_file", "search_files", "other_0"]


def test_a_known_tool_keeps_the_parameters_of_its_hint_and_others_the_required_ones():
    mail = spec("mail", ("to",), to=TEXT, cc=TEXT)
    read, search, other = select_tools((READ, SEARCH, mail), SMALL)
    assert read.parameters["properties"] == {"path": {"type": "string"}}
    assert list(search.parameters["properties"]) == ["pattern", "target"]
    assert other.parameters["properties"] == {"to": {"type": "string"}}
    assert describe_tool(other) == "mail(to): Does mail"


def test_a_tool_called_reply_is_left_out():
    assert select_tools((spec("reply"), READ), SMALL) == select_tools((READ,), SMALL)


def test_a_parameter_with_a_reference_admits_anything():
    (tool,) = select_tools((spec("plan", ("steps",), steps={"$ref": "#/$defs/Steps"}),), SMALL)
    assert tool.parameters["properties"] == {"steps": {}}


@pytest.mark.parametrize(
    ("answer", "valid"),
    [
        ({"terminal": {"command": "ls"}}, True),
        ({"search_files": {"pattern": "x", "target": "files"}}, True),
        ({"reply": "hello"}, True),
        ({"terminal": {}}, False),
        ({"terminal": {"command": "ls", "timeout": 3}}, False),
        ({"search_files": {"pattern": "x", "target": "everywhere"}}, False),
        ({"mail": {"to": "me"}}, False),
        ({"reply": {"text": "hello"}}, False),
        ({"terminal": {"command": "ls"}, "reply": "both"}, False),
        ({}, False),
    ],
)
def test_the_grammar_admits_one_call_or_one_reply(answer: dict[str, object], valid: bool):
    schema = reply_schema(select_tools((READ, SEARCH, TERMINAL, WRITE), SMALL))
    assert jsonschema_rs.is_valid(schema, answer) is valid, json.dumps(answer)


def test_without_tools_only_a_reply_is_possible():
    schema = reply_schema(())
    assert jsonschema_rs.is_valid(schema, {"reply": "hello"})
    assert not jsonschema_rs.is_valid(schema, {"terminal": {"command": "ls"}})
