"""Several keys: which one is used when another is limited, spent or refused."""

import pytest

from hermes.core.errors import (
    CredentialRefused,
    CredentialsExhausted,
    ProviderError,
    QuotaSpent,
    RateLimited,
    ServerFault,
    Unreachable,
)
from hermes.core.model import Reply, Retrying
from hermes.core.testing import ScriptedModel
from hermes.providers.policy.key_rotation import KeyRotationModel
from hermes.providers.policy.retry import FAILURE_THRESHOLD, EndpointHealth
from tests.unit.providers.hand_clock import HandClock
from tests.unit.providers.policy.parts import MemoryPool, ask, key, kinds

HOUR = 3600.0


class Keys:
    """A provider whose keys answer from scripts, by secret; it notes which keys were used."""

    def __init__(self, *names: str, **scripts: list) -> None:
        self.clock = HandClock()
        self.pool = MemoryPool(self.clock, *names)
        self.models = {
            f"secret-of-{name}": ScriptedModel(scripts.get(name, []), name="m", provider="acme")
            for name in [*names, *scripts]
        }
        self.made: list[str] = []
        health = EndpointHealth(self.clock)
        self.circuits = {
            key(name).id: health.circuit("acme", "https://acme.test", name) for name in names
        }

    def model(self) -> KeyRotationModel:
        def make(credential):
            self.made.append(credential.secret.removeprefix("secret-of-"))
            return self.models[credential.secret]

        return KeyRotationModel(
            self.pool,
            make,
            self.clock,
            name="m",
            provider="acme",
            circuits=self.circuits,
        )

    def calls(self, name: str) -> int:
        return len(self.models[f"secret-of-{name}"].requests)

    def make_unwell(self, *names: str) -> None:
        for name in names:
            for _ in range(FAILURE_THRESHOLD):
                with pytest.raises(ServerFault), self.circuits[key(name).id].call():
                    raise ServerFault("down")


async def failure(keys: Keys, kind: type[ProviderError]) -> ProviderError:
    with pytest.raises(kind) as caught:
        await ask(keys.model())
    return caught.value


async def test_model_has_its_name_before_the_first_call():
    model = Keys("A").model()
    assert (model.name, model.provider) == ("m", "acme")


async def test_a_limited_key_gets_one_more_chance_and_that_may_do():
    keys = Keys("A", "B", A=[RateLimited("slow down"), "fine"])
    events = await ask(keys.model())
    assert kinds(events) == ["Retrying", "Reply"]
    assert keys.clock.slept == [1]
    assert keys.pool.rests == []


async def test_a_key_limited_twice_rests_an_hour_and_the_next_one_answers():
    keys = Keys("A", "B", A=[RateLimited("slow down")] * 2, B=["fine"])
    events = await ask(keys.model())
    assert keys.pool.rests == [("A", HOUR, "slow down")]
    reported = [event for event in events if isinstance(event, Retrying)]
    assert [event.error for event in reported] == ["A: slow down", "B replaces A: slow down"]
    assert [event.seconds for event in reported] == [1, 0]
    assert isinstance(events[-1], Reply)
    assert "secret" not in str(events)


async def test_a_limited_key_rests_as_long_as_the_endpoint_says():
    keys = Keys("A", "B", A=[RateLimited("slow down", retry_after=90)] * 2, B=["fine"])
    await ask(keys.model())
    assert keys.pool.rests == [("A", 90, "slow down")]


async def test_a_short_wait_the_endpoint_asks_for_is_kept_before_the_second_chance():
    keys = Keys("A", "B", A=[RateLimited("slow down", retry_after=3), "fine"])
    await ask(keys.model())
    assert keys.clock.slept == [3]


async def test_a_spent_key_rests_a_day_at_once():
    keys = Keys("A", "B", A=[QuotaSpent("no credit")], B=["fine"])
    events = await ask(keys.model())
    assert keys.pool.rests == [("A", 24 * HOUR, "no credit")]
    assert kinds(events) == ["Retrying", "Reply"]
    assert keys.clock.slept == []


async def test_a_refused_token_is_renewed_and_the_new_one_is_used():
    keys = Keys("A", "B", A=[CredentialRefused("expired")], A2=["fine"])
    keys.pool.renewals["A"] = key("A", "secret-of-A2")
    events = await ask(keys.model())
    assert keys.made == ["A", "A2"]
    assert events[0] == Retrying("A is renewed: expired", 1, 0)
    assert keys.pool.rests == []


async def test_a_refused_key_that_cannot_be_renewed_rests_and_the_next_one_answers():
    keys = Keys("A", "B", A=[CredentialRefused("revoked")], B=["fine"])
    await ask(keys.model())
    assert keys.pool.rests == [("A", HOUR, "revoked")]


