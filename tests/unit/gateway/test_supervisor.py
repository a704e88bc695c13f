"""Each adapter is kept connected, and none of them can hurt another."""

import asyncio
from collections.abc import Callable

import pytest

from hermes.gateway.supervisor import Health, Patience, Supervisor
from hermes.sdk.platforms import (
    Adapter,
    AdapterError,
    Capabilities,
    CredentialsRefused,
    MessageEvent,
    NotConnected,
    PlatformManifest,
)
from tests.unit.gateway.hand_clock import HandClock, settle

PATIENCE = Patience(
    connect=60, probe=15, disconnect=10, between_probes=30, first_pause=1, longest_pause=8
)


async def receive(_event: MessageEvent) -> bool:
    return True


class Scripted(Adapter):
    """Does what the test says; counts what is asked of it."""

    def __init__(self, **script: list[Exception | Callable]) -> None:
        """`script` is what goes wrong with the next calls of a method."""
        self.manifest = PlatformManifest("telegram", "Telegram", "", Capabilities(100))
        self.calls: list[str] = []
        self.script = script

    async def connect(self, receive) -> None:
        await self.act("connect")

    async def probe(self) -> None:
        await self.act("probe")

    async def disconnect(self) -> None:
        await self.act("disconnect")

    async def send(self, target, message, key) -> str:
        raise NotImplementedError

    async def act(self, name: str) -> None:
        self.calls.append(name)
        script = self.script.get(name)
        step = script.pop(0) if script else None
        if isinstance(step, Exception):
            raise step
        if step is not None:
            await step()

    def count(self, name: str) -> int:
        return self.calls.count(name)


async def hang() -> None:
    await asyncio.Event().wait()


async def hang_and_ignore_cancellation() -> None:
    """Ends at the second attempt, so that the test itself can end."""
    for _ in range(2):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


@pytest.fixture
def clock():
    return HandClock()


class Scene:
    def __init__(self, clock: HandClock) -> None:
        self.clock, self.running = clock, []

    def watch(self, seen: list[Health] | None = None, **script) -> tuple[Scripted, Supervisor]:
        changed = seen.append if seen is not None else (lambda _: None)
        adapter = Scripted(**script)
        watcher = Supervisor(
            adapter, receive, self.clock, PATIENCE, changed=changed, jitter=lambda: 1.0
        )
        watcher.start()
        self.running.append(watcher)
        return adapter, watcher


@pytest.fixture
async def scene(clock):
    scene = Scene(clock)
    yield scene
    for watcher in scene.running:
        stopping = asyncio.create_task(watcher.stop())
        for _ in range(10):
            await clock.advance(10)
        await stopping


async def test_an_adapter_becomes_healthy_and_is_asked_regularly(scene, clock):
    seen: list[Health] = []
    adapter, watcher = scene.watch(seen)
    await settle()
    assert watcher.health.state == "healthy"
    assert [health.state for health in seen] == ["connecting", "healthy"]
    began = clock.time
    await clock.advance(95)
    assert adapter.count("probe") == 3
    assert watcher.health.last_probe == began + 90
    assert watcher.health.since == began
    assert adapter.count("connect") == 1


async def test_a_failed_connection_is_tried_again_less_and_less_often(scene, clock):
    adapter, watcher = scene.watch(connect=[NotConnected("no network")] * 6)
    times, before = [], 0
    for second in range(40):
        await clock.advance(0 if second == 0 else 1)
        if adapter.count("connect") > before:
            before = adapter.count("connect")
            times.append(second)
    assert times == [0, 1, 3, 7, 15, 23, 31]
    assert watcher.health.state == "healthy"
    assert watcher.health.attempts == 0


async def test_the_state_says_what_is_wrong(scene, clock):
    _, watcher = scene.watch(connect=[NotConnected("no network", hint="plug it in")] * 2)
    await clock.advance(1.5)
    health = watcher.health
    assert (health.state, health.last_error, health.hint) == ("failing", "no network", "plug it in")
    assert health.attempts == 2


