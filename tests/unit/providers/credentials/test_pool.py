"""Several keys of one provider: whose turn it is, who rests, and what is remembered."""

import asyncio
import json
import logging
from collections.abc import Iterator

import msgspec
import pytest

from hermes.core.errors import CredentialMissing, CredentialRefused, CredentialsExhausted
from hermes.providers import endpoints
from hermes.providers.credentials.pool import FLUSH_SECONDS, MAX_REST, CredentialPool, Keyring
from hermes.providers.endpoints import Credential
from hermes.providers.login.tokens import GOOGLE_CLIENT_ID, GOOGLE_PROJECT_ID, StoredLogin, Tokens
from tests.cases import table_test
from tests.unit.providers.credentials.google_server import GoogleServer
from tests.unit.providers.credentials.parts import Bench, Values, shop
from tests.unit.providers.credentials.test_sources import by_hand
from tests.unit.providers.hand_clock import HandClock


def pool_of(keyring: Keyring) -> CredentialPool:
    return keyring.pool(shop(), keyring.credentials(shop()))


async def taken(pool: CredentialPool, times: int) -> str:
    return "".join([(await pool.take()).label for _ in range(times)])


def entries(bench: Bench) -> dict[str, dict[str, object]]:
    pool = json.loads(bench.store.path.read_text())["credential_pool"]
    return {entry["id"]: entry for entry in pool.get("shop", [])}


@pytest.fixture
def three(bench: Bench) -> Bench:
    by_hand(bench, "shop", a="key-a", b="key-b", c="key-c")
    return bench


@table_test
async def test_order_continues_after_a_restart(three, strategy, first, after_a_restart):
    keyring = three.keyring(strategy)
    assert await taken(pool_of(keyring), 4) == first
    await keyring.close()
    assert await taken(pool_of(three.keyring(strategy)), 3) == after_a_restart


@pytest.mark.parametrize("strategy", ["round_robin", "least_used"])
async def test_processes_know_of_each_others_uses(three: Bench, strategy: str) -> None:
    pools = [pool_of(three.keyring(strategy)) for _ in range(2)]
    got = [(await pools[turn % 2].take()).label for turn in range(5)]
    assert "".join(got) == "abcab"


async def test_least_used_gives_a_new_key_the_next_turns(three: Bench) -> None:
    keyring = three.keyring("least_used")
    assert await taken(pool_of(keyring), 6) == "abcabc"
    by_hand(three, "shop", d="key-d")
    assert await taken(pool_of(keyring), 3) == "dda"


async def test_random_uses_all_of_them(three: Bench) -> None:
    assert set(await taken(pool_of(three.keyring("random")), 50)) == set("abc")


async def test_an_unknown_provider_is_filled_first(three: Bench) -> None:
    assert three.keyring().strategy(shop()) == "fill_first"


async def test_a_use_of_the_first_key_writes_nothing_until_later(three: Bench) -> None:
    keyring = three.keyring()
    pool = pool_of(keyring)
    before = three.store.path.read_bytes()
    await taken(pool, 20)
    assert three.store.path.read_bytes() == before
    assert isinstance(three.clock, HandClock)
    three.clock.pass_(FLUSH_SECONDS)
    await taken(pool, 1)
    assert entries(three)["manual:a"]["uses"] == 21
    await taken(pool, 4)
    await keyring.close()
    assert entries(three)["manual:a"]["uses"] == 25


async def test_a_single_key_costs_no_write_whatever_the_strategy(bench: Bench) -> None:
    bench.variables = Values({"SHOP_KEY": "only"})
    await pool_of(bench.keyring("round_robin")).take()
    assert not bench.store.path.exists()


async def test_a_resting_key_is_passed_over_and_comes_back(three: Bench) -> None:
    pool = pool_of(three.keyring())
    await pool.rest(await pool.take(), 3600, "rate limited")
    assert await taken(pool, 2) == "bb"
    assert await taken(pool_of(three.keyring()), 1) == "b"
    assert isinstance(three.clock, HandClock)
    three.clock.pass_(3601)
    assert await taken(pool, 1) == "a"


async def test_when_all_rest_it_says_until_when_and_what_to_do(three: Bench) -> None:
    pool = pool_of(three.keyring())
    for seconds in (7200, 3600, 86400):
        await pool.rest(await pool.take(), seconds, "rate limited")
    with pytest.raises(CredentialsExhausted) as caught:
        await pool.take()
    assert str(caught.value) == (
        "all 3 keys of The Shop rest (rate limited); the first is free again at"
        " 2026-03-05 13:00:00, in 1h"
    )
    assert caught.value.retry_after == pytest.approx(3600)
    assert "hermes auth reset shop" in caught.value.hint


async def test_a_pool_without_keys_says_how_to_add_one(bench: Bench) -> None:
    with pytest.raises(CredentialMissing) as caught:
        await bench.keyring().pool(shop(), ()).take()
    assert caught.value.hint == "hermes auth add shop"


