from typing import Any

import pytest
from hypothesis import given

from hermes.core.messages import Assistant, Image, Text, ToolResult, User, to_dict
from hermes.store.rows import COLUMNS, from_row, to_row, user_text
from hermes.util.text import clean
from tests.unit.store import conversations

IMAGE = User((Text("what is this?"), Image("data:image/png;base64,AAAA")))


def cleaned(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case list():
            return [cleaned(item) for item in value]
        case dict():
            return {cleaned(key): cleaned(item) for key, item in value.items()}
        case _:
            return value


@given(conversations.messages)
def test_every_message_comes_back_as_it_was(message):
    stored = from_row(to_row(message))
    assert stored is not None
    assert to_dict(stored) == cleaned(to_dict(message))
    assert getattr(stored, "failed", None) == getattr(message, "failed", None)
    assert all(value is None or "\0" not in value for value in to_row(message))


def test_text_that_looks_like_an_image_message_stays_text():
    content = to_row(IMAGE)[1]
    assert content is not None
    assert from_row(to_row(IMAGE)) == IMAGE
    assert from_row(to_row(User.say(content))) == User.say(content)


def test_the_preview_of_an_image_message_is_its_text():
    assert user_text(to_row(IMAGE)[1]) == "what is this?"
    assert user_text(None) == ""


def row(**values: str) -> list[str | None]:
    return [values.get(column) for column in COLUMNS]


@pytest.mark.parametrize("tool_calls", ["{", "7", "null", "[1]", '[{"function": "x"}]', '{"a":1}'])
def test_broken_tool_calls_of_an_old_database_lose_only_themselves(tool_calls):
    message = from_row(row(role="assistant", content="hello", tool_calls=tool_calls))
    assert isinstance(message, Assistant)
    assert (message.text, message.calls) == ("hello", ())


def test_a_row_with_an_unknown_role_is_left_out(caplog):
    assert from_row(row(role="session_meta", content="x")) is None
    assert "unknown role" in caplog.text


def test_a_failed_tool_is_still_a_failed_tool():
    result = ToolResult("call_1", "terminal", "no such file", failed=True)
    assert from_row(to_row(result)) == result
