"""The outbox of the gateway."""

from pathlib import Path
from typing import Any

import pytest

from hermes.core.errors import UsageError
from hermes.gateway.directory import ChatDirectory, TargetResolver
from hermes.gateway.outbox import GatewayOutbox
from hermes.gateway.supervisor import ConnectionRegistry
from hermes.sdk.platforms import Capabilities, ChatInfo, PlatformManifest
from hermes.store.records import OutboxItem
from hermes.util.concurrency import SystemClock

DISCORD = PlatformManifest("discord", "Discord", "x:X", Capabilities(max_chars=100))


class Queue:
    """Records the messages that are stored."""

    def __init__(self) -> None:
        self.items: list[OutboxItem] = []

    async def enqueue(self, items: Any, _due: float) -> list[int]:
        self.items += items
        return list(range(len(self.items)))


class Adapter:
    """Reports the chats of the platform and counts how often it was asked."""

    account, manifest = "", DISCORD

    def __init__(self) -> None:
        self.asked = 0

    async def chats(self) -> list[ChatInfo]:
        self.asked += 1
        return [ChatInfo("11", "#ops", "group")]


async def test_platform_is_asked_for_an_unknown_chat_before_it_is_refused(tmp_path: Path) -> None:
    queue, adapter, clock = Queue(), Adapter(), SystemClock()
    connections = ConnectionRegistry(clock)
    targets = TargetResolver(
        {"discord": DISCORD}, lambda _name: None, ChatDirectory(tmp_path / "d.json"), connections
    )
    outbox = GatewayOutbox(queue, targets, clock)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no chat of discord is called #ops"):
        await outbox.send("discord:#ops", "hello")
    connections.add(adapter)  # type: ignore[arg-type]
    await outbox.send("discord:#ops", "hello")
    await outbox.send("discord:#ops", "again")
    assert b'"11"' in queue.items[0].target
    assert adapter.asked == 1
    with pytest.raises(UsageError, match="#opps"):
        await outbox.send("discord:#opps", "hello")
