"""A running turn as its chat sees it: typing indicator, tool lines, growing text, and the reply."""

import asyncio
import contextlib
import hashlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.config.settings import PlatformDisplay, Settings, ToolProgress
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
from hermes.core.messages import STEERED, ToolCall
from hermes.core.model import FellBack, ReasoningDelta, Retrying, TextDelta
from hermes.core.ports import Attachments
from hermes.gateway.messages import reply_id
from hermes.gateway.outbox import (
    GatewayOutbox,
    OutgoingMeta,
    attach_files,
    compose_items,
    decode_message,
    hide_tags,
)
from hermes.gateway.supervisor import PlatformConnection
from hermes.providers import RemoteToolProgress
from hermes.sdk.platforms import (
    AdapterError,
    Media,
    MessageEvent,
    NotConnected,
    SendLater,
    cancel_and_wait,
)
from hermes.store import InboxRow, OutboxItem, OutboxRow
from hermes.util import files
from hermes.util.text import visible

if TYPE_CHECKING:
    from hermes.gateway.gateway import Gateway

log = logging.getLogger(__name__)

NO_OVERRIDES = PlatformDisplay()
MAX_PREVIEW = 60
SYMBOL = "⚙️"


class DisplayOptions(msgspec.Struct, frozen=True):
    streaming: bool = False
    interim: bool = True  #: Also send the text that the agent writes between tool calls.
    reasoning: bool = False
    progress: ToolProgress = "all"
    edit_interval: float = 0.3
    threshold: int = 40  #: Number of new characters before the shown text is updated.
    cursor: str = " ▉"
    reply_to: str = "first"  #: Which parts of a reply quote the message: `first`, `all` or `off`.
    reactions: bool = False


def display_options(settings: Settings, platform: str) -> DisplayOptions:
    display, streaming = settings.display, settings.streaming
    own = display.platforms.get(platform, NO_OVERRIDES)
    progress = own.tool_progress or display.tool_progress_overrides.get(platform)
    connection = getattr(settings.platforms, platform, None)

    def choose(own: bool | None, general: bool) -> bool:
        return general if own is None else own

    return DisplayOptions(
        streaming=choose(own.streaming, streaming.enabled) and streaming.transport != "off",
        interim=choose(own.interim_assistant_messages, display.interim_assistant_messages),
        reasoning=choose(own.show_reasoning, display.show_reasoning),
        progress=progress or display.tool_progress,
        edit_interval=streaming.edit_interval,
        threshold=streaming.buffer_threshold,
        cursor=streaming.cursor,
        reply_to=str(getattr(connection, "reply_to_mode", "first") or "off"),
        reactions=bool(getattr(getattr(settings, platform, None), "reactions", False)),
    )


def tool_line(call: ToolCall, progress: ToolProgress) -> str:
    """Describe a tool call in one line; in verbose mode with all its arguments."""
    name = _one_line(call.name, MAX_PREVIEW).replace("*", "")
    if progress == "verbose":
        return f"{SYMBOL} **{name}** `{_one_line(call.arguments, 500)}`"
    try:
        given = msgspec.json.decode(call.arguments, type=dict[str, object])
    except msgspec.DecodeError:
        given = {}
    first = next((value for value in given.values() if value and isinstance(value, str)), "")
    preview = f": `{_one_line(first, MAX_PREVIEW)}`" if first else ""
    return f"{SYMBOL} **{name}**{preview}"


