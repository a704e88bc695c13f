"""The work of one chat: its messages in order, one turn after another."""

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
from hermes.core.model import Usage
from hermes.gateway.chat_session import append_mirrored
from hermes.gateway.commands import open_command_context
from hermes.gateway.context import GatewayContext
from hermes.gateway.hooks import TurnEvents, about
from hermes.gateway.messages import add_files, build_user_message, decode_event, is_mirrored
from hermes.gateway.platforms.kit.contract import Button, MessageEvent, SessionSource
from hermes.gateway.questions import ChatQuestions, same_person
from hermes.gateway.session_keys import background_name, background_parent
from hermes.gateway.turn_view import TurnView
from hermes.store.records import ChatLease, InboxRow, OutboxItem
from hermes.store.session_store import under_lease

log = logging.getLogger(__name__)

StopReason = Literal["", "stop", "newer", "shutdown", "stuck"]
STOP_REASONS: dict[StopReason, str] = {
    "": "",
    "stop": "stopped by the user",
    "newer": "stopped by a newer message",
    "shutdown": "the gateway is stopping",
    "stuck": "stopped: the turn was inactive for too long",
}
"""Why a turn was ended from outside, in words."""

_NO_USAGE = Usage()


class ChatTurn:
    """The current turn of one chat: starts, resumes after a crash, follows and stops it."""

    def __init__(self, gateway: GatewayContext, key: str, questions: ChatQuestions) -> None:
        self._gateway, self._key, self._asker = gateway, key, questions
        self.running = False
        self.stop_reason: StopReason = ""
        """Why the last turn was stopped from outside; "" if it was not."""
        self.last_activity = 0.0
        """Monotonic time of the last event of the turn."""
        self.reached_agent = False
        """True once the message of the turn is in the agent's log."""
        self.cancel_pending = False
        """True if an interrupted turn must be cancelled instead of resumed."""
        self._over = False
        self._cancel = CancelToken()

    def begin(self, *, resumed: bool) -> None:
        """Prepare a new or `resumed` turn; from here on it can be stopped."""
        self.stop_reason, self.running = "", True
        self.reached_agent = self._over = False
        self._cancel = CancelToken()
        self.last_activity = self._gateway.clock.monotonic()
        cancel_pending, self.cancel_pending = self.cancel_pending, False
        if resumed and cancel_pending:
            self.stop("stop")

    def end(self) -> None:
        self.running = False

    def stop(self, stop_reason: StopReason) -> bool:
        """Stop the running turn. Returns False if no turn runs, or if its reply is complete."""
        if not self.running or self._over:
            return False
        self.stop_reason = stop_reason
        self._cancel.cancel(STOP_REASONS[stop_reason])
        if (agent := self._gateway.sessions.get(self._key)) is not None:
            agent.interrupt(STOP_REASONS[stop_reason])
        return True

    async def cancel(self) -> bool:
        """Stop the running turn, or the interrupted one that was not resumed yet. Returns whether
        there was one."""
        if self.running:
            return self.stop("stop")
        waiting = await self._gateway.store.inbox.pending(self._key)
        if any(row.state == "working" for row in waiting):
            self.cancel_pending = not self.stop("stop")  # it may have been resumed meanwhile
            return True
        return False

    async def run(
        self,
        agent: Agent,
        view: TurnView,
        rows: list[InboxRow],
        events: list[MessageEvent],
        lease: ChatLease,
        question: User | None,
    ) -> tuple[TurnFinished, int]:
        """Run or resume the turn that `begin` prepared.

        Returns its last event, and the id of the outbox row that already shows the reply (0 if none
        does).
        """
        cut = rows[0].state == "working"
        self.reached_agent = question is not None  # the effect of a command must not happen twice
        try:
            await view.start(resumed=cut)
            if cut and await self.is_logged(rows[0], agent.session_id):
                # The message is in the log: only the rest of the turn is left to do.
                self._cancel.check()
                agent_events = agent.resume() if agent.unfinished else None
            else:
                building = self._build_message(agent, rows, events, question)
                message = await self._cancel.guard(building)
                ids = tuple(row.id for row in rows)
                await self._gateway.store.inbox.start(ids, agent.session_id, lease)
                agent_events = agent.run(message)
            self.reached_agent = True
            hooks = TurnEvents(self._gateway.hooks, self._facts(rows[-1]))
            finish = (
                await self._follow(agent, agent_events, view, hooks)
                if agent_events
                else _finished(agent)
            )
        except Interrupted:
            finish = TurnFinished(agent.session_id, "interrupted", "", _NO_USAGE, 0)
        finally:
            await view.close()
        return finish, await view.close()

    async def _build_message(
        self,
        agent: Agent,
        rows: list[InboxRow],
        events: list[MessageEvent],
        question: User | None,
    ) -> User:
        await self._gateway.compact_if_needed(agent)
        if question is not None:
            return await add_files(self._gateway, question, decode_event(rows[-1]))
        return await build_user_message(self._gateway, events)

    async def is_logged(self, row: InboxRow, session_id: str) -> bool:
        """Return whether the message was written to the log before the crash."""
        entries = await self._gateway.app.store.entries(session_id)
        return any(getattr(entry, "id", 0) > row.log_after for entry in entries)

    def _facts(self, row: InboxRow) -> dict[str, object]:
        event = decode_event(row)
        return {**about(event.source, self._key), "message": event.text}

    async def _follow(
        self, agent: Agent, events: "AsyncGenerator[Event, None]", view: TurnView, hooks: TurnEvents
    ) -> TurnFinished:
        last: TurnFinished | None = None
        async with aclosing(events):
            async for event in events:
                if self._cancel.cancelled:  # the turn was stopped before it started
                    agent.interrupt(self._cancel.reason)
                self.last_activity = self._gateway.clock.monotonic()
                view.paused = self._asker.has_open
                await hooks.see(event)
                await view.show(event)
                if isinstance(event, TurnFinished):
                    last, self._over = event, True
        if last is None:
            raise RuntimeError("a turn ended without its last event")
        return last


