"""What was sent to a chat from elsewhere is also in its conversation, so that the agent there knows
what the people talk about. It is kept as a message of the chat and put there in its turn: nothing
is written into a conversation beside whoever works on it."""

import secrets
import time
from collections.abc import Callable

import msgspec

from hermes.core.messages import Assistant, Text
from hermes.gateway.conversations import Conversations
from hermes.gateway.messages import MIRRORED
from hermes.gateway.news import Arrived
from hermes.gateway.owners import this_process
from hermes.gateway.platforms.kit.contract import MessageEvent, SessionSource, Target
from hermes.store.records import ChatLease, ChatRow, InboxItem, InboxRow
from hermes.store.session_store import SessionStore, under_lease

SENT = "[sent to this chat from another conversation]"
LONGEST = 10.0
"""Seconds that a chat is held while something is put into its conversation."""


class Mirror:
    def __init__(
        self,
        store: SessionStore,
        arrived: Arrived | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`arrived` hears of what was kept for a chat; without it nobody here works on chats."""
        self._store, self._arrived, self._now = store, arrived, now

    async def __call__(self, target: Target, text: str, name: str = "") -> bool:
        """False when the chat is in no conversation. What has a `name` is kept once, however often
        it is said. Raises `StoreError`."""
        chat = await self._chat(target)
        if chat is None:
            return False
        said = f"{SENT}\n{text}"
        if self._arrived is not None or not await self._put_now(chat, said):
            await self._keep(chat, said, name or secrets.token_hex(8))
        return True

    async def _chat(self, target: Target) -> ChatRow | None:
        """The conversation of the chat that was active last; a group may have several."""
        here = [
            chat
            for chat in await self._store.chats.select()
            if chat.session_id and chat.origin and _is_in(chat.origin, target)
        ]
        return max(here, key=lambda chat: chat.last_active, default=None)

    async def _keep(self, chat: ChatRow, text: str, name: str) -> None:
        source = msgspec.json.decode(chat.origin, type=SessionSource)
        event = MessageEvent(source, f"{MIRRORED}{name}", text, sent_at=self._now())
        kept = InboxItem(
            source.platform,
            source.account,
            event.message_id,
            chat.session_key,
            msgspec.json.encode(event),
        )
        row = await self._store.inbox.receive(kept, self._now())
        if row is not None and self._arrived is not None:
            self._arrived(chat.session_key)

    async def _put_now(self, chat: ChatRow, text: str) -> bool:
        """False when somebody works on the chat."""
        now, owner = self._now(), f"note:{this_process()}"
        right = await self._store.chats.claim(chat.session_key, owner, now, now + LONGEST)
        if right is None:
            return False
        try:
            with under_lease(right):
                await self._store.append(chat.session_id, Assistant((Text(text),)))
        finally:
            await self._store.chats.release(right)
        return True


async def take_in(
    conversations: Conversations,
    store: SessionStore,
    row: InboxRow,
    event: MessageEvent,
    right: ChatLease,
) -> None:
    """Put what was kept into the conversation of its chat, once, if it is in one (any more)."""
    async with conversations.alone(row.session_key):
        chat = await store.chats.get(row.session_key)
        if chat is None or not chat.session_id:
            return
        if row.state == "working" and row.session_id == chat.session_id:
            logged = await store.log(chat.session_id)
            if logged and logged[-1].id > row.log_after:
                return  # it is there since before a crash
        await store.inbox.start((row.id,), chat.session_id, right)
        message = Assistant((Text(event.text),))
        await store.append(chat.session_id, message)
        if (agent := conversations.get(row.session_key)) is not None:
            agent.rewrite((*agent.history, message))


def _is_in(origin: bytes, target: Target) -> bool:
    try:
        source = msgspec.json.decode(origin, type=SessionSource)
    except msgspec.DecodeError:  # one damaged row is no matter of other chats
        return False
    place = (target.platform, target.chat_id, target.thread_id)
    here = (source.platform, source.chat_id, source.thread_id) == place
    return here and target.account in ("", source.account)