async def test_a_rest_is_never_endless(three: Bench) -> None:
    pool = pool_of(three.keyring())
    await pool.rest(await pool.take(), float("inf"), "odd")
    assert isinstance(three.clock, HandClock)
    assert entries(three)["manual:a"]["resting_until"] == three.clock.time + MAX_REST


async def test_a_rest_that_is_over_leaves_the_file(three: Bench) -> None:
    pool = pool_of(three.keyring())
    await pool.rest(await pool.take(), 60, "rate limited")
    assert isinstance(three.clock, HandClock)
    three.clock.pass_(61)
    await pool.rest(three.keyring().credentials(shop())[1], 60, "other")
    assert "resting_until" not in entries(three)["manual:a"]
    assert "rest_reason" not in entries(three)["manual:a"]
    assert entries(three)["manual:b"]["rest_reason"] == "other"


async def test_the_value_of_a_variable_never_reaches_the_file(bench: Bench) -> None:
    bench.variables = Values({"SHOP_KEY": "very-secret-value"})
    pool = pool_of(bench.keyring())
    await pool.rest(await pool.take(), 3600, "used up")
    text = bench.store.path.read_text()
    assert "env:SHOP_KEY" in text
    assert "very-secret-value" not in text
    with pytest.raises(CredentialsExhausted, match="the key of The Shop rests"):
        await pool_of(bench.keyring()).take()


async def test_a_new_value_of_a_variable_has_no_past(bench: Bench) -> None:
    bench.variables = Values({"SHOP_KEY": "spent"})
    pool = pool_of(bench.keyring())
    await pool.rest(await pool.take(), 86400, "used up")
    bench.variables = Values({"SHOP_KEY": "fresh"})
    assert (await pool_of(bench.keyring()).take()).secret == "fresh"


async def test_state_of_a_removed_variable_is_dropped_and_added_keys_stay(three):
    three.variables = Values({"SHOP_KEY": "from the shell"})
    pool = pool_of(three.keyring())
    await pool.rest(await pool.take(), 3600, "rate limited")
    assert "env:SHOP_KEY" in entries(three)
    three.variables = Values()
    pool = pool_of(three.keyring())
    await pool.rest(await pool.take(), 3600, "rate limited")
    assert set(entries(three)) == {"manual:a", "manual:b", "manual:c"}


async def test_a_key_of_the_settings_rests_too_and_is_forgotten_afterwards(bench: Bench) -> None:
    given = Credential("given", "from config.yaml")
    keyring = bench.keyring()
    pool = keyring.pool(shop(), [given])
    await pool.rest(given, 60, "rate limited")
    with pytest.raises(CredentialsExhausted):
        await pool.take()
    assert isinstance(bench.clock, HandClock)
    bench.clock.pass_(61)
    assert await pool.take() == given
    await pool.rest(Credential("env:SHOP_KEY", "x"), 60, "other")
    assert "given" in entries(bench)
    bench.clock.pass_(61)
    await pool.rest(Credential("oauth", "x"), 60, "other")
    assert set(entries(bench)) == {"oauth"}


async def test_a_key_removed_meanwhile_does_not_come_back_as_a_shadow(three: Bench) -> None:
    keyring = three.keyring()
    await pool_of(keyring).take()
    with three.store.change() as data:
        data["credential_pool"]["shop"] = data["credential_pool"]["shop"][1:]
    await keyring.close()
    assert set(entries(three)) == {"manual:b", "manual:c"}


async def test_foreign_fields_of_an_entry_are_kept(three: Bench) -> None:
    with three.store.change() as data:
        data["credential_pool"]["shop"][0]["theirs"] = {"x": 1}
        data["credential_pool"]["shop"].append({"name": "of unknown form"})
        data["credential_pool"]["shop"].append("odd")
    pool = pool_of(three.keyring())
    assert pool.size == 3
    await pool.rest(await pool.take(), 60, "rate limited")
    held = three.store.read()["credential_pool"]["shop"]
    assert held[0]["theirs"] == {"x": 1}
    assert held[3:] == [{"name": "of unknown form"}, "odd"]


async def test_tasks_that_take_at_once_share_evenly(three: Bench) -> None:
    keyring = three.keyring("round_robin")
    got = await asyncio.gather(*(pool_of(keyring).take() for _ in range(12)))
    labels = [one.label for one in got]
    assert [labels.count(label) for label in "abc"] == [4, 4, 4]
    assert {entry["uses"] for entry in entries(three).values()} == {4}


async def test_a_store_that_cannot_be_written_stops_no_request(three, caplog):
    pool = pool_of(three.keyring("round_robin"))
    lock = three.store.lock_path()
    lock.unlink()
    lock.mkdir()
    with caplog.at_level(logging.WARNING):
        assert await taken(pool, 3) == "abc"
        await pool.rest(three.keyring().credentials(shop())[0], 60, "rate limited")
        assert await taken(pool, 2) == "bc"
    assert "could not be stored" in caplog.text
    lock.rmdir()
    assert await taken(pool, 1) == "b"
    assert entries(three)["manual:a"]["rest_reason"] == "rate limited"
    assert entries(three)["manual:b"]["uses"] == 3