def _finished(agent: Agent) -> TurnFinished:
    """Return the end of a turn whose reply is already in the log."""
    last = agent.history[-1]
    text = last.text if isinstance(last, Assistant) else ""
    return TurnFinished(agent.session_id, "answered", text, _NO_USAGE, 0)


class SteeredMessages:
    """Messages of one chat that were passed into its running turn.

    Each is a stored message like any other. The reply of the turn answers it too; if the model did
    not read it before the turn ended, it waits for a turn of its own. `side_rows` are the rows that
    the worker leaves out of the normal order.
    """

    def __init__(self, gateway: "GatewayContext", key: str, side_rows: set[int]) -> None:
        self._gateway, self._key, self._side_rows = gateway, key, side_rows
        self._row_ids: list[int] = []
        """Ids of the rows that were passed into the turn."""
        self._unheard_from = 0
        """Index of the first row that the model has not read yet."""

    @property
    def row_ids(self) -> tuple[int, ...]:
        return tuple(self._row_ids)

    def steer(self, row_id: int, text: str) -> bool:
        """Pass a message into the running turn. Returns False if there is no turn that can take
        it."""
        agent = self._gateway.sessions.get(self._key)
        if agent is None:
            return False
        if not agent.pending.steered:
            self._unheard_from = len(self._row_ids)
        if not agent.steer(text):
            return False
        self._side_rows.add(row_id)
        self._row_ids.append(row_id)
        return True

    def end_turn(self) -> None:
        """Return the messages that the model did not read to the queue."""
        agent = self._gateway.sessions.get(self._key)
        if agent is not None and agent.pending.steered:
            agent.pending.discard_steering()
            self.release(self.row_ids[self._unheard_from :])

    def release(self, rows: tuple[int, ...]) -> None:
        """Forget rows that were answered, or that are back in the queue."""
        self._side_rows.difference_update(rows)
        self._row_ids = [row for row in self._row_ids if row not in rows]


CLAIM_RETRY_SECONDS = 1.0
"""Seconds between two attempts to claim a chat that another process works on."""
MAX_RETRY_SECONDS = 30.0
"""Longest pause in seconds after the work of a chat failed."""
FAILURE_MESSAGE = (
    "An unexpected error occurred, so your message was not processed. Please send it again."
    " Details: hermes logs gateway"
)
STOPPED_MESSAGE = "Stopped."
NO_ANSWER_MESSAGE = "The model returned an empty reply. Send /retry to ask again."


