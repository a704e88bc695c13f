"""Helpers of the cases: an inbox instead of the gateway, and short ways to connect and send."""

import asyncio
import contextlib
import time
import traceback
from collections.abc import AsyncIterator, Callable

from hermes.sdk.platforms import (
    Adapter,
    AdapterError,
    ChatTarget,
    DeliveryQuery,
    MessageEvent,
    OutgoingMessage,
    SessionSource,
)
from hermes.sdk.testing.platforms.harness import Harness, Shown

PATIENCE = 100.0
"""Seconds until something that must happen has failed to; nothing waits this long when it works."""


class Inbox:
    """Takes messages as the gateway does, and refuses some on request."""

    def __init__(self) -> None:
        self.kept: list[MessageEvent] = []
        self.offered: list[MessageEvent] = []
        self.refusals = 0
        """How many of the next offers get False."""
        self.faults = 0
        """How many of the next offers raise."""
        self._news = asyncio.Event()

    async def receive(self, event: MessageEvent) -> bool:
        self.offered.append(event)
        self._news.set()
        if self.faults:
            self.faults -= 1
            raise RuntimeError("the gateway has a fault")
        if self.refusals:
            self.refusals -= 1
            return False
        self.kept.append(event)
        return True

    async def until(self, true: Callable[["Inbox"], bool], what: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not true(self):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{what} did not come; there are {self.texts()}") from None

    async def take(self, text: str) -> MessageEvent:
        """The first kept message that has this text."""
        await self.until(lambda box: text in box.texts(), repr(text))
        return next(event for event in self.kept if event.text.strip() == text)

    async def press(self, data: str) -> MessageEvent:
        await self.until(lambda box: any(e.button == data for e in box.kept), f"button {data!r}")
        return next(event for event in self.kept if event.button == data)

    def texts(self) -> list[str]:
        """Of messages that were kept, without blanks around them (mail adds some)."""
        return [event.text.strip() for event in self.kept]

    def once(self) -> list[str]:
        """`texts` of different messages: one that was delivered twice counts once."""
        return [event.text.strip() for event in {e.message_id: e for e in self.kept}.values()]


@contextlib.asynccontextmanager
async def connected(
    harness: Harness, inbox: Inbox | None = None
) -> AsyncIterator[tuple[Adapter, Inbox]]:
    adapter, inbox = harness.adapter(), inbox or Inbox()
    async with asyncio.timeout(PATIENCE):
        await adapter.connect(inbox.receive)
    try:
        yield adapter, inbox
    finally:
        async with asyncio.timeout(PATIENCE):
            await adapter.disconnect()


@contextlib.asynccontextmanager
async def talking(
    harness: Harness, *, chat: str = "", group: bool = False
) -> AsyncIterator[tuple[Adapter, Inbox, MessageEvent]]:
    """Connect, let a user say hello, and yield that message."""
    async with connected(harness) as (adapter, inbox):
        await harness.says("hello", chat=chat, chat_type="group" if group else "dm", mention=group)
        await inbox.until(lambda box: bool(box.kept), "the first message")
        yield adapter, inbox, inbox.kept[0]


def target_of(source: SessionSource) -> ChatTarget:
    return ChatTarget(source.platform, source.chat_id, source.thread_id, source.account)


def query_of(key: str, *, after_id: str = "") -> DeliveryQuery:
    """What the gateway asks about a message in doubt after a crash."""
    return DeliveryQuery(key, time.time(), after_id)


async def attempt(
    adapter: Adapter, target: ChatTarget, message: OutgoingMessage, key: str
) -> str | Exception:
    """What a send came to. Anything but an `AdapterError` is a fault of the adapter."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await adapter.send(target, message, key)
    except AdapterError as error:
        return error


async def failure(work: object) -> AdapterError:
    """The `AdapterError` that an awaitable must end with."""
    try:
        async with asyncio.timeout(PATIENCE):
            await work  # type: ignore[misc]
    except AdapterError as error:
        return error
    raise AssertionError("it went well, and should not have")


async def shown_with(harness: Harness, text: str, chat: str = "") -> list[Shown]:
    """Our messages of the chat that have exactly this text."""
    return [message for message in await harness.shown(chat) if message.text.strip() == text]


def describe_error(error: BaseException) -> str:
    """All that a log could show of an error: its whole chain, and its hint."""
    return "".join(traceback.format_exception(error)) + str(getattr(error, "hint", ""))