async def test_an_ordinary_key_has_nothing_to_renew(three: Bench) -> None:
    pool = pool_of(three.keyring())
    assert await pool.renew(await pool.take()) is None


async def test_a_key_to_avoid_is_taken_only_for_want_of_another(bench: Bench) -> None:
    bench.variables = Values({"SHOP_KEY": "first", "SHOP_OLD_KEY": "second"}, {})
    keyring = bench.keyring()
    pool = keyring.pool(shop(), keyring.credentials(shop()))
    assert (await pool.take(["env:SHOP_KEY"])).secret == "second"
    assert (await pool.take(["env:SHOP_KEY", "env:SHOP_OLD_KEY"])).secret == "first"
    await pool.rest((await pool.take(["env:SHOP_KEY"])), 60, "limited")
    assert (await pool.take(["env:SHOP_KEY"])).secret == "first"


ENDPOINT = endpoints.find_endpoint("google-gemini-cli")
assert ENDPOINT is not None


@pytest.fixture
def google() -> Iterator[GoogleServer]:
    server = GoogleServer()
    yield server
    server.close()


def google_pool(bench: Bench, google: GoogleServer) -> CredentialPool:
    endpoint = msgspec.structs.replace(ENDPOINT, base_url=f"{google.url}/v1internal")
    keyring = bench.keyring()
    return keyring.pool(endpoint, keyring.credentials(endpoint))


def file_of_gemini(bench: Bench, lasts: float) -> None:
    expiry = round((bench.clock.now().timestamp() + lasts) * 1000)
    content = {"access_token": "ya29.0", "refresh_token": "1//r", "expiry_date": expiry}
    bench.write(".gemini/oauth_creds.json", content)


async def test_the_login_of_the_gemini_cli_is_found(bench: Bench, google: GoogleServer) -> None:
    file_of_gemini(bench, lasts=3600)
    got = await google_pool(bench, google).take()
    assert (got.secret, got.kind) == ("ya29.0", "oauth")
    assert got.base_url == f"{google.url}/v1internal?project=found-project"


async def test_a_named_project_wins(bench: Bench, google: GoogleServer) -> None:
    file_of_gemini(bench, lasts=3600)
    bench.variables.saved[GOOGLE_PROJECT_ID] = "mine"
    assert (await google_pool(bench, google).take()).base_url.endswith("?project=mine")


async def test_an_expired_login_without_a_client_says_what_to_do(bench, google):
    file_of_gemini(bench, lasts=-1)
    with pytest.raises(CredentialRefused, match="has expired") as caught:
        await google_pool(bench, google).take()
    assert "run `gemini` once" in caught.value.hint
    assert GOOGLE_CLIENT_ID in caught.value.hint


async def test_a_login_made_here_is_renewed_with_the_secret(bench, google):
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
    pool = google_pool(bench, google)
    assert (await pool.take()).secret == "ya29.1"
    assert google.forms[0]["client_secret"] == "my-secret"
    kept = place.read()
    assert kept is not None
    assert (kept.access_token, kept.client_secret) == ("ya29.1", "my-secret")
    renewed = await pool.renew(await pool.take())
    assert renewed is not None
    assert (renewed.secret, renewed.base_url[-21:]) == ("ya29.2", "project=found-project")


async def test_credential_of_a_vanished_variable_leaves_auth_json_when_keys_are_looked_up(
    bench: Bench,
) -> None:
    copied = {"id": "1f3a", "source": "env:OTHER_KEY", "secret": "a copy of its value"}
    state = {"id": "env:SHOP_KEY", "source": "env:SHOP_KEY", "fingerprint": "00", "uses": 3}
    manual = {"id": "manual:1", "source": "manual", "secret": "mine"}
    bench.store.path.parent.mkdir(parents=True, exist_ok=True)
    held = {"shop": [state, manual, copied], "elsewhere": [copied]}
    bench.store.path.write_text(json.dumps({"version": 1, "credential_pool": held}))
    assert [one.secret for one in bench.keyring().credentials(shop())] == ["mine"]
    left = json.loads(bench.store.path.read_text())["credential_pool"]
    assert left == {"shop": [manual]}


async def test_quota_of_a_google_login_is_read_by_model(bench: Bench, google: GoogleServer) -> None:
    file_of_gemini(bench, lasts=3600)
    bucket = {
        "modelId": "gemini-3-pro",
        "remainingFraction": 0.25,
        "resetTime": "2026-01-16T00:00Z",
    }
    google.quota = {"buckets": [bucket, {"modelId": "odd"}, "text"]}
    (left,) = await google_pool(bench, google).quota()
    assert (left.model, left.left, left.resets) == ("gemini-3-pro", 0.25, "2026-01-16T00:00Z")
    assert json.loads(google.loaded[-1].raw) == {"project": "found-project"}
    google.quota = {}
    assert await google_pool(bench, google).quota() == ()
