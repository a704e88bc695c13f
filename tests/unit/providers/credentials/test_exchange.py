"""A GitHub token becomes a short-lived Copilot token before it is sent."""

from collections.abc import Iterator

import msgspec
import pytest

from hermes.core.errors import CredentialRefused, Overloaded, ServerFault, Unreachable
from hermes.providers.credentials.pool import CredentialPool, TokenExchange
from hermes.providers.endpoints import Credential, Endpoint
from tests.unit.providers.credentials.google_server import GoogleServer
from tests.unit.providers.credentials.oauth_server import OAuthServer
from tests.unit.providers.credentials.parts import Bench, Values, shop
from tests.unit.providers.hand_clock import HandClock


def copilot(server: OAuthServer) -> Endpoint:
    return Endpoint(
        id="copilot",
        label="GitHub Copilot",
        base_url="https://api.githubcopilot.com",
        key_hosts=("api.*.githubcopilot.com",),
        key_vars=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
        headers={"Editor-Version": "hermes/1"},
        login=server.login(exchange_url=f"{server.url}/exchange"),
    )


def pool_of(bench: Bench, server: OAuthServer) -> CredentialPool:
    keyring, endpoint = bench.keyring(), copilot(server)
    return keyring.pool(endpoint, keyring.credentials(endpoint))


async def test_the_long_lived_token_is_never_what_is_sent(bench, server):
    bench.variables = Values({"GITHUB_TOKEN": "ghu_3", "GH_TOKEN": "ghu_2"})
    server.api = "https://api.individual.githubcopilot.com"
    pool = pool_of(bench, server)
    got = await pool.take()
    assert (got.id, got.secret, got.kind) == ("env:GH_TOKEN", "short-1", "oauth")
    assert got.base_url == server.api
    ((_, _, headers),) = server.requests
    assert headers["authorization"] == "token ghu_2"
    assert headers["editor-version"] == "hermes/1"


async def test_token_is_exchanged_again_only_when_expired_or_refused(bench, server):
    bench.variables = Values({"GH_TOKEN": "ghu_2"})
    pool = pool_of(bench, server)
    first = await pool.take()
    assert (await pool.take()).secret == first.secret == "short-1"
    renewed = await pool.renew(first)
    assert renewed is not None
    assert renewed.secret == "short-2"
    assert isinstance(bench.clock, HandClock)
    assert renewed.expires_at is not None
    bench.clock.pass_(renewed.expires_at - bench.clock.time - 100)
    assert (await pool.take()).secret == "short-3"


async def test_address_on_a_foreign_host_is_ignored(bench: Bench, server: OAuthServer) -> None:
    bench.variables = Values({"GH_TOKEN": "ghu_2"})
    server.api = "https://api.githubcopilot.com.evil.example"
    assert (await pool_of(bench, server).take()).base_url == ""


async def test_a_rest_belongs_to_the_token_behind_it(bench: Bench, server: OAuthServer) -> None:
    bench.variables = Values({"GH_TOKEN": "ghu_2", "GITHUB_TOKEN": "ghu_3"})
    pool = pool_of(bench, server)
    await pool.rest(await pool.take(), 3600, "rate limited")
    assert (await pool.take()).id == "env:GITHUB_TOKEN"
    assert (await pool_of(bench, server).take()).id == "env:GITHUB_TOKEN"


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_account_without_copilot_is_reported(bench, server, status):
    bench.variables = Values({"GH_TOKEN": "ghu_2"})
    server.exchange_status = status
    with pytest.raises(CredentialRefused, match="GitHub Copilot gives no access") as caught:
        await pool_of(bench, server).take()
    assert "ghu_2" not in f"{caught.value} {caught.value.hint}"


async def test_server_fault_is_not_a_refusal(bench: Bench, server: OAuthServer) -> None:
    bench.variables = Values({"GH_TOKEN": "ghu_2"})
    server.exchange_status = 502
    with pytest.raises(ServerFault):
        await pool_of(bench, server).take()


LOGIN = Credential("gemini-cli", "ya29.0", "oauth", source="login of gemini-cli")


@pytest.fixture
def google() -> Iterator[GoogleServer]:
    server = GoogleServer()
    yield server
    server.close()


def code_assist(google: GoogleServer) -> Endpoint:
    return Endpoint(
        id="google-gemini-cli",
        label="Gemini CLI login",
        base_url=f"{google.url}/v1internal",
        api_mode="code_assist",
    )


async def test_a_named_project_needs_no_question(bench: Bench, google: GoogleServer) -> None:
    exchange = TokenExchange(bench.client, bench.clock, " my project ")
    got = await exchange.exchange(code_assist(google), LOGIN)
    assert got.base_url == f"{google.url}/v1internal?project=my+project"
    assert (got.id, got.secret) == (LOGIN.id, LOGIN.secret)
    assert google.loaded == []


@pytest.mark.parametrize("held", ["found-project", {"id": "found-project", "name": "x"}])
async def test_the_project_of_a_login_is_asked_for_once_for_each_token(bench, google, held):
    google.account = {"cloudaicompanionProject": held}
    exchange, endpoint = TokenExchange(bench.client, bench.clock), code_assist(google)
    for _ in range(2):
        got = await exchange.exchange(endpoint, LOGIN)
        assert got.base_url.endswith("?project=found-project")
    await exchange.exchange(endpoint, msgspec.structs.replace(LOGIN, secret="ya29.1"))
    tokens = [request.headers["authorization"] for request in google.loaded]
    assert tokens == ["Bearer ya29.0", "Bearer ya29.1"]
    assert google.loaded[0].path == "/v1internal:loadCodeAssist"
    assert google.loaded[0].body["metadata"]["pluginType"] == "GEMINI"


async def test_account_without_a_project_is_refused_with_the_reason(bench, google):
    tiers = [{"reasonCode": "UNSUPPORTED_LOCATION", "reasonMessage": "not in\nyour\x1b place"}]
    google.account = {"allowedTiers": [{"id": "free-tier"}], "ineligibleTiers": tiers}
    with pytest.raises(CredentialRefused) as caught:
        await TokenExchange(bench.client, bench.clock).exchange(code_assist(google), LOGIN)
    words = "Google reports no project for the login of gemini-cli: not in your place"
    assert str(caught.value) == words
    assert "run `gemini` once" in caught.value.hint
    assert "HERMES_GEMINI_PROJECT_ID" in caught.value.hint


@pytest.mark.parametrize(("status", "kind"), [(401, CredentialRefused), (503, Overloaded)])
async def test_refusals_are_classified(bench, google, status, kind):
    google.load_status = status
    google.account = {"error": {"code": status, "message": "no: ya29.0"}}
    with pytest.raises(kind) as caught:
        await TokenExchange(bench.client, bench.clock).exchange(code_assist(google), LOGIN)
    assert "ya29.0" not in str(caught.value)


async def test_unreachable_server_is_named(bench: Bench, google: GoogleServer) -> None:
    endpoint = msgspec.structs.replace(code_assist(google), base_url="http://127.0.0.1:1/v1")
    with pytest.raises(Unreachable):
        await TokenExchange(bench.client, bench.clock).exchange(endpoint, LOGIN)


async def test_other_providers_have_no_project(bench: Bench, google: GoogleServer) -> None:
    exchange = TokenExchange(bench.client, bench.clock, "my-project")
    assert await exchange.exchange(shop(), LOGIN) is LOGIN
