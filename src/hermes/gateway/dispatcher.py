"""All chats at work: who gets a message, and what it does to the turn that runs."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec

from hermes.config.settings import Settings
from hermes.config.settings.platforms import Role
from hermes.core.errors import HermesError, StoreError, UsageError
from hermes.core.hooks import HookName
from hermes.core.ports import Clock
from hermes.gateway.auth import Authorizer
from hermes.gateway.commands import open_talk
from hermes.gateway.context import Counters, GatewayContext
from hermes.gateway.directory import ChatDirectory
from hermes.gateway.messages import event_of
from hermes.gateway.platforms.kit.contract import Adapter, ChatTarget, MessageEvent, SessionSource
from hermes.gateway.platforms.kit.inbound import GroupRules, group_rules, is_for_us
from hermes.gateway.questions import ChatQuestions
from hermes.gateway.session_keys import build_session_key, errand_of
from hermes.gateway.worker import (
    FAULT,
    STOPPED,
    BackgroundTask,
    ChatWorker,
    command_of,
    errands_of,
    target_of_source,
)
from hermes.store.records import InboxItem, InboxRow
from hermes.util.text import clean

log = logging.getLogger(__name__)

STOPS_FIRST = frozenset({"new"})
"""Commands that wait for the end of the turn, which they bring about."""
REFUSED = frozenset({"model"})
"""Commands that are not kept for after the turn: who changes the model means now."""
AT_WORK = "I am at work. `/stop` ends that, then `/{name}` does what you want."
SAVING = 5.0
"""Seconds for a turn that is stopped to leave everything in order."""


class ChatDispatcher:
    def __init__(self, house: GatewayContext) -> None:
        self._house = house
        self._workers: dict[str, ChatWorker] = {}
        self._ready: set[str] = set()
        """Platforms whose messages in doubt are settled: what was cut off can go on."""
        self._aside: set[asyncio.Task[None]] = set()
        house.on_idle = self._idle
        house.conversations.busy = self._is_busy
        house.conversations.closed = self._closed
        house.asker_in = self._asker_in
        house.errands = lambda key: errands_of(key, self._workers.values())
        house.take_up = lambda key: self._worker(key).wake()

    @property
    def turns(self) -> int:
        return sum(worker.busy for worker in self._workers.values())

    def review(self, key: str) -> ChatWorker:
        """See whether the conversation of a chat is over."""
        worker = self._worker(key)
        worker.review()
        return worker

    def workers(self) -> tuple[ChatWorker, ...]:
        """Those that have something to do."""
        return tuple(worker for key, worker in self._workers.items() if self._is_busy(key))

    async def look(self, platform: str) -> None:
        """A platform is there: take up what waits, or was cut off."""
        self._ready.add(platform)
        for key in await self._house.store.inbox.pending_chats((platform,)):
            self._worker(key).wake()

    def away(self, platform: str) -> None:
        self._ready.discard(platform)

    def arrived(self, kept: InboxItem, row_id: int, event: MessageEvent, role: Role) -> None:
        """A message was kept just now."""
        worker = self._worker(kept.session_key)
        row = InboxRow(
            row_id,
            kept.platform,
            kept.account,
            kept.message_key,
            kept.session_key,
            kept.event,
            "new",
            self._house.now(),
        )
        command = command_of(event.text)
        refused = command is not None and command.name in REFUSED and worker.busy
        if refused or (command is not None and command.at_once):
            self._start(worker, row, self._command(worker, row, role))
        elif command is None and worker.asker.takes(event.source, event.text):
            # Now, not later: the next message must find that nobody waits any more.
            worker.asker.take(event.source, event.text)
            self._start(worker, row, self._house.say_aside(row, ""))
        else:
            self._queued(worker, row, event, role, command.name if command else "")

    async def again(self, kept: InboxItem, event: MessageEvent, role: Role) -> None:
        """A message came that is kept already. If it still waits, whoever kept it may have been cut
        off before anybody heard of it."""
        rows = await self._house.store.inbox.pending(kept.session_key)
        row = next((row for row in rows if row.message_key == kept.message_key), None)
        if row is None:
            return
        worker, command = self._worker(kept.session_key), command_of(event.text)
        if row.id in worker.aside or row.id in worker.doing:
            return
        if command is not None and command.at_once:
            self._start(worker, row, self._command(worker, row, role))
        elif row.platform in self._ready:
            worker.wake()

    def _queued(
        self, worker: ChatWorker, row: InboxRow, event: MessageEvent, role: Role, command: str
    ) -> None:
        mode = self._house.app.loaded.settings.display.busy_input_mode
        if row.id in worker.doing:
            return
        if command:
            if command in STOPS_FIRST:
                worker.turning.stop("stop")
        elif worker.busy and mode == "interrupt":
            worker.turning.stop("newer")
        elif worker.busy and mode == "steer" and not event.media:
            may = worker.may_steer(event.source, role)
            if may and worker.steering.say(row.id, event.text):
                return
        if event.source.platform in self._ready:
            worker.wake()

    async def _command(self, worker: ChatWorker, row: InboxRow, role: Role) -> None:
        """A command that does not wait for its turn."""
        event = event_of(row)
        command = command_of(event.text)
        name = command.name if command else ""
        try:
            if name == "stop" and await worker.turning.call_off():
                text = STOPPED
            elif name in REFUSED and worker.busy:
                text = AT_WORK.format(name=name)
            else:
                talk = await open_talk(self._house, worker, row, event, role)
                await talk.run(event.text)
                if talk.question is not None:  # it needs a turn after all
                    worker.aside.discard(row.id)
                    worker.wake()
                    return
                await talk.keep_rest()
                text = talk.collected()
        except HermesError as error:
            text = f"⚠️ {error}\n{error.hint}".strip()
        except Exception:  # whoever gave the command hears that it failed
            log.exception("a command of %s failed", worker.key)
            text = FAULT
        await self._house.say_aside(row, text)

    async def pressed(self, event: MessageEvent, role: Role) -> None:
        """A button of a question; whose it is says its token. Who presses in vain is told why."""
        askers = (worker.asker for worker in self._workers.values())
        asker = next((each for each in askers if each.has(event.button)), None)
        try:
            if asker is None:
                raise UsageError("this question is over")
            asker.press(event.source, role, event.button)
        except UsageError as error:
            source = event.source
            log.info("a button on %s: %s", source.platform, error)
            who = "" if source.chat_type == "dm" else f"{source.user_name or source.user_id}: "
            # However often they press.
            whose = (source.platform, source.account, source.chat_id, source.user_id)
            key = ":".join(("press", *whose, event.button.partition(":")[0], str(error)))
            await self._house.say_now(target_of_source(source), f"{who}{error}", "notice", key=key)

    def _worker(self, key: str) -> ChatWorker:
        if key not in self._workers:
            kind = BackgroundTask if errand_of(key) else ChatWorker
            self._workers[key] = kind(self._house, key)
        return self._workers[key]

    def _is_busy(self, key: str) -> bool:
        worker = self._workers.get(key)
        if worker is None:
            return False
        waits = worker.asker.waits or worker.turning.called_off
        return bool(worker.working or waits or worker.aside)

    def _idle(self, worker: ChatWorker) -> None:
        """A worker stays as long as its agent is open, which asks through it."""
        if self._house.conversations.get(worker.key) is None:
            self._closed(worker.key)

    def _closed(self, key: str) -> None:
        if not self._is_busy(key):
            self._workers.pop(key, None)

    def _asker_in(self, source: SessionSource) -> ChatQuestions | None:
        """Somebody in the chat is asked: an owner may answer for them."""
        place = (source.platform, source.account, source.chat_id)
        for worker in self._workers.values():
            asked = worker.asker.person if worker.asker.waits else None
            if asked and (asked.platform, asked.account, asked.chat_id) == place:
                return worker.asker
        return None

    def _start(self, worker: ChatWorker, row: InboxRow, work: Coroutine[Any, Any, None]) -> None:
        """Deal with a message beside those of its chat."""
        worker.aside.add(row.id)
        task = asyncio.ensure_future(work)
        self._aside.add(task)
        task.add_done_callback(partial(self._ended, worker, row))

    def _ended(self, worker: ChatWorker, row: InboxRow, task: "asyncio.Task[None]") -> None:
        self._aside.discard(task)
        worker.aside.discard(row.id)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("a message waits for its turn after all", exc_info=fault)
            worker.wake()
        self._idle(worker)

    async def drain(self, seconds: float, hurry: asyncio.Event) -> tuple[ChatWorker, ...]:
        """Let running turns end; those that do not in time, or before `hurry`, are stopped, to go
        on after the next start. The result is these."""
        self._house.closing = True
        rush = asyncio.ensure_future(hurry.wait())
        ends = asyncio.ensure_future(self._ends(seconds))
        await asyncio.wait({rush, ends}, return_when=asyncio.FIRST_COMPLETED)
        for each in (rush, ends):
            each.cancel()
        self._house.closed = True
        cut = tuple(worker for worker in self.workers() if worker.turning.stop("shutdown"))
        await self._ends(SAVING)
        await self._ends(SAVING, now=True)
        if self._aside:
            await asyncio.wait(self._aside, timeout=SAVING)
        return cut

    async def _ends(self, seconds: float, *, now: bool = False) -> None:
        """Wait so long for whoever works; `now` breaks it off."""
        working = [worker for worker in self.workers() if worker.working]
        ends = [asyncio.ensure_future(worker.ended(now=now)) for worker in working]
        if ends:
            _done, late = await asyncio.wait(ends, timeout=seconds)
            for each in late:
                each.cancel()


# Where messages come in: who may not is sent away, the rest is kept before anything else.


class InboundHandler:
    def __init__(
        self,
        settings: Settings,
        house: GatewayContext,
        floor: ChatDispatcher,
        doorman: Authorizer,
        directory: ChatDirectory,
        counters: Counters,
        clock: Clock,
    ) -> None:
        self._settings, self._house, self._floor = settings, house, floor
        self._doorman, self._directory = doorman, directory
        self._counters, self._clock = counters, clock
        self._rules: dict[str, GroupRules] = {}

    async def receive(self, event: MessageEvent) -> bool:
        """`platforms.base.Receive`."""
        try:
            return await self._receive(sound(event))
        except StoreError as error:
            log.error("a message of %s cannot be kept now: %s", event.source.platform, error)
            return False

    async def _receive(self, event: MessageEvent) -> bool:
        source = event.source
        if self._house.closed:
            return False
        if not self._is_for_us(event):
            return True
        admission = await self._doorman.admit(source, event.text)
        if not admission.allowed or admission.role is None:
            log.info("%s: %s", source.platform, admission.why)
            if admission.reply:
                target = ChatTarget(
                    source.platform, source.chat_id, source.thread_id, source.account
                )
                key = f"door:{source.platform}:{source.account}:{event.message_id}"
                await self._house.say_now(target, admission.reply, "notice", key=key)
            return True
        if event.button:
            await self._floor.pressed(event, admission.role)
            return True
        changed = await self._plugins_agree(event)
        if changed is None or not (changed.text.strip() or changed.media or changed.reply_to_text):
            return True  # who only names us, under what somebody said, asks about that
        return await self._keep(changed, admission.role)

    async def _plugins_agree(self, event: MessageEvent) -> MessageEvent | None:
        """The message as plugins let it pass; None when one skips it. The first that does anything
        decides."""
        hooks, name = self._house.app.extensions.hooks, HookName.PRE_GATEWAY_DISPATCH
        if not hooks.listens(name):
            return event
        store = self._house.store
        for said in await hooks.fire(name, event=event, gateway=self._house, session_store=store):
            match said:
                case {"action": "skip"}:
                    reason = said.get("reason", "")
                    log.info("%s: a plugin skips a message: %s", event.source.platform, reason)
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
        if self._house.manifests[platform].knows_groups:
            return True
        if platform not in self._rules:
            self._rules[platform] = group_rules(getattr(self._settings, platform, None))
        return is_for_us(event, self._rules[platform])

    async def _keep(self, event: MessageEvent, role: Role) -> bool:
        source = event.source
        settings = self._settings
        key = build_session_key(
            source,
            group_sessions_per_user=settings.group_sessions_per_user,
            thread_sessions_per_user=settings.thread_sessions_per_user,
        )
        kept = InboxItem(
            source.platform, source.account, event.message_id, key, msgspec.json.encode(event)
        )
        row_id = await self._house.store.inbox.receive(kept, self._clock.now().timestamp())
        if row_id is None:
            log.info("%s: a message came twice", source.platform)
            await self._floor.again(kept, event, role)
            return True
        self._counters.received(source.platform)
        self._directory.saw(source)
        self._floor.arrived(kept, row_id, event, role)
        return True


def sound(event: MessageEvent) -> MessageEvent:
    """The message without what no JSON can hold, such as half a character."""
    try:
        msgspec.json.encode(event)
    except UnicodeEncodeError:
        return msgspec.convert(_cleaned(msgspec.to_builtins(event)), MessageEvent)
    return event


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case dict():
            return {name: _cleaned(each) for name, each in value.items()}
        case list() | tuple():
            return [_cleaned(each) for each in value]
    return value


# Before the gateway ends: turns that run get time to end.


async def drained(
    floor: ChatDispatcher, adapters: Sequence[Adapter], seconds: float, hurry: asyncio.Event
) -> tuple[ChatWorker, ...]:
    """Those of chats and those of adapters share the time, which is over when `hurry` is set. The
    result is the chats whose turns were cut."""

    async def rush() -> None:
        await hurry.wait()
        await asyncio.gather(*(each.drain(0) for each in adapters), return_exceptions=True)

    rushing = asyncio.ensure_future(rush())
    draining = asyncio.gather(*(each.drain(seconds) for each in adapters), return_exceptions=True)
    try:
        cut = await floor.drain(seconds, hurry)
        await draining
    finally:
        rushing.cancel()
    return cut
