"""Which gateways are alive, and whose leases may be taken over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.gateway.leases import NEVER, Leases
from hermes.store import SessionStore, open_store
from tests.unit.gateway.hand_clock import HandClock

OTHER = "another-machine:1:2"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    opened = open_store("", tmp_path / "state.db")
    yield opened
    opened.close()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def leases(store: SessionStore, clock: HandClock) -> Leases:
    made = Leases(store, clock, 6.0, lambda: ["telegram"])
    made.shared = True  # as if the file were a server
    return made


async def test_gateway_without_heartbeat_is_dead(leases: Leases, store: SessionStore) -> None:
    await store.chats.beat(OTHER, b'["slack"]', 6.0)
    await leases.beat()
    assert not leases.is_dead(OTHER)
    assert leases.is_served_elsewhere("slack") and not leases.is_served_elsewhere("telegram")
    await store.chats.renew(OTHER, leases.now() - 1)
    await leases.beat()
    assert leases.is_dead(OTHER) and not leases.is_served_elsewhere("slack")


async def test_no_lease_is_taken_over_right_after_the_store_was_away(
    leases: Leases, clock: HandClock
) -> None:
    await leases.beat()
    assert leases.expiry == leases.now()
    await clock.advance(20.0)
    await leases.beat()
    assert leases.expiry == NEVER
    for _ in range(3):
        await clock.advance(2.0)
        await leases.beat()
    assert leases.expiry == leases.now()


async def test_lease_of_a_live_gateway_is_waited_for(leases: Leases, store: SessionStore) -> None:
    await leases.beat()
    theirs = await store.chats.claim("lease:conversation:c", OTHER, leases.now(), leases.now() + 60)
    assert await leases.wait("conversation", "c", 0.0) is None
    await store.chats.delete(theirs)
    mine = await leases.wait("conversation", "c", 0.0)
    assert mine is not None and mine.owner == leases.owner
    await leases.release(mine)
    assert await store.chats.get("lease:conversation:c") is None
