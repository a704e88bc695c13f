"""What the model reads of an answer."""

import base64
from typing import Any

import pytest

from hermes.config.settings import McpServer
from hermes.core.messages import Image
from hermes.mcp.connection import ErrorRedactor
from hermes.mcp.tools import call_result
from tests.cases import cases
from tests.integration.mcp.stage import inside

CASES = cases(__file__)


def shown(structured: Any, *texts: str) -> str:
    content = [{"type": "text", "text": text} for text in texts]
    result = {"content": content, "structuredContent": structured}
    return inside(call_result(result, "srv", ErrorRedactor(McpServer())))


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n and more").decode()


@pytest.mark.parametrize(
    ("data", "is_shown"),
    [
        (PNG, True),
        ("A" * 4_000, False),  # not an image
        ("no base64!", False),
        (base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(6_000_000)).decode(), False),
        (None, False),
    ],
    ids=["png", "zeros", "broken", "too large", "nothing"],
)
def test_images_are_shown_to_the_model_and_others_described(data: Any, is_shown: bool) -> None:
    images: list[Image] = []

    def add(image: Image) -> bool:
        images.append(image)
        return True

    result = {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
    text = inside(call_result(result, "srv", ErrorRedactor(McpServer()), add))
    assert [image.url for image in images] == [f"data:image/png;base64,{PNG}"] * is_shown
    assert text.startswith("[image, image/png, ")
    assert text.endswith("; it follows the results]") == is_shown


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
