"""A message that is shown before it is finished, and changed as its text goes on."""

import asyncio
import contextlib
import logging

from hermes.core.ports import Clock
from hermes.gateway.attachments import hide_tags
from hermes.gateway.courier import Courier
from hermes.gateway.drafts import Envelope, drafts
from hermes.gateway.lines import Line, message_of
from hermes.gateway.platforms.kit.contract import AdapterError, NotConnected, SendLater, Target
from hermes.store.records import OutboxItem, OutboxRow
from hermes.store.session_store import OutboxQueue

log = logging.getLogger(__name__)

RESERVE = 5
"""Calls that changes leave to messages, so that an answer to /stop never waits behind them."""
LONGEST_EDIT = 30.0
"""Seconds for a change; the answer does not wait longer for it."""


class Growing:
    """`show` says what the text is by now; the platform sees as much of it as its rates allow."""

    def __init__(
        self,
        outbox: OutboxQueue,
        courier: Courier,
        line: Line,
        envelope: Envelope,
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
    def target(self) -> Target:
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
        if self.row.platform_id and self._line.buckets.take(self.target.chat_id, leave=RESERVE):
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
