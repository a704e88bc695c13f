"""Results as people read them."""

import json

import pytest

from hermes.core.messages import ToolCall
from hermes.mcp.tools import fence_data
from hermes.tui.tool_results import describe_call, parse_call, readable
from tests.cases import cases

CASES = cases(__file__)


@pytest.mark.parametrize(("value", "shown"), CASES["json is shown by its content"])
def test_json_is_shown_by_its_content(value: object, shown: str) -> None:
    assert readable(json.dumps(value)) == shown


def test_text_that_is_not_json_is_unchanged() -> None:
    assert readable("[no output]") == "[no output]"
    assert readable("{not json}") == "{not json}"
    assert readable("\nplain\n") == "plain"


def test_json_that_was_cut_still_shows_its_text() -> None:
    cut = json.dumps({"status": "success", "output": 'say "hi"\n' * 1000})
    for end in range(55, 70):
        text = readable(f"{cut[:end]}\n[… 9000 characters in all …]\nthe end")
        assert text.startswith('say "hi"\nsa')
    assert readable('{"output": "one two \\u20') == "one two "


def test_data_of_a_server_is_shown_without_its_fence() -> None:
    assert readable(fence_data("plain text", "github")) == "plain text"
    assert readable(fence_data(json.dumps({"text": "inner"}), "github")) == "inner"
    assert readable(f"{fence_data('one', 'a')}\n{fence_data('two', 'b')}") == "one\ntwo"


@pytest.mark.parametrize(("name", "arguments", "words"), CASES["call is described by its main"])
def test_call_is_described_by_its_main_argument(name, arguments, words):
    assert describe_call(parse_call(ToolCall("1", name, json.dumps(arguments)))) == words