class ChatWorker:
    """Processes the messages of one chat. Its task ends when nothing is left to do and starts again
    with the next message."""

    def __init__(self, gateway: GatewayContext, key: str) -> None:
        self._gateway, self.key = gateway, key
        self.questions = ChatQuestions(self._send_question)
        self.turn = ChatTurn(gateway, key, self.questions)
        self.source: SessionSource | None = None
        """The author of the message in work."""
        self.role: Role = "guest"
        self.side_rows: set[int] = set()
        """Ids of rows that are handled outside the chat order, such as /stop."""
        self.steering = SteeredMessages(gateway, key, self.side_rows)
        self.current_rows: tuple[int, ...] = ()
        """Ids of the rows in work. The process that stored a row may learn of it later than this
        worker."""
        self._task: asyncio.Task[None] | None = None
        self._woken = self._merge = self._over = False

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self.turn.running

    @property
    def working(self) -> bool:
        return self._task is not None

    def wake(self) -> None:
        self._woken = True
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"chat {self.key}")

    def check_reset(self) -> None:
        """End the session if the reset settings say so, in order with the messages of the chat."""
        self._over = True
        self.wake()

    async def wait_finished(self, *, cancel: bool = False) -> None:
        """Return when no work is in progress; `cancel` stops it first."""
        if self._task is not None:
            if cancel:
                self._task.cancel()
            await asyncio.wait([self._task])

    def may_steer(self, source: SessionSource, role: Role) -> bool:
        """Return whether a person may steer the running turn. It has the rights of the person who
        started it, so only that person and owners may."""
        return role == "owner" or (self.source is not None and same_person(self.source, source))

    async def _run(self) -> None:
        pause = CLAIM_RETRY_SECONDS
        try:
            while self._woken and not self._gateway.draining:
                self._woken = False
                try:
                    await self._process()
                    pause = CLAIM_RETRY_SECONDS
                except Exception as error:  # noqa: BLE001 - a worker that stops would leave its chat unanswered
                    self._woken = True
                    self._log_failure(error)
                    await self._gateway.clock.sleep(pause)
                    pause = min(pause * 2, MAX_RETRY_SECONDS)
        finally:
            self._task = None
            self._gateway.on_idle(self)

    def _log_failure(self, error: Exception) -> None:
        match error:
            case LeaseLost():
                log.warning("another process has taken over %s", self.key)
                self.steering.release(self.steering.row_ids)
            case StoreError():
                log.error("the store is unavailable, messages of %s wait: %s", self.key, error)
            case _:
                log.error("processing messages of %s failed", self.key, exc_info=error)

    async def _process(self) -> None:
        """Process messages until none is pending. Waits while another process holds the lease."""
        lease: ChatLease | None = None
        sessions = self._gateway.sessions
        try:
            while (
                (rows := await self._pending_rows()) or self._over
            ) and not self._gateway.draining:
                claimed = await self._gateway.claim(self.key)
                if claimed is None:
                    await self._gateway.clock.sleep(CLAIM_RETRY_SECONDS)
                    continue
                lease = claimed
                await sessions.refresh(self.key, lease.fence)
                over, self._over = self._over, False
                merge, self._merge = self._merge, False
                with under_lease(lease):
                    if rows:
                        await _apply_stored_stops(self._gateway, self.turn, rows)
                        batch = next_batch(rows, merge=merge)
                        self.current_rows = _ids(batch)
                        await self._handle_batch(batch, lease)
                    elif over:
                        await self._gateway.reset_if_due(self.key, self.questions)
                sessions.note_fence(self.key, lease.fence)
        finally:
            if lease is not None:
                await self._gateway.release(lease)

    async def _pending_rows(self) -> list[InboxRow]:
        rows = await self._gateway.store.inbox.pending(self.key)
        ours = (row for row in rows if row.id not in self.side_rows)
        return [row for row in ours if await self._gateway.check_readable(row)]

    async def _handle_batch(self, rows: list[InboxRow], lease: ChatLease) -> None:
        events = [decode_event(row) for row in rows]
        if is_mirrored(events[0]):
            mail, sessions = self._gateway.store, self._gateway.sessions
            await append_mirrored(sessions, mail, rows[0], events[0], lease)
            await mail.inbox.answer(_ids(rows), (), None, self._gateway.now())
            return
        self.source = source = events[-1].source
        role = await self._gateway.role(source)
        if role is None:  # access was revoked after the message was stored
            await self._gateway.store.inbox.answer(
                _ids(rows), (), lease, self._gateway.now(), state="dropped"
            )
            return
        self.role = role
        try:
            await self._handle(rows, events, lease)
        except (LeaseLost, StoreError):
            raise
        except HermesError as error:
            await self._reply_with(rows, f"⚠️ {error}\n{error.hint}".strip(), lease)
        except Exception:  # one message must not block those behind it
            log.exception("a message of %s could not be processed", self.key)
            await self._reply_with(rows, FAILURE_MESSAGE, lease)

    async def _handle(
        self, rows: list[InboxRow], events: list[MessageEvent], lease: ChatLease
    ) -> None:
        await self._gateway.reset_if_due(self.key)
        row, text = rows[0], events[0].text
        if len(events) > 1 or not text.startswith("/") or await self._was_started(row):
            await self._take_turn(rows, events, lease)
            return
        context = await open_command_context(self._gateway, self, row, events[0], self.role)
        if not await context.run(text):  # not a command, for example a path
            await self._take_turn(rows, events, lease)
        elif context.question is not None:
            await self._take_turn(rows, [], lease, context.question)
        else:
            await context.store_deferred()
            command = parse_command(text)
            # A side command must not count as activity of the session.
            if command is not None and command.at_once:
                await self._gateway.reply_now(row, context.output())
            else:
                await self._reply_with(rows, context.output(), lease)

    async def _was_started(self, row: InboxRow) -> bool:
        """Return whether a turn that a command asked for was interrupted: its question is in the
        log."""
        if row.state != "working":
            return False
        try:
            return await self.turn.is_logged(row, row.session_id)
        except SessionNotFound:  # the session was deleted
            return False

    async def _take_turn(
        self,
        rows: list[InboxRow],
        events: list[MessageEvent],
        lease: ChatLease,
        question: User | None = None,
    ) -> None:
        source = decode_event(rows[-1]).source
        self.turn.begin(resumed=rows[0].state == "working")
        try:
            agent = await self._gateway.sessions.open(self.key, source, self.role, self.questions)
            attachments = self._gateway.app.session(agent).attachments
            view = self._gateway.view(rows[-1], decode_event(rows[-1]), attachments)
            self.questions.person, self.questions.role = source, self.role
            finish, stream_row = await self.turn.run(agent, view, rows, events, lease, question)
        finally:
            self.questions.person = None
            self.turn.end()
            self.steering.end_turn()
        await self._gateway.sessions.rebind(self.key)
        await self._reply(rows, finish, view, stream_row, lease)

    async def _reply(
        self,
        rows: list[InboxRow],
        finish: TurnFinished,
        view: TurnView,
        stream_row: int,
        lease: ChatLease,
    ) -> None:
        stop_reason = self.turn.stop_reason
        items: tuple[OutboxItem, ...] = ()
        if finish.interrupted and stop_reason == "shutdown":
            return  # the turn continues after the next start
        if finish.interrupted and stop_reason in ("stop", "newer"):
            self._merge = stop_reason == "newer"
            if self._merge and not self.turn.reached_agent:
                return  # the agent has not read it: it is answered together with the newer message
            items = await view.partial_reply() if stream_row else ()
        else:
            items = await self._compose_reply(rows[-1], _text(finish, stop_reason), view, finish)
        await self._finish(rows, items, lease, adopt=stream_row)
        self._gateway.count_answer(rows[-1], finish)
        await view.mark_done(failed=finish.failed or finish.interrupted)

    async def _reply_with(self, rows: list[InboxRow], text: str, lease: ChatLease | None) -> None:
        """Answer messages with a text that does not come from the agent."""
        view = self._gateway.view(rows[-1], decode_event(rows[-1]))
        items = await self._compose_reply(rows[-1], text, view) if text.strip() else ()
        await self._finish(rows, items, lease)

    async def _compose_reply(
        self, _row: InboxRow, text: str, view: TurnView, finish: TurnFinished | None = None
    ) -> tuple[OutboxItem, ...]:
        return await view.reply(text, finish)

    async def _finish(
        self,
        rows: list[InboxRow],
        items: tuple[OutboxItem, ...],
        lease: ChatLease | None,
        *,
        adopt: int = 0,
    ) -> None:
        steered = self.steering.row_ids
        ids = (*steered, *_ids(rows))
        await self._gateway.store.inbox.answer(
            ids, items, lease, self._gateway.now(), stream_id=adopt
        )
        self._gateway.outbox.wake()
        self.steering.release(steered)

    async def _send_question(self, text: str, buttons: tuple[Button, ...]) -> None:
        if self.source is None:
            raise RuntimeError("a question was asked outside a turn")
        await self._gateway.outbox.notify(self.source.target, text, "question", buttons)


