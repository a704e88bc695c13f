"""Arguments that a tool wants repeated in HTTP headers (`x-mcp-header`)."""

import pytest
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map

from hermes.mcp.catalog import admit_tools

REGION = {"type": "string", "x-mcp-header": "Region"}
VALID = [
    {"properties": {"region": REGION}},
    {"properties": {"a": {"type": "integer", "x-mcp-header": "A"}, "b": {"type": "boolean"}}},
    {"properties": {"options": {"type": "object", "properties": {"region": REGION}}}},
    {"properties": {"properties": REGION}},
    {"properties": {"x": {"type": "object", "default": {"x-mcp-header": "is data"}}}},
    {"properties": {"x-mcp-header": {"type": "string"}}},
    {"properties": {"a": {"enum": [{"x-mcp-header": ""}]}, "b": {"const": REGION}}},
]
INVALID = [
    {"properties": {"a": {"type": "string", "x-mcp-header": ""}}},
    {"properties": {"a": {"type": "string", "x-mcp-header": "a b"}}},
    {"properties": {"a": {"type": "string", "x-mcp-header": "a\r\nHost: evil"}}},
    {"properties": {"a": {"type": "string", "x-mcp-header": "größe"}}},
    {"properties": {"a": {"type": "string", "x-mcp-header": 7}}},
    {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
    {"properties": {"a": {"type": "object", "x-mcp-header": "A"}}},
    {"properties": {"a": {"type": ["string", "null"], "x-mcp-header": "A"}}},
    {"properties": {"a": {"x-mcp-header": "A"}}},
    {"properties": {"a": REGION, "b": {"type": "string", "x-mcp-header": "REGION"}}},
    {"properties": {"a": {"type": "array", "items": REGION}}},
    {"properties": {"a": {"anyOf": [REGION]}}},
    {"properties": {"a": {"$ref": "#/$defs/r"}}, "$defs": {"r": REGION}},
    {"properties": {}, "patternProperties": {"^a": REGION}},
    {"properties": {}, "if": {"properties": {"a": REGION}}},
    {"properties": {}, "additionalProperties": REGION},
    {"properties": {}, "x-mcp-header": "Root", "description": "of the whole"},
]


def admit(schema, *, mirrors=True):
    return admit_tools(
        [{"name": "t", "inputSchema": {"type": "object", **schema}}], mirrors=mirrors
    )


@pytest.mark.parametrize("schema", VALID)
def test_valid_annotations_are_found_as_the_official_sdk_finds_them(schema):
    assert find_invalid_x_mcp_header({"type": "object", **schema}) is None
    (tool,), problems = admit(schema)
    assert not problems
    assert {field.path: field.name for field in tool.headers} == x_mcp_header_map(schema)


@pytest.mark.parametrize("schema", INVALID)
def test_tools_with_annotations_that_the_protocol_forbids_are_left_out(schema):
    assert find_invalid_x_mcp_header({"type": "object", **schema}) is not None
    tools, (problem,) = admit(schema)
    assert not tools
    assert problem.startswith("t: ")
    assert "header" in problem
    assert "\n" not in problem


@pytest.mark.parametrize("schema", INVALID)
def test_annotations_do_not_matter_without_http(schema):
    (tool,), problems = admit(schema, mirrors=False)
    assert not problems
    assert not tool.headers
