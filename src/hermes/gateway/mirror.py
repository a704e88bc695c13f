"""What was sent to a chat from elsewhere is also in its conversation, so that the agent there knows
what the people talk about."""

import logging
from collections.abc import Callable

import msgspec

from hermes.agent.agent import Agent
from hermes.core.errors import HermesError
from hermes.core.messages import Assistant, Text
from hermes.gateway.events import SessionSource, Target
from hermes.store.mail import ChatRow
from hermes.store.port import SessionStore

log = logging.getLogger(__name__)

SENT = "[sent to this chat from another conversation]"


class Mirror:
    """`live` gives the agent of a chat, when one is open."""

    def __init__(self, store: SessionStore, live: Callable[[str], Agent | None]) -> None:
        self._store, self._live = store, live

    async def __call__(self, target: Target, text: str) -> bool:
        """Whether it is there. What fails is logged: the message itself is on its way."""
        try:
            chat = await self._chat(target)
            if chat is None:
                return False
            await self._put(chat, Assistant((Text(f"{SENT}\n{text}"),)))
        except HermesError as error:
            log.warning("a sent message is not in the history of its chat: %s", error)
            return False
        return True

    async def _chat(self, target: Target) -> ChatRow | None:
        """The conversation of the chat that was active last; a group may have several."""
        here = [
            chat
            for chat in await self._store.chats()
            if chat.session_id and chat.origin and _is_in(chat.origin, target)
        ]
        return max(here, key=lambda chat: chat.last_active, default=None)

    async def _put(self, chat: ChatRow, message: Assistant) -> None:
        agent = self._live(chat.session_key)
        if agent is not None and agent.running:
            agent.notices.add(message.text)  # it hears of it in its turn
            return
        await self._store.append(chat.session_id, message)
        if agent is not None:
            agent.rewrite((*agent.history, message))


def _is_in(origin: bytes, target: Target) -> bool:
    source = msgspec.json.decode(origin, type=SessionSource)
    return (source.platform, source.chat_id, source.thread_id) == (
        target.platform,
        target.chat_id,
        target.thread_id,
    )
