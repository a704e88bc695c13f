"""What the model reads of an answer."""

from typing import Any

import pytest

from hermes.config.settings import McpServer
from hermes.mcp.connection import ErrorRedactor
from hermes.mcp.tools import call_result
from tests.cases import cases
from tests.integration.mcp.stage import inside

CASES = cases(__file__)


def shown(structured: Any, *texts: str) -> str:
    content = [{"type": "text", "text": text} for text in texts]
    result = {"content": content, "structuredContent": structured}
    return inside(call_result(result, "srv", ErrorRedactor(McpServer())))


@pytest.mark.parametrize(
    ("structured", "texts"),
    [
        ({"a": 1}, ('{ "a": 1 }',)),
        ({"result": "ok"}, ("ok",)),
        ({"result": 5}, ("5",)),
        ({"result": ["a", {"b": 1}]}, ("a", '{"b":1}')),
    ],
)
def test_structured_content_repeated_as_text_is_shown_once(structured, texts):
    assert shown(structured, *texts) == "\n".join(texts)


@pytest.mark.parametrize(
    ("structured", "texts"),
    [({"a": 1}, ("found one",)), ({"result": "no"}, ("ok",)), ({"a": 1}, ())],
)
def test_content_that_is_only_structured_is_shown(structured: Any, texts: tuple[str, ...]) -> None:
    assert shown(structured, *texts).startswith("\n".join([*texts, "{"]))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("not a list", "not a list"),
        (["one", {"type": "text", "text": "two"}], "one\ntwo"),
        ({"type": "text", "text": "alone"}, "alone"),
        (7, "[something that is no content]"),
    ],
)
def test_content_in_the_wrong_shape_is_read_all_the_same(content: Any, text: str) -> None:
    assert inside(call_result({"content": content}, "srv", ErrorRedactor(McpServer()))) == text


@pytest.mark.parametrize(("text", "redacted"), CASES["secrets"])
def test_secrets_in_error_messages_are_taken_out(text: str, redacted: str) -> None:
    settings = McpServer(headers={"Authorization": "Basic dXNlcjpwYXNz"})
    assert ErrorRedactor(settings).redact(text) == redacted
