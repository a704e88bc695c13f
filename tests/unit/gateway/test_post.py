"""Messages that nobody waits for, on their way to the outbox."""

from pathlib import Path
from typing import Any

import pytest

from hermes.core.errors import UsageError
from hermes.gateway.directory import ChatDirectory, TargetResolver
from hermes.gateway.outbox import OutboxService
from hermes.gateway.platforms.kit.contract import Capabilities, ChatInfo, PlatformManifest
from hermes.store.records import OutboxItem
from hermes.util.clock import SystemClock

KNOWN = {"discord": PlatformManifest("discord", "Discord", "x:X", Capabilities(max_chars=100))}


class Box:
    """The outbox, as far as it is written to."""

    def __init__(self) -> None:
        self.compose_items: list[OutboxItem] = []

    async def enqueue(self, compose_items: Any, _due: float) -> list[int]:
        self.compose_items += compose_items
        return list(range(len(self.compose_items)))


async def test_a_chat_that_is_new_to_us_is_asked_for_before_it_is_refused(tmp_path: Path) -> None:
    known, box = ChatDirectory(tmp_path / "channel_directory.json"), Box()
    find = TargetResolver(KNOWN, lambda _name: None, known).resolve
    post = OutboxService(box, find, KNOWN, SystemClock(), list_targets=list)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no chat of discord is called #ops"):
        await post.send("discord:#ops", "hello")
    asked: list[str] = []

    async def learn(target: str) -> None:
        asked.append(target)
        known.add_chats("discord", [ChatInfo("11", "#ops", "group")])

    post.refresh_names = learn
    assert (await post.find("discord:#ops")).chat_id == "11"
    await post.send("discord:#ops", "hello")
    await post.send("discord:#ops", "again")
    assert b'"11"' in box.compose_items[0].target
    assert asked == ["discord:#ops"]
    with pytest.raises(UsageError, match="#opps"):
        await post.send("discord:#opps", "hello")
