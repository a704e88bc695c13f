"""Agents that are kept ready, and how a conversation that grows finds its own again."""

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from hermes.agent import Agent
from hermes.core.messages import Aside, Image, Message, Text, ToolResult, User

MOST_KNOWN = 4096
"""Conversations whose session is known, with or without an agent that is ready."""


class Slot:
    """A session that can go on, and its agent while that is kept."""

    def __init__(self, session_id: str, agent: Agent | None, keys: tuple[str, ...]) -> None:
        self.session_id, self.agent, self.keys = session_id, agent, keys


class LiveAgents:
    """The ones used last. A conversation goes on in one place: who takes an agent has it alone,
    and another that goes on from the same point gets none."""

    def __init__(self, leave: Callable[[Agent], Awaitable[None]], most: int) -> None:
        self._leave, self._most = leave, most
        self._slots: OrderedDict[str, Slot] = OrderedDict()
        self._ready: OrderedDict[Slot, Agent] = OrderedDict()

    @property
    def count(self) -> int:
        return len(self._ready)

    def knows(self, key: str) -> bool:
        return key in self._slots

    def take(self, key: str) -> Slot | None:
        slot = self._slots.get(key)
        if slot is not None:
            self._remove(slot)
        return slot

    async def keep(self, session_id: str, agent: Agent, keys: Iterable[str]) -> None:
        """`agent` goes on under any of `keys`. The one that was used longest ago may be left."""
        slot = Slot(session_id, agent, tuple(dict.fromkeys(keys)))
        left: list[Agent] = []
        for key in slot.keys:
            other = self._slots.get(key)
            if other is not None:
                self._remove(other)
                left += [other.agent] if other.agent else []
            self._slots[key] = slot
        self._ready[slot] = agent
        while len(self._ready) > self._most:
            oldest, unused = self._ready.popitem(last=False)
            oldest.agent = None
            left.append(unused)
        while len(self._slots) > MOST_KNOWN:
            self._remove(next(iter(self._slots.values())))
        for each in left:
            await self._leave(each)

    def _remove(self, slot: Slot) -> None:
        for key in slot.keys:
            if self._slots.get(key) is slot:
                del self._slots[key]
        self._ready.pop(slot, None)

    async def close(self) -> None:
        agents = list(self._ready.values())
        self._slots.clear()
        self._ready.clear()
        for agent in agents:
            await self._leave(agent)


def session_key(session_id: str) -> str:
    return f"session:{session_id}"


class Fingerprint:
    """Names a conversation by what was said in it, whoever quotes it."""

    def __init__(self, *around: str) -> None:
        """`around` is what else must be the same."""
        self._hash = hashlib.sha256("\0".join(around).encode("utf-8", "replace"))

    def add(self, role: str, *said: str) -> None:
        # Surrounding blanks are lost on many ways.
        parts = "\1".join([role, *(each.strip() for each in said)])
        self._hash.update(f"\0{len(parts)}:{parts}".encode("utf-8", "replace"))

    def added(self, messages: Sequence[Message]) -> "Fingerprint":
        for message in messages:
            self.add(message.role, *_said(message))
        return self

    def and_then(self, role: str, said: str) -> str:
        """The key once this was said too."""
        copy = Fingerprint()
        copy._hash = self._hash.copy()
        copy.add(role, said)
        return copy.key

    @property
    def key(self) -> str:
        return f"said:{self._hash.hexdigest()}"


def _said(message: Message) -> Iterator[str]:
    if isinstance(message, User):
        for part in message.parts:
            match part:
                case Image():
                    yield part.url
                case Aside():
                    pass
                case Text():
                    yield part.text
        return
    yield message.text
    if isinstance(message, ToolResult):
        yield message.call_id
