"""The work of one chat: its messages in order, one turn after another."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal

import msgspec

from hermes.agent import Agent
from hermes.app import shorten_goal
from hermes.config.settings.platforms import Role
from hermes.context import needs_compaction
from hermes.core.cancel import CancelToken
from hermes.core.errors import (
    HermesError,
    Interrupted,
    LeaseLost,
    SessionNotFound,
    StoreError,
    UsageError,
)
from hermes.core.events import Event, TurnFinished
from hermes.core.messages import Assistant, User
from hermes.core.model import Usage
from hermes.core.ports import Attachments
from hermes.gateway.chat_session import ChatSession
from hermes.gateway.commands import open_command_context, parse_command
from hermes.gateway.hooks import TurnEvents, about
from hermes.gateway.messages import (
    add_files,
    build_user_message,
    decode_event,
    is_mirrored,
    side_reply,
)
from hermes.gateway.outbox import SIDE_LANE, OutgoingMeta
from hermes.gateway.questions import ChatQuestions, same_person
from hermes.gateway.session_keys import background_name, background_parent
from hermes.gateway.turn_view import TurnView
from hermes.sdk.platforms import MessageEvent, SessionSource
from hermes.store import ChatLease, InboxRow, OutboxItem, under_lease

if TYPE_CHECKING:
    from hermes.gateway.gateway import Gateway

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
CLAIM_RETRY_SECONDS = 1.0
"""Seconds between two attempts to claim a chat that another process works on."""
MAX_RETRY_SECONDS = 30.0  #: Longest pause in seconds after the work of a chat failed.
FAILURE_MESSAGE = (
    "An unexpected error occurred, so your message was not processed. Please send it again."
    " Details: hermes logs gateway"
)
STOPPED_MESSAGE = "Stopped."
BUSY_MESSAGE = "A turn is running. Stop it with `/stop`, then send `{command}` again."
NO_ANSWER_MESSAGE = "The model returned an empty reply. Send /retry to ask again."

_NO_USAGE = Usage()


class ChatTurn:
    """One turn: the messages it answers, and how far it got."""

    def __init__(
        self,
        rows: list[InboxRow],
        events: list[MessageEvent],
        lease: ChatLease,
        question: User | None,
        now: float,
    ) -> None:
        """`question` is what a command asks the agent, instead of `events`."""
        self.rows, self.events, self.lease, self.question = rows, events, lease, question
        self.row, self.event = rows[-1], decode_event(rows[-1])
        self.resumed = rows[0].state == "working"
        """True if the turn was interrupted, by a crash or a restart."""
        self.cancel = CancelToken()
        self.stop_reason: StopReason = ""
        """Why the turn was stopped from outside; "" if it was not."""
        self.last_activity = now  #: Monotonic time of the last event.
        self.reached_agent = question is not None  # a command must not take effect twice
        """True once the message of the turn is in the agent's log."""
        self.finished = False  #: True once the reply is complete.

    @property
    def stopped_by_user(self) -> bool:
        return self.stop_reason in ("stop", "newer")


