"""Shared parts of a running gateway, and the operations that every chat worker needs."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
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
from hermes.gateway.messages import PlatformAway, decode_event, reply_id
from hermes.gateway.outbox import GatewayOutbox
from hermes.gateway.outgoing import SIDE_LANE, OutgoingMeta
from hermes.gateway.platforms.kit.contract import (
    AdapterError,
    ChatTarget,
    Media,
    MessageEvent,
    PlatformManifest,
    SessionSource,
)
from hermes.gateway.platforms.registry import chat_media_folder, media_folder
from hermes.gateway.process import dead_owners, this_process
from hermes.gateway.questions import ChatQuestions
from hermes.gateway.session_keys import background_parent
from hermes.gateway.supervisor import ConnectionRegistry
from hermes.gateway.turn_view import ChatDisplayModes, TurnView
from hermes.gateway.updates import UpdateRunner
from hermes.store.records import ChatLease, ChatRow, InboxRow, OutboxItem
from hermes.store.session_store import SessionStore

if TYPE_CHECKING:
    from hermes.gateway.worker import BackgroundTask, ChatWorker


log = logging.getLogger(__name__)

LEASE_SECONDS = 30.0


class Counters(Protocol):
    """Counts messages and answers for the metrics."""

    def count_message(self, platform: str) -> None: ...

    def count_answer(self, platform: str, seconds: float, *, failed: bool) -> None: ...


class GatewayContext:
    def __init__(
        self,
        app: App,
        connections: ConnectionRegistry,
        outbox: GatewayOutbox,
        sessions: ChatSessions,
        authorizer: Authorizer,
        reset_policy: ResetPolicy,
        hooks: HookRegistry,
        counters: Counters,
        manifests: dict[str, PlatformManifest],
    ) -> None:
        self.app, self.connections, self.outbox, self.sessions = app, connections, outbox, sessions
        self._authorizer, self._reset_policy, self.hooks = authorizer, reset_policy, hooks
        self._counters, self.manifests, self._owner = counters, manifests, this_process()
        self.display_modes = ChatDisplayModes(
            app.loaded.settings, app.home.root / "gateway" / "tool_progress.json"
        )
        self.updates = UpdateRunner(app.home, outbox.notify, lambda: self.restart())
        self.draining = False
        """True once shutdown began: no new turn starts."""
        self.closed = False
        """True once turns were stopped: no message is accepted any more."""
        self.find_questions: Callable[[SessionSource], ChatQuestions | None] = lambda _source: None
        self.restart: Callable[[], None] = lambda: None
        self.platform_summary: Callable[[], str] = str
        self.pair: Callable[[SessionSource, str], str] = lambda _source, _words: ""
        self.on_idle: Callable[[ChatWorker], None] = lambda _worker: None
        self.background_tasks: Callable[[str], list[BackgroundTask]] = lambda _key: []
        """Returns the running background tasks of a chat."""
        self.wake_chat: Callable[[str], None] = lambda _key: None
        """Wakes the worker of a chat or background task after a message was stored for it."""
        self.home: Callable[[str, str], ChatTarget | None] = lambda _platform, _account: None
        """Returns the home channel of a platform and account."""

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
        dead = await asyncio.to_thread(dead_owners, owners)
        now = self.now()
        until = now + LEASE_SECONDS
        return await self.store.chats.claim(key, self._owner, now, until, dead=dead)

    async def release(self, lease: ChatLease) -> None:
        try:
            await self.store.chats.release(lease)
        except HermesError as error:
            log.warning("a lease could not be released and expires by itself: %s", error)

    async def renew_leases(self) -> None:
        """Renew the chat leases of this process until cancelled."""
        while True:
            await self.clock.sleep(LEASE_SECONDS / 3)
            try:
                await self.store.chats.renew(self._owner, self.now() + LEASE_SECONDS)
            except HermesError as error:
                log.error("the chat leases could not be renewed: %s", error)

    async def role(self, source: SessionSource) -> Role | None:
        """Return the role of the author of a message; None if the author is not authorized (any
        more)."""
        admission = self._authorizer.known(source)
        return admission.role if admission else None

    async def reset_if_due(self, key: str, questions: ChatQuestions | None = None) -> None:
        """End the stored session of a chat if the reset settings say so; the next message starts a
        new one.

        The caller must hold the lease of the chat. With `questions` (no user is waiting), a session
        that is not open is opened once more, so that its memory is saved before it ends.
        """
        row = await self.store.chats.get(key)
        if (
            row is None
            or not (reason := self.reset_reason(row))
            or self.sessions.has_running_processes(key)
        ):
            return
        log.info("%s starts a new session: %s", key, reason)
        origin = msgspec.json.decode(row.origin, type=SessionSource)
        agent = self.sessions.get(key)
        if agent is None and questions is not None:
            agent = await self._open_for_flush(row, origin, questions)
        if agent is not None and self.app.is_open(agent):
            await self.app.flush(agent)
        ended = await self.sessions.end(key)
        await self.hooks.fire("session:end", **about(origin, key), session_id=ended)

    async def _open_for_flush(
        self, row: ChatRow, origin: SessionSource, questions: ChatQuestions
    ) -> Agent | None:
        """Return the agent of a session that is about to end; None if the session is too short to
        save anything, or cannot be opened."""
        least = self.app.loaded.settings.memory.flush_min_turns
        try:
            info, role = await self.store.info(row.session_id), await self.role(origin)
            if role is None or not least or info.message_count < least:
                return None
            return await self.sessions.open(row.session_key, origin, role, questions)
        except HermesError as error:
            log.warning("the memory of the session of %s was not saved: %s", row.session_key, error)
            return None

    def reset_reason(self, chat: ChatRow) -> str:
        """Return why the reset settings end the session of a chat; "" while it continues."""
        if not chat.session_id or not chat.origin:
            return ""
        now = self.clock.now()
        platform = msgspec.json.decode(chat.origin, type=SessionSource).platform
        return self._reset_policy.reset_reason(
            platform, datetime.fromtimestamp(chat.last_active, now.tzinfo), now
        )

    async def compact_if_needed(self, agent: Agent) -> None:
        """Compact the history before a turn if it is close to the context length."""
        making = self.app.session(agent)
        length = making.target.profile.context_length
        enabled = self.app.loaded.settings.compression.enabled
        if length and needs_compaction(agent.history, length, enabled=enabled):
            try:
                await agent.compress()
            except Interrupted:
                raise
            except HermesError as error:  # the turn compacts again if it has to
                log.warning("a session could not be compacted before the turn: %s", error)

    def view(
        self, row: InboxRow, event: MessageEvent, attachments: Attachments | None = None
    ) -> TurnView:
        source = event.source
        return TurnView(
            self.outbox,
            # A background task shows only its result.
            None
            if background_parent(row.session_key)
            else self.connections.get(source.platform, source.account),
            self.manifests[source.platform].capabilities,
            source.target,
            self.display_modes.options(row.session_key, source.platform),
            inbox_id=row.id,
            reply_to=reply_id(event),
            attachments=attachments,
        )

    def compose_side_reply(
        self,
        row: InboxRow,
        event: MessageEvent,
        text: str,
        kind: str = "command",
        files: tuple[Media, ...] = (),
    ) -> tuple[OutboxItem, ...]:
        """Compose the reply to a message that is answered outside the order of its chat."""
        quoted, target = reply_id(event), event.source.target
        meta = OutgoingMeta(f"reply:{row.id}", target, kind, row.id, quoted, lane_suffix=SIDE_LANE)
        return self.outbox.compose(text, meta, files)

    def compose_for_home(
        self, row: InboxRow, event: MessageEvent, text: str, files: tuple[Media, ...] = ()
    ) -> tuple[OutboxItem, ...]:
        """Compose a copy of a reply for the home channel; empty if there is none, or if it is the
        same chat."""
        source = event.source
        try:
            home = self.home(source.platform, source.account)
        except UsageError as error:  # the name of the channel may be unknown (yet)
            log.info("the home channel of %s cannot be used: %s", source.platform, error)
            return ()
        place = (source.chat_id, source.thread_id)
        if home is None or (home.chat_id, home.thread_id) == place:
            return ()
        meta = OutgoingMeta(f"home:{row.id}", home, "background", lane_suffix=SIDE_LANE)
        return self.outbox.compose(text, meta, files)

    async def reply_now(self, row: InboxRow, text: str) -> None:
        """Mark a message as answered and enqueue its reply, in one transaction and outside the chat
        order."""
        made = self.compose_side_reply(row, decode_event(row), text) if text.strip() else ()
        await self.store.inbox.answer((row.id,), made, None, self.now())
        self.outbox.wake()

    async def check_readable(self, row: InboxRow) -> bool:
        """Return whether a stored message can be decoded. A damaged row is marked as unreadable and
        logged once."""
        try:
            decode_event(row)
        except msgspec.DecodeError as error:
            log.error("message %d of %s cannot be read: %s", row.id, row.session_key, error)
            await self.store.inbox.answer((row.id,), (), None, self.now(), state="unreadable")
            return False
        return True

    async def fetch(self, event: MessageEvent, media: Media) -> Media:
        source = event.source
        connection = self.connections.get(source.platform, source.account)
        if connection is None:
            raise PlatformAway(f"{source.platform} is not connected")
        limit = self.app.loaded.settings.gateway.media_max_bytes
        fetched = await connection.adapter.fetch(media, limit)
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

    def count_answer(self, row: InboxRow, finish: TurnFinished) -> None:
        seconds = self.now() - row.received_at
        self._counters.count_answer(row.platform, seconds, failed=finish.failed)
