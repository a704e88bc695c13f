"""Access without a key is for programs on this machine; with one, for clients that send it."""

import tomllib
from pathlib import Path

import pytest
from starlette.applications import Starlette

from hermes.gateway.platforms.api_server.app import USUAL_HEADERS, AccessMiddleware
from hermes.gateway.platforms.api_server.http import ApiError, ApiOptions

KEY = "correct horse battery"
CASES = tomllib.loads(Path(__file__).with_name("access.toml").read_text("utf-8"))
HERE = {"host": "127.0.0.1:8642"}


def access(options: ApiOptions) -> AccessMiddleware:
    return AccessMiddleware(Starlette(), options)


def check(options: ApiOptions, headers: dict[str, str], *, is_public: bool = False) -> int:
    """The status it is refused with; 0 when it is let in."""
    try:
        access(options).check(headers, is_public=is_public)
    except ApiError as refused:
        assert KEY not in str(refused)
        return refused.status
    return 0


@pytest.mark.parametrize("given", CASES["wrong_keys"])
def test_a_wrong_key_is_refused(given):
    assert check(ApiOptions(key=KEY), {**HERE, "authorization": given}) == 401


@pytest.mark.parametrize("given", [f"Bearer {KEY}", f"bearer {KEY}", f"BEARER  {KEY} "])
def test_right_key_is_accepted_from_any_host(given):
    headers = {"host": "evil.example", "origin": "https://evil.example", "authorization": given}
    assert check(ApiOptions(key=KEY), headers) == 0


def test_key_may_contain_non_ascii_characters():
    key = "schlüssel-für-das-tor"
    sent = f"Bearer {key}".encode().decode("latin-1")
    assert check(ApiOptions(key=key), {"authorization": sent}) == 0
    assert check(ApiOptions(key=key), {"authorization": f"Bearer {key}"}) == 401


def test_health_needs_no_key():
    assert check(ApiOptions(key=KEY), HERE, is_public=True) == 0


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer ", "bearer  ", "Basic ", " "])
def test_without_a_configured_key_no_client_is_admitted(given):
    assert check(ApiOptions(), {**HERE, "authorization": given}) == 401
    assert check(ApiOptions(), HERE) == 401


def test_preflight_is_answered_for_configured_origins_only():
    policy = access(ApiOptions(origins=("http://localhost:3000",)))
    asked = {"access-control-request-method": "POST"}
    headers = policy.preflight({**asked, "origin": "http://localhost:3000"})
    assert headers is not None
    assert headers["Access-Control-Max-Age"] == "600"
    assert policy.preflight({**asked, "origin": "http://evil.example"}) is None
    assert policy.preflight({"origin": "http://localhost:3000"}) is None
    assert access(ApiOptions()).preflight({**asked, "origin": "http://localhost:3000"}) is None


def test_preflight_returns_requested_headers_unless_invalid():
    policy = access(ApiOptions(origins=("*",), key=KEY))
    asked = {"origin": "http://a", "access-control-request-method": "POST"}
    name = "access-control-request-headers"
    for given, returned in (
        ("x-stainless-os", "x-stainless-os"),
        ("a\r\nSet-Cookie: b", USUAL_HEADERS),
    ):
        headers = policy.preflight({**asked, name: given})
        assert headers is not None
        assert headers["Access-Control-Allow-Headers"] == returned


def test_responses_name_the_allowed_origin():
    name = "Access-Control-Allow-Origin"
    assert access(ApiOptions()).response_headers({"origin": "http://a"}) == {
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    named = access(ApiOptions(origins=("http://a",), key=KEY))
    assert named.response_headers({"origin": "http://a"})[name] == "http://a"
    assert name not in named.response_headers({"origin": "http://b"})
    anyone = access(ApiOptions(origins=("*",), key=KEY))
    assert anyone.response_headers({"origin": "http://b"})[name] == "*"