def parse_command(text: str) -> CommandDef | None:
    """Return the command that a message starts with, by its full name."""
    word = text.split(None, 1)[0].partition("@")[0] if text.startswith("/") else ""
    return exact_command(word, Surface.CHATS) if word else None


async def _apply_stored_stops(
    gateway: GatewayContext, turn: ChatTurn, rows: Sequence[InboxRow]
) -> None:
    """Apply a /stop that was stored before a crash to the turn that would be resumed now."""
    if rows[0].state != "working":
        return
    for row in rows[1:]:
        command = parse_command(decode_event(row).text)
        if command is not None and command.name == "stop":
            turn.cancel_pending = True
            await gateway.reply_now(row, STOPPED_MESSAGE)


def next_batch(rows: Sequence[InboxRow], *, merge: bool) -> list[InboxRow]:
    """Return the messages for the next turn.

    That is one message, unless a turn for several was interrupted, or a turn was stopped in favour
    of newer messages of the same person (`merge`).
    """
    first = rows[0]
    if first.state == "working":
        return [row for row in rows if row.state == "working"]
    if not merge:
        return [first]
    events = [decode_event(row) for row in rows]
    mergeable = [
        not event.text.startswith("/")
        and not is_mirrored(event)
        and same_person(event.source, events[0].source)
        for event in events
    ]
    return list(rows[: max(mergeable.index(False), 1) if False in mergeable else len(rows)])


