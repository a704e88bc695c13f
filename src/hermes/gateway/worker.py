"""The work of one chat: its messages in their order, one turn after the other."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Literal

from hermes.agent import Agent
from hermes.app.app import shorten_goal
from hermes.app.commands import CommandDef, Surface, exact_command
from hermes.config.settings.platforms import Role
from hermes.core.cancel import CancelToken
from hermes.core.errors import HermesError, Interrupted, LeaseLost, SessionNotFound, StoreError
from hermes.core.events import Event, TurnFinished
from hermes.core.messages import Assistant, User
from hermes.core.usage import Usage
from hermes.gateway.chat_session import take_in
from hermes.gateway.commands import open_talk
from hermes.gateway.context import GatewayContext
from hermes.gateway.hooks import TurnTold, about
from hermes.gateway.messages import event_of, is_mirrored, user_message, with_files
from hermes.gateway.platforms.kit.contract import Button, ChatTarget, MessageEvent, SessionSource
from hermes.gateway.questions import ChatQuestions, same_person
from hermes.gateway.session_keys import errand_name, errand_of
from hermes.gateway.turn_view import TurnView
from hermes.store.records import ChatLease, InboxRow, OutboxItem
from hermes.store.session_store import under_lease

# One turn of a chat: begun, gone on with after a crash, watched, stopped.

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


class ChatTurn:
    """The turns of one chat, of which one runs at a time."""

    def __init__(self, house: GatewayContext, key: str, asker: ChatQuestions) -> None:
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


# What people say into a running turn. It is a message that was kept like any other: the answer of
# the turn is for it too, or, when the model did not hear it, it waits for a turn of its own.


class SteeredMessages:
    """Of one chat. `aside` has the rows that are not in line."""

    def __init__(self, house: "GatewayContext", key: str, aside: set[int]) -> None:
        self._house, self._key, self._aside = house, key, aside
        self._said: list[int] = []
        """Rows that were said into the turn."""
        self._unheard = 0
        """Where those begin that the model has not heard yet."""

    @property
    def said(self) -> tuple[int, ...]:
        return tuple(self._said)

    def say(self, row_id: int, text: str) -> bool:
        """False when there is no turn that could hear it."""
        agent = self._house.conversations.get(self._key)
        if agent is None:
            return False
        if not agent.pending.steered:
            self._unheard = len(self._said)
        if not agent.steer(text):
            return False
        self._aside.add(row_id)
        self._said.append(row_id)
        return True

    def ended(self) -> None:
        """The turn is over: nobody will hear the rest."""
        agent = self._house.conversations.get(self._key)
        if agent is not None and agent.pending.steered:
            agent.pending.discard_steering()
            self.leave(self.said[self._unheard :])

    def leave(self, rows: tuple[int, ...]) -> None:
        """These were answered, or are in line again."""
        self._aside.difference_update(rows)
        self._said = [row for row in self._said if row not in rows]


log = logging.getLogger(__name__)

ELSEWHERE = 1.0
"""Seconds between two looks at a chat that another process works on."""
LONGEST_PAUSE = 30.0
"""Seconds between two tries when the work of a chat fails."""
FAULT = "Something went wrong inside me. The log of the gateway has the details."
STOPPED = "Stopped."
NO_ANSWER = "I have no answer to that."


class ChatWorker:
    """Runs as long as there is something to do; the next message starts it again."""

    def __init__(self, house: GatewayContext, key: str) -> None:
        self._house, self.key = house, key
        self.asker = ChatQuestions(self._ask)
        self.turning = ChatTurn(house, key, self.asker)
        self.source: SessionSource | None = None
        """Who wrote what is worked on."""
        self.role: Role = "guest"
        self.aside: set[int] = set()
        """Rows that are dealt with outside the order, such as /stop."""
        self.steering = SteeredMessages(house, key, self.aside)
        self.doing: tuple[int, ...] = ()
        """Rows that are worked on. Whoever kept one may hear of that later than we read it."""
        self._task: asyncio.Task[None] | None = None
        self._woken = self._merge = self._over = False

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self.turning.running

    @property
    def working(self) -> bool:
        return self._task is not None

    def wake(self) -> None:
        self._woken = True
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"chat {self.key}")

    def review(self) -> None:
        """The conversation may be over by the settings: see to that, in turn."""
        self._over = True
        self.wake()

    async def ended(self, *, now: bool = False) -> None:
        """Returns when nothing is worked on; `now` breaks it off."""
        if self._task is not None:
            if now:
                self._task.cancel()
            await asyncio.wait([self._task])

    def may_steer(self, source: SessionSource, role: Role) -> bool:
        """Whether somebody may say something into the running turn: it has the rights of whoever
        began it."""
        return role == "owner" or (self.source is not None and same_person(self.source, source))

    async def _run(self) -> None:
        pause = ELSEWHERE
        try:
            while self._woken and not self._house.closing:
                self._woken = False
                try:
                    await self._work()
                    pause = ELSEWHERE
                except Exception as error:  # noqa: BLE001 - nobody else would ever look at the chat again
                    self._woken = True
                    self._trouble(error)
                    await self._house.clock.sleep(pause)
                    pause = min(pause * 2, LONGEST_PAUSE)
        finally:
            self._task = None
            self._house.on_idle(self)

    def _trouble(self, error: Exception) -> None:
        match error:
            case LeaseLost():
                log.warning("another process works on %s now", self.key)
                self.steering.leave(self.steering.said)
            case StoreError():
                log.error("the work on %s has to wait: %s", self.key, error)
            case _:
                log.error("the work on %s failed", self.key, exc_info=error)

    async def _work(self) -> None:
        """Until nothing waits."""
        right: ChatLease | None = None
        conversations = self._house.conversations
        try:
            while ((rows := await self._waiting()) or self._over) and not self._house.closing:
                claimed = await self._house.claim(self.key)
                if claimed is None:
                    await self._house.clock.sleep(ELSEWHERE)
                    continue
                right = claimed
                await conversations.taken(self.key, right.fence)
                over, self._over = self._over, False
                merge, self._merge = self._merge, False
                with under_lease(right):
                    if rows:
                        await _heed_stops(self._house, self.turning, rows)
                        batch = together(rows, merge=merge)
                        self.doing = _ids(batch)
                        await self._batch(batch, right)
                    elif over:
                        await self._house.begin_day(self.key, self.asker)
                conversations.held(self.key, right.fence)
        finally:
            if right is not None:
                await self._house.release(right)

    async def _waiting(self) -> list[InboxRow]:
        rows = await self._house.store.inbox.pending(self.key)
        ours = (row for row in rows if row.id not in self.aside)
        return [row for row in ours if await self._house.readable(row)]

    async def _batch(self, rows: list[InboxRow], right: ChatLease) -> None:
        events = [event_of(row) for row in rows]
        if is_mirrored(events[0]):
            mail, conversations = self._house.store, self._house.conversations
            await take_in(conversations, mail, rows[0], events[0], right)
            await mail.inbox.answer(_ids(rows), (), None, self._house.now())
            return
        self.source = source = events[-1].source
        role = await self._house.role(source)
        if role is None:  # somebody was sent away after the message was kept
            await self._house.store.inbox.answer(
                _ids(rows), (), right, self._house.now(), state="dropped"
            )
            return
        self.role = role
        try:
            await self._dealt_with(rows, events, right)
        except (LeaseLost, StoreError):
            raise
        except HermesError as error:
            await self._say(rows, f"⚠️ {error}\n{error.hint}".strip(), right)
        except Exception:  # one message must not stop those behind it
            log.exception("a message of %s could not be dealt with", self.key)
            await self._say(rows, FAULT, right)

    async def _dealt_with(
        self, rows: list[InboxRow], events: list[MessageEvent], right: ChatLease
    ) -> None:
        await self._house.begin_day(self.key)
        row, text = rows[0], events[0].text
        if len(events) > 1 or not text.startswith("/") or await self._has_begun(row):
            await self._take_turn(rows, events, right)
            return
        talk = await open_talk(self._house, self, row, events[0], self.role)
        if not await talk.run(text):  # a path, say
            await self._take_turn(rows, events, right)
        elif talk.question is not None:
            await self._take_turn(rows, [], right, talk.question)
        else:
            await talk.keep_rest()
            command = command_of(text)
            if command is not None and command.at_once:  # it does not count as talking
                await self._house.say_aside(row, talk.collected())
            else:
                await self._say(rows, talk.collected(), right)

    async def _has_begun(self, row: InboxRow) -> bool:
        """Whether the turn that a command asked for was cut off: its question is in the log."""
        if row.state != "working":
            return False
        try:
            return await self.turning.stored(row, row.session_id)
        except SessionNotFound:  # somebody deleted it
            return False

    async def _take_turn(
        self,
        rows: list[InboxRow],
        events: list[MessageEvent],
        right: ChatLease,
        question: User | None = None,
    ) -> None:
        source = event_of(rows[-1]).source
        self.turning.begin(again=rows[0].state == "working")
        try:
            agent = await self._house.conversations.open(self.key, source, self.role, self.asker)
            attachments = self._house.app.session(agent).attachments
            view = self._house.view(rows[-1], event_of(rows[-1]), attachments)
            self.asker.person, self.asker.role = source, self.role
            finish, shown = await self.turning.take(agent, view, rows, events, right, question)
        finally:
            self.asker.person = None
            self.turning.end()
            self.steering.ended()
        await self._house.conversations.settle(self.key)
        await self._answered(rows, finish, view, shown, right)

    async def _answered(
        self,
        rows: list[InboxRow],
        finish: TurnFinished,
        view: TurnView,
        shown: int,
        right: ChatLease,
    ) -> None:
        why = self.turning.why
        made: tuple[OutboxItem, ...] = ()
        if finish.interrupted and why == "shutdown":
            return  # it goes on after the next start
        if finish.interrupted and why in ("stop", "newer"):
            self._merge = why == "newer"
            if self._merge and not self.turning.began:
                return  # nobody has heard it yet: it is answered with the newer one
            made = await view.so_far() if shown else ()
        else:
            made = await self._answer(rows[-1], _text(finish, why), view, finish)
        await self._done(rows, made, right, adopt=shown)
        self._house.answered(rows[-1], finish)
        await view.mark(failed=finish.failed or finish.interrupted)

    async def _say(self, rows: list[InboxRow], text: str, right: ChatLease | None) -> None:
        """Answer with a text that is not the agent's."""
        view = self._house.view(rows[-1], event_of(rows[-1]))
        made = await self._answer(rows[-1], text, view) if text.strip() else ()
        await self._done(rows, made, right)

    async def _answer(
        self, _row: InboxRow, text: str, view: TurnView, finish: TurnFinished | None = None
    ) -> tuple[OutboxItem, ...]:
        return await view.answer(text, finish)

    async def _done(
        self,
        rows: list[InboxRow],
        made: tuple[OutboxItem, ...],
        right: ChatLease | None,
        *,
        adopt: int = 0,
    ) -> None:
        heard = self.steering.said
        ids = (*heard, *_ids(rows))
        await self._house.store.inbox.answer(ids, made, right, self._house.now(), stream_id=adopt)
        self._house.pump.wake()
        self.steering.leave(heard)

    async def _ask(self, text: str, buttons: tuple[Button, ...]) -> None:
        if self.source is None:
            raise RuntimeError("nobody is there to ask")
        await self._house.say_now(target_of_source(self.source), text, "question", buttons)


