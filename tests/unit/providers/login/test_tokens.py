"""Tokens of a login are renewed before they run out, once, and never lost."""

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from hermes.core.errors import CredentialRefused, Transient
from hermes.core.testing.http_server import Stop
from hermes.providers.credentials.pool import CredentialPool
from hermes.providers.endpoints import Endpoint
from hermes.providers.login.tokens import (
    GeminiTokenFile,
    GoogleClient,
    StoredLogin,
    Tokens,
    token_refresher,
)
from tests.unit.providers.credentials.google_server import GoogleServer
from tests.unit.providers.credentials.oauth_server import CLIENT, OAuthServer, jwt
from tests.unit.providers.credentials.parts import Bench, Values, shop
from tests.unit.providers.hand_clock import HandClock


def logged_in(bench: Bench, server: OAuthServer, lasts: float) -> StoredLogin:
    place = StoredLogin(bench.store, "shop")
    expires_at = bench.clock.now().timestamp() + lasts
    tokens = Tokens(
        "access-0", "refresh-0", expires_at, token_url=f"{server.url}/token", client_id=CLIENT
    )
    place.save(tokens)
    return place


def pool_of(bench: Bench, endpoint: Endpoint | None = None) -> CredentialPool:
    endpoint, keyring = endpoint or shop(), bench.keyring()
    return keyring.pool(endpoint, keyring.credentials(endpoint))


async def test_a_token_that_lasts_is_used_as_it_is(bench: Bench, server: OAuthServer) -> None:
    logged_in(bench, server, lasts=301)
    assert (await pool_of(bench).take()).secret == "access-0"
    assert server.requests == []


async def test_a_token_about_to_expire_is_renewed_before_use(bench, server):
    place = logged_in(bench, server, lasts=299)
    pool = pool_of(bench)
    got = await pool.take()
    assert (got.secret, got.expires_at) == ("access-1", bench.clock.now().timestamp() + 3600)
    assert (await pool.take()).secret == "access-1"
    assert server.sent("/token") == [
        {"grant_type": "refresh_token", "refresh_token": "refresh-0", "client_id": CLIENT}
    ]
    kept = place.read()
    assert kept is not None
    assert (kept.access_token, kept.refresh_token) == ("access-1", "refresh-1")


async def test_tasks_at_once_renew_once(bench: Bench, server: OAuthServer) -> None:
    logged_in(bench, server, lasts=0)
    server.delay = 0.1
    got = await asyncio.gather(*(pool_of(bench).take() for _ in range(5)))
    assert {one.secret for one in got} == {"access-1"}
    assert (server.refreshes, server.reused) == (1, 0)


async def test_after_a_refusal_a_new_token_is_got_once(bench: Bench, server: OAuthServer) -> None:
    logged_in(bench, server, lasts=3600)
    pool = pool_of(bench)
    old = await pool.take()
    renewed = [await pool.renew(old) for _ in range(3)]
    assert [one.secret for one in renewed if one] == ["access-1"] * 3
    assert server.refreshes == 1


async def test_revoked_login_is_reported_and_marked(bench: Bench, server: OAuthServer) -> None:
    place = logged_in(bench, server, lasts=0)
    server.live.clear()
    pool = pool_of(bench)
    for _ in range(2):
        with pytest.raises(CredentialRefused, match="the login for shop is gone") as caught:
            await pool.take()
        assert caught.value.hint == "hermes auth add shop --type oauth"
    assert server.refreshes == 1
    kept = place.read()
    assert kept is not None
    assert kept.gone
    assert bench.keyring().credentials(shop()) == ()
    assert await pool.renew(pool._credentials[0]) is None


async def test_another_key_steps_in_for_a_login_that_is_over(bench, server):
    logged_in(bench, server, lasts=0)
    server.live.clear()
    with bench.store.change() as data:
        data["credential_pool"] = {"shop": [{"id": "manual:1", "secret": "spare"}]}
    assert (await pool_of(bench).take()).secret == "spare"


@pytest.mark.parametrize("failure", [500, 503, 429, 400, Stop.CUT])
async def test_a_failing_login_server_costs_nothing_while_the_token_lasts(
    bench: Bench, server: OAuthServer, failure: int | Stop, caplog: pytest.LogCaptureFixture
) -> None:
    logged_in(bench, server, lasts=60)
    server.refresh_answers = [failure]
    with caplog.at_level(logging.WARNING):
        assert (await pool_of(bench).take()).secret == "access-0"
    assert "while it lasts" in caplog.text
    assert (await pool_of(bench).take()).secret == "access-1"
    for secret in ("access-0", "refresh-0", "access-1", "refresh-1"):
        assert secret not in caplog.text