class ChatWorker:
    """Processes the messages of one chat. Its task ends when nothing is left to do and starts again
    with the next message.

    A task of `/background` is a stored message with a worker and an agent of its own; its `parent`
    is the chat. It continues after a crash and is answered once, like any message. It asks no
    questions: what needs approval is decided by `approvals.headless`.
    """

    def __init__(self, gateway: "Gateway", key: str) -> None:
        self.gateway, self.key, self.parent = gateway, key, background_parent(key)
        self.questions = ChatQuestions(gateway, key)
        self.session = ChatSession(self)
        self.turn: ChatTurn | None = None  #: The running turn.
        self.source: SessionSource | None = None  #: The author of the message in work.
        self.role: Role = "guest"
        self.side_rows: set[int] = set()
        """Ids of rows that are handled outside the chat order, such as /stop."""
        self.current_rows: tuple[int, ...] = ()
        """Ids of the rows in work."""
        self.known_rows: set[int] = set()
        """Ids of rows that this process has dispatched, or has read before the running turn."""
        self._steered: list[int] = []
        """Ids of rows that were passed into the running turn. Its reply answers them too; those
        that the model did not read before the turn ended wait for a turn of their own."""
        self._unheard_from = 0  #: Index of the first steered row that the model has not read yet.
        self._cancel_pending = False
        """True if an interrupted turn must be cancelled instead of resumed."""
        self._task: asyncio.Task[None] | None = None
        self._woken = self._merge = self._check_reset = self._task_stopped = False
        self._goal, self._began = "", gateway.clock.monotonic()

    @property
    def busy(self) -> bool:
        return self.turn is not None

    @property
    def working(self) -> bool:
        return self._task is not None

    @property
    def in_use(self) -> bool:
        """Whether there is something to do, so that the worker and its agent must stay."""
        waiting = self.questions.has_open or self._cancel_pending or bool(self.side_rows)
        return self.working or waiting or self.session.is_locked

    def wake(self) -> None:
        self._woken = True
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"chat {self.key}")

    def check_reset(self) -> None:
        """End the session if the reset settings say so, in order with the messages of the chat."""
        self._check_reset = True
        self.wake()

    async def wait_finished(self, *, cancel: bool = False) -> None:
        """Return when no work is in progress; `cancel` stops it first."""
        if self._task is not None:
            if cancel:
                self._task.cancel()
            await asyncio.wait([self._task])

    # Stopping and steering the running turn

    def stop_turn(self, reason: StopReason) -> bool:
        """Stop the running turn. Returns False if no turn runs, or if its reply is complete."""
        if self.turn is None or self.turn.finished:
            return False
        self.turn.stop_reason = reason
        self.turn.cancel.cancel(STOP_REASONS[reason])
        if (agent := self.session.agent) is not None:
            agent.interrupt(STOP_REASONS[reason], by_user=self.turn.stopped_by_user)
        return True

    async def _cancel(self) -> bool:
        """Stop the running or interrupted turn. Returns whether there was one."""
        if self.turn is not None:
            return self.stop_turn("stop")
        waiting = await self.gateway.store.inbox.pending(self.key)
        if any(row.state == "working" for row in waiting):
            self._cancel_pending = not self.stop_turn("stop")  # it may have been resumed meanwhile
            return True
        return False

    def stop_task(self) -> None:
        self._task_stopped = not self.stop_turn("stop")  # the turn may not have started yet

    def describe_task(self) -> str:
        seconds = self.gateway.clock.monotonic() - self._began
        return f"`{background_name(self.key)}` {shorten_goal(self._goal)} ({seconds:.0f} s)"

    def may_steer(self, source: SessionSource, role: Role) -> bool:
        """Return whether a person may steer the running turn. It has the rights of the person who
        started it, so only that person and owners may."""
        return role == "owner" or (self.source is not None and same_person(self.source, source))

    def steer(self, row_id: int, text: str) -> bool:
        """Pass a message into the running turn. Returns False if no turn can take it."""
        agent = self.session.agent
        if agent is None:
            return False
        if not agent.pending.steered:
            self._unheard_from = len(self._steered)
        if not agent.steer(text):
            return False
        self.side_rows.add(row_id)
        self._steered.append(row_id)
        return True

    def _release_steered(self, rows: Sequence[int]) -> None:
        """Forget steered rows that were answered, or that are back in the queue."""
        self.side_rows.difference_update(rows)
        self._steered = [row for row in self._steered if row not in rows]

    # Commands outside the chat order

    async def run_side_command(self, row: InboxRow, role: Role, *, refused: bool = False) -> None:
        """Run a command outside the order of its chat; a `refused` one is only answered."""
        event = decode_event(row)
        command = parse_command(event.text)
        try:
            if refused and command is not None:
                text = BUSY_MESSAGE.format(command=f"/{command.name}")
            elif command is not None and command.name == "stop" and await self._cancel():
                text = STOPPED_MESSAGE
            else:
                context = await open_command_context(self, row, event, role)
                await context.run(event.text)
                if context.question is not None:  # the command needs a turn after all
                    self.side_rows.discard(row.id)
                    self.wake()
                    return
                await context.store_deferred()
                text = context.output()
        except HermesError as error:
            text = f"⚠️ {error}\n{error.hint}".strip()
        except Exception:  # the user must learn that the command failed
            log.exception("a command of %s failed", self.key)
            text = FAILURE_MESSAGE
        await self.gateway.reply_now(row, text)

    # The messages in order

    async def _run(self) -> None:
        pause = CLAIM_RETRY_SECONDS
        try:
            while self._woken and not self.gateway.draining:
                self._woken = False
                try:
                    await self._process()
                    pause = CLAIM_RETRY_SECONDS
                    continue
                except LeaseLost:
                    log.warning("another process has taken over %s", self.key)
                    self._release_steered(self._steered)
                except StoreError as error:
                    log.error("the store is unavailable, messages of %s wait: %s", self.key, error)
                except Exception:  # a worker that stops would leave its chat unanswered
                    log.exception("processing messages of %s failed", self.key)
                self._woken = True
                await self.gateway.clock.sleep(pause)
                pause = min(pause * 2, MAX_RETRY_SECONDS)
        finally:
            self._task = None
            self.gateway.forget_if_idle(self)

    async def _process(self) -> None:
        """Process messages until none is pending. Waits while another process holds the lease."""
        lease: ChatLease | None = None
        try:
            while (
                (rows := await self._pending_rows()) or self._check_reset
            ) and not self.gateway.draining:
                claimed = await self.gateway.leases.claim(self.key)
                if claimed is None:
                    await self.gateway.clock.sleep(CLAIM_RETRY_SECONDS)
                    continue
                lease = claimed
                await self.session.refresh(lease.fence)
                check_reset, self._check_reset = self._check_reset, False
                merge, self._merge = self._merge, False
                with under_lease(lease):
                    if rows:
                        await self._apply_stored_stops(rows)
                        batch = next_batch(rows, merge=merge)
                        self.current_rows = _ids(batch)
                        await self._handle_batch(batch, lease)
                    elif check_reset:
                        await self.session.reset_if_due(flush=True)
                self.session.fence = lease.fence
        finally:
            if lease is not None:
                await self.gateway.leases.release(lease)

    async def _pending_rows(self) -> list[InboxRow]:
        """Return the messages to process. A damaged one is marked as unreadable and logged once."""
        inbox, rows = self.gateway.store.inbox, []
        pending = await inbox.pending(self.key)
        self.known_rows = {row.id for row in pending}
        for row in pending:
            if row.id in self.side_rows:
                continue
            try:
                decode_event(row)
                rows.append(row)
            except msgspec.DecodeError as error:
                log.error("message %d of %s cannot be read: %s", row.id, self.key, error)
                await inbox.answer((row.id,), (), None, self.gateway.now(), state="unreadable")
        return rows

    async def _apply_stored_stops(self, rows: Sequence[InboxRow]) -> None:
        """Apply a /stop that was stored before a crash to the turn that would be resumed now."""
        if rows[0].state != "working":
            return
        for row in rows[1:]:
            command = parse_command(decode_event(row).text)
            if command is not None and command.name == "stop":
                self._cancel_pending = True
                await self.gateway.reply_now(row, STOPPED_MESSAGE)

    async def _handle_batch(self, rows: list[InboxRow], lease: ChatLease) -> None:
        events, inbox = [decode_event(row) for row in rows], self.gateway.store.inbox
        if events[0].button:  # its question is closed
            await inbox.answer(_ids(rows), (), lease, self.gateway.now(), state="dropped")
            return
        if is_mirrored(events[0]):
            await self.session.append_mirrored(rows[0], events[0], lease)
            await inbox.answer(_ids(rows), (), None, self.gateway.now())
            return
        self.source = source = events[-1].source
        role = self.gateway.role(source)
        if role is None:  # access was revoked after the message was stored
            await inbox.answer(_ids(rows), (), lease, self.gateway.now(), state="dropped")
        else:
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
        # A background task with a pending message continues after the next start.
        if self.parent and not await self._pending_rows():
            await self.session.close()
            await self.gateway.store.chats.delete(lease)

    async def _handle(
        self, rows: list[InboxRow], events: list[MessageEvent], lease: ChatLease
    ) -> None:
        row, text = rows[0], events[0].text
        if self.parent:
            self._goal = text
            if self._task_stopped:
                await self._finish(rows, (), lease)
            else:
                await self._take_turn(rows, events, lease)
            return
        await self.session.reset_if_due()
        plain = len(events) > 1 or not text.startswith("/")
        if plain or await self._is_logged(row, row.session_id):
            await self._take_turn(rows, events, lease)
            return
        context = await open_command_context(self, row, events[0], self.role)
        if not await context.run(text):  # not a command, for example a path
            await self._take_turn(rows, events, lease)
        elif context.question is not None:
            await self._take_turn(rows, [], lease, context.question)
        else:
            await context.store_deferred()
            command = parse_command(text)
            # A side command must not count as activity of the session.
            if command is not None and command.at_once:
                await self.gateway.reply_now(row, context.output())
            else:
                await self._reply_with(rows, context.output(), lease)

    async def _is_logged(self, row: InboxRow, session_id: str) -> bool:
        """Return whether a message was written to the log before its turn was interrupted."""
        if row.state != "working":
            return False
        try:
            entries = await self.gateway.store.entries(session_id)
        except SessionNotFound:  # the session was deleted
            return False
        return any(getattr(entry, "id", 0) > row.log_after for entry in entries)

    async def _take_turn(
        self,
        rows: list[InboxRow],
        events: list[MessageEvent],
        lease: ChatLease,
        question: User | None = None,
    ) -> None:
        turn = ChatTurn(rows, events, lease, question, self.gateway.clock.monotonic())
        self.turn = turn
        cancel_pending, self._cancel_pending = self._cancel_pending, False
        if cancel_pending and turn.resumed:
            self.stop_turn("stop")
        try:
            agent = await self.session.open(turn.event.source, self.role)
            session = self.gateway.app.session(agent)
            view = self._view(turn.row, turn.event, session.attachments)
            self.questions.person, self.questions.role = turn.event.source, self.role
            self.questions.isolated = session.place.workplace.isolated
            finish, stream_row = await self._run_turn(turn, agent, view)
        finally:
            self.questions.person = self.turn = None
            opened = self.session.agent
            if opened is not None and opened.pending.steered:  # the model did not read these
                opened.pending.discard_steering()
                self._release_steered(self._steered[self._unheard_from :])
        await self.session.rebind()
        await self._reply(turn, finish, view, stream_row)

    async def _run_turn(
        self, turn: ChatTurn, agent: Agent, view: TurnView
    ) -> tuple[TurnFinished, int]:
        """Run a turn, or the rest of an interrupted one. Returns its last event, and the id of the
        outbox row that already shows the reply (0 if none does)."""
        try:
            await view.start(resumed=turn.resumed)
            if await self._is_logged(turn.rows[0], agent.session_id):
                # The message is in the log: only the rest of the turn is left to do.
                turn.cancel.check()
                events = agent.resume() if agent.unfinished else None
            else:
                message = await turn.cancel.guard(self._build_message(turn, agent))
                ids = _ids(turn.rows)
                await self.gateway.store.inbox.start(ids, agent.session_id, turn.lease)
                events = agent.run(message)
            turn.reached_agent = True
            if events is not None:
                finish = await self._follow(turn, agent, events, view)
            else:  # the reply is already in the log
                last = agent.history[-1]
                text = last.text if isinstance(last, Assistant) else ""
                finish = TurnFinished(agent.session_id, "answered", text, _NO_USAGE, 0)
        except Interrupted:
            finish = TurnFinished(agent.session_id, "interrupted", "", _NO_USAGE, 0)
        finally:
            stream_row = await view.close()
        return finish, stream_row

    async def _build_message(self, turn: ChatTurn, agent: Agent) -> User:
        """Build the message of a turn, after compacting a history that is almost too long."""
        session = self.gateway.app.session(agent)
        length, policy = session.target.profile.context_length, session.compaction_policy
        reported = policy.reported_tokens(agent.history)
        if not reported:  # the conversation was opened for this message
            reported = await self.gateway.store.last_prompt_tokens(agent.session_id)
        enabled = policy.enabled
        if length and needs_compaction(agent.history, length, reported=reported, enabled=enabled):
            try:
                await agent.compress()
            except Interrupted:
                raise
            except HermesError as error:  # the turn compacts again if it has to
                log.warning("a session could not be compacted before the turn: %s", error)
        if turn.question is not None:
            return await add_files(self.gateway, turn.question, turn.event)
        return await build_user_message(self.gateway, turn.events)

    async def _follow(
        self, turn: ChatTurn, agent: Agent, events: "AsyncGenerator[Event, None]", view: TurnView
    ) -> TurnFinished:
        facts = {**about(turn.event.source, self.key), "message": turn.event.text}
        hooks = TurnEvents(self.gateway.hooks, facts)
        last: TurnFinished | None = None
        async with aclosing(events):
            async for event in events:
                if turn.cancel.cancelled:  # the turn was stopped before it started
                    agent.interrupt(turn.cancel.reason, by_user=turn.stopped_by_user)
                turn.last_activity = self.gateway.clock.monotonic()
                view.paused = self.questions.has_open
                await hooks.see(event)
                await view.show(event)
                if isinstance(event, TurnFinished):
                    last, turn.finished = event, True
        if last is None:
            raise RuntimeError("a turn ended without its last event")
        return last

    # Replies

    def _view(
        self, row: InboxRow, event: MessageEvent, attachments: Attachments | None = None
    ) -> TurnView:
        # A background task shows only its result.
        shown = not self.parent
        return TurnView(self.gateway, self.key, row, event, is_shown=shown, attachments=attachments)

    async def _reply(
        self, turn: ChatTurn, finish: TurnFinished, view: TurnView, stream_row: int
    ) -> None:
        row, stop_reason = turn.row, turn.stop_reason
        if finish.interrupted and stop_reason == "shutdown":
            return  # the turn continues after the next start
        if finish.interrupted and turn.stopped_by_user:
            self._merge = stop_reason == "newer"
            if self._merge and not turn.reached_agent:
                return  # the agent has not read it: it is answered together with the newer message
            items = await view.reply() if stream_row else ()
        else:
            text = finish.text or NO_ANSWER_MESSAGE
            if finish.failed or stop_reason == "stuck":
                error = finish.error or STOP_REASONS[stop_reason]
                text = f"{finish.text}\n\n⚠️ {error}\n{finish.hint}".strip()
            items = await self._compose_reply(row, text, view, finish)
        await self._finish(turn.rows, items, turn.lease, adopt=stream_row)
        seconds = self.gateway.now() - row.received_at
        self.gateway.status.count_answer(row.platform, seconds, "failed" if finish.failed else "ok")
        await view.mark_done(failed=finish.failed or finish.interrupted)

    async def _reply_with(self, rows: list[InboxRow], text: str, lease: ChatLease | None) -> None:
        """Answer messages with a text that does not come from the agent."""
        view = self._view(rows[-1], decode_event(rows[-1]))
        items = await self._compose_reply(rows[-1], text, view) if text.strip() else ()
        await self._finish(rows, items, lease)

    async def _compose_reply(
        self, row: InboxRow, text: str, view: TurnView, finish: TurnFinished | None = None
    ) -> tuple[OutboxItem, ...]:
        """Compose a reply. The result of a background task also goes to the home channel."""
        if not self.parent:
            return await view.reply(text, finish)
        event, agent = decode_event(row), self.session.agent
        session = f" (session `{agent.session_id}`)" if agent else ""
        name = background_name(self.key)
        report = f"**`{name}`** {shorten_goal(event.text)}{session}\n\n{text}"
        report, files = await view.attach(report)
        meta = side_reply(row, event, "background")
        items, source = self.gateway.outbox.compose(report, meta, files), event.source
        try:
            home = self.gateway.targets.home(source.platform, source.account)
        except UsageError as error:  # the name of the channel may be unknown (yet)
            log.info("the home channel of %s cannot be used: %s", source.platform, error)
            return items
        if home is None or (home.chat_id, home.thread_id) == (source.chat_id, source.thread_id):
            return items
        copy = OutgoingMeta(f"home:{row.id}", home, "background", lane_suffix=SIDE_LANE)
        return (*items, *self.gateway.outbox.compose(report, copy, files))

    async def _finish(
        self,
        rows: list[InboxRow],
        items: tuple[OutboxItem, ...],
        lease: ChatLease | None,
        *,
        adopt: int = 0,
    ) -> None:
        """Mark messages as answered and enqueue the reply, in one transaction."""
        steered, now = tuple(self._steered), self.gateway.now()
        ids = (*steered, *_ids(rows))
        await self.gateway.store.inbox.answer(ids, items, lease, now, stream_id=adopt)
        self.gateway.outbox.wake()
        self._release_steered(steered)


def next_batch(rows: Sequence[InboxRow], *, merge: bool) -> list[InboxRow]:
    """Return the messages for the next turn: one, unless a turn for several was interrupted, or was
    stopped in favour of newer messages of the same person (`merge`)."""
    first = rows[0]
    if first.state == "working":
        return [row for row in rows if row.state == "working"]
    if not merge:
        return [first]
    events = [decode_event(row) for row in rows]
    mergeable = [
        not event.text.startswith("/")
        and not event.button
        and not is_mirrored(event)
        and same_person(event.source, events[0].source)
        for event in events
    ]
    return list(rows[: max(mergeable.index(False), 1) if False in mergeable else len(rows)])


def _ids(rows: Sequence[InboxRow]) -> tuple[int, ...]:
    return tuple(row.id for row in rows)
