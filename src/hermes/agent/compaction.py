"""Compaction in the agent loop: a compacted conversation continues in a new session, one in which
only tool results were shortened in the same session."""

import asyncio
import logging
import operator
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from hermes.agent.turn import Turn
from hermes.context import CompactionPolicy, Compressed
from hermes.core.errors import ContextOverflow, HermesError
from hermes.core.events import Compacted, CompactionStarted, Emit, Event, Notice
from hermes.core.messages import Message, to_dict
from hermes.core.ports import Clock
from hermes.store import LoggedMessage, SessionStore
from hermes.util.concurrency import in_session
from hermes.util.text import new_session_id

log = logging.getLogger(__name__)

MAX_ROUNDS = 3
"""Compactions before the first call of a turn, and for requests that are refused as too long."""

OnMoved = Callable[[str, str], Awaitable[None]]
BeforeCompaction = Callable[[Sequence[Message]], Awaitable[None]]


class Compactor:
    """Keeps the conversation of one agent within the window of its model."""

    def __init__(
        self,
        policy: CompactionPolicy,
        store: SessionStore,
        clock: Clock,
        on_moved: OnMoved,
        before: BeforeCompaction | None = None,
    ) -> None:
        """`on_moved` is called with the old and the new session id after each compaction, `before`
        with the messages that are about to be compressed."""
        self.policy = policy
        self._store, self._clock, self._on_moved, self._before = store, clock, on_moved, before
        self._background: asyncio.Task[Compressed | None] | None = None
        self._background_input: tuple[Message, ...] = ()
        """The conversation that is compacted in the background."""

    async def before_first_call(self, turn: Turn, emit: Emit) -> None:
        """Adopt a compaction made between the turns; compact a history that is too long."""
        self.policy.new_turn()
        if (ready := self._take_prepared(turn.messages)) is not None:
            emit(await self._adopt(turn, ready))
        for _ in range(MAX_ROUNDS):
            if not self.policy.is_due(turn.messages, first_call=True):
                break
            emit(self._started(turn))
            event = await self._compact(turn)
            if event is None:
                break
            emit(event)
        if problem := self.policy.take_problem():
            emit(Notice(problem))

    async def after_tools(self, turn: Turn, emit: Emit) -> None:
        """Compact if it is due, or warn that it soon will be."""
        if self.policy.is_due(turn.messages):
            emit(self._started(turn))
            if (event := await self._compact(turn)) is not None:
                emit(event)
        elif warning := self.policy.take_warning(turn.messages):
            emit(Notice(warning))
        if problem := self.policy.take_problem():
            emit(Notice(problem))

    async def recover(self, turn: Turn, error: ContextOverflow, emit: Emit) -> None:
        """Compact after a request was refused as too long; raise `error` if that fails."""
        emit(self._started(turn))
        self.policy.record_overflow(turn.messages)
        event = await self._compact(turn)
        if event is None:
            error.hint = (
                error.hint or "start a new conversation, or use a model with a larger context"
            )
            raise error
        emit(event)

    async def compact_now(self, turn: Turn, focus: str) -> Event:
        """Compact at the user's request."""
        event = await self._compact(turn, focus)
        return event or Notice("There is nothing to compact: the conversation is short enough.")

    def _started(self, turn: Turn) -> Event:
        return CompactionStarted(
            self.policy.tokens(turn.messages), self.policy.engine.threshold_tokens
        )

    def start_in_background(self, messages: Sequence[Message]) -> None:
        """Start a compaction between two turns if the next turn would otherwise have to wait."""
        if self._background is None and self.policy.pays_between_turns(messages):
            self._background_input = tuple(messages)
            self._background = asyncio.ensure_future(self._compress(self._background_input))

    async def close(self) -> None:
        if self._background is not None:
            self._background.cancel()
            await asyncio.wait({self._background})
            self._take_prepared(())

    def _take_prepared(self, messages: Sequence[Message]) -> Compressed | None:
        """Return the result of the background compaction if it is done and still applies."""
        if self._background is None or not self._background.done():
            return None
        done, self._background = self._background, None
        if done.cancelled():
            return None
        if (error := done.exception()) is not None:
            log.warning("compacting between the turns failed: %s", error)
            if isinstance(error, HermesError):
                self.policy.report_failure(error)
            return None
        same = len(messages) >= len(self._background_input) and all(
            map(operator.is_, self._background_input, messages)
        )
        return done.result() if same else None

    async def _await_prepared(self, messages: Sequence[Message]) -> Compressed | None:
        """Wait for the background compaction and return its result; cancelling cancels it."""
        if self._background is None:
            return None
        try:
            await asyncio.wait({self._background})
        except asyncio.CancelledError:
            self._background.cancel()
            raise
        return self._take_prepared(messages)

    async def _compact(self, turn: Turn, focus: str = "") -> Event | None:
        """Compact and return the event; None if it failed or did not help."""
        try:
            with turn.cancel.scope():
                if not focus and (ready := await self._await_prepared(turn.messages)) is not None:
                    return await self._adopt(turn, ready)
                compressed = await self._compress(turn.messages, focus)
        except HermesError as error:
            turn.cancel.check()
            log.warning("compaction failed: %s", error)
            self.policy.report_failure(error)
            return None
        return None if compressed is None else await self._adopt(turn, compressed)

    async def _compress(self, messages: Sequence[Message], focus: str = "") -> Compressed | None:
        if self._before is not None:
            await self._before(messages)
        return await self.policy.compress(messages, focus)

    async def _adopt(self, turn: Turn, compressed: Compressed) -> Event:
        """Store the compacted messages in a child session and continue the turn there; in the same
        session if only tool results were shortened."""
        messages = [*compressed.messages, *turn.messages[compressed.replaces :]]
        old = new = turn.session_id
        stored = with_log_entries(messages, await self._store.entries(old))
        if compressed.only_shortens(turn.messages[: compressed.replaces]):
            await self._store.rewrite(old, stored)
        else:
            new = new_session_id(self._clock.now())
            await self._store.compact(old, new, stored)
        before, turn.messages[:] = len(turn.messages), messages
        turn.session_id = new
        newer = self.policy.tokens(messages) - self.policy.tokens(compressed.messages)
        self.policy.adopt(messages, compressed.tokens_after + newer)
        if new != old:
            await self._on_moved(old, new)
        event = Compacted(
            new,
            before,
            len(messages),
            compressed.tokens_before,
            compressed.tokens_after,
            compressed.seconds,
            compressed.summary_model,
        )
        with in_session(new):
            log.info("compaction of %s: %s", old, msgspec.json.encode(event).decode())
        return event


def with_log_entries(
    messages: Sequence[Message], entries: Sequence[LoggedMessage | Message]
) -> list[LoggedMessage | Message]:
    """Replace messages by their log entries where the log has them, searching from the end."""
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