async def test_a_failing_login_server_is_named_when_the_token_is_over(bench, server):
    logged_in(bench, server, lasts=0)
    server.refresh_answers = [503]
    with pytest.raises(Transient, match="the login server of shop failed: status 503"):
        await pool_of(bench).take()
    assert (await pool_of(bench).take()).secret == "access-1"


async def test_unreachable_login_server_is_named(bench: Bench, server: OAuthServer) -> None:
    logged_in(bench, server, lasts=0)
    server.close()
    with pytest.raises(Transient) as caught:
        await pool_of(bench).take()
    assert "refresh-0" not in str(caught.value)


async def test_cancelled_wait_does_not_lose_the_new_token(bench, server):
    place = logged_in(bench, server, lasts=0)
    server.delay = 0.3
    keyring = bench.keyring()
    pool = keyring.pool(shop(), keyring.credentials(shop()))
    waiting = asyncio.create_task(pool.take())
    while not server.refreshes:
        await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await pool.take()).secret == "access-1"
    kept = place.read()
    assert kept is not None
    assert kept.refresh_token == "refresh-1"
    assert server.reused == 0


async def test_tokens_that_cannot_be_written_work_while_the_process_lives(bench, server, caplog):
    place = logged_in(bench, server, lasts=0)
    keyring = bench.keyring()
    pool = keyring.pool(shop(), keyring.credentials(shop()))
    lock = bench.store.lock_path()
    lock.unlink()
    lock.mkdir()
    server.lifetime = 600
    with caplog.at_level(logging.ERROR):
        assert (await pool.take()).secret == "access-1"
        assert (await pool.take()).secret == "access-1"
    assert "is lost when this process ends" in caplog.text
    lock.rmdir()
    assert isinstance(bench.clock, HandClock)
    bench.clock.pass_(500)
    assert (await pool.take()).secret == "access-2"
    kept = place.read()
    assert kept is not None
    assert kept.refresh_token == "refresh-2"
    assert server.reused == 0


async def test_a_new_login_made_meanwhile_is_not_overwritten(bench, server):
    place = logged_in(bench, server, lasts=0)
    server.delay = 0.3
    waiting = asyncio.create_task(pool_of(bench).take())
    while not server.refreshes:
        await asyncio.sleep(0.01)
    place.save(Tokens("mine", "my-refresh"))
    await waiting
    kept = place.read()
    assert kept is not None
    assert kept.access_token == "mine"


async def test_the_end_of_a_token_is_read_from_the_token_itself(bench, server):
    """OpenAI says no `expires_in`; its tokens say when they end and whose they are."""
    place = StoredLogin(bench.store, "shop")
    soon = bench.clock.now().timestamp() + 10
    claims = {"chatgpt_account_id": "acc-7"}
    token = jwt(exp=soon, **{"https://api.openai.com/auth": claims})
    place.save(Tokens(token, "refresh-0", soon, token_url=f"{server.url}/token", client_id=CLIENT))
    server.lifetime = None
    got = await pool_of(bench).take()
    assert (got.secret, got.expires_at) == ("access-1", None)


async def test_a_login_that_cannot_be_renewed_ends_with_its_token(bench: Bench) -> None:
    place = StoredLogin(bench.store, "shop")
    place.save(Tokens("short", expires_at=bench.clock.now().timestamp() + 10))
    pool = pool_of(bench)
    assert (await pool.take()).secret == "short"
    assert isinstance(bench.clock, HandClock)
    bench.clock.pass_(11)
    with pytest.raises(CredentialRefused, match="has expired"):
        await pool.take()


ANTHROPIC = Endpoint(id="anthropic", label="Anthropic", key_vars=("ANTHROPIC_TOKEN",))


def claude_code(bench: Bench, lasts: float) -> Path:
    held = {
        "accessToken": "access-0",
        "refreshToken": "refresh-0",
        "expiresAt": int((bench.clock.now().timestamp() + lasts) * 1000),
        "scopes": ["user:inference"],
        "subscriptionType": "max",
    }
    return bench.write(".claude/.credentials.json", {"claudeAiOauth": held, "mcpOAuth": {"x": 1}})


async def test_the_file_of_claude_code_is_renewed_in_place(bench, server):
    file = claude_code(bench, lasts=0)
    bench.variables = Values({"ANTHROPIC_TOKEN": "a stale copy"})
    keyring = bench.keyring(claude_code=server.login())
    pool = keyring.pool(ANTHROPIC, keyring.credentials(ANTHROPIC))
    assert (await pool.take()).secret == "access-1"
    assert json.loads(file.read_text()) == {
        "claudeAiOauth": {
            "accessToken": "access-1",
            "refreshToken": "refresh-1",
            "expiresAt": int((bench.clock.now().timestamp() + 3600) * 1000),
            "scopes": ["user:inference"],
            "subscriptionType": "max",
        },
        "mcpOAuth": {"x": 1},
    }
    assert file.stat().st_mode & 0o777 == 0o600
    assert not bench.store.path.exists()


