"""A turn as its chat sees it: typing, tool lines, text that grows, and in the end the answer."""

import asyncio
import contextlib
import hashlib
import logging
from pathlib import Path

import msgspec

from hermes.config.settings import Settings
from hermes.config.settings.display import PlatformDisplay, ToolProgress
from hermes.core.errors import StoreError, UsageError
from hermes.core.events import (
    ApprovalAsked,
    Event,
    Notice,
    QuestionAsked,
    TextFinished,
    ToolStarted,
    TurnFinished,
)
from hermes.core.marks import STEERED
from hermes.core.messages import ToolCall
from hermes.core.model import FellBack, ReasoningDelta, Retrying, TextDelta
from hermes.core.ports import Attachments, Clock
from hermes.gateway.outbox import (
    OutboxSender,
    OutgoingMeta,
    PlatformConnection,
    attach_files,
    drafts,
    hide_tags,
    message_of,
)
from hermes.gateway.platforms.kit.contract import (
    AdapterError,
    Capabilities,
    ChatTarget,
    Media,
    NotConnected,
    SendLater,
)
from hermes.providers import RemoteToolProgress
from hermes.store.records import OutboxItem, OutboxRow
from hermes.store.session_store import OutboxQueue
from hermes.util import atomic

# How a turn looks in its chat while it runs, by the settings of the platform.

UNSET = PlatformDisplay()
MOST_PREVIEW = 60
SYMBOL = "⚙️"


class DisplayOptions(msgspec.Struct, frozen=True):
    streaming: bool = False
    interim: bool = True
    """What the agent says between tool calls is sent too."""
    reasoning: bool = False
    progress: ToolProgress = "all"
    edit_interval: float = 0.3
    threshold: int = 40
    """Characters gathered before the text is shown anew."""
    cursor: str = " ▉"
    reply_to: str = "first"
    """Which parts of an answer quote the message: `first`, `all` or `off`."""
    reactions: bool = False


def showing(settings: Settings, platform: str) -> DisplayOptions:
    display, streaming = settings.display, settings.streaming
    own = display.platforms.get(platform, UNSET)
    progress = own.tool_progress or display.tool_progress_overrides.get(platform)
    connection = getattr(settings.platforms, platform, None)
    return DisplayOptions(
        streaming=_first(own.streaming, streaming.enabled) and streaming.transport != "off",
        interim=_first(own.interim_assistant_messages, display.interim_assistant_messages),
        reasoning=_first(own.show_reasoning, display.show_reasoning),
        progress=progress or display.tool_progress,
        edit_interval=streaming.edit_interval,
        threshold=streaming.buffer_threshold,
        cursor=streaming.cursor,
        reply_to=str(getattr(connection, "reply_to_mode", "first") or "off"),
        reactions=bool(getattr(getattr(settings, platform, None), "reactions", False)),
    )


def _first(own: bool | None, general: bool) -> bool:
    return general if own is None else own


def tool_line(call: ToolCall, progress: ToolProgress) -> str:
    """`⚙️ terminal: ls -la`; everything it was given when the user wants to know."""
    if progress == "verbose":
        return f"{SYMBOL} **{call.name}** `{_one_line(call.arguments, 500)}`"
    try:
        given = msgspec.json.decode(call.arguments, type=dict[str, object])
    except msgspec.DecodeError:
        given = {}
    first = next((value for value in given.values() if value and isinstance(value, str)), "")
    preview = f": `{_one_line(first, MOST_PREVIEW)}`" if first else ""
    return f"{SYMBOL} **{call.name}**{preview}"


