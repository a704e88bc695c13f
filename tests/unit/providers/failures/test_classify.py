"""The texts of errors, redirects, lost connections, and what no answer may do."""

import errno
import ssl
import unicodedata

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core import errors
from hermes.core.errors import ProviderError
from hermes.providers.failures.classify import failed_in_stream, refused, unreachable
from hermes.providers.transport import ConnectionFailed

KNOWN = (
    "error message type code status detail details metadata raw param headers loc msg retryDelay "
    "resets_at resets_in_seconds base_resp status_code response"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(KNOWN.split()) | st.text(), inner)
    ),
    max_leaves=20,
)
WORDS = st.text() | st.sampled_from(
    ["try again in ", "maximum context length", "\x1b[31m", "sk-abcdef0123456789", "\ud800"]
)


def check(error: ProviderError) -> None:
    assert isinstance(error, ProviderError)
    for text in (str(error), error.hint, error.body):
        assert len(text) <= 400
        assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in text)
    assert str(error)
    assert error.retry_after is None or error.retry_after >= 0


@given(st.text(), st.integers(), st.dictionaries(st.text(), st.text()), st.binary())
def test_any_answer_becomes_one_readable_line(provider, status, headers, body):
    check(refused(provider, status, headers, body))


@given(st.integers(300, 599), st.lists(WORDS).map("".join))
def test_any_words_become_one_readable_line(status, text):
    check(refused("acme", status, {}, text.encode("utf-8", "surrogatepass")))
    check(failed_in_stream("acme", text))


@given(JSON)
def test_any_error_inside_an_answer_becomes_one_readable_line(error):
    check(failed_in_stream("acme", error))


@given(
    st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset", "location"]),
    st.text() | st.integers().map(str) | st.floats().map(str),
)
def test_any_header_is_survived(name, value):
    check(refused("acme", 429, {name: value}, b""))
    check(refused("acme", 302, {name: value}, b""))


def test_message_names_provider_problem_status_and_detail():
    body = b'{"error":{"message":"Rate limit reached. Please try again in 20s."}}'
    error = refused("openai", 429, {}, body)
    assert str(error) == (
        "openai is limiting requests (HTTP 429, wait 20s): "
        "Rate limit reached. Please try again in 20s."
    )
    assert error.body == "Rate limit reached. Please try again in 20s."
    assert "hermes auth add openai" in error.hint


def test_a_key_that_is_echoed_is_in_no_field():
    key = "sk-proj-aBcD1234efgh5678"
    body = f'{{"error":{{"message":"Incorrect API key provided: {key}"}}}}'.encode()
    error = refused("openai", 401, {}, body)
    assert key not in f"{error} {error.body} {error.hint}"


def test_headers_are_found_whatever_their_case():
    for headers in (httpx2.Headers({"Retry-After": "7"}), {"RETRY-AFTER": "7"}):
        assert refused("acme", 429, headers, b"").retry_after == 7


def test_a_redirect_is_not_followed_and_says_where_it_points():
    headers = {"location": "https://user:pw@elsewhere.example/v1/chat?key=secret"}
    error = refused("acme", 308, headers, b"")
    assert type(error) is errors.RequestRefused
    assert "https://elsewhere.example/v1/chat (HTTP 308)" in str(error)
    assert "never sent along a redirect" in str(error)
    assert "secret" not in str(error)
    assert "pw" not in str(error)
    assert "model.base_url" in error.hint


def test_the_system_error_behind_a_failed_connection_is_named():
    refused = OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 9)")
    attempts = ConnectionFailed("All connection attempts failed")
    attempts.__cause__ = ExceptionGroup("multiple connection attempts failed", [refused])
    error = unreachable("custom", "http://127.0.0.1:9/v1", attempts)
    assert str(error) == "cannot reach custom at http://127.0.0.1:9/v1: connection refused"
    assert "nothing listens there" in error.hint
    refused_key = ConnectionFailed("certificate verify failed")
    refused_key.__cause__ = ssl.SSLError(1, "certificate verify failed")
    assert "certificate verify failed" in str(unreachable("custom", "https://a/v1", refused_key))


@pytest.mark.parametrize(
    ("error", "kind", "hint"),
    [
        (httpx2.ConnectError("All connection attempts failed"), errors.Unreachable, "whether"),
        (httpx2.ConnectError("[Errno 111] Connection refused"), errors.Unreachable, "listens"),
        (httpx2.ConnectError("[Errno -2] Name or service not known"), errors.Unreachable, "name"),
        (
            httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"),
            errors.Unreachable,
            "certificate",
        ),
        (httpx2.ConnectTimeout(""), errors.Unreachable, "network"),
        (httpx2.UnsupportedProtocol("ftp://"), errors.Unreachable, "address"),
        (httpx2.ReadTimeout(""), errors.StreamStalled, ""),
        (httpx2.RemoteProtocolError("peer closed connection"), errors.StreamCut, ""),
        (httpx2.ReadError(""), errors.StreamCut, ""),
    ],
)
def test_a_lost_connection_says_what_was_lost(error, kind, hint):
    made = unreachable("acme", "http://user:pw@127.0.0.1:9/v1?key=x", error)
    assert type(made) is kind
    assert "acme" in str(made)
    assert hint in made.hint
    assert "pw" not in str(made)
    if kind is errors.Unreachable:
        assert "http://127.0.0.1:9/v1" in str(made)
