"""What is read out of the bodies of failed answers."""

import json

import pytest

from hermes.core import errors
from hermes.providers.failures import body as bodies
from hermes.providers.failures.body import (
    Complaint,
    RetryHints,
    parse_wait,
    printable,
    requested_wait,
)
from tests.cases import table_test


def read(body, headers=None):
    return bodies.read_body(
        body if isinstance(body, bytes) else json.dumps(body).encode(), headers or {}
    )


MESSAGES = [
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
]  # fmt: skip


def test_the_message_is_found_in_every_shape():
    found = [(body, read(body).message) for body, _ in MESSAGES]
    assert found == MESSAGES


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


def test_web_pages_are_recognised():
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


KEYS = (
    "sk-proj-abcdefGHIJKL0123456789",
    "sk-or-v1-0123456789abcdef0123456789abcdef",
    "sk-ant-api03-aaaaBBBBcccc1111-_dd",
    "sk-proj-********************abcd",
    "sk***YA",
    "na***ys",
    "gsk_abcdefgh12345678",
    "xai-abcdefgh12345678",
    "hf_abcdefghijklmnop",
    "nvapi-abcdefgh-12345678",
    "ghu_16C7e42F292c6912E7710c838347Ae178B4a",
    "AIzaSyA-1234567890abcdefghijk",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "0123456789abcdef0123456789abcdef.AbCdEfGhIjKlMnOp",
    "ak-f1abcdefgh2ijk",
)
SENTENCES = ("Incorrect API key provided: {}. See there.", "key <{}> is bad", "Bearer {}")


def test_keys_that_endpoints_repeat_are_hidden():
    shown = [(key, printable(text.format(key), 300)) for key in KEYS for text in SENTENCES]
    wrong = [(key, text) for key, text in shown if key[-6:] in text or "***" not in text]
    assert wrong == []


WORDS = [
    "The model `gpt-4o-mini-2024-07-18` does not exist",
    "anthropic/claude-sonnet-4.5 is not a valid model ID",
    "16f2151a-40f4-4a80-8ad0-cae00c27e8dd",
    "exceed_context_size_error: 14429 tokens",
    "余额不足或无可用资源包,请充值。",
    "ask-me and task-list-item-number-one",
]


def test_ordinary_words_are_not_hidden():
    assert [printable(words, 300) for words in WORDS] == WORDS


@table_test
def test_printable_text_is_one_line_without_control_characters(text, shown):
    assert printable(text, 300) == shown


def test_printable_text_is_truncated():
    assert printable("word " * 100, 20) == "word word word word…"


NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        ("0.25", 0.25),
        ("250ms", 0.25),
        ("1s", 1),
        ("6m0s", 360),
        ("1h2m3.5s", 3723.5),
        ("4 days 20 hours 9 minutes", 4 * 86400 + 20 * 3600 + 540),
        ("1 minute and 5 seconds", 65),
        ("1700000030", 30),
        ("1700000030500", 30.5),
        ("2023-11-14T22:14:20Z", 60),
        ("2023-11-15T00:13:30+02:00", 10),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0),
        ("-5", 0),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("9" * 400, None),
        ("2099-01-01T00:00:00Z", None),
        ("5 apples", None),
    ],
)
def test_a_time_is_read_however_it_is_written(value, seconds):
    assert parse_wait(value, NOW) == pytest.approx(seconds)


def wait(kind, headers=None, **complaint):
    return requested_wait(kind, RetryHints(headers or {}, Complaint(**complaint), NOW))


def test_explicit_retry_header_wins():
    headers = {"retry-after-ms": "1500", "retry-after": "2", "x-ratelimit-reset": "99"}
    assert wait(errors.RateLimited, headers) == 1.5
    del headers["retry-after-ms"]
    assert wait(errors.RateLimited, headers) == 2
    del headers["retry-after"]
    assert wait(errors.RateLimited, headers) == 99


def test_of_empty_buckets_the_last_to_fill_counts_else_the_first():
    headers = {
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-reset-tokens": "6m0s",
        "x-ratelimit-remaining-requests": "3",
        "x-ratelimit-remaining-tokens": "5",
    }
    assert wait(errors.RateLimited, headers) == 1
    headers["x-ratelimit-remaining-tokens"] = "0"
    assert wait(errors.RateLimited, headers) == 360


@table_test
def test_a_wait_in_words_is_understood(text, seconds):
    assert wait(errors.RateLimited, text=text) == pytest.approx(seconds)


def test_a_spent_quota_does_not_take_a_pause_of_seconds_for_its_reset():
    headers = {"x-ratelimit-reset-requests": "1s"}
    complaint = {"text": "try again in 3s", "waits": {"retrydelay": "17s"}}
    assert wait(errors.QuotaSpent, headers, **complaint) is None
    assert wait(errors.QuotaSpent, waits={"resets_at": "1700000600"}) == 600


def test_only_errors_that_pass_with_time_have_a_wait():
    for kind in (errors.ContextOverflow, errors.CredentialRefused, errors.RequestRefused):
        assert wait(kind, {"retry-after": "7"}) is None
    for kind in (errors.ServerFault, errors.Overloaded):
        assert wait(kind, {"retry-after": "7"}) == 7