def command_of(text: str) -> CommandDef | None:
    """The command a message begins with, by its whole name."""
    word = text.split(None, 1)[0].partition("@")[0] if text.startswith("/") else ""
    return exact_command(word, Surface.CHATS) if word else None


async def _heed_stops(house: GatewayContext, turning: ChatTurn, rows: Sequence[InboxRow]) -> None:
    """A /stop that was kept, and not done before a crash, is for the turn that would go on now."""
    if rows[0].state != "working":
        return
    for row in rows[1:]:
        command = command_of(event_of(row).text)
        if command is not None and command.name == "stop":
            turning.called_off = True
            await house.say_aside(row, STOPPED)


def together(rows: Sequence[InboxRow], *, merge: bool) -> list[InboxRow]:
    """The messages of the next turn: one, unless a turn for several was cut off, or a turn was
    stopped for what came after it (`merge`)."""
    first = rows[0]
    if first.state == "working":
        return [row for row in rows if row.state == "working"]
    if not merge:
        return [first]
    events = [event_of(row) for row in rows]
    said = [
        not event.text.startswith("/")
        and not is_mirrored(event)
        and same_person(event.source, events[0].source)
        for event in events
    ]
    return list(rows[: max(said.index(False), 1) if False in said else len(rows)])


def target_of_source(source: SessionSource) -> ChatTarget:
    return ChatTarget(source.platform, source.chat_id, source.thread_id, source.account)