async def test_refused_credentials_are_not_tried_again(scene, clock):
    adapter, watcher = scene.watch(connect=[CredentialsRefused("bad token", hint="make a new one")])
    await clock.advance(10_000)
    assert adapter.count("connect") == 1
    assert adapter.count("disconnect") == 1
    assert (watcher.health.state, watcher.health.refused) == ("stopped", True)
    assert watcher.health.last_error == "bad token"


async def test_credentials_that_are_refused_later_end_it_too(scene, clock):
    adapter, watcher = scene.watch(probe=[CredentialsRefused("revoked")])
    await clock.advance(1000)
    assert (adapter.count("connect"), watcher.health.state) == (1, "stopped")


async def test_a_failed_probe_leads_to_a_new_connection(scene, clock):
    adapter, watcher = scene.watch(probe=[AdapterError("no answer")])
    await clock.advance(30)
    assert watcher.health.state == "failing"
    await clock.advance(1)
    assert adapter.calls == ["connect", "probe", "disconnect", "connect"]
    assert watcher.health.state == "healthy"


async def test_a_doubt_is_looked_into_at_once(scene, clock):
    adapter, watcher = scene.watch()
    await settle()
    adapter.script["probe"] = [NotConnected("gone")]
    watcher.check()
    await settle()
    assert adapter.count("probe") == 1
    assert watcher.health.state == "failing"


@pytest.mark.parametrize("stuck", [hang, hang_and_ignore_cancellation])
async def test_a_call_that_hangs_is_left_behind(scene, clock, stuck):
    _, watcher = scene.watch(connect=[stuck], probe=[stuck], disconnect=[stuck])
    await clock.advance(59)
    assert watcher.health.state == "connecting"
    await clock.advance(2)
    assert watcher.health.state == "failing"
    assert watcher.health.last_error == "no answer within 60 seconds"
    await clock.advance(25)
    assert watcher.health.state == "healthy"
    await clock.advance(46)
    assert watcher.health.last_error == "no answer within 15 seconds"


async def test_adapter_exception_is_reported_by_its_type_only(scene, clock, caplog):
    _, watcher = scene.watch(connect=[ValueError("with token 123:secret")])
    await settle()
    assert watcher.health.last_error == "unexpected ValueError"
    await clock.advance(1)
    assert watcher.health.state == "healthy"


async def test_failing_adapter_does_not_affect_another(scene, clock):
    _, bad = scene.watch(connect=[RuntimeError("broken")] * 1000)
    scene.watch(connect=[hang_and_ignore_cancellation] * 3)
    adapter, good = scene.watch()
    await clock.advance(200)
    assert (bad.health.state, good.health.state) == ("failing", "healthy")
    assert (adapter.count("connect"), adapter.count("probe")) == (1, 6)


async def test_stopping_disconnects_and_may_be_done_twice(scene, clock):
    adapter, watcher = scene.watch()
    await settle()
    await watcher.stop()
    await watcher.stop()
    assert adapter.calls == ["connect", "disconnect"]
    assert watcher.health.state == "stopped"
    await clock.advance(1000)
    assert adapter.count("probe") == 0


async def test_stopping_does_not_wait_for_ever(scene, clock):
    _, watcher = scene.watch(disconnect=[hang])
    await settle()
    stopping = asyncio.create_task(watcher.stop())
    await clock.advance(9)
    assert not stopping.done()
    await clock.advance(2)
    assert stopping.done()


async def test_stopping_while_it_connects_cleans_up_first(scene, clock):
    order: list[str] = []

    async def connect_slowly() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            order.append("connection cleaned up")

    async def let_go() -> None:
        order.append("disconnected")

    _, watcher = scene.watch(connect=[connect_slowly], disconnect=[let_go])
    await settle()
    await watcher.stop()
    assert order == ["connection cleaned up", "disconnected"]


async def test_adapter_can_restart_after_credentials_were_corrected(scene, clock):
    _, watcher = scene.watch(connect=[CredentialsRefused("bad token")])
    await settle()
    await watcher.stop()
    watcher.start()
    await settle()
    assert (watcher.health.state, watcher.health.refused) == ("healthy", False)
