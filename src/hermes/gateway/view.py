"""A turn as its chat sees it: typing, tool lines, text that grows, and in the end the answer."""

import asyncio
import contextlib
import hashlib
import logging

import msgspec

from hermes.core.errors import StoreError
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
from hermes.core.model import FellBack, ReasoningDelta, Retrying, TextDelta
from hermes.core.ports import Attachments, Clock
from hermes.gateway.attachments import attach_files
from hermes.gateway.courier import Courier
from hermes.gateway.drafts import Envelope, drafts
from hermes.gateway.growing import Growing
from hermes.gateway.lines import Line
from hermes.gateway.platforms.kit.contract import Capabilities, Media, Target
from hermes.gateway.showing import Showing, tool_line
from hermes.providers.target import RemoteToolProgress
from hermes.store.records import OutboxItem
from hermes.store.session_store import OutboxQueue

log = logging.getLogger(__name__)

TYPING_SECONDS = 4.0
LONGEST_REACTION = 5.0
"""Seconds for a sign on a message; the turn does not wait longer for it."""
SEEN, DONE, FAILED = "👀", "✅", "❌"
MOST_LINES = 15
"""Tool lines that are seen at a time."""


class Desk(msgspec.Struct, frozen=True):
    """What views work with."""

    outbox: OutboxQueue
    courier: Courier
    clock: Clock


class TurnView:
    """Of one turn. `line` is None while the platform is away: then only the answer matters."""

    def __init__(
        self,
        desk: Desk,
        line: Line | None,
        can: Capabilities,
        target: Target,
        look: Showing,
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
        self._growing: Growing | None = None
        self._progress: Growing | None = None
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

    async def _type(self, line: Line) -> None:
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

    def _grow(self, kind: str, cursor: str) -> Growing:
        if self._line is None:
            raise RuntimeError("nothing grows where nobody is connected")
        envelope = Envelope(
            f"{kind}:{self._inbox_id}:{self._said}:{self._now():.6f}",
            self._target,
            kind,
            inbox_id=self._inbox_id,
            reply_to=self._reply_to if kind == "stream" else "",
            beside="~" if kind == "progress" else "",
            silent=kind == "progress",
        )
        return Growing(
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
        envelope = Envelope(
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