def _ids(rows: Sequence[InboxRow]) -> tuple[int, ...]:
    return tuple(row.id for row in rows)


def _text(finish: TurnFinished, why: Why) -> str:
    if finish.failed or why == "stuck":
        error = finish.error or REASONS[why]
        return f"{finish.text}\n\n⚠️ {error}\n{finish.hint}".strip()
    return finish.text or NO_ANSWER


# Tasks beside a conversation (`/background`). A task is a message of its own, with a worker and an
# agent of its own: it goes on after a crash and is answered once, as any message is.


class BackgroundTask(ChatWorker):
    """Nobody is asked in it: what would need consent is decided as `approvals.headless` says."""

    def __init__(self, house: GatewayContext, key: str) -> None:
        super().__init__(house, key)
        self._goal = ""
        self._began = house.clock.monotonic()
        self._stopped = False

    @property
    def name(self) -> str:
        return errand_name(self.key)

    @property
    def line(self) -> str:
        """For a list of what runs."""
        seconds = self._house.clock.monotonic() - self._began
        return f"`{self.name}` {shorten_goal(self._goal)} ({seconds:.0f} s)"

    def stop(self) -> None:
        if not self.turning.stop("stop"):
            self._stopped = True  # it has not come so far

    async def _batch(self, rows: list[InboxRow], right: ChatLease) -> None:
        await super()._batch(rows, right)
        if not await self._waiting():  # else it goes on after the next start
            await self._house.conversations.close(self.key)
            await self._house.store.chats.delete(right)

    async def _dealt_with(
        self, rows: list[InboxRow], events: list[MessageEvent], right: ChatLease
    ) -> None:
        self._goal = events[0].text
        if self._stopped:
            await self._done(rows, (), right)
        else:
            await self._take_turn(rows, events, right)

    async def _answer(
        self, row: InboxRow, text: str, view: TurnView, _finish: TurnFinished | None = None
    ) -> tuple[OutboxItem, ...]:
        event, agent = event_of(row), self._house.conversations.get(self.key)
        session = f" (session `{agent.session_id}`)" if agent else ""
        report = f"**`{self.name}`** {shorten_goal(event.text)}{session}\n\n{text}"
        report, files = await view.attach(report)
        return (
            *self._house.at_once(row, event, report, "background", files),
            *self._house.for_home(row, event, report, files),
        )


def errands_of(key: str, workers: Iterable[ChatWorker]) -> list[BackgroundTask]:
    """The tasks of a chat that are not over."""
    found = (each for each in workers if isinstance(each, BackgroundTask) and each.working)
    return [each for each in found if errand_of(each.key) == key]