async def test_a_renewed_token_that_is_refused_too_makes_room_for_the_next_key():
    keys = Keys("A", "B", A=[CredentialRefused("old")], A2=[CredentialRefused("new")], B=["fine"])
    keys.pool.renewals["A"] = key("A", "secret-of-A2")
    await ask(keys.model())
    assert keys.made == ["A", "A2", "B"]
    assert keys.pool.rests == [("A", HOUR, "new")]


async def test_a_renewal_that_fails_just_now_rests_the_key_only_a_minute():
    keys = Keys("A", "B", A=[CredentialRefused("expired")], B=["fine"])
    keys.pool.renewals["A"] = Unreachable("no network")
    await ask(keys.model())
    assert keys.pool.rests == [("A", 60, "no network")]


@pytest.mark.parametrize("kind", [RateLimited, QuotaSpent, CredentialRefused])
async def test_the_only_key_never_rests(kind):
    keys = Keys("A", A=[kind("no")])
    await failure(keys, kind)
    assert keys.pool.rests == []
    assert keys.calls("A") == 1


async def test_the_only_token_is_renewed_too():
    keys = Keys("A", A=[CredentialRefused("expired")], A2=["fine"])
    keys.pool.renewals["A"] = key("A", "secret-of-A2")
    assert kinds(await ask(keys.model())) == ["Retrying", "Reply"]


async def test_reason_of_a_failed_renewal_is_raised():
    keys = Keys("A", A=[CredentialRefused("expired")])
    keys.pool.renewals["A"] = CredentialRefused("log in again")
    assert str(await failure(keys, CredentialRefused)) == "log in again"


async def test_when_all_keys_failed_the_error_names_the_pool_and_the_last_failure():
    keys = Keys("A", "B", A=[QuotaSpent("no credit")], B=[CredentialRefused("revoked")])
    error = await failure(keys, CredentialsExhausted)
    assert str(error) == "every key rests; the last key failed with: revoked"
    assert isinstance(error.__cause__, CredentialRefused)
    assert error.hint == "wait an hour"


async def test_when_all_keys_rest_from_before_the_pool_says_so():
    keys = Keys("A", "B")
    for name in "AB":
        await keys.pool.rest(key(name), 60, "")
    assert str(await failure(keys, CredentialsExhausted)) == "every key rests"


async def test_error_of_the_next_key_is_raised_unchanged():
    keys = Keys("A", "B", A=[QuotaSpent("no credit")])
    keys.pool.expired = {"B"}
    assert str(await failure(keys, CredentialRefused)) == "the login of B has expired"


async def test_unavailable_key_is_used_when_the_other_login_has_expired():
    keys = Keys("A", "B", A=["fine"])
    keys.make_unwell("A")
    keys.pool.expired = {"B"}
    await ask(keys.model())
    assert keys.made == ["A"]


async def test_a_limit_that_is_over_at_once_does_not_go_round_in_circles():
    now = RateLimited("slow down", retry_after=0)
    keys = Keys("A", "B", A=[now] * 2)
    await failure(keys, RateLimited)
    assert keys.calls("A") == 2


async def test_other_failures_do_not_change_the_key():
    keys = Keys("A", "B", A=[ServerFault("down")])
    await failure(keys, ServerFault)
    assert keys.pool.rests == []


async def test_the_model_of_a_key_is_made_once():
    keys = Keys("A", A=["one", "two"])
    model = keys.model()
    await ask(model)
    await ask(model)
    assert keys.made == ["A"]


async def test_unavailable_key_is_passed_over_for_an_available_one():
    keys = Keys("A", "B", B=["fine"])
    keys.make_unwell("A")
    await ask(keys.model())
    assert keys.made == ["B"]
    assert keys.pool.rests == []


async def test_first_key_is_used_when_all_are_unavailable():
    keys = Keys("A", "B", A=["fine"])
    keys.make_unwell("A", "B")
    model = keys.model()
    assert "acme failed several times" in model.unavailable_reason()
    await ask(model)
    assert keys.pool.rests == []


async def test_unavailable_key_is_used_while_the_others_rest():
    keys = Keys("A", "B", A=["one", "two"])
    keys.make_unwell("A")
    await keys.pool.rest(key("B"), HOUR, "limited")
    await ask(keys.model())
    await ask(keys.model())
    assert keys.made == ["A", "A"]


def test_one_healthy_key_is_enough():
    keys = Keys("A", "B")
    keys.make_unwell("A")
    assert keys.model().unavailable_reason() == ""
