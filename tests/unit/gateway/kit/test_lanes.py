"""Order within a chat, and no waiting between chats."""

import asyncio

import pytest

from hermes.gateway.platforms.kit.connection import ChatQueues


async def test_a_chat_keeps_its_order_and_does_not_hold_up_others() -> None:
    lanes, done, gate = ChatQueues("Somewhere"), [], asyncio.Event()

    async def slow() -> None:
        await gate.wait()
        done.append("a1")

    async def note(name: str) -> None:
        done.append(name)

    lanes.put("a", slow)
    lanes.put("a", lambda: note("a2"))
    lanes.put("b", lambda: note("b1"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert done == ["b1"]
    gate.set()
    while len(done) < 3:
        await asyncio.sleep(0)
    assert done == ["b1", "a1", "a2"]


async def test_a_fault_is_told_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    lanes, done = ChatQueues("Somewhere"), asyncio.Event()

    async def broken() -> None:
        raise ValueError("oh")

    async def fine() -> None:
        done.set()

    lanes.put("a", broken)
    lanes.put("a", fine)
    await done.wait()
    assert "Somewhere" in caplog.text


async def test_what_is_not_done_when_it_closes_is_dropped() -> None:
    lanes, done = ChatQueues("Somewhere"), []

    async def forever() -> None:
        await asyncio.Event().wait()

    async def never() -> None:
        done.append("never")

    lanes.put("a", forever)
    lanes.put("a", never)
    await asyncio.sleep(0)
    await lanes.close()
    assert done == []
