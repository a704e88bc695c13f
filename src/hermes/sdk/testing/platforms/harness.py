"""What the contract suite needs of a platform, real or a wire-level fake, to try its adapter; an
inbox instead of the gateway, and short ways to connect and send."""

import asyncio
import contextlib
import time
import traceback
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from hermes.sdk import SystemClock
from hermes.sdk.platforms import (
    Adapter,
    AdapterContext,
    AdapterError,
    ChatTarget,
    ChatType,
    DeliveryQuery,
    MessageEvent,
    OutgoingMessage,
    PlatformManifest,
)

Trouble = Literal[
    "rate_limited",  # refused for now; the platform says how long (use 0.05 s or the least it can)
    "server_error",  # refused with a fault of the platform; the message is not there
    "chat_gone",  # refused for good
    "cut_before",  # the connection breaks before the platform has read the request
    "cut_after",  # the message is there, but the connection breaks before we hear of it
    "format_refused",  # the platform cannot read the formatting
]

TROUBLES = frozenset(get_args(Trouble))

Feature = Literal[
    "groups",  # chats with several people; needs `mention` of `says`
    "replies",  # a message can answer another one, in both directions
    "bots",  # other programs write too; needs `bot` of `says`
    "keeps",  # what people write while we are away is there when we come back
]


class Shown(msgspec.Struct, frozen=True):
    """A message of ours as a user of the chat sees it."""

    id: str
    text: str
    """Readable text, without the platform's markup."""
    raw: str
    """As it was sent."""
    thread: str = ""
    reply_to: str = ""
    media: tuple[str, ...] = ()
    """Names of files with it."""
    buttons: tuple[str, ...] = ()
    """Data of its buttons."""
    edits: int = 0


class File(msgspec.Struct, frozen=True):
    kind: Literal["image", "voice", "audio", "video", "document"]
    name: str
    data: bytes
    mime: str = ""


class Saying(msgspec.Struct, frozen=True):
    """How a user says something; see `Harness.says`, whose options these are."""

    chat: str = ""
    user: str = ""
    chat_type: ChatType = "dm"
    thread: str = ""
    mention: bool = False
    reply_to: str = ""
    files: tuple[File, ...] = ()
    bot: bool = False


class Harness:
    """One platform with our account and a few people in it. `chat` and `user` are short names of
    the suite's choice ("ann", "garden"), which the harness turns into ids of the platform's own
    form and keeps, or ids that came in a message or from `chat_id`. "" is a private chat and a
    person of the harness's choice; with `chat_type="group"` it is a group of its choice. A platform
    that cannot do something leaves the method as it is here."""

    manifest: PlatformManifest
    troubles: frozenset[str]
    """Those that this platform can have."""
    features: frozenset[str]
    """What it can do that no manifest says: a set of `Feature`."""
    secrets: tuple[str, ...]
    """Tokens and passwords of our account: never to be seen in an error."""
    settings: Any = None
    connection: Any = None
    commands: tuple[tuple[str, str], ...] = ()
    extra: Mapping[str, Any] = {}

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder, folder / "cache"
        self.variables: dict[str, str] = {}

    def context(self) -> AdapterContext:
        return AdapterContext(
            manifest=self.manifest,
            variable=self.variables.get,
            settings=self.settings,
            connection=self.connection,
            cache=self.cache,
            state=self.folder / "state",
            locks=self.folder / "locks",
            commands=self.commands,
            extra=self.extra,
        )

    @abstractmethod
    def adapter(self) -> Adapter:
        """A new adapter, not yet connected, as after a restart of the gateway: the same token,
        state, cache and lock folders each time."""

    @abstractmethod
    def chat_id(self, chat: str = "", chat_type: ChatType = "dm") -> str:
        """The platform's id of a chat, as `SessionSource.chat_id` gives it."""

    @abstractmethod
    def user_id(self, user: str = "") -> str:
        """The platform's id of a person, as `SessionSource.user_id` gives it."""

    @abstractmethod
    async def says(
        self,
        text: str,
        *,
        chat: str = "",
        user: str = "",
        chat_type: ChatType = "dm",
        thread: str = "",
        mention: bool = False,
        reply_to: str = "",
        files: tuple[File, ...] = (),
        bot: bool = False,
    ) -> str:
        """Let a user write; return the platform's id of the message. "" is a chat and a person of
        the harness's choice. `reply_to` is the id of any message of the chat. `thread` is a name of
        the suite's choice, or an id that came in a message. A platform that does not take the text
        (blanks only) ignores the call. What we do not acknowledge is delivered again soon (within
        a second, not after the minutes that a real platform may take)."""

    @abstractmethod
    async def again(self, message_id: str) -> None:
        """The platform delivers a message once more, as it does after a lost acknowledgement."""

    async def presses(self, message_id: str, data: str, *, chat: str = "", user: str = "") -> None:
        """Let a user press a button of a message of ours."""
        raise AssertionError(f"{self.manifest.label} has no buttons")

    @abstractmethod
    async def shown(self, chat: str = "") -> list[Shown]:
        """Our messages in the chat, oldest first, as they are now."""

    @abstractmethod
    def trouble(self, kind: Trouble, times: int = 1) -> None:
        """The next sends or edits go wrong in this way."""

    @abstractmethod
    async def drop(self) -> None:
        """The connection breaks; the platform is there again at once."""

    @abstractmethod
    async def gone(self) -> None:
        """The platform cannot be reached any more."""

    @abstractmethod
    async def refuse_credentials(self) -> None:
        """From now on our token counts for nothing."""

    async def typing(self, chat: str = "") -> int:
        """How often we were seen writing."""
        return 0

    async def reactions(self, message_id: str, chat: str = "") -> list[str]:
        """Ours on a message."""
        return []

    @abstractmethod
    async def close(self) -> None: ...


class HastyClock(SystemClock):
    """Does not wait long for anything."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.02))


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