async def test_a_folder_that_cannot_be_written_costs_nothing_while_the_token_lasts(bench, server):
    file = claude_code(bench, lasts=60)
    file.with_name(f"{file.name}.hermes-lock").mkdir()
    keyring = bench.keyring(claude_code=server.login())
    pool = keyring.pool(ANTHROPIC, keyring.credentials(ANTHROPIC))
    assert (await pool.take()).secret == "access-0"
    assert isinstance(bench.clock, HandClock)
    bench.clock.pass_(61)
    with pytest.raises(Transient, match="cannot lock"):
        await pool.take()


async def test_claude_code_may_have_renewed_it_first(bench: Bench, server: OAuthServer) -> None:
    file = claude_code(bench, lasts=0)
    server.live.clear()

    class Quicker(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            held = json.loads(file.read_text())
            held["claudeAiOauth"] |= {"accessToken": "theirs", "refreshToken": "theirs-r"}
            held["claudeAiOauth"]["expiresAt"] += 3_600_000
            file.write_text(json.dumps(held))
            return httpx2.Response(400, json={"error": "invalid_grant"})

    async with httpx2.AsyncClient(transport=Quicker()) as client:
        bench.client = client
        keyring = bench.keyring(claude_code=server.login())
        got = await keyring.pool(ANTHROPIC, keyring.credentials(ANTHROPIC)).take()
    assert got.secret == "theirs"


async def test_a_dead_login_of_claude_code_says_where_to_log_in_and_keeps_its_file(bench, server):
    file = claude_code(bench, lasts=0)
    before = file.read_bytes()
    server.live.clear()
    keyring = bench.keyring(claude_code=server.login())
    pool = keyring.pool(ANTHROPIC, keyring.credentials(ANTHROPIC))
    with pytest.raises(CredentialRefused) as caught:
        await pool.take()
    assert "Claude Code" in caught.value.hint
    assert file.read_bytes() == before
    assert keyring.credentials(ANTHROPIC) == ()


async def test_the_file_of_qwen_code_is_renewed_in_place(bench: Bench, server: OAuthServer) -> None:
    qwen = Endpoint(id="qwen-oauth", label="Qwen", base_url="https://portal.qwen.ai/v1")
    held = {"access_token": "access-0", "refresh_token": "refresh-0", "expiry_date": 0}
    file = bench.write(".qwen/oauth_creds.json", {**held, "token_type": "Bearer"})
    keyring = bench.keyring(qwen_code=server.login())
    assert (await keyring.pool(qwen, keyring.credentials(qwen)).take()).secret == "access-1"
    kept = json.loads(file.read_text())
    assert (kept["refresh_token"], kept["token_type"]) == ("refresh-1", "Bearer")


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
    tokens = await token_refresher(bench.client, bench.clock).tokens(place)
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
    place, renewal = place_of(bench, google.client), token_refresher(bench.client, bench.clock)
    for _ in range(2):
        assert (await renewal.tokens(place)).access_token == "ya29.1"
    assert len(google.forms) == 1
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


async def test_token_renewed_by_the_gemini_cli_is_preferred(bench, google):
    gemini_login(bench, lasts=10)
    place, renewal = place_of(bench, google.client), token_refresher(bench.client, bench.clock)
    await renewal.tokens(place)
    gemini_login(bench, lasts=7200, token="ya29.cli")
    assert (await renewal.tokens(place)).access_token == "ya29.cli"


async def test_without_the_client_the_token_is_used_while_it_lasts(bench: Bench) -> None:
    gemini_login(bench, lasts=10)
    place = place_of(bench)
    tokens = await token_refresher(bench.client, bench.clock).tokens(place, refused="ya29.0")
    assert (tokens.access_token, tokens.refresh_token) == ("ya29.0", "")
    assert "run `gemini` once" in place.login_hint
    assert "HERMES_GEMINI_CLIENT_ID and HERMES_GEMINI_CLIENT_SECRET" in place.login_hint


async def test_login_of_another_client_is_refused_until_gemini_renews_it(bench, google):
    path = gemini_login(bench, lasts=10)
    path.write_bytes(path.read_bytes().replace(b"1//r", b"1//of-another-client"))
    place, renewal = place_of(bench, google.client), token_refresher(bench.client, bench.clock)
    for _ in range(2):
        with pytest.raises(CredentialRefused, match="is gone") as caught:
            await renewal.tokens(place)
        assert "run `gemini` once" in caught.value.hint
    assert len(google.forms) == 1
    path.write_bytes(path.read_bytes().replace(b"ya29.0", b"ya29.5"))
    tokens = place.read()
    assert tokens is not None
    assert not tokens.gone