def _ids(rows: Sequence[InboxRow]) -> tuple[int, ...]:
    return tuple(row.id for row in rows)


def _text(finish: TurnFinished, stop_reason: StopReason) -> str:
    if finish.failed or stop_reason == "stuck":
        error = finish.error or STOP_REASONS[stop_reason]
        return f"{finish.text}\n\n⚠️ {error}\n{finish.hint}".strip()
    return finish.text or NO_ANSWER_MESSAGE


class BackgroundTask(ChatWorker):
    """A task of `/background`: a stored message with its own worker and agent.

    It continues after a crash and is answered once, like any message. It asks no questions: what
    needs approval is decided by `approvals.headless`.
    """

    def __init__(self, gateway: GatewayContext, key: str) -> None:
        super().__init__(gateway, key)
        self._goal = ""
        self._began = gateway.clock.monotonic()
        self._stopped = False

    @property
    def name(self) -> str:
        return background_name(self.key)

    @property
    def description(self) -> str:
        """One line for the list of running tasks."""
        seconds = self._gateway.clock.monotonic() - self._began
        return f"`{self.name}` {shorten_goal(self._goal)} ({seconds:.0f} s)"

    def stop(self) -> None:
        if not self.turn.stop("stop"):
            self._stopped = True  # the turn has not started yet

    async def _handle_batch(self, rows: list[InboxRow], lease: ChatLease) -> None:
        await super()._handle_batch(rows, lease)
        if not await self._pending_rows():  # otherwise it continues after the next start
            await self._gateway.sessions.close(self.key)
            await self._gateway.store.chats.delete(lease)

    async def _handle(
        self, rows: list[InboxRow], events: list[MessageEvent], lease: ChatLease
    ) -> None:
        self._goal = events[0].text
        if self._stopped:
            await self._finish(rows, (), lease)
        else:
            await self._take_turn(rows, events, lease)

    async def _compose_reply(
        self, row: InboxRow, text: str, view: TurnView, _finish: TurnFinished | None = None
    ) -> tuple[OutboxItem, ...]:
        event, agent = decode_event(row), self._gateway.sessions.get(self.key)
        session = f" (session `{agent.session_id}`)" if agent else ""
        report = f"**`{self.name}`** {shorten_goal(event.text)}{session}\n\n{text}"
        report, files = await view.attach(report)
        return (
            *self._gateway.compose_side_reply(row, event, report, "background", files),
            *self._gateway.compose_for_home(row, event, report, files),
        )


def background_tasks_of(key: str, workers: Iterable[ChatWorker]) -> list[BackgroundTask]:
    """Return the background tasks of a chat that are not finished."""
    found = (each for each in workers if isinstance(each, BackgroundTask) and each.working)
    return [each for each in found if background_parent(each.key) == key]
