"""What the workers of all chats share."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from hermes.agent import Agent
from hermes.app.app import App
from hermes.config.settings.platforms import Role
from hermes.context.policy import needs_compaction
from hermes.core.errors import HermesError, Interrupted, UsageError
from hermes.core.events import TurnFinished
from hermes.core.ports import Attachments, Clock
from hermes.gateway.auth import Authorizer
from hermes.gateway.chat_session import ChatSessions, ResetPolicy
from hermes.gateway.hooks import HookRegistry, about
from hermes.gateway.messages import AwayError, event_of, quotable
from hermes.gateway.outbox import (
    AT_ONCE,
    ConnectionRegistry,
    OutboxLoop,
    OutboxSender,
    OutboxService,
    OutgoingMeta,
    attach_files,
    drafts,
)
from hermes.gateway.platforms.kit.contract import (
    AdapterError,
    Button,
    ChatTarget,
    Media,
    MessageEvent,
    PlatformManifest,
    SessionSource,
)
from hermes.gateway.platforms.registry import chat_media_folder, media_folder
from hermes.gateway.process import LeaseOwner
from hermes.gateway.questions import ChatQuestions
from hermes.gateway.session_keys import errand_of
from hermes.gateway.turn_view import ChatDisplayModes, TurnView, ViewDeps
from hermes.gateway.updates import UpdateRunner
from hermes.store.records import ChatLease, ChatRow, InboxRow, OutboxItem
from hermes.store.session_store import SessionStore

if TYPE_CHECKING:
    from hermes.gateway.worker import BackgroundTask, ChatWorker


log = logging.getLogger(__name__)

LEASE_SECONDS = 30.0


class Counters(Protocol):
    """What is counted for whoever watches the gateway."""

    def received(self, platform: str) -> None: ...

    def answered(self, platform: str, seconds: float, *, failed: bool) -> None: ...


class GatewayContext:
    def __init__(
        self,
        app: App,
        lines: ConnectionRegistry,
        pump: OutboxLoop,
        courier: OutboxSender,
        conversations: ChatSessions,
        doorman: Authorizer,
        post: OutboxService,
        resets: ResetPolicy,
        hooks: HookRegistry,
        counters: Counters,
        manifests: dict[str, PlatformManifest],
        owner: LeaseOwner,
    ) -> None:
        self.app, self.lines, self.pump = app, lines, pump
        self.conversations, self.post = conversations, post
        self._doorman, self._resets, self.hooks = doorman, resets, hooks
        self._counters, self.manifests, self._owner = counters, manifests, owner
        self._desk = ViewDeps(app.store.outbox, courier, app.clock)
        self.progress = ChatDisplayModes(
            app.loaded.settings, app.home.root / "gateway" / "tool_progress.json"
        )
        self.updates = UpdateRunner(
            app.home, partial(self.say_now, kind="notice"), lambda: self.restart()
        )
        self.closing = False
        """No new turns begin."""
        self.closed = False
        """Nothing is taken any more."""
        self.asker_in: Callable[[SessionSource], ChatQuestions | None] = lambda _source: None
        self.restart: Callable[[], None] = lambda: None
        self.health_lines: Callable[[], str] = str
        self.pair: Callable[[SessionSource, str], str] = lambda _source, _words: ""
        self.on_idle: Callable[[ChatWorker], None] = lambda _worker: None
        self.errands: Callable[[str], list[BackgroundTask]] = lambda _key: []
        """The tasks that run for a chat."""
        self.take_up: Callable[[str], None] = lambda _key: None
        """Something was kept for a chat, or for a task of one."""
        self.home: Callable[[str, str], ChatTarget | None] = lambda _platform, _account: None
        """The home channel of a platform and account."""

    @property
    def store(self) -> SessionStore:
        return self.app.store

    @property
    def clock(self) -> Clock:
        return self.app.clock

    def now(self) -> float:
        return self.clock.now().timestamp()

    async def claim(self, key: str) -> ChatLease | None:
        owners = await self.store.chats.owners()
        dead = await asyncio.to_thread(self._owner.dead, owners)
        now = self.now()
        until = now + LEASE_SECONDS
        return await self.store.chats.claim(key, self._owner.name, now, until, dead=dead)

    async def release(self, right: ChatLease) -> None:
        try:
            await self.store.chats.release(right)
        except HermesError as error:
            log.warning("a chat is free only when its lease ends: %s", error)

    async def keep_leases(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.clock.sleep(LEASE_SECONDS / 3)
            try:
                await self.store.chats.renew(self._owner.name, self.now() + LEASE_SECONDS)
            except HermesError as error:
                log.error("the leases of the chats could not be renewed: %s", error)

    async def role(self, source: SessionSource) -> Role | None:
        """That of whoever wrote a message; None when they are not let in (any more)."""
        admission = self._doorman.known(source)
        return admission.role if admission else None

    async def begin_day(self, key: str, asker: ChatQuestions | None = None) -> None:
        """Begin a new conversation when the old one is over by the settings. Only whoever works on
        the chat may say so. With an `asker` nobody waits, so that what matters is saved also of one
        that is not open."""
        row = await self.store.chats.get(key)
        if row is None or not (why := self.is_over(row)) or self.conversations.has_work(key):
            return
        log.info("%s begins a new conversation: %s", key, why)
        origin = msgspec.json.decode(row.origin, type=SessionSource)
        agent = self.conversations.get(key)
        if agent is None and asker is not None:
            agent = await self._opened_once_more(row, origin, asker)
        if agent is not None and self.app.is_open(agent):
            await self.app.flush(agent)
        ended = await self.conversations.end(key)
        await self.hooks.fire("session:end", **about(origin, key), session_id=ended)

    async def _opened_once_more(
        self, row: ChatRow, origin: SessionSource, asker: ChatQuestions
    ) -> Agent | None:
        """None when there is too little in the conversation, or it cannot be opened."""
        least = self.app.loaded.settings.memory.flush_min_turns
        try:
            info, role = await self.store.info(row.session_id), await self.role(origin)
            if role is None or not least or info.message_count < least:
                return None
            return await self.conversations.open(row.session_key, origin, role, asker)
        except HermesError as error:
            log.warning("nothing was saved of the conversation of %s: %s", row.session_key, error)
            return None

    def is_over(self, chat: ChatRow) -> str:
        """Why the conversation of a chat is over by the settings; "" when it goes on."""
        if not chat.session_id or not chat.origin:
            return ""
        now = self.clock.now()
        platform = msgspec.json.decode(chat.origin, type=SessionSource).platform
        return self._resets.why(platform, datetime.fromtimestamp(chat.last_active, now.tzinfo), now)

    async def tidy(self, agent: Agent) -> None:
        """Make room before a turn when the history hardly leaves any."""
        making = self.app.session(agent)
        length = making.target.profile.context_length
        enabled = self.app.loaded.settings.compression.enabled
        if length and needs_compaction(agent.history, length, enabled=enabled):
            try:
                await agent.compress()
            except Interrupted:
                raise
            except HermesError as error:  # the turn tries again when it has to
                log.warning("there is little room left in a conversation: %s", error)

    def view(
        self, row: InboxRow, event: MessageEvent, attachments: Attachments | None = None
    ) -> TurnView:
        source = event.source
        target = ChatTarget(source.platform, source.chat_id, source.thread_id, source.account)
        return TurnView(
            self._desk,
            # Of a task only the end is seen.
            None if errand_of(row.session_key) else self.lines.get(source.platform, source.account),
            self.manifests[source.platform].capabilities,
            target,
            self.progress.look(row.session_key, source.platform),
            inbox_id=row.id,
            reply_to=quotable(event),
            attachments=attachments,
        )

    def at_once(
        self,
        row: InboxRow,
        event: MessageEvent,
        text: str,
        kind: str = "command",
        files: tuple[Media, ...] = (),
    ) -> tuple[OutboxItem, ...]:
        """The answer to a message that did not wait for its turn."""
        source = event.source
        target = ChatTarget(source.platform, source.chat_id, source.thread_id, source.account)
        envelope = OutgoingMeta(
            f"reply:{row.id}", target, kind, row.id, quotable(event), beside=AT_ONCE
        )
        can = self.manifests[source.platform].capabilities
        return drafts(text, envelope, can, files)

    def for_home(
        self, row: InboxRow, event: MessageEvent, text: str, files: tuple[Media, ...] = ()
    ) -> tuple[OutboxItem, ...]:
        """The same text for the home channel; nothing when there is none, or it is the chat."""
        source = event.source
        try:
            home = self.home(source.platform, source.account)
        except UsageError as error:  # its name is not known (yet)
            log.info("the home channel of %s: %s", source.platform, error)
            return ()
        place = (source.chat_id, source.thread_id)
        if home is None or (home.chat_id, home.thread_id) == place:
            return ()
        envelope = OutgoingMeta(f"home:{row.id}", home, "background", beside=AT_ONCE)
        can = self.manifests[source.platform].capabilities
        return drafts(text, envelope, can, files)

    async def say_aside(self, row: InboxRow, text: str) -> None:
        """Answer a message that was dealt with beside the turn."""
        made = self.at_once(row, event_of(row), text) if text.strip() else ()
        await self.store.inbox.answer((row.id,), made, None, self.now())
        self.pump.wake()

    async def readable(self, row: InboxRow) -> bool:
        """False for a row that nobody will ever understand: it is set aside, and told once."""
        try:
            event_of(row)
        except msgspec.DecodeError as error:
            log.error("message %d of %s cannot be read: %s", row.id, row.session_key, error)
            await self.store.inbox.answer((row.id,), (), None, self.now(), state="unreadable")
            return False
        return True

    async def say_now(
        self,
        target: ChatTarget,
        text: str,
        kind: str,
        buttons: tuple[Button, ...] = (),
        key: str = "",
        attachments: Attachments | None = None,
    ) -> None:
        """A message that waits for nothing: a question, a notice."""
        if target.platform not in self.manifests:
            raise UsageError(f"{target.platform} is not set up any more")
        can = self.manifests[target.platform].capabilities
        name = key or f"{kind}:{target.chat_id}:{self.now():.6f}"
        envelope = OutgoingMeta(
            name, target, kind, buttons=buttons if can.buttons else (), beside=AT_ONCE
        )
        files: tuple[Media, ...] = ()
        if attachments is not None:
            text, files = await attach_files(text, attachments, can)
        await self.store.outbox.enqueue(drafts(text, envelope, can, files), self.now())
        self.pump.wake()

    async def fetch(self, event: MessageEvent, media: Media) -> Media:
        source = event.source
        line = self.lines.get(source.platform, source.account)
        if line is None:
            raise AwayError(f"{source.platform} is not connected")
        limit = self.app.loaded.settings.gateway.media_max_bytes
        fetched = await line.adapter.fetch(media, limit)
        return await asyncio.to_thread(self._move_to_chat, source, fetched)

    def _move_to_chat(self, source: SessionSource, media: Media) -> Media:
        """Move a fetched file into the folder of its chat."""
        root, path = self.app.home.root, Path(media.path)
        if path.parent != media_folder(root):
            return media  # the adapter keeps its files elsewhere
        folder = chat_media_folder(root, source)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            moved = path.rename(folder / path.name)
        except OSError as error:
            raise AdapterError(f"{path.name} cannot be stored: {error.strerror}") from error
        return msgspec.structs.replace(media, path=str(moved))

    def answered(self, row: InboxRow, finish: TurnFinished) -> None:
        seconds = self.now() - row.received_at
        self._counters.answered(row.platform, seconds, failed=finish.failed)
