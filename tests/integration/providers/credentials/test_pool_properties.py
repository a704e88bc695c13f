"""Whatever happens in whatever order: a resting key is not handed out and no use is lost."""

import asyncio
import tempfile
from pathlib import Path

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.core.errors import CredentialsExhausted
from hermes.providers.credentials.pool import CredentialPool
from tests.unit.providers.credentials.parts import Bench, shop
from tests.unit.providers.credentials.test_sources import by_hand
from tests.unit.providers.hand_clock import HandClock

KEYS = "abcd"
STEPS = st.lists(
    st.one_of(
        st.just(("take", ())),
        st.tuples(st.just("rest"), st.tuples(st.sampled_from(KEYS), st.integers(1, 50))),
        st.tuples(st.just("pass_"), st.tuples(st.integers(1, 40))),
        st.just(("restart", ())),
        st.just(("switch", ())),
    ),
    max_size=30,
)
STRATEGIES = st.sampled_from(["fill_first", "round_robin", "least_used", "random"])


class Scene:
    """Two processes on one file, and what must hold for them."""

    def __init__(self, bench: Bench, strategy: str) -> None:
        self._bench, self._strategy = bench, strategy
        self._clock = bench.clock = HandClock()
        by_hand(bench, "shop", **{label: f"key-{label}" for label in KEYS})
        self._rings = [bench.keyring(strategy), bench.keyring(strategy)]
        self._resting, self._uses = dict.fromkeys(KEYS, 0.0), dict.fromkeys(KEYS, 0)

    @property
    def _pool(self) -> CredentialPool:
        return self._rings[0].pool(shop(), self._rings[0].credentials(shop()))

    async def take(self) -> None:
        healthy = {label for label in KEYS if self._resting[label] <= self._clock.time}
        if not healthy:
            with pytest.raises(CredentialsExhausted) as caught:
                await self._pool.take()
            wait = min(self._resting.values()) - self._clock.time
            assert caught.value.retry_after == pytest.approx(wait, abs=0.001)
            return
        label = (await self._pool.take()).label
        assert label in healthy
        if self._strategy == "fill_first":
            assert label == min(healthy)
        if self._strategy == "least_used":
            assert self._uses[label] == min(self._uses[one] for one in healthy)
        self._uses[label] += 1

    async def rest(self, label: str, seconds: int) -> None:
        credentials = self._rings[0].credentials(shop())
        chosen = next(one for one in credentials if one.label == label)
        await self._pool.rest(chosen, seconds, "because")
        self._resting[label] = max(self._resting[label], self._clock.time + seconds)

    async def pass_(self, seconds: int) -> None:
        self._clock.pass_(seconds)

    async def restart(self) -> None:
        await self._rings[0].close()
        self._rings[0] = self._bench.keyring(self._strategy)

    async def switch(self) -> None:
        self._rings.reverse()

    async def end(self) -> None:
        for ring in self._rings:
            await ring.close()
        standings = self._bench.keyring(self._strategy).statuses(shop())
        assert {one.credential.label: one.uses for one in standings} == self._uses


@settings(max_examples=30, deadline=None)
@given(steps=STEPS, strategy=STRATEGIES)
def test_rests_hold_and_uses_add_up(steps: list[tuple[str, tuple]], strategy: str) -> None:
    async def play(folder: str) -> None:
        async with httpx2.AsyncClient(trust_env=False) as client:
            scene = Scene(Bench(Path(folder), client), strategy)
            for step, arguments in steps:
                await getattr(scene, step)(*arguments)
            await scene.end()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(folder))
