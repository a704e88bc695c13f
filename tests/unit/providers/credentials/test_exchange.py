"""A GitHub token becomes a short-lived Copilot token before it is sent."""

import pytest

from hermes.core.errors import CredentialRefused, ServerFault
from hermes.providers.credentials.pool import CredentialPool
from hermes.providers.endpoints import Endpoint
from tests.unit.providers.credentials.oauth_server import OAuthServer
from tests.unit.providers.credentials.parts import Bench, HandClock, Values


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


async def test_the_long_lived_token_is_never_what_is_sent(
    bench: Bench, server: OAuthServer
) -> None:
    bench.variables = Values({"GITHUB_TOKEN": "ghu_3", "GH_TOKEN": "ghu_2"})
    server.api = "https://api.individual.githubcopilot.com"
    pool = pool_of(bench, server)
    got = await pool.take()
    assert (got.id, got.secret, got.kind) == ("env:GH_TOKEN", "short-1", "oauth")
    assert got.base_url == server.api
    ((_, _, headers),) = server.requests
    assert headers["authorization"] == "token ghu_2"
    assert headers["editor-version"] == "hermes/1"


async def test_it_is_exchanged_again_only_when_it_runs_out_or_is_refused(
    bench: Bench, server: OAuthServer
) -> None:
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


async def test_an_address_of_somebody_else_is_not_followed(
    bench: Bench, server: OAuthServer
) -> None:
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
async def test_an_account_without_copilot_is_said_so(
    bench: Bench, server: OAuthServer, status: int
) -> None:
    bench.variables = Values({"GH_TOKEN": "ghu_2"})
    server.exchange_status = status
    with pytest.raises(CredentialRefused, match="GitHub Copilot gives no access") as caught:
        await pool_of(bench, server).take()
    assert "ghu_2" not in f"{caught.value} {caught.value.hint}"


async def test_a_fault_of_the_server_is_no_refusal(bench: Bench, server: OAuthServer) -> None:
    bench.variables = Values({"GH_TOKEN": "ghu_2"})
    server.exchange_status = 502
    with pytest.raises(ServerFault):
        await pool_of(bench, server).take()