def _one_line(text: str, most: int) -> str:
    flat = " ".join(text.replace("`", "'").split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


# A message that is shown before it is finished, and changed as its text goes on.

log = logging.getLogger(__name__)

RESERVE = 5
"""Calls that changes leave to messages, so that an answer to /stop never waits behind them."""
LONGEST_EDIT = 30.0
"""Seconds for a change; the answer does not wait longer for it."""


class StreamingMessage:
    """`show` says what the text is by now; the platform sees as much of it as its rates allow."""

    def __init__(
        self,
        outbox: OutboxQueue,
        courier: OutboxSender,
        line: PlatformConnection,
        envelope: OutgoingMeta,
        clock: Clock,
        *,
        interval: float,
        cursor: str = "",
        row: OutboxRow | None = None,
    ) -> None:
        """`row` is the message that another process began to show."""
        self._outbox, self._courier, self._line = outbox, courier, line
        self._envelope, self._clock = envelope, clock
        self._interval, self._cursor = interval, cursor
        self.row = row
        self._text = self._shown = ""
        self._changed, self._over = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def target(self) -> ChatTarget:
        return self._envelope.target

    def show(self, text: str) -> None:
        self._text = text
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        while not self._over.is_set():
            await self._changed.wait()
            self._changed.clear()
            if self._over.is_set():
                return
            try:
                await self._show(f"{self._text}{self._cursor}")
            except SendLater as error:
                self._line.buckets.pause(self.target.chat_id, error.seconds)
            except (AdapterError, TimeoutError) as error:
                log.info("%s: text could not be shown as it grew: %s", self.target.platform, error)
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._over.wait()

    async def _show(self, text: str) -> None:
        if text == self._shown:
            return
        first = self._first(text)
        if first is None:
            return
        if self.row is None:
            self.row = await self._courier.show(first)
            if self.row is None:
                raise NotConnected("it could not be shown")
            self._shown = text
            return
        if self.row.platform_id and self._line.buckets.try_take(self.target.chat_id, leave=RESERVE):
            message = message_of(first.body)
            async with asyncio.timeout(LONGEST_EDIT):
                await self._line.adapter.edit(self.target, self.row.platform_id, message)
            self._shown = text

    def _first(self, text: str) -> OutboxItem | None:
        """The first part of the text; the rest comes when all of it is there."""
        made = drafts(hide_tags(text), self._envelope, self._line.capabilities)
        return made[0] if made else None

    async def leave(self) -> None:
        """The message stays, with the last text that was to be shown."""
        row, last = await self.stop(), self._first(self._text)
        if row is not None and last is not None:
            now = self._clock.now().timestamp()
            await self._outbox.finish_stream(row.id, (last,), now)

    async def stop(self) -> OutboxRow | None:
        """No more changes from here; the message as it is, if it was ever shown. What is just being
        sent is waited for: half a sending would leave a message in doubt."""
        self._over.set()
        self._changed.set()
        if self._task is not None:
            await asyncio.wait([self._task])
            if (fault := self._task.exception()) is not None:
                log.error("text could not be shown as it grew", exc_info=fault)
            self._task = None
        return self.row


TYPING_SECONDS = 4.0
LONGEST_REACTION = 5.0
"""Seconds for a sign on a message; the turn does not wait longer for it."""
SEEN, DONE, FAILED = "👀", "✅", "❌"
MOST_LINES = 15
"""Tool lines that are seen at a time."""


class ViewDeps(msgspec.Struct, frozen=True):
    """What views work with."""

    outbox: OutboxQueue
    courier: OutboxSender
    clock: Clock


class TurnView:
    """Of one turn. `line` is None while the platform is away: then only the answer matters."""

    def __init__(
        self,
        desk: ViewDeps,
        line: PlatformConnection | None,
        can: Capabilities,
        target: ChatTarget,
        look: DisplayOptions,
        *,
        inbox_id: int,
        reply_to: str,
        attachments: Attachments | None = None,
    ) -> None:
        """`attachments` are the files that the agent's texts may send; without them, tags of files
        are text."""
        self._attachments = attachments
        self._desk, self._line, self._target, self._look = desk, line, target, look
        self._can, self._message_id = can, reply_to
        self._inbox_id, self._reply_to = inbox_id, reply_to if look.reply_to != "off" else ""
        self._text = self._reasoning = ""
        self._gathered = 0
        """How much of the text was given to be shown."""
        self._said = 0
        """How many texts came before this one."""
        self._growing: StreamingMessage | None = None
        self._progress: StreamingMessage | None = None
        self._lines: list[str] = []
        self._last_tool = ""
        self._typing: asyncio.Task[None] | None = None
        self.quiet = False
        """Somebody is asked: nobody writes until they answer."""

    @property
    def _edits(self) -> bool:
        return self._line is not None and self._line.capabilities.edits

    async def begin(self, *, again: bool) -> None:
        """`again`: another process may have begun to show the answer."""
        if self._line is not None and self._line.capabilities.typing:
            self._typing = asyncio.create_task(self._type(self._line))
        await self._react(SEEN)
        if again and (row := await self._desk.outbox.stream_of(self._inbox_id)) is not None:
            if self._edits:
                self._growing = self._grow("stream", self._look.cursor)
                self._growing.row = row
            else:  # it cannot be changed: the answer is a message of its own
                await self._desk.outbox.mark_sent(row.id, row.platform_id, self._now())

    async def _react(self, emoji: str, *, on: bool = True) -> None:
        """Where that is wanted: what becomes of the message is seen on itself."""
        line = self._line
        if line is None or not self._message_id:
            return
        if not (self._look.reactions and line.capabilities.reactions):
            return
        try:
            async with asyncio.timeout(LONGEST_REACTION):
                await line.adapter.react(self._target, self._message_id, emoji, on=on)
        except Exception as error:  # noqa: BLE001 - nobody misses it
            log.debug("%s: no reaction is shown: %r", self._target.platform, error)

    async def mark(self, *, failed: bool) -> None:
        """The turn is over."""
        await self._react(SEEN, on=False)
        await self._react(FAILED if failed else DONE)

    async def _type(self, line: PlatformConnection) -> None:
        while True:
            if not self.quiet:
                try:
                    await line.adapter.typing(self._target)
                except Exception as error:  # noqa: BLE001 - nobody misses it
                    log.debug("%s: typing is not shown: %r", self._target.platform, error)
            await self._desk.clock.sleep(TYPING_SECONDS)

    async def see(self, event: Event) -> None:
        match event:
            case RemoteToolProgress():
                self._show_tool(event)
            case TextDelta():
                self._text += event.text
                self._show_text()
            case ReasoningDelta() if self._look.reasoning:
                self._reasoning += event.text
            case TextFinished():
                self._text = event.text
            case ToolStarted():
                await self._interim()
                self._show_tool(event)
            case ApprovalAsked() | QuestionAsked():
                await self._interim()
            case Retrying() | FellBack():
                self._text, self._gathered = "", 0  # it is said anew
            case Notice():
                await self._tell(event.text)
            case _:
                pass

    def _show_text(self) -> None:
        if not self._look.streaming or not self._edits:
            return
        if len(self._text) - self._gathered < self._look.threshold:
            return
        self._gathered = len(self._text)
        if self._growing is None:
            self._growing = self._grow("stream", self._look.cursor)
        self._growing.show(self._text)

    async def _tell(self, text: str) -> None:
        news, steered, _ = text.partition(STEERED)
        if steered:  # the chat has seen what it said; the answer to what came before it has not
            await self._interim(whole=True)
        if news.strip():
            self._add_line(f"ℹ️ {news.strip()}")

    async def _interim(self, *, whole: bool = False) -> None:
        """What was said so far is not the answer, or not that of the turn when it is `whole`: it
        stands by itself."""
        text, growing, self._text, self._growing = self._text, self._growing, "", None
        self._gathered = 0
        row = await growing.stop() if growing else None
        if not text.strip():
            if row is not None:
                self._growing = growing
            return
        self._said += 1
        if row is None and not (whole or self._look.interim):
            return
        name = hashlib.sha256(text.encode()).hexdigest()[:10]
        made = await self._drafts(text, f"interim:{self._inbox_id}:{name}", "interim")
        if row is not None:
            await self._desk.outbox.finish_stream(row.id, made, self._now())
        else:
            await self._desk.outbox.enqueue(made, self._now())

    def _show_tool(self, event: ToolStarted | RemoteToolProgress) -> None:
        progress = self._look.progress
        if progress == "off" or (progress == "new" and event.call.name == self._last_tool):
            return
        self._last_tool = event.call.name
        self._add_line(tool_line(event.call, progress))

    def _add_line(self, text: str) -> None:
        if not self._edits or self._look.progress == "off":
            return
        self._lines = [*self._lines, text][-MOST_LINES:]
        if self._progress is None:
            self._progress = self._grow("progress", "")
        self._progress.show("\n".join(self._lines))

    def _grow(self, kind: str, cursor: str) -> StreamingMessage:
        if self._line is None:
            raise RuntimeError("nothing grows where nobody is connected")
        envelope = OutgoingMeta(
            f"{kind}:{self._inbox_id}:{self._said}:{self._now():.6f}",
            self._target,
            kind,
            inbox_id=self._inbox_id,
            reply_to=self._reply_to if kind == "stream" else "",
            beside="~" if kind == "progress" else "",
            silent=kind == "progress",
        )
        return StreamingMessage(
            self._desk.outbox,
            self._desk.courier,
            self._line,
            envelope,
            self._desk.clock,
            interval=self._look.edit_interval,
            cursor=cursor,
        )

    async def end(self) -> int:
        """No more changes; the outbox row that shows the beginning of the answer, or 0."""
        if self._typing is not None:
            self._typing.cancel()
            await asyncio.wait([self._typing])
        progress, self._progress = self._progress, None
        if progress is not None:
            with contextlib.suppress(StoreError):
                await progress.leave()
        row = await self._growing.stop() if self._growing else None
        return row.id if row else 0

    async def answer(self, text: str, finish: TurnFinished | None = None) -> tuple[OutboxItem, ...]:
        """The messages of the answer; its keys are the same whoever makes them."""
        if self._reasoning and finish is not None:
            thought = "\n> ".join(self._reasoning.strip().splitlines())
            text = f"> {thought}\n\n{text}"
        return await self._drafts(text, f"reply:{self._inbox_id}", "reply")

    async def so_far(self) -> tuple[OutboxItem, ...]:
        """What was said of an answer that will never be finished, as it was shown."""
        return await self._drafts(self._text, f"reply:{self._inbox_id}", "reply")

    async def attach(self, text: str) -> tuple[str, tuple[Media, ...]]:
        """Return the text without tags of files, and copies of the files it may send."""
        if self._attachments is None:
            return text, ()
        return await attach_files(text, self._attachments, self._can)

    async def _drafts(self, text: str, key: str, kind: str) -> tuple[OutboxItem, ...]:
        text, files = await self.attach(text)
        envelope = OutgoingMeta(
            key,
            self._target,
            kind,
            inbox_id=self._inbox_id,
            reply_to=self._reply_to,
            reply_to_all=self._look.reply_to == "all",
        )
        return drafts(text, envelope, self._can, files)

    def _now(self) -> float:
        return self._desk.clock.now().timestamp()


# What /verbose said in single chats: how much of tool calls is shown there.

MODES: tuple[ToolProgress, ...] = ("off", "new", "all", "verbose")
"""In the order in which /verbose goes through them."""


class ChatDisplayModes:
    """By session key; kept in a file, so that a restart changes nothing."""

    def __init__(self, settings: Settings, file: Path) -> None:
        self._settings, self._file = settings, file
        self._modes: dict[str, ToolProgress] = _read(file)

    def look(self, key: str, platform: str) -> DisplayOptions:
        """How a turn is shown in a chat."""
        usual = showing(self._settings, platform)
        return msgspec.structs.replace(usual, progress=self._modes.get(key, usual.progress))

    async def change(self, key: str, platform: str, said: str) -> ToolProgress:
        """Another mode for a chat: the one that was named, else the next. Raises `UsageError`."""
        now = self.look(key, platform).progress
        following = MODES[(MODES.index(now) + 1) % len(MODES)]
        wanted = next((mode for mode in MODES if mode == (said.lower() or following)), None)
        if wanted is None:
            raise UsageError(f"{said!r} is no way to show tool calls", hint=", ".join(MODES))
        self._modes[key] = wanted
        data = msgspec.json.encode(self._modes)
        await asyncio.to_thread(atomic.write_bytes, self._file, data, mode=0o600)
        return wanted


def _read(file: Path) -> dict[str, ToolProgress]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, ToolProgress])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("%s is not used, so every chat is shown the usual: %s", file, error)
        return {}
