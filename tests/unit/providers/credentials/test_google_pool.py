"""Google logins in a keyring: found, renewed, and sent with their project."""

from collections.abc import Iterator

import msgspec
import pytest

from hermes.core.errors import CredentialRefused
from hermes.providers import endpoints
from hermes.providers.credentials.pool import CredentialPool
from hermes.providers.login.flows import GOOGLE_CLIENT_ID, GOOGLE_PROJECT_ID
from hermes.providers.login.oauth import Tokens
from hermes.providers.login.tokens import StoredLogin
from tests.unit.providers.credentials.google_server import GoogleServer
from tests.unit.providers.credentials.parts import Bench

ENDPOINT = endpoints.find_endpoint("google-gemini-cli")
assert ENDPOINT is not None


@pytest.fixture
def google() -> Iterator[GoogleServer]:
    server = GoogleServer()
    yield server
    server.close()


def pool_of(bench: Bench, google: GoogleServer) -> CredentialPool:
    endpoint = msgspec.structs.replace(ENDPOINT, base_url=f"{google.url}/v1internal")
    keyring = bench.keyring()
    return keyring.pool(endpoint, keyring.credentials(endpoint))


def file_of_gemini(bench: Bench, lasts: float) -> None:
    expiry = round((bench.clock.now().timestamp() + lasts) * 1000)
    content = {"access_token": "ya29.0", "refresh_token": "1//r", "expiry_date": expiry}
    bench.write(".gemini/oauth_creds.json", content)


async def test_the_login_of_the_gemini_cli_is_found(bench: Bench, google: GoogleServer) -> None:
    file_of_gemini(bench, lasts=3600)
    got = await pool_of(bench, google).take()
    assert (got.secret, got.kind) == ("ya29.0", "oauth")
    assert got.base_url == f"{google.url}/v1internal?project=found-project"


async def test_a_named_project_wins(bench: Bench, google: GoogleServer) -> None:
    file_of_gemini(bench, lasts=3600)
    bench.variables.saved[GOOGLE_PROJECT_ID] = "mine"
    assert (await pool_of(bench, google).take()).base_url.endswith("?project=mine")


async def test_an_expired_login_without_a_client_says_what_to_do(
    bench: Bench, google: GoogleServer
) -> None:
    file_of_gemini(bench, lasts=-1)
    with pytest.raises(CredentialRefused, match="has expired") as caught:
        await pool_of(bench, google).take()
    assert "run `gemini` once" in caught.value.hint
    assert GOOGLE_CLIENT_ID in caught.value.hint


async def test_a_login_made_here_is_renewed_with_the_secret(
    bench: Bench, google: GoogleServer
) -> None:
    tokens = Tokens(
        "ya29.old",
        "1//r",
        0.0,
        token_url=google.client.token_url,
        client_id="my-client",
        client_secret="my-secret",
    )
    place = StoredLogin(bench.store, "google-gemini-cli")
    place.save(tokens)
    pool = pool_of(bench, google)
    assert (await pool.take()).secret == "ya29.1"
    assert google.forms[0]["client_secret"] == "my-secret"
    kept = place.read()
    assert kept is not None
    assert (kept.access_token, kept.client_secret) == ("ya29.1", "my-secret")
    renewed = await pool.renew(await pool.take())
    assert renewed is not None
    assert (renewed.secret, renewed.base_url[-21:]) == ("ya29.2", "project=found-project")
