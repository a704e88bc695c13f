"""A running gateway: receives, authorizes, stores and dispatches messages."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from hermes.agent import Agent
from hermes.app import App, user_zone
from hermes.config.settings.platforms import Role
from hermes.core.errors import HermesError, StoreError, UsageError
from hermes.core.ports import HookName
from hermes.gateway.auth import Authorizer
from hermes.gateway.chat_session import mirror_to_chat
from hermes.gateway.commands import parse_command
from hermes.gateway.directory import FILE, ChatDirectory, TargetResolver
from hermes.gateway.hooks import HookRegistry
from hermes.gateway.leases import Leases
from hermes.gateway.maintenance import ResetPolicy
from hermes.gateway.messages import decode_event, inbox_item, side_reply
from hermes.gateway.outbox import GatewayOutbox
from hermes.gateway.pairing import PairingStore
from hermes.gateway.process import AdapterState
from hermes.gateway.proxy import Proxy
from hermes.gateway.questions import PendingQuestion
from hermes.gateway.session_keys import build_session_key, sharing
from hermes.gateway.status import StatusReporter
from hermes.gateway.supervisor import ConnectionRegistry, Supervisor
from hermes.gateway.turn_view import ChatDisplayModes
from hermes.gateway.updates import UpdateRunner
from hermes.gateway.worker import ChatWorker
from hermes.sdk.platforms import (
    ChatTarget,
    MessageEvent,
    PlatformManifest,
    SessionSource,
    group_rules,
    is_for_us,
)
from hermes.store import ChatRow, InboxItem, InboxRow
from hermes.util.text import clean

log = logging.getLogger(__name__)

FORGOTTEN_SECONDS = 60.0
"""Seconds after which a message that no process works on is taken over, even if no process died."""
SAVE_SECONDS = 5.0  #: Seconds that a stopped turn has to save its state.
STOPPING_COMMANDS = frozenset({"new"})
"""Commands that wait for the end of the turn, and stop it for that."""
NOT_DURING_TURN = frozenset({"model"})
"""Commands that are refused during a turn instead of queued: a model change is meant for now."""


class Gateway:
    """Every chat of every configured platform."""

    def __init__(
        self,
        app: App,
        manifests: dict[str, PlatformManifest],
        *,
        restart: Callable[[], None],
        warn: Callable[[str], None],
        describe_jobs: Callable[[], str] = str,
        proxy: Proxy | None = None,
        unavailable: Sequence[AdapterState] = (),
    ) -> None:
        """`restart` stops the process so that it is started again, `warn` informs the operator,
        `describe_jobs` returns the state of the scheduled jobs, and `unavailable` are platforms
        that could not be started."""
        settings, root, variable = app.loaded.settings, app.home.root, app.loaded.variable
        self.app, self.manifests, self.restart, self.proxy = app, manifests, restart, proxy
        self.store, self.clock, self.settings = app.store, app.clock, settings
        self.connections = ConnectionRegistry(app.clock)
        self.ready: set[str] = set()
        """Platforms without uncertain deliveries, where interrupted turns can be resumed."""
        seconds = settings.gateway.lease_seconds
        self.leases = Leases(app.store, app.clock, seconds, lambda: self.ready)
        self._searched_at = 0.0  #: Monotonic time of the last search for forgotten messages.
        self.directory = ChatDirectory(root / FILE)
        self.targets = TargetResolver(manifests, variable, self.directory, self.connections)
        self.outbox = GatewayOutbox(
            app.store.outbox,
            self.targets,
            app.clock,
            self.connections,
            human_delay=settings.human_delay,
            is_dead=self.leases.is_dead,
            mirror=partial(mirror_to_chat, app.store, on_stored=self.wake_chat, now=self.now),
        )
        self.pairing = PairingStore(root / "pairing", app.clock)
        self._auth = Authorizer(settings, variable, self.pairing, manifests)
        self._resets = ResetPolicy.read(settings.session_reset, root, user_zone(settings))
        self.hooks = HookRegistry.load(app.home.hooks, warn)
        self.display_modes = ChatDisplayModes(settings, root / "gateway" / "tool_progress.json")
        self.updates = UpdateRunner(app.home, self.outbox.notify, restart)
        self.supervisors: list[Supervisor] = []
        self.status = StatusReporter(self, describe_jobs, unavailable)
        self.draining = False  #: True once shutdown began: no new turn starts.
        self._closed = False  #: True once turns were stopped: no message is accepted any more.
        self._workers: dict[str, ChatWorker] = {}
        self._side_tasks: set[asyncio.Task[None]] = set()

    def now(self) -> float:
        return self.clock.now().timestamp()

    # Incoming messages

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
        if self._closed:
            return False
        rules = group_rules(getattr(self.settings, source.platform, None))
        if not self.manifests[source.platform].knows_groups and not is_for_us(event, rules):
            return True
        admission = await self._auth.admit(source, event.text)
        if not admission.allowed or admission.role is None:
            log.info("%s: %s", source.platform, admission.why)
            if admission.reply:
                key = f"door:{source.platform}:{source.account}:{event.message_id}"
                await self.outbox.notify(source.target, admission.reply, key=key)
            return True
        if event.button:
            await self._press(event, admission.role)
            return True
        changed = await self._apply_plugin_filters(event)
        if changed is None or not (changed.text.strip() or changed.media or changed.reply_to_text):
            return True  # a bare mention in reply to a message asks about that message
        await self._store_message(changed, admission.role)
        return True

    async def _apply_plugin_filters(self, event: MessageEvent) -> MessageEvent | None:
        """Pass a message through the plugins. Returns it, possibly changed, or None if a plugin
        skips it. The first plugin that returns an action decides."""
        hooks, name = self.app.extensions.hooks, HookName.PRE_GATEWAY_DISPATCH
        if not hooks.listens(name):
            return event
        for result in await hooks.fire(name, event=event, gateway=self, session_store=self.store):
            match result:
                case {"action": "skip"}:
                    reason = result.get("reason", "")
                    log.info("%s: a plugin skipped a message: %s", event.source.platform, reason)
                    return None
                case {"action": "rewrite", "text": str(text)}:
                    return msgspec.structs.replace(event, text=text)
                case {"action": "allow"}:
                    break
        return event

    async def _store_message(self, event: MessageEvent, role: Role) -> None:
        item = inbox_item(event, build_session_key(event.source, **sharing(self.settings)))
        row_id = await self.store.inbox.receive(item, self.now())
        if row_id is None:
            log.info("%s: a duplicate message was ignored", item.platform)
            await self._redispatch(item, event, role)
            return
        self.status.count_message(item.platform)
        self.directory.note_source(event.source)
        fields = msgspec.structs.asdict(item)
        self._dispatch(InboxRow(row_id, **fields, state="new", received_at=self.now()), event, role)

    def _dispatch(self, row: InboxRow, event: MessageEvent, role: Role) -> None:
        """Handle a stored message: run a command, answer a question, steer, or queue it."""
        worker, command = self.worker(row.session_key), parse_command(event.text)
        worker.known_rows.add(row.id)
        if event.button:
            self._start_side_task(worker, row, self._press_stored(row, event, role))
            return
        refused = command is not None and command.name in NOT_DURING_TURN and worker.busy
        if refused or (command is not None and command.at_once):
            work = self._run_side_command(worker, row, role, refused=refused)
            self._start_side_task(worker, row, work)
        elif command is None and worker.questions.is_answer(event.source, event.text):
            # Now, not in the task: the next message must already find the question answered.
            worker.questions.accept_answer(event.source, event.text)
            self._start_side_task(worker, row, self.reply_now(row, ""))
        else:
            self._enqueue(worker, row, event, role, command.name if command else "")

    async def _redispatch(self, item: InboxItem, event: MessageEvent, role: Role) -> None:
        """Handle a duplicate of a stored message. If it is still pending, the process that stored
        it may have been interrupted before it dispatched the message."""
        rows = await self.store.inbox.pending(item.session_key)
        row = next((row for row in rows if row.message_key == item.message_key), None)
        if row is None:
            return
        worker, command = self.worker(item.session_key), parse_command(event.text)
        if row.id in worker.side_rows or row.id in worker.current_rows:
            return
        if worker.busy and row.id not in worker.known_rows:
            self._dispatch(row, event, role)
        elif command is not None and command.at_once:
            self._start_side_task(worker, row, self._run_side_command(worker, row, role))
        elif row.platform in self.ready:
            worker.wake()

    async def _run_side_command(
        self, worker: ChatWorker, row: InboxRow, role: Role, *, refused: bool = False
    ) -> None:
        """Run a command outside the order of its chat. If another gateway works on the chat, the
        command is for the turn there: that gateway finds it in the store."""
        if not worker.busy and await self.leases.is_held_elsewhere(row.session_key):
            worker.side_rows.discard(row.id)
            worker.wake()
        else:
            await worker.run_side_command(row, role, refused=refused)

    async def _dispatch_foreign(self) -> None:
        """Dispatch messages for running turns that other gateways have received."""
        if not any(worker.busy for worker in self._workers.values()):
            return
        for row in await self.store.inbox.pending_of(self.leases.owner):
            worker = self._workers.get(row.session_key)
            handled = worker is None or row.id in (worker.known_rows | worker.side_rows)
            if worker is None or handled or not worker.busy or row.id in worker.current_rows:
                continue
            try:
                event = decode_event(row)
            except msgspec.DecodeError:  # the worker sets it aside
                continue
            if (role := self.role(event.source)) is not None:
                self._dispatch(row, event, role)

    def _enqueue(
        self, worker: ChatWorker, row: InboxRow, event: MessageEvent, role: Role, command: str
    ) -> None:
        mode = self.settings.display.busy_input_mode or "interrupt"
        if row.id in worker.current_rows:
            return
        if command:
            if command in STOPPING_COMMANDS:
                worker.stop_turn("stop")
        elif worker.busy and mode == "interrupt":
            worker.stop_turn("newer")
        elif worker.busy and mode == "steer" and not event.media:
            may = worker.may_steer(event.source, role)
            if may and worker.steer(row.id, event.text):
                return
        if event.source.platform in self.ready:
            worker.wake()

    async def _press(self, event: MessageEvent, role: Role) -> None:
        """Handle a button of a question. A press without effect is answered with the reason."""
        asked = (worker.questions for worker in self._workers.values())
        questions = next((each for each in asked if each.owns_button(event.button)), None)
        try:
            if questions is None:
                if await self._store_press(event):
                    return
                raise UsageError("this question is closed")
            questions.press(event.source, role, event.button)
        except UsageError as error:
            source = event.source
            log.info("a button on %s: %s", source.platform, error)
            who = "" if source.chat_type == "dm" else f"{source.user_name or source.user_id}: "
            # One notice, however often the button is pressed.
            whose = (source.platform, source.account, source.chat_id, source.user_id)
            key = ":".join(("press", *whose, event.button.partition(":")[0], str(error)))
            await self.outbox.notify(source.target, f"{who}{error}", key=key)

    async def _store_press(self, event: MessageEvent) -> bool:
        """Store a button for the gateway that works on its chat. Returns False if none does."""
        key = build_session_key(event.source, **sharing(self.settings))
        if not await self.leases.is_held_elsewhere(key):
            return False
        name = f"press:{event.message_id}:{event.source.user_id}:{event.button}"
        stored = msgspec.structs.replace(event, message_id=name)
        await self.store.inbox.receive(inbox_item(stored, key), self.now())
        return True

    async def _press_stored(self, row: InboxRow, event: MessageEvent, role: Role) -> None:
        """Handle a button that another gateway received. This one may have received it too."""
        asked = (worker.questions for worker in self._workers.values())
        questions = next((each for each in asked if each.owns_button(event.button)), None)
        with contextlib.suppress(UsageError):
            if questions is not None:
                questions.press(event.source, role, event.button)
        await self.reply_now(row, "")

    async def reply_now(self, row: InboxRow, text: str) -> None:
        """Mark a message as answered and enqueue its reply, outside the chat order."""
        meta = side_reply(row, decode_event(row), "command")
        items = self.outbox.compose(text, meta) if text.strip() else ()
        await self.store.inbox.answer((row.id,), items, None, self.now())
        self.outbox.wake()

    def _start_side_task(
        self, worker: ChatWorker, row: InboxRow, work: Coroutine[Any, Any, None]
    ) -> None:
        """Handle a message outside the order of its chat; if that fails, it is queued."""

        def on_done(task: "asyncio.Task[None]") -> None:
            self._side_tasks.discard(task)
            worker.side_rows.discard(row.id)
            if not task.cancelled() and (fault := task.exception()) is not None:
                log.error("a message could not be handled at once; it is queued", exc_info=fault)
                worker.wake()
            self.forget_if_idle(worker)

        worker.side_rows.add(row.id)
        task = asyncio.ensure_future(work)
        self._side_tasks.add(task)
        task.add_done_callback(on_done)

    # Chats

    def worker(self, key: str) -> ChatWorker:
        """Return the worker of a chat or background task. Only this method creates workers: a
        second one for the same chat would have a second session."""
        if key not in self._workers:
            self._workers[key] = ChatWorker(self, key)
        return self._workers[key]

    def wake_chat(self, key: str) -> None:
        """Wake the worker of a chat after a message was stored for it."""
        self.worker(key).wake()

    def forget_if_idle(self, worker: ChatWorker) -> None:
        """Drop a worker without work, unless its agent is open and may ask through it."""
        known = self._workers.get(worker.key) is worker
        if known and not worker.in_use and worker.session.agent is None:
            del self._workers[worker.key]

    def workers_in_use(self) -> tuple[ChatWorker, ...]:
        return tuple(worker for worker in self._workers.values() if worker.in_use)

    @property
    def running_turns(self) -> int:
        return sum(worker.busy for worker in self._workers.values())

    def open_agents(self) -> dict[str, Agent]:
        agents = ((key, worker.session.agent) for key, worker in self._workers.items())
        return {key: agent for key, agent in agents if agent is not None}

    def background_tasks(self, key: str) -> list[ChatWorker]:
        return [each for each in self._workers.values() if each.parent == key and each.working]

    def approvals_in(self, source: SessionSource) -> list[PendingQuestion]:
        """Return the open approvals that were asked in a chat, by any conversation."""
        place = (source.platform, source.account, source.chat_id)
        return [
            each
            for worker in self._workers.values()
            for each in worker.questions.open_approvals
            if (each.target.platform, each.target.account, each.target.chat_id) == place
        ]

    async def owner_chat(self, source: SessionSource) -> ChatTarget | None:
        """Return the chat in which an owner is asked about the work for another person: a private
        chat of an owner, or else a home channel, which owners set. The platform of that person
        comes first. None if there is neither on a connected platform."""
        rows = sorted(await self.store.chats.select(), key=lambda row: -row.last_active)
        private: list[ChatTarget] = []
        for row in rows:
            with contextlib.suppress(msgspec.DecodeError):  # a damaged row, or a background task
                each = msgspec.json.decode(row.origin, type=SessionSource)
                if each.chat_type in ("dm", "private") and self.role(each) == "owner":
                    private.append(each.target)
        chats = [*private, *self.targets.homes().values()]
        return min(
            (each for each in chats if self.connections.get(each.platform, each.account)),
            key=lambda each: (each not in private, each.platform != source.platform),
            default=None,
        )

    def role(self, source: SessionSource) -> Role | None:
        """Return the role of the author; None if the author is not authorized (any more)."""
        admission = self._auth.recognize(source)
        return admission.role if admission else None

    def reset_reason(self, chat: ChatRow) -> str:
        """Return why the reset settings end the session of a chat; "" while it continues, and for
        a chat of a platform that only other gateways serve."""
        if not chat.session_id or not chat.origin:
            return ""
        now = self.clock.now()
        platform = msgspec.json.decode(chat.origin, type=SessionSource).platform
        if platform not in self.manifests:
            return ""
        last = datetime.fromtimestamp(chat.last_active, now.tzinfo)
        return self._resets.reset_reason(platform, last, now)

    async def evict_agents(self) -> None:
        """Close the least recently used agents beyond `gateway.live_agents`. Nothing is lost: the
        next message opens the session again."""
        opened = [each for each in self._workers.values() if each.session.agent is not None]
        spare = [each for each in opened if not each.in_use]
        spare.sort(key=lambda each: each.session.last_opened)
        for worker in spare[: max(len(opened) - self.settings.gateway.live_agents, 0)]:
            if not worker.session.has_running_processes():
                await worker.session.close()

    # Leases

    async def renew_leases(self) -> None:
        """Renew the leases of this process, and take over chats of dead ones, until cancelled."""
        await self.leases.run(self._resume_orphans)

    async def _resume_orphans(self) -> None:
        """Wake the chats with pending messages that no process works on."""
        leases, now = self.leases, self.leases.now()
        try:
            if leases.shared:
                await self._dispatch_foreign()
        except StoreError as error:
            log.error("messages that other gateways received cannot be read: %s", error)
        searched = self.clock.monotonic() - self._searched_at < FORGOTTEN_SECONDS
        if not leases.shared or not self.ready or self.draining or (searched and not leases.dead):
            return
        self._searched_at = self.clock.monotonic()
        # A free chat may have a command in work, which needs no lease. What came before the death
        # of a process is different: that process may have stored the message and died.
        deaths = (min(each.lease_until, now) for each in leases.dead)
        received_before = max(now - FORGOTTEN_SECONDS, *deaths, 0.0)
        dead = tuple(each.owner for each in leases.dead)
        try:
            keys = await self.store.inbox.orphaned_chats(
                tuple(self.ready), leases.expiry, received_before, dead
            )
        except StoreError as error:
            log.error("messages of other gateways cannot be taken over: %s", error)
            return
        for key in keys:
            self.wake_chat(key)

    # Platforms and shutdown

    async def resume_platform(self, platform: str) -> None:
        """Wake every chat of a connected platform that has pending messages."""
        self.ready.add(platform)
        for key in await self.store.inbox.pending_chats((platform,)):
            self.wake_chat(key)

    async def drain(self, seconds: float, hurry: asyncio.Event) -> tuple[ChatWorker, ...]:
        """Let running turns finish, of chats and of adapters. Turns that do not finish within
        `seconds`, or before `hurry` is set, are stopped and continue after the next start. Returns
        the workers of those chats."""
        self.draining = True

        async def drain_adapters(limit: float) -> None:
            drains = (each.adapter.drain(limit) for each in self.supervisors)
            await asyncio.gather(*drains, return_exceptions=True)

        async def drain_adapters_in_hurry() -> None:
            await hurry.wait()
            await drain_adapters(0)

        adapters = asyncio.ensure_future(drain_adapters(seconds))
        rushing = asyncio.ensure_future(drain_adapters_in_hurry())
        hurried = asyncio.ensure_future(hurry.wait())
        ends = asyncio.ensure_future(self._wait_for_workers(seconds))
        await asyncio.wait({hurried, ends}, return_when=asyncio.FIRST_COMPLETED)
        self._closed = True
        cut = tuple(worker for worker in self.workers_in_use() if worker.stop_turn("shutdown"))
        await self._wait_for_workers(SAVE_SECONDS)
        await self._wait_for_workers(SAVE_SECONDS, cancel=True)
        if self._side_tasks:
            await asyncio.wait(self._side_tasks, timeout=SAVE_SECONDS)
        await adapters
        for each in (rushing, hurried, ends):
            each.cancel()
        return cut

    async def _wait_for_workers(self, seconds: float, *, cancel: bool = False) -> None:
        """Wait for the workers for at most `seconds`; `cancel` stops them."""
        working = [worker for worker in self.workers_in_use() if worker.working]
        ends = [asyncio.ensure_future(worker.wait_finished(cancel=cancel)) for worker in working]
        if ends:
            _done, late = await asyncio.wait(ends, timeout=seconds)
            for each in late:
                each.cancel()

    async def close(self) -> None:
        """Wait for hooks and close every agent, after `drain`."""
        await self.hooks.close()
        await self.updates.close()
        for worker in tuple(self._workers.values()):
            await worker.session.close()
        try:
            await asyncio.to_thread(self.directory.save)
        except HermesError as error:
            log.warning("the names of chats could not be saved: %s", error)


def sanitize(event: MessageEvent) -> MessageEvent:
    """Return the message without what JSON cannot encode, such as half a surrogate pair."""
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
