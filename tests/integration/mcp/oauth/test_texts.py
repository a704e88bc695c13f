"""Headers and addresses that other people write."""

import pytest

from hermes.mcp import LoginFailed
from hermes.mcp.oauth import logins as addresses
from hermes.mcp.oauth.logins import MAX_SCOPE_CHARS, join_scopes, parse_bearer_challenge
from tests.cases import cases

CASES = cases(__file__)


@pytest.mark.parametrize(
    ("header", "found"),
    CASES["challenges"],
)  # fmt: skip
def test_challenges_are_read_as_they_are_written(header: str, found: dict[str, str]) -> None:
    assert parse_bearer_challenge(header) == found


def test_scopes_are_joined_once_each_and_bounded() -> None:
    assert join_scopes("a b", "b c") == "a b c"
    assert join_scopes('a "evil\\ \x1b[2J b') == "a b"
    assert (
        len(join_scopes(" ".join(f"scope{number}" for number in range(10_000)))) <= MAX_SCOPE_CHARS
    )


@pytest.mark.parametrize("address", [*CASES["not_visited"], "https://" + "x" * 3000])
def test_addresses_that_are_not_visited(address: str) -> None:
    with pytest.raises(LoginFailed):
        addresses.check_address(address, "the page", "https://mcp.example.com/mcp")


def test_addresses_that_are_visited() -> None:
    for address in ("https://login.example.com/x?y=z", "https://login.example.com:8443"):
        assert addresses.check_address(address, "the page", "https://mcp.example.com") == address
    here = "http://127.0.0.1:9/x"
    assert addresses.check_address(here, "the page", "http://localhost:8/mcp") == here


def test_tokens_travel_over_tls_or_stay_here() -> None:
    assert addresses.may_carry_tokens("https://x.example.com/mcp")
    assert addresses.may_carry_tokens("http://[::1]:80/mcp")
    assert not addresses.may_carry_tokens("http://x.example.com/mcp")
    assert not addresses.may_carry_tokens("http://localhost.example.com/mcp")
    assert not addresses.may_carry_tokens("nonsense")


@pytest.mark.parametrize(("resource", "url", "covered"), CASES["covered"])
def test_which_server_a_description_is_about(resource: str, url: str, covered: bool) -> None:
    assert addresses.covers_url(resource, url) is covered


def test_metadata_urls_follow_the_specification() -> None:
    assert addresses.resource_metadata_urls("https://a.com/x/mcp/?k=v") == [
        "https://a.com/.well-known/oauth-protected-resource/x/mcp",
        "https://a.com/.well-known/oauth-protected-resource",
    ]
    assert addresses.issuer_metadata_urls("https://a.com/t1") == [
        "https://a.com/.well-known/oauth-authorization-server/t1",
        "https://a.com/.well-known/openid-configuration/t1",
        "https://a.com/t1/.well-known/openid-configuration",
    ]
    assert addresses.issuer_metadata_urls("https://a.com/") == [
        "https://a.com/.well-known/oauth-authorization-server",
        "https://a.com/.well-known/openid-configuration",
    ]
    assert addresses.canonical_url("HTTPS://A.com:443/?x#y") == "https://a.com"
