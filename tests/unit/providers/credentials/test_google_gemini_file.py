"""The login of the Gemini CLI is used, and its file is never touched."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.core.errors import CredentialRefused
from hermes.providers.login.flows import GoogleClient
from hermes.providers.login.tokens import GeminiTokenFile, TokenRefresher
from tests.unit.providers.credentials.google_server import GoogleServer
from tests.unit.providers.credentials.parts import Bench

NAME = ".gemini/oauth_creds.json"
PROVIDER = "google-gemini-cli"


@pytest.fixture
def google() -> Iterator[GoogleServer]:
    server = GoogleServer()
    yield server
    server.close()


def gemini_login(bench: Bench, lasts: float, token: str = "ya29.0") -> Path:
    return bench.write(
        NAME,
        {
            "access_token": token,
            "refresh_token": "1//r",
            "scope": "openid",
            "token_type": "Bearer",
            "expiry_date": round((bench.clock.now().timestamp() + lasts) * 1000),
        },
    )


def place_of(bench: Bench, google: GoogleClient | None = None) -> GeminiTokenFile:
    lock = bench.store.lock_path("gemini-cli")
    return GeminiTokenFile(bench.user_home / ".gemini", google, lock)


async def test_a_valid_token_is_used_as_it_is(bench: Bench, google: GoogleServer) -> None:
    gemini_login(bench, lasts=3600)
    place = place_of(bench, google.client)
    tokens = await TokenRefresher(bench.client, bench.clock).tokens(place, PROVIDER)
    assert tokens.access_token == "ya29.0"
    assert tokens.expires_at == bench.clock.now().timestamp() + 3600
    assert google.forms == []
    assert place.id == "gemini-cli"
    assert place.source == "login of gemini-cli in ~/.gemini/oauth_creds.json"


@pytest.mark.parametrize("content", [{}, [], {"access_token": ""}, {"access_token": 1}])
def test_a_file_without_a_login_is_none(bench: Bench, content: object) -> None:
    assert place_of(bench).read() is None
    bench.write(NAME, content)
    assert place_of(bench).read() is None


async def test_a_renewed_token_is_kept_in_memory_only(bench: Bench, google: GoogleServer) -> None:
    path = gemini_login(bench, lasts=10)
    before = path.read_bytes()
    place, renewal = place_of(bench, google.client), TokenRefresher(bench.client, bench.clock)
    for _ in range(2):
        assert (await renewal.tokens(place, PROVIDER)).access_token == "ya29.1"
    assert len(google.forms) == 1
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


async def test_what_the_gemini_cli_renewed_since_is_preferred(
    bench: Bench, google: GoogleServer
) -> None:
    gemini_login(bench, lasts=10)
    place, renewal = place_of(bench, google.client), TokenRefresher(bench.client, bench.clock)
    await renewal.tokens(place, PROVIDER)
    gemini_login(bench, lasts=7200, token="ya29.cli")
    assert (await renewal.tokens(place, PROVIDER)).access_token == "ya29.cli"


async def test_without_the_client_the_token_is_used_while_it_lasts(bench: Bench) -> None:
    gemini_login(bench, lasts=10)
    place = place_of(bench)
    tokens = await TokenRefresher(bench.client, bench.clock).tokens(
        place, PROVIDER, refused="ya29.0"
    )
    assert (tokens.access_token, tokens.refresh_token) == ("ya29.0", "")
    assert "run `gemini` once" in place.login_hint
    assert "HERMES_GEMINI_CLIENT_ID and HERMES_GEMINI_CLIENT_SECRET" in place.login_hint


async def test_a_login_of_another_client_is_said_to_be_one_until_gemini_renews_it(
    bench: Bench, google: GoogleServer
) -> None:
    path = gemini_login(bench, lasts=10)
    path.write_bytes(path.read_bytes().replace(b"1//r", b"1//of-another-client"))
    place, renewal = place_of(bench, google.client), TokenRefresher(bench.client, bench.clock)
    for _ in range(2):
        with pytest.raises(CredentialRefused, match="is gone") as caught:
            await renewal.tokens(place, PROVIDER)
        assert "run `gemini` once" in caught.value.hint
    assert len(google.forms) == 1
    path.write_bytes(path.read_bytes().replace(b"ya29.0", b"ya29.5"))
    tokens = place.read()
    assert tokens is not None
    assert not tokens.gone
