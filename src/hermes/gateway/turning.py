"""One turn of a chat: begun, gone on with after a crash, watched, stopped."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Literal

from hermes.agent import Agent
from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted
from hermes.core.events import Event, TurnFinished
from hermes.core.messages import Assistant, User
from hermes.core.usage import Usage
from hermes.gateway.asking import ChatAsker
from hermes.gateway.hooks import TurnTold, about
from hermes.gateway.house import House
from hermes.gateway.messages import event_of, user_message, with_files
from hermes.gateway.platforms.kit.contract import MessageEvent
from hermes.gateway.view import TurnView
from hermes.store.records import ChatLease, InboxRow

Why = Literal["", "stop", "newer", "shutdown", "stuck"]
REASONS: dict[Why, str] = {
    "": "",
    "stop": "stopped by the user",
    "newer": "stopped by a newer message",
    "shutdown": "the gateway stops",
    "stuck": "stopped: there was no sign of life",
}
"""Why somebody else ended a turn."""

_NOTHING = Usage()


class Turning:
    """The turns of one chat, of which one runs at a time."""

    def __init__(self, house: House, key: str, asker: ChatAsker) -> None:
        self._house, self._key, self._asker = house, key, asker
        self.running = False
        self.why: Why = ""
        """Why the last turn was ended by somebody else."""
        self.last_sign = 0.0
        """When the turn last showed that it lives."""
        self.began = False
        """Whether the last turn came as far as the agent, which has its message in the log."""
        self.called_off = False
        """Whether a turn that was cut off is not to go on."""
        self._over = False
        self._cancel = CancelToken()

    def begin(self, *, again: bool) -> None:
        """A turn is prepared, or one that was cut off: from here on it can be stopped."""
        self.why, self.running = "", True
        self.began = self._over = False
        self._cancel = CancelToken()
        self.last_sign = self._house.clock.monotonic()
        called_off, self.called_off = self.called_off, False
        if again and called_off:
            self.stop("stop")

    def end(self) -> None:
        self.running = False

    def stop(self, why: Why) -> bool:
        """End the running turn; False when none runs, or when its answer is there."""
        if not self.running or self._over:
            return False
        self.why = why
        self._cancel.cancel(REASONS[why])
        if (agent := self._house.conversations.get(self._key)) is not None:
            agent.interrupt(REASONS[why])
        return True

    async def call_off(self) -> bool:
        """Stop the running turn, or the one that was cut off and has not gone on yet."""
        if self.running:
            return self.stop("stop")
        waiting = await self._house.store.inbox.pending(self._key)
        if any(row.state == "working" for row in waiting):
            self.called_off = not self.stop("stop")  # it may have gone on meanwhile
            return True
        return False

    async def take(
        self,
        agent: Agent,
        view: TurnView,
        rows: list[InboxRow],
        events: list[MessageEvent],
        right: ChatLease,
        question: User | None,
    ) -> tuple[TurnFinished, int]:
        """The end of the turn, and the outbox row that shows its answer already, or 0. It was begun
        by `begin`."""
        cut = rows[0].state == "working"
        self.began = question is not None  # what a command did must not be done twice
        try:
            await view.begin(again=cut)
            if cut and await self.stored(rows[0], agent.session_id):
                # Of a turn that a crash cut off only the rest is done.
                self._cancel.check()
                going = agent.resume() if agent.unfinished else None
            else:
                asked = self._asked(agent, rows, events, question)
                message = await self._cancel.guard(asked)
                ids = tuple(row.id for row in rows)
                await self._house.store.inbox.start(ids, agent.session_id, right)
                going = agent.run(message)
            self.began = True
            told = TurnTold(self._house.hooks, self._facts(rows[-1]))
            finish = await self._watch(agent, going, view, told) if going else _finished(agent)
        except Interrupted:
            finish = TurnFinished(agent.session_id, "interrupted", "", _NOTHING, 0)
        finally:
            await view.end()
        return finish, await view.end()

    async def _asked(
        self,
        agent: Agent,
        rows: list[InboxRow],
        events: list[MessageEvent],
        question: User | None,
    ) -> User:
        await self._house.tidy(agent)
        if question is not None:
            return await with_files(self._house, question, event_of(rows[-1]))
        return await user_message(self._house, events)

    async def stored(self, row: InboxRow, session_id: str) -> bool:
        """Whether the message was in the log before the crash."""
        entries = await self._house.app.store.entries(session_id)
        return any(getattr(entry, "id", 0) > row.log_after for entry in entries)

    def _facts(self, row: InboxRow) -> dict[str, object]:
        event = event_of(row)
        return {**about(event.source, self._key), "message": event.text}

    async def _watch(
        self, agent: Agent, events: "AsyncGenerator[Event, None]", view: TurnView, told: TurnTold
    ) -> TurnFinished:
        last: TurnFinished | None = None
        async with aclosing(events):
            async for event in events:
                if self._cancel.cancelled:  # somebody said so before there was a turn
                    agent.interrupt(self._cancel.reason)
                self.last_sign = self._house.clock.monotonic()
                view.quiet = self._asker.waits
                await told.see(event)
                await view.see(event)
                if isinstance(event, TurnFinished):
                    last, self._over = event, True
        if last is None:
            raise RuntimeError("a turn ended without its last event")
        return last


def _finished(agent: Agent) -> TurnFinished:
    """The end of a turn whose answer is in the log already."""
    last = agent.history[-1]
    text = last.text if isinstance(last, Assistant) else ""
    return TurnFinished(agent.session_id, "answered", text, _NOTHING, 0)
