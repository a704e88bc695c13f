"""Compaction as the loop sees it: the conversation gets shorter and goes on in a new session."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import msgspec

from hermes.agent.turn import Turn
from hermes.context.policy import ContextKeeper, Shortened
from hermes.core.errors import ContextOverflow, HermesError
from hermes.core.events import Compacted, CompactionStarted, Event, Notice
from hermes.core.messages import Message
from hermes.core.openai_format import to_dict
from hermes.core.ports import Clock
from hermes.store.records import LoggedMessage
from hermes.store.session_store import SessionStore
from hermes.util.log_context import in_session
from hermes.util.session_ids import new_session_id

log = logging.getLogger(__name__)

MOST_ROUNDS = 3
"""Compactions before the first call of a turn, and for refusals as too long within one."""

Moved = Callable[[str, str], Awaitable[None]]
Before = Callable[[Sequence[Message]], Awaitable[None]]


class Compaction:
    """Keeps the conversation of one agent within the window of its model."""

    def __init__(
        self,
        keeper: ContextKeeper,
        store: SessionStore,
        clock: Clock,
        moved: Moved,
        before: Before | None = None,
    ) -> None:
        """`moved` hears the old and the new id of the session after each compaction, `before` what
        is about to be shortened."""
        self.keeper = keeper
        self._store, self._clock, self._moved, self._before = store, clock, moved, before
        self._beside: asyncio.Task[Shortened | None] | None = None
        self._seen: tuple[Message, ...] = ()
        """The conversation that is being compacted beside."""

    async def at_start(self, turn: Turn) -> AsyncGenerator[Event, None]:
        """What was compacted between the turns is put to use; a history that is too long is
        compacted before the first call."""
        self.keeper.new_turn()
        if complaint := self.keeper.complaint():
            yield Notice(complaint)
        if (ready := self._ready(turn.messages)) is not None:
            yield await self._go_on(turn, ready)
        for _ in range(MOST_ROUNDS):
            if not self.keeper.due_at_start(turn.messages):
                return
            yield self._started(turn)
            event = await self._compact(turn)
            if event is None:
                return
            yield event

    async def after_tools(self, turn: Turn) -> AsyncGenerator[Event, None]:
        if self.keeper.due(turn.messages):
            yield self._started(turn)
            if (event := await self._compact(turn)) is not None:
                yield event
        elif warning := self.keeper.warning(turn.messages):
            yield Notice(warning)
        if complaint := self.keeper.complaint():
            yield Notice(complaint)

    async def recover(self, turn: Turn, error: ContextOverflow) -> AsyncGenerator[Event, None]:
        """The request was refused as too long; raises `error` when nothing makes it shorter."""
        yield self._started(turn)
        self.keeper.overflowed(turn.messages)
        event = await self._compact(turn)
        if event is None:
            error.hint = error.hint or "begin a new conversation, or use a model with more room"
            raise error
        yield event

    async def now(self, turn: Turn, focus: str) -> Event:
        """Because the user says so."""
        event = await self._compact(turn, focus)
        return event or Notice("There is nothing to compact: the conversation is short enough.")

    def _started(self, turn: Turn) -> Event:
        return CompactionStarted(
            self.keeper.tokens(turn.messages), self.keeper.engine.threshold_tokens
        )

    def begin_beside(self, messages: Sequence[Message]) -> None:
        """Start between two turns when that spares the next one the wait."""
        if self._beside is None and self.keeper.pays_between_turns(messages):
            self._seen = tuple(messages)
            self._beside = asyncio.ensure_future(self._shorten(self._seen))

    async def close(self) -> None:
        if self._beside is not None:
            self._beside.cancel()
            await asyncio.wait({self._beside})
            self._ready(())

    def _ready(self, messages: Sequence[Message]) -> Shortened | None:
        """What was compacted beside, if it is done and still about this conversation."""
        if self._beside is None or not self._beside.done():
            return None
        done, self._beside = self._beside, None
        if done.cancelled():
            return None
        if (error := done.exception()) is not None:
            log.warning("compacting between the turns failed: %s", error)
            return None
        same = len(messages) >= len(self._seen) and all(map(_is, self._seen, messages))
        return done.result() if same else None

    async def _awaited(self, messages: Sequence[Message]) -> Shortened | None:
        """What is compacted beside, once it is done; whoever stops the wait stops it too."""
        if self._beside is None:
            return None
        try:
            await asyncio.wait({self._beside})
        except asyncio.CancelledError:
            self._beside.cancel()
            raise
        return self._ready(messages)

    async def _compact(self, turn: Turn, focus: str = "") -> Event | None:
        """None when it brought nothing, or could not be done: the turn goes on as it is."""
        try:
            with turn.cancel.scope():
                if not focus and (ready := await self._awaited(turn.messages)) is not None:
                    return await self._go_on(turn, ready)
                shortened = await self._shorten(turn.messages, focus)
        except HermesError as error:
            turn.cancel.check()
            log.warning("compaction failed: %s", error)
            self.keeper.complain(error)
            return None
        return None if shortened is None else await self._go_on(turn, shortened)

    async def _shorten(self, messages: Sequence[Message], focus: str = "") -> Shortened | None:
        if self._before is not None:
            await self._before(messages)
        return await self.keeper.shorten(messages, focus)

    async def _go_on(self, turn: Turn, shortened: Shortened) -> Event:
        """The conversation goes on in a child session that starts with what is left."""
        messages = [*shortened.messages, *turn.messages[shortened.replaces :]]
        old, new = turn.session_id, new_session_id(self._clock.now())
        entries = await self._store.entries(old)
        await self._store.compact(old, new, logged(messages, entries))
        before, turn.messages[:] = len(turn.messages), messages
        turn.session_id = new
        newer = self.keeper.tokens(messages) - self.keeper.tokens(shortened.messages)
        self.keeper.adopt(messages, shortened.tokens_after + newer)
        await self._moved(old, new)
        event = Compacted(
            new,
            before,
            len(messages),
            shortened.tokens_before,
            shortened.tokens_after,
            shortened.seconds,
            shortened.summary_model,
        )
        with in_session(new):
            log.info("compaction of %s: %s", old, msgspec.json.encode(event).decode())
        return event


def logged(
    messages: Sequence[Message], entries: Sequence[LoggedMessage | Message]
) -> list[LoggedMessage | Message]:
    """`messages` with the log's numbers where the log has them, looked up from the end."""
    known: dict[bytes, list[LoggedMessage]] = {}
    for entry in entries:
        if isinstance(entry, LoggedMessage):
            known.setdefault(_key(entry.message), []).append(entry)
    found: list[LoggedMessage | Message] = []
    for message in reversed(messages):
        same = known.get(_key(message))
        found.append(same.pop() if same else message)
    return found[::-1]


def _key(message: Message) -> bytes:
    return msgspec.json.encode(to_dict(message))


def _is(one: Message, other: Message) -> bool:
    return one is other
