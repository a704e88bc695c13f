"""What an endpoint's refusal is taken for."""

import httpx2
import pytest

from hermes.core import errors
from hermes.providers.wire.failures import detail_of, refused

CASES = [
    (401, b'{"error":{"message":"Incorrect API key provided"}}', errors.CredentialRefused),
    (403, b'{"error":"forbidden"}', errors.CredentialRefused),
    (402, b'{"error":{"message":"Insufficient credits"}}', errors.QuotaSpent),
    (404, b'{"error":{"message":"The model `x` does not exist"}}', errors.ModelNotFound),
    (413, b"", errors.ContextOverflow),
    (
        400,
        b'{"error":{"message":"This model\'s maximum context length is 8192 tokens"}}',
        errors.ContextOverflow,
    ),
    (400, b'{"error":{"message":"blocked by content management policy"}}', errors.ContentRefused),
    (400, b'{"error":{"message":"bad tool schema"}}', errors.RequestRefused),
    (429, b'{"error":{"message":"slow down"}}', errors.RateLimited),
    (
        429,
        b'{"error":{"message":"over quota","code":"insufficient_quota"}}',
        errors.QuotaSpent,
    ),
    (500, b"<html><body>Internal Server Error</body></html>", errors.ServerFault),
    (503, b"", errors.ServerFault),
    (529, b'{"error":{"type":"overloaded_error","message":"Overloaded"}}', errors.ServerFault),
]


@pytest.mark.parametrize(("status", "body", "kind"), CASES)
def test_a_refusal_is_told_apart(status, body, kind):
    error = refused(status, httpx2.Headers(), body, "acme")
    assert type(error) is kind
    assert "acme" in str(error)
    assert "\n" not in str(error)
    assert str(status) in str(error)


def test_the_wait_a_server_asks_for_is_kept():
    error = refused(429, httpx2.Headers({"retry-after": "7"}), b"", "acme")
    assert isinstance(error, errors.RateLimited)
    assert error.retry_after == 7.0


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"error":{"message":"a\\nb"}}', "a b"),
        (b'{"detail":"nope"}', "nope"),
        (b'{"message":"m"}', "m"),
        (b"<!doctype html><p>x</p>", ""),
        (b"plain words", "plain words"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_what_the_endpoint_said_is_one_short_line(body, shown):
    assert detail_of(body) == shown
