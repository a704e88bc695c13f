"""Incoming messages: authorize and store them, then pass each to the worker of its chat."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec

from hermes.config.settings import Settings
from hermes.config.settings.platforms import Role
from hermes.core.errors import HermesError, StoreError, UsageError
from hermes.core.ports import Clock, HookName
from hermes.gateway.auth import Authorizer
from hermes.gateway.commands import open_command_context
from hermes.gateway.context import Counters, GatewayContext
from hermes.gateway.directory import ChatDirectory
from hermes.gateway.messages import decode_event
from hermes.gateway.platforms.kit.contract import Adapter, MessageEvent, SessionSource
from hermes.gateway.platforms.kit.inbound import GroupRules, group_rules, is_for_us
from hermes.gateway.questions import ChatQuestions
from hermes.gateway.session_keys import background_parent, build_session_key
from hermes.gateway.worker import (
    FAILURE_MESSAGE,
    STOPPED_MESSAGE,
    BackgroundTask,
    ChatWorker,
    background_tasks_of,
    parse_command,
)
from hermes.store.records import InboxItem, InboxRow
from hermes.util.text import clean

log = logging.getLogger(__name__)

STOPPING_COMMANDS = frozenset({"new"})
"""Commands that wait for the end of the turn, and stop it for that."""
NOT_DURING_TURN = frozenset({"model"})
"""Commands that are refused during a turn instead of queued: a model change is meant for now."""
BUSY_MESSAGE = "A turn is running. Stop it with `/stop`, then send `/{name}` again."
SAVE_SECONDS = 5.0
"""Seconds that a stopped turn has to save its state."""


class ChatDispatcher:
    def __init__(self, gateway: GatewayContext) -> None:
        self._gateway = gateway
        self._workers: dict[str, ChatWorker] = {}
        self._ready: set[str] = set()
        """Platforms whose uncertain deliveries are settled, so that interrupted turns can be
        resumed."""
        self._side_tasks: set[asyncio.Task[None]] = set()
        gateway.on_idle = self._forget_if_idle
        gateway.sessions.is_busy = self._is_busy
        gateway.sessions.on_closed = self._forget
        gateway.find_questions = self._find_questions
        gateway.background_tasks = lambda key: background_tasks_of(key, self._workers.values())
        gateway.wake_chat = lambda key: self._worker(key).wake()

    @property
    def running_turns(self) -> int:
        return sum(worker.busy for worker in self._workers.values())

    def check_reset(self, key: str) -> ChatWorker:
        """Let the worker of a chat check whether its session is over, and return the worker."""
        worker = self._worker(key)
        worker.check_reset()
        return worker

    def busy_workers(self) -> tuple[ChatWorker, ...]:
        """Return the workers that have something to do."""
        return tuple(worker for key, worker in self._workers.items() if self._is_busy(key))

    async def resume_platform(self, platform: str) -> None:
        """Wake every chat of a connected platform that has pending messages."""
        self._ready.add(platform)
        for key in await self._gateway.store.inbox.pending_chats((platform,)):
            self._worker(key).wake()

    def platform_down(self, platform: str) -> None:
        self._ready.discard(platform)

    def dispatch(self, item: InboxItem, row_id: int, event: MessageEvent, role: Role) -> None:
        """Handle a message that was just stored: run a command, answer a question, steer, or queue
        it."""
        worker = self._worker(item.session_key)
        row = InboxRow(
            row_id,
            item.platform,
            item.account,
            item.message_key,
            item.session_key,
            item.event,
            "new",
            self._gateway.now(),
        )
        command = parse_command(event.text)
        refused = command is not None and command.name in NOT_DURING_TURN and worker.busy
        if refused or (command is not None and command.at_once):
            self._start_side_task(worker, row, self._run_side_command(worker, row, role))
        elif command is None and worker.questions.is_answer(event.source, event.text):
            # Now, not in the task: the next message must already find the question answered.
            worker.questions.accept_answer(event.source, event.text)
            self._start_side_task(worker, row, self._gateway.reply_now(row, ""))
        else:
            self._enqueue(worker, row, event, role, command.name if command else "")

    async def redispatch(self, item: InboxItem, event: MessageEvent, role: Role) -> None:
        """Handle a duplicate of a stored message. If it is still pending, the process that stored
        it may have been interrupted before it dispatched the message."""
        rows = await self._gateway.store.inbox.pending(item.session_key)
        row = next((row for row in rows if row.message_key == item.message_key), None)
        if row is None:
            return
        worker, command = self._worker(item.session_key), parse_command(event.text)
        if row.id in worker.side_rows or row.id in worker.current_rows:
            return
        if command is not None and command.at_once:
            self._start_side_task(worker, row, self._run_side_command(worker, row, role))
        elif row.platform in self._ready:
            worker.wake()

    def _enqueue(
        self, worker: ChatWorker, row: InboxRow, event: MessageEvent, role: Role, command: str
    ) -> None:
        mode = self._gateway.app.loaded.settings.display.busy_input_mode
        if row.id in worker.current_rows:
            return
        if command:
            if command in STOPPING_COMMANDS:
                worker.turn.stop("stop")
        elif worker.busy and mode == "interrupt":
            worker.turn.stop("newer")
        elif worker.busy and mode == "steer" and not event.media:
            may = worker.may_steer(event.source, role)
            if may and worker.steering.steer(row.id, event.text):
                return
        if event.source.platform in self._ready:
            worker.wake()

    async def _run_side_command(self, worker: ChatWorker, row: InboxRow, role: Role) -> None:
        """Run a command outside the order of its chat."""
        event = decode_event(row)
        command = parse_command(event.text)
        name = command.name if command else ""
        try:
            if name == "stop" and await worker.turn.cancel():
                text = STOPPED_MESSAGE
            elif name in NOT_DURING_TURN and worker.busy:
                text = BUSY_MESSAGE.format(name=name)
            else:
                context = await open_command_context(self._gateway, worker, row, event, role)
                await context.run(event.text)
                if context.question is not None:  # the command needs a turn after all
                    worker.side_rows.discard(row.id)
                    worker.wake()
                    return
                await context.store_deferred()
                text = context.output()
        except HermesError as error:
            text = f"⚠️ {error}\n{error.hint}".strip()
        except Exception:  # the user must learn that the command failed
            log.exception("a command of %s failed", worker.key)
            text = FAILURE_MESSAGE
        await self._gateway.reply_now(row, text)

    async def press(self, event: MessageEvent, role: Role) -> None:
        """Handle a button of a question, found by its token. A press without effect is answered
        with the reason."""
        askers = (worker.questions for worker in self._workers.values())
        questions = next((each for each in askers if each.owns_button(event.button)), None)
        try:
            if questions is None:
                raise UsageError("this question is closed")
            questions.press(event.source, role, event.button)
        except UsageError as error:
            source = event.source
            log.info("a button on %s: %s", source.platform, error)
            who = "" if source.chat_type == "dm" else f"{source.user_name or source.user_id}: "
            # One notice, however often the button is pressed.
            whose = (source.platform, source.account, source.chat_id, source.user_id)
            key = ":".join(("press", *whose, event.button.partition(":")[0], str(error)))
            await self._gateway.outbox.notify(source.target, f"{who}{error}", "notice", key=key)

    def _worker(self, key: str) -> ChatWorker:
        if key not in self._workers:
            kind = BackgroundTask if background_parent(key) else ChatWorker
            self._workers[key] = kind(self._gateway, key)
        return self._workers[key]

    def _is_busy(self, key: str) -> bool:
        worker = self._workers.get(key)
        if worker is None:
            return False
        has_open = worker.questions.has_open or worker.turn.cancel_pending
        return bool(worker.working or has_open or worker.side_rows)

    def _forget_if_idle(self, worker: ChatWorker) -> None:
        """Drop a worker without work. It stays while its agent is open, because the agent asks
        questions through it."""
        if self._gateway.sessions.get(worker.key) is None:
            self._forget(worker.key)

    def _forget(self, key: str) -> None:
        if not self._is_busy(key):
            self._workers.pop(key, None)

    def _find_questions(self, source: SessionSource) -> ChatQuestions | None:
        """Return the open questions of a chat, which an owner may answer for the person asked."""
        place = (source.platform, source.account, source.chat_id)
        for worker in self._workers.values():
            asked = worker.questions.person if worker.questions.has_open else None
            if asked and (asked.platform, asked.account, asked.chat_id) == place:
                return worker.questions
        return None

    def _start_side_task(
        self, worker: ChatWorker, row: InboxRow, work: Coroutine[Any, Any, None]
    ) -> None:
        """Handle a message outside the order of its chat."""
        worker.side_rows.add(row.id)
        task = asyncio.ensure_future(work)
        self._side_tasks.add(task)
        task.add_done_callback(partial(self._on_side_task_done, worker, row))

    def _on_side_task_done(
        self, worker: ChatWorker, row: InboxRow, task: "asyncio.Task[None]"
    ) -> None:
        self._side_tasks.discard(task)
        worker.side_rows.discard(row.id)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error(
                "handling a message outside the chat order failed; it is queued", exc_info=fault
            )
            worker.wake()
        self._forget_if_idle(worker)

    async def drain(self, seconds: float, hurry: asyncio.Event) -> tuple[ChatWorker, ...]:
        """Let running turns finish. Turns that do not finish within `seconds`, or before `hurry` is
        set, are stopped and continue after the next start. Returns their workers."""
        self._gateway.draining = True
        hurried = asyncio.ensure_future(hurry.wait())
        ends = asyncio.ensure_future(self._wait_for_workers(seconds))
        await asyncio.wait({hurried, ends}, return_when=asyncio.FIRST_COMPLETED)
        for each in (hurried, ends):
            each.cancel()
        self._gateway.closed = True
        cut = tuple(worker for worker in self.busy_workers() if worker.turn.stop("shutdown"))
        await self._wait_for_workers(SAVE_SECONDS)
        await self._wait_for_workers(SAVE_SECONDS, cancel=True)
        if self._side_tasks:
            await asyncio.wait(self._side_tasks, timeout=SAVE_SECONDS)
        return cut

    async def _wait_for_workers(self, seconds: float, *, cancel: bool = False) -> None:
        """Wait for the workers for at most `seconds`; `cancel` stops them."""
        working = [worker for worker in self.busy_workers() if worker.working]
        ends = [asyncio.ensure_future(worker.wait_finished(cancel=cancel)) for worker in working]
        if ends:
            _done, late = await asyncio.wait(ends, timeout=seconds)
            for each in late:
                each.cancel()


class InboundHandler:
    def __init__(
        self,
        settings: Settings,
        gateway: GatewayContext,
        dispatcher: ChatDispatcher,
        authorizer: Authorizer,
        directory: ChatDirectory,
        counters: Counters,
        clock: Clock,
    ) -> None:
        self._settings, self._gateway, self._dispatcher = settings, gateway, dispatcher
        self._authorizer, self._directory = authorizer, directory
        self._counters, self._clock = counters, clock
        self._rules: dict[str, GroupRules] = {}

    async def receive(self, event: MessageEvent) -> bool:
        """Accept a message of an adapter; implements `Receive`. Returns False if it could not be
        stored: the adapter must not acknowledge it then."""
        try:
            return await self._receive(sanitize(event))
        except StoreError as error:
            log.error("a message of %s cannot be stored now: %s", event.source.platform, error)
            return False

    async def _receive(self, event: MessageEvent) -> bool:
        source = event.source
        if self._gateway.closed:
            return False
        if not self._is_for_us(event):
            return True
        admission = await self._authorizer.admit(source, event.text)
        if not admission.allowed or admission.role is None:
            log.info("%s: %s", source.platform, admission.why)
            if admission.reply:
                key = f"door:{source.platform}:{source.account}:{event.message_id}"
                await self._gateway.outbox.notify(source.target, admission.reply, "notice", key=key)
            return True
        if event.button:
            await self._dispatcher.press(event, admission.role)
            return True
        changed = await self._apply_plugin_filters(event)
        if changed is None or not (changed.text.strip() or changed.media or changed.reply_to_text):
            return True  # a bare mention in reply to a message asks about that message
        return await self._store_message(changed, admission.role)

    async def _apply_plugin_filters(self, event: MessageEvent) -> MessageEvent | None:
        """Pass a message through the plugins. Returns it, possibly changed, or None if a plugin
        skips it. The first plugin that returns an action decides."""
        hooks, name = self._gateway.app.extensions.hooks, HookName.PRE_GATEWAY_DISPATCH
        if not hooks.listens(name):
            return event
        store = self._gateway.store
        for result in await hooks.fire(
            name, event=event, gateway=self._gateway, session_store=store
        ):
            match result:
                case {"action": "skip"}:
                    reason = result.get("reason", "")
                    log.info("%s: a plugin skipped a message: %s", event.source.platform, reason)
                    return None
                case {"action": "rewrite", "text": str(text)}:
                    return msgspec.structs.replace(event, text=text)
                case {"action": "allow"}:
                    return event
                case _:
                    continue
        return event

    def _is_for_us(self, event: MessageEvent) -> bool:
        platform = event.source.platform
        if self._gateway.manifests[platform].knows_groups:
            return True
        if platform not in self._rules:
            self._rules[platform] = group_rules(getattr(self._settings, platform, None))
        return is_for_us(event, self._rules[platform])

    async def _store_message(self, event: MessageEvent, role: Role) -> bool:
        source = event.source
        settings = self._settings
        key = build_session_key(
            source,
            group_sessions_per_user=settings.group_sessions_per_user,
            thread_sessions_per_user=settings.thread_sessions_per_user,
        )
        item = InboxItem(
            source.platform, source.account, event.message_id, key, msgspec.json.encode(event)
        )
        row_id = await self._gateway.store.inbox.receive(item, self._clock.now().timestamp())
        if row_id is None:
            log.info("%s: a duplicate message was ignored", source.platform)
            await self._dispatcher.redispatch(item, event, role)
            return True
        self._counters.count_message(source.platform)
        self._directory.note_source(source)
        self._dispatcher.dispatch(item, row_id, event, role)
        return True


def sanitize(event: MessageEvent) -> MessageEvent:
    """Return the message without characters that JSON cannot encode, such as half a surrogate
    pair."""
    try:
        msgspec.json.encode(event)
    except UnicodeEncodeError:
        return msgspec.convert(_clean_value(msgspec.to_builtins(event)), MessageEvent)
    return event


def _clean_value(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case dict():
            return {name: _clean_value(each) for name, each in value.items()}
        case list() | tuple():
            return [_clean_value(each) for each in value]
    return value


async def drain_all(
    dispatcher: ChatDispatcher, adapters: Sequence[Adapter], seconds: float, hurry: asyncio.Event
) -> tuple[ChatWorker, ...]:
    """Drain chats and adapters at the same time; `hurry` ends the wait. Returns the workers whose
    turns were stopped."""

    async def hurried() -> None:
        await hurry.wait()
        await asyncio.gather(*(each.drain(0) for each in adapters), return_exceptions=True)

    rushing = asyncio.ensure_future(hurried())
    draining = asyncio.gather(*(each.drain(seconds) for each in adapters), return_exceptions=True)
    try:
        cut = await dispatcher.drain(seconds, hurry)
        await draining
    finally:
        rushing.cancel()
    return cut
