"""What is read out of the bodies of failed answers."""

import json

import pytest

from hermes.providers.failures import body as bodies


def read(body, headers=None):
    return bodies.read_body(
        body if isinstance(body, bytes) else json.dumps(body).encode(), headers or {}
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "one", "type": "t", "code": "c"}}, "one"),
        ({"type": "error", "error": {"type": "t", "message": "two"}}, "two"),
        ([{"error": {"code": 400, "message": "three", "status": "S"}}], "three"),
        ({"object": "error", "message": "four", "code": 400}, "four"),
        ({"message": {"detail": [{"loc": ["body", 0], "msg": "five"}]}}, "body.0: five"),
        ({"detail": "six"}, "six"),
        ({"error": "seven"}, "seven"),
        ({"base_resp": {"status_code": 1, "status_msg": "eight"}}, "eight"),
        ({"error": {"message": json.dumps({"error": {"message": "nine"}})}}, "nine"),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": "ten"}}}, "ten"),
        ({"error": {"message": "Provider returned error"}}, "Provider returned error"),
        ({"message": ""}, ""),
        (b"plain words", "plain words"),
        (b"event: error\ndata: {\"message\": \"in an event\"}\n\n", "in an event"),
        (b"<html><head><title>Oops</title></head></html>", "Oops"),
        (b"<html><body>no title</body></html>", ""),
        (b"", ""),
        (b"\xff\xfe", "��"),
        (b"{\"message\": ", "{\"message\":"),
    ],
)  # fmt: skip
def test_the_message_is_found_in_every_shape(body, message):
    assert read(body).message == message


def test_types_and_codes_become_codes():
    body = {"error": {"type": "A", "code": 7, "details": [{"reason": "B"}]}, "status": "C"}
    assert read(body).codes == {"a", "7", "b", "c"}


def test_amazon_names_the_error_in_a_header_or_with_a_namespace():
    said = read({"__type": "com.amazon#Throttled"}, {"x-amzn-errortype": "Refused:http://x/"})
    assert said.codes == {"throttled", "refused"}


def test_the_status_inside_the_body_is_the_outermost_one():
    inside = {"code": 502, "metadata": {"raw": json.dumps({"error": {"code": 400}})}}
    assert bodies.read_error(inside).status == 502
    assert bodies.read_error({"code": "1302"}).status is None


def test_a_page_is_told_from_an_answer():
    assert read(b"  <!doctype html>").is_page
    assert not read({"message": "<b>"}).is_page


def test_an_error_without_words_is_shown_as_it_is():
    assert bodies.read_error({"odd": 1}).message == "{'odd': 1}"
    assert bodies.read_error(None).message == "no details"


def test_endless_nesting_is_not_followed():
    deep: object = "bottom"
    for _ in range(50):
        deep = {"error": deep}
    assert "bottom" in bodies.read_error(deep).message  # shown whole, but not walked through
    assert bodies.read_body(b"[" * 100_000, {}).message.startswith("[[")