def _one_line(text: str, most: int) -> str:
    flat = " ".join(visible(text).replace("`", "'").split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


RESERVED_CALLS = 5
"""Rate-limit calls that edits leave free, so that a reply to /stop never waits for them."""
EDIT_SECONDS = 30.0  #: Timeout in seconds for one edit; the reply does not wait longer for it.


class StreamingMessage:
    """A message that is edited while its text grows. `show` sets the current text; the platform
    sees as many versions of it as its rate limits allow."""

    def __init__(
        self,
        outbox: GatewayOutbox,
        connection: PlatformConnection,
        meta: OutgoingMeta,
        *,
        interval: float,
        cursor: str = "",
    ) -> None:
        self._outbox, self._connection, self._meta = outbox, connection, meta
        self._interval, self._cursor = interval, cursor
        self.row: OutboxRow | None = None
        """The row of the message; may be set to one that another process started to show."""
        self._text = self._shown = ""
        self._changed, self._stopped = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def show(self, text: str) -> None:
        self._text = text
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        while not self._stopped.is_set():
            await self._changed.wait()
            self._changed.clear()
            if self._stopped.is_set():
                return
            try:
                await self._show(f"{self._text}{self._cursor}")
            except SendLater as error:
                self._connection.buckets.pause(self._meta.target.chat_id, error.seconds)
            except (AdapterError, TimeoutError) as error:
                platform = self._connection.manifest.name
                log.info("%s: a growing message could not be updated: %s", platform, error)
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._stopped.wait()

    async def _show(self, text: str) -> None:
        if text == self._shown:
            return
        first = self._first_part(text)
        if first is None:
            return
        if self.row is None:
            self.row = await self._outbox.open_stream(first)
            if self.row is None:
                raise NotConnected("the message could not be sent")
            self._shown = text
            return
        target = self._meta.target
        if self.row.platform_id and self._connection.buckets.try_take(
            target.chat_id, leave=RESERVED_CALLS
        ):
            message = decode_message(first.body)
            async with asyncio.timeout(EDIT_SECONDS):
                await self._connection.adapter.edit(target, self.row.platform_id, message)
            self._shown = text

    def _first_part(self, text: str) -> OutboxItem | None:
        """Return the first part of the text; the other parts are sent when the text is complete."""
        items = compose_items(hide_tags(text), self._meta, self._connection.capabilities)
        return items[0] if items else None

    async def finish(self) -> None:
        """Stop, and leave the message with the last text that was passed to `show`."""
        row, last = await self.stop(), self._first_part(self._text)
        if row is not None and last is not None:
            await self._outbox.queue.finish_stream(row.id, (last,), self._outbox.now())

    async def stop(self) -> OutboxRow | None:
        """Stop editing and return the outbox row if the message was ever shown. A call in flight is
        not cancelled, which would leave a message whose delivery is unknown."""
        self._stopped.set()
        self._changed.set()
        if self._task is not None:
            await asyncio.wait([self._task])
            if (fault := self._task.exception()) is not None:
                log.error("a growing message could not be updated", exc_info=fault)
            self._task = None
        return self.row


TYPING_SECONDS = 4.0
REACTION_SECONDS = 5.0  #: Timeout in seconds for a reaction; the turn does not wait longer for it.
SEEN, DONE, FAILED = "👀", "✅", "❌"
MAX_TOOL_LINES = 15  #: Maximum number of tool lines that are visible at a time.


class TurnView:
    """The view of one turn. While the platform is disconnected, only the reply matters."""

    def __init__(
        self,
        gateway: "Gateway",
        key: str,
        row: InboxRow,
        event: MessageEvent,
        *,
        is_shown: bool = True,
        attachments: Attachments | None = None,
    ) -> None:
        """`attachments` copies the files that the agent's texts name; without it, file tags are
        text. Unless `is_shown`, the chat sees only the reply."""
        source, self._outbox = event.source, gateway.outbox
        connection = gateway.connections.get(source.platform, source.account)
        self._connection = connection if is_shown else None
        self._capabilities = gateway.manifests[source.platform].capabilities
        self._options = gateway.display_modes.options(key, source.platform)
        self._target, self._attachments, self._inbox_id = source.target, attachments, row.id
        self._message_id = reply_id(event)
        self._reply_to = self._message_id if self._options.reply_to != "off" else ""
        self._text = self._reasoning = ""
        self._streamed_length = 0  #: Length of the text that was already passed to the stream.
        self._texts_before = 0  #: Number of finished texts before the current one.
        self._stream: StreamingMessage | None = None
        self._progress: StreamingMessage | None = None
        self._lines: list[str] = []
        self._last_tool = ""
        self._typing: asyncio.Task[None] | None = None
        self.paused = False  #: True while a question is open; suppresses the typing indicator.

    @property
    def _edits(self) -> bool:
        return self._connection is not None and self._connection.capabilities.edits

    async def start(self, *, resumed: bool) -> None:
        """Start the view; a `resumed` turn adopts the message of a crashed process."""
        if self._connection is not None and self._connection.capabilities.typing:
            self._typing = asyncio.create_task(self._type(self._connection))
        await self._react(SEEN)
        if resumed and (row := await self._outbox.queue.stream_of(self._inbox_id)) is not None:
            if self._edits:
                self._stream = self._new_stream("stream", self._options.cursor)
                self._stream.row = row
            else:  # it cannot be edited: the reply is a message of its own
                await self._outbox.queue.mark_sent(row.id, row.platform_id, self._outbox.now())

    async def _react(self, emoji: str, *, on: bool = True) -> None:
        """Add or remove a reaction on the user's message, where that is possible."""
        connection = self._connection
        if connection is None or not self._message_id:
            return
        if not (self._options.reactions and connection.capabilities.reactions):
            return
        try:
            async with asyncio.timeout(REACTION_SECONDS):
                await connection.adapter.react(self._target, self._message_id, emoji, on=on)
        except Exception as error:  # noqa: BLE001 - a missing reaction is harmless
            log.debug("%s: no reaction is shown: %r", self._target.platform, error)

    async def mark_done(self, *, failed: bool) -> None:
        """Replace the "seen" reaction with the outcome of the turn."""
        await self._react(SEEN, on=False)
        await self._react(FAILED if failed else DONE)

    async def _type(self, connection: PlatformConnection) -> None:
        while True:
            if not self.paused:
                try:
                    await connection.adapter.typing(self._target)
                except Exception as error:  # noqa: BLE001 - a missing typing indicator is harmless
                    log.debug("%s: typing is not shown: %r", self._target.platform, error)
            await self._outbox.clock.sleep(TYPING_SECONDS)

    async def show(self, event: Event) -> None:
        match event:
            case RemoteToolProgress():
                self._show_tool(event)
            case TextDelta():
                self._text += event.text
                self._show_text()
            case ReasoningDelta() if self._options.reasoning:
                self._reasoning += event.text
            case TextFinished():
                self._text = event.text
            case ToolStarted():
                await self._finish_text()
                self._show_tool(event)
            case ApprovalAsked() | QuestionAsked():
                await self._finish_text()
            case Retrying() | FellBack():
                self._text, self._streamed_length = "", 0  # the model starts its text again
            case Notice():
                await self._show_notice(event.text)
            case _:
                pass

    def _show_text(self) -> None:
        if not self._options.streaming or not self._edits:
            return
        if len(self._text) - self._streamed_length < self._options.threshold:
            return
        self._streamed_length = len(self._text)
        if self._stream is None:
            self._stream = self._new_stream("stream", self._options.cursor)
        self._stream.show(self._text)

    async def _show_notice(self, text: str) -> None:
        news, steered, _ = text.partition(STEERED)
        if steered:  # the user's own message needs no display; the text before it is complete
            await self._finish_text(whole=True)
        if news.strip():
            self._add_line(f"ℹ️ {news.strip()}")

    async def _finish_text(self, *, whole: bool = False) -> None:
        """Finish the current text as a message of its own: it is not the reply, or, if `whole`, a
        complete reply to an earlier message."""
        text, stream, self._text, self._stream = self._text, self._stream, "", None
        self._streamed_length = 0
        row = await stream.stop() if stream else None
        if not text.strip():
            if row is not None:
                self._stream = stream
            return
        self._texts_before += 1
        if row is None and not (whole or self._options.interim):
            return
        name = hashlib.sha256(text.encode()).hexdigest()[:10]
        items = await self._compose(text, f"interim:{self._inbox_id}:{name}", "interim")
        if row is not None:
            await self._outbox.queue.finish_stream(row.id, items, self._outbox.now())
        else:
            await self._outbox.queue.enqueue(items, self._outbox.now())

    def _show_tool(self, event: ToolStarted | RemoteToolProgress) -> None:
        progress = self._options.progress
        if progress == "off" or (progress == "new" and event.call.name == self._last_tool):
            return
        self._last_tool = event.call.name
        self._add_line(tool_line(event.call, progress))

    def _add_line(self, text: str) -> None:
        if not self._edits or self._options.progress == "off":
            return
        self._lines = [*self._lines, text][-MAX_TOOL_LINES:]
        if self._progress is None:
            self._progress = self._new_stream("progress", "")
        self._progress.show("\n".join(self._lines))

    def _new_stream(self, kind: str, cursor: str) -> StreamingMessage:
        if self._connection is None:
            raise RuntimeError("a stream needs a connected platform")
        meta = OutgoingMeta(
            f"{kind}:{self._inbox_id}:{self._texts_before}:{self._outbox.now():.6f}",
            self._target,
            kind,
            inbox_id=self._inbox_id,
            reply_to=self._reply_to if kind == "stream" else "",
            lane_suffix="~" if kind == "progress" else "",
            silent=kind == "progress",
        )
        interval = self._options.edit_interval
        return StreamingMessage(
            self._outbox, self._connection, meta, interval=interval, cursor=cursor
        )

    async def close(self) -> int:
        """Stop all updates. Returns the outbox row that shows the start of the reply, or 0."""
        await cancel_and_wait(self._typing)
        progress, self._progress = self._progress, None
        if progress is not None:
            with contextlib.suppress(StoreError):
                await progress.finish()
        row = await self._stream.stop() if self._stream else None
        return row.id if row else 0

    async def reply(
        self, text: str | None = None, finish: TurnFinished | None = None
    ) -> tuple[OutboxItem, ...]:
        """Compose the reply; without a text, what was shown of one that will not be finished. Its
        keys do not depend on the process, so that it is stored only once."""
        text = self._text if text is None else text
        if self._reasoning and finish is not None:
            thought = "\n> ".join(self._reasoning.strip().splitlines())
            text = f"> {thought}\n\n{text}"
        return await self._compose(text, f"reply:{self._inbox_id}", "reply")

    async def attach(self, text: str) -> tuple[str, tuple[Media, ...]]:
        """Return the text without file tags, and copies of the files that may be sent."""
        if self._attachments is None:
            return text, ()
        return await attach_files(text, self._attachments, self._capabilities)

    async def _compose(self, text: str, key: str, kind: str) -> tuple[OutboxItem, ...]:
        text, files = await self.attach(text)
        meta = OutgoingMeta(
            key,
            self._target,
            kind,
            inbox_id=self._inbox_id,
            reply_to=self._reply_to,
            reply_to_all=self._options.reply_to == "all",
        )
        return compose_items(text, meta, self._capabilities, files)


MODES: tuple[ToolProgress, ...] = ("off", "new", "all", "verbose")
"""The modes in the order in which /verbose cycles through them."""


class ChatDisplayModes:
    """How much of tool calls single chats show, as set by /verbose and stored in a file."""

    def __init__(self, settings: Settings, file: Path) -> None:
        self._settings, self._file = settings, file
        self._modes: dict[str, ToolProgress] = {}
        try:
            if file.exists():
                self._modes = msgspec.json.decode(file.read_bytes(), type=dict[str, ToolProgress])
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("%s is ignored, all chats use the default display: %s", file, error)

    def options(self, key: str, platform: str) -> DisplayOptions:
        """Return the display options of a chat."""
        usual = display_options(self._settings, platform)
        return msgspec.structs.replace(usual, progress=self._modes.get(key, usual.progress))

    async def change(self, key: str, platform: str, wanted: str) -> ToolProgress:
        """Set the mode of a chat, unless `wanted` is empty; return it. Raises `UsageError`."""
        if not wanted:
            return self.options(key, platform).progress
        mode = next((mode for mode in MODES if mode == wanted.lower()), None)
        if mode is None:
            raise UsageError(f"{wanted!r} is not a display mode", hint=", ".join(MODES))
        self._modes[key] = mode
        data = msgspec.json.encode(self._modes)
        await asyncio.to_thread(files.write_bytes, self._file, data, mode=0o600)
        return mode
