"""All policies together, as a turn uses them."""

from collections.abc import Callable

import pytest

from hermes.core.errors import (
    BudgetSpent,
    CredentialRefused,
    QuotaSpent,
    RateLimited,
    ServerFault,
    SignatureRefused,
)
from hermes.core.messages import Assistant, Text, Thinking, User
from hermes.core.model import FellBack, Model, ModelRequest, Price, Retrying, Usage
from hermes.core.testing import ScriptedModel, Step
from hermes.providers.endpoints import ModelProfile
from hermes.providers.policy.budget import Budget, BudgetLimits, MeteredModel
from hermes.providers.policy.key_rotation import KeyRotationModel
from hermes.providers.policy.repair import RequestRepairModel
from hermes.providers.policy.retry import (
    CircuitBreakerModel,
    EndpointHealth,
    FallbackModel,
    RetryModel,
)
from tests.unit.providers.hand_clock import HandClock
from tests.unit.providers.policy.parts import MemoryLedger, MemoryPool, ask, key

PROFILE = ModelProfile(price=Price(1, 1000, 1, 1), max_output=1000)
REQUEST = ModelRequest(
    (User.say("hi"), Assistant((Thinking("hm", details=({"signature": "x"},)), Text("yes"))))
)


class World:
    """Two providers, `main` with the keys A and B and `spare` with C; scripts by key."""

    def __init__(self, cap: float = 100.0, **scripts: list) -> None:
        self.clock = HandClock()
        self.health = EndpointHealth(self.clock)
        self.ledger = MemoryLedger()
        self.purse = Budget(BudgetLimits(session=cap), self.ledger, "s", self.clock)
        self.pools = {
            "main": MemoryPool(self.clock, "A", "B"),
            "spare": MemoryPool(self.clock, "C"),
        }
        self.keys = {"main": "AB", "spare": "C"}
        self.scripts = {name: ScriptedModel(scripts.get(name, []), name=name) for name in "ABC"}

    def turn(self) -> FallbackModel:
        self.purse.begin_turn()
        return FallbackModel([self.entry("main"), self.entry("spare")])

    def entry(self, provider: str) -> Callable[[], Model]:
        circuits = {
            key(name).id: self.health.circuit(provider, "https://x.test", key(name).id)
            for name in self.keys[provider]
        }

        def make(credential):
            wire = RequestRepairModel(self.scripts[credential.label])
            return CircuitBreakerModel(
                MeteredModel(wire, self.purse, PROFILE), circuits[credential.id]
            )

        def build() -> Model:
            rotating = KeyRotationModel(
                self.pools[provider],
                make,
                self.clock,
                name=f"{provider}-model",
                provider=provider,
                circuits=circuits,
            )
            return RetryModel(rotating, self.clock, patient=False)

        return build

    async def ask(self, model: Model | None = None) -> list[str]:
        """What the user is reported, and the answer."""
        events = await ask(model or self.turn(), REQUEST)
        reported = [e.error for e in events if isinstance(e, Retrying | FellBack)]
        return [*reported, events[-1].message.text]

    def calls(self) -> dict[str, int]:
        return {name: len(script.requests) for name, script in self.scripts.items()}


async def test_a_call_goes_through_every_policy_to_the_documented_end():
    world = World(
        A=[SignatureRefused("bad signature"), RateLimited("slow"), RateLimited("slow")],
        B=[ServerFault("oops"), QuotaSpent("no credit")],
        C=["fine"],
    )
    assert await world.ask() == [
        "bad signature; sent again without earlier reasoning",  # repaired
        "A: slow",  # the same key again
        "B replaces A: slow",  # rotated
        "oops",  # retried; then B is spent and nothing is left
        "every key rests; the last key failed with: no credit",  # fell back
        "fine",
    ]
    assert world.calls() == {"A": 3, "B": 2, "C": 1}


async def test_the_fallback_stays_for_the_turn_and_the_next_turn_begins_with_the_main_model():
    refused = CredentialRefused("no")
    world = World(A=[refused, "main again"], B=[refused], C=["one", "two"])
    turn = world.turn()
    await world.ask(turn)
    assert await world.ask(turn) == ["two"]
    assert turn.name == "spare-model"
    world.clock.pass_(3600)
    assert await world.ask() == ["main again"]


async def test_a_provider_that_is_down_soon_costs_no_time_and_is_tried_again_later():
    down = [ServerFault("down")]
    world = World(A=down * 5 + ["main again"], B=down * 5, C=["fine"] * 6)
    waited = []
    for _ in range(5):
        before = len(world.clock.slept)
        assert (await world.ask())[-1] == "fine"
        waited.append(len(world.clock.slept) - before)
    assert waited[0] == 2, "three attempts at first"
    assert waited[-1] == 0, "at last it is passed over at once"
    assert world.calls()["A"] == world.calls()["B"] == 5
    world.clock.pass_(60)
    assert await world.ask() == ["main again"]


async def test_the_cap_stops_the_next_call_on_every_way_and_no_other_model_is_tried():
    dear = Step((Text("fine"),), usage=Usage(output=1000))
    world = World(cap=2.2, A=[dear, dear])
    await world.ask()
    await world.ask()
    with pytest.raises(BudgetSpent, match=r"budget\.session_usd allows \$2\.20"):
        await world.ask()
    assert world.calls() == {"A": 2, "B": 0, "C": 0}
    assert world.clock.slept == []
