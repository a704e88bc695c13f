"""The one way a message goes out: kept, taken, sent, noted. Whoever dies in between leaves a row
that says where, and the next start asks the platform."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from hermes.core.errors import HermesError
from hermes.core.ports import Clock
from hermes.gateway.lines import Line, Lines, message_of, target_of
from hermes.gateway.owners import Owner
from hermes.gateway.platforms.kit.contract import (
    AdapterError,
    CredentialsRefused,
    NotConnected,
    Outgoing,
    SendLater,
    SendRefused,
    SendUnsure,
    Target,
    Unknowable,
)
from hermes.store.records import OutboxItem, OutboxRow
from hermes.store.session_store import OutboxQueue

log = logging.getLogger(__name__)

T = TypeVar("T")
Mirroring = Callable[[Target, str, str], Awaitable[object]]
"""Where a message went, its text, and its own name."""

MOST_ATTEMPTS = 30
MOST_EDITS = 8
"""Tries to change a message, a minute or two; then the answer comes as a message of its own."""
GROWING = ("stream", "progress")
"""Kinds that are shown before they are finished."""
LONGEST_PAUSE = 300.0
"""Seconds between two attempts."""
LONGEST_CALL = 300.0
"""Seconds that a platform gets for one message, files and all."""
LONGEST_QUESTION = 60.0
LONGEST_DOUBT = 900.0
"""Seconds after which a message is asked about though its sender may live: on another machine."""


class Courier:
    def __init__(self, outbox: OutboxQueue, lines: Lines, clock: Clock, owner: Owner) -> None:
        self._outbox, self._lines, self._clock, self._owner = outbox, lines, clock, owner
        self.under_way: set[int] = set()
        """Rows that this process sends at the moment."""
        self._showing: set[str] = set()
        """The keys of those whose number is not known yet."""
        self.mirror: Mirroring | None = None
        """Hears of what is to be in the conversation of its chat, before it is noted as sent: after
        a crash in between it is asked about, and mirrored then."""

    async def deliver(self, row: OutboxRow) -> str:
        """Send a pending row; the platform's name for it, "" when it is not there."""
        line, opened = self._lines.get(row.platform, row.account), await self._opened(row)
        if line is None or opened is None or row.id in self.under_way:
            return ""
        target, message = opened
        self.under_way.add(row.id)
        try:
            await line.buckets.acquire(target.chat_id)
            if row.platform_id:
                await _called(line.adapter.edit(target, row.platform_id, message))
                await self._outbox.mark_sent(row.id, row.platform_id, self._now())
                return row.platform_id
            by, newest = self._owner.name, _newest(line, target)
            if not await self._outbox.mark_sending(row.id, newest, by=by, now=self._now()):
                return ""  # somebody else has it
            found = await _called(line.adapter.send(target, message, row.key))
            await self._sent(row, found)
            return found
        except AdapterError as error:
            return await self._failed(row, line, target, error)
        finally:
            self.under_way.discard(row.id)

    async def show(self, draft: OutboxItem) -> OutboxRow | None:
        """Send a message that is not over yet: it is changed as its text goes on. None when it is
        not there."""
        target, message = target_of(draft.target), message_of(draft.body)
        line = self._lines.get(draft.platform, draft.account)
        if line is None:
            return None
        await line.buckets.acquire(target.chat_id)
        by, newest = self._owner.name, _newest(line, target)
        self._showing.add(draft.key)
        try:
            # Nobody may see it waiting: it would be sent without us, or hold up what comes after.
            if not await self._outbox.enqueue_sending(draft, newest, by=by, now=self._now()):
                return None
            row = await self._outbox.get(draft.key)
            if row is None:
                return None
            try:
                found = await _called(line.adapter.send(target, message, row.key))
                await self._outbox.mark_streaming(row.id, found)
            except AdapterError as error:
                if not await self._failed(row, line, target, error):
                    return None
        finally:
            self._showing.discard(draft.key)
        return await self._outbox.get(draft.key)

    async def _failed(self, row: OutboxRow, line: Line, target: Target, error: AdapterError) -> str:
        if isinstance(error, NotConnected | CredentialsRefused | SendUnsure):
            line.doubt()
        match error:
            case SendUnsure() if row.platform_id:  # an edit may be made twice
                await self._again(row, str(error), 1.0)
            case SendUnsure():
                return await self.settle(row) or ""
            case _ if row.kind in GROWING and not row.platform_id:
                # The answer comes anyway; only that it is not seen growing.
                await self._outbox.give_up(row.id, "failed", str(error))
            case SendLater() | NotConnected() if row.platform_id and row.attempts >= MOST_EDITS:
                await self._sent_anew(row, str(error))
            case SendLater():
                line.buckets.pause(target.chat_id, error.seconds)
                await self._again(row, str(error), error.seconds)
            case NotConnected() | CredentialsRefused():
                # The supervisor tells what is wrong; what is to be said waits for it.
                await self._again(row, str(error), 1.0)
            case _ if row.platform_id:
                await self._sent_anew(row, str(error))
            case _:
                log.warning("a message to %s cannot be sent: %s", row.platform, error)
                await self._outbox.give_up(row.id, "failed", str(error))
        return ""

    async def doubtful(self, rows: tuple[OutboxRow, ...]) -> list[OutboxRow]:
        """Of rows that are being sent those that nobody sends any more."""
        others = tuple({row.error for row in rows} - {"", self._owner.name})
        dead = await asyncio.to_thread(self._owner.dead, others) if others else ()
        gone, old = {"", self._owner.name, *dead}, self._now() - LONGEST_DOUBT
        return [
            row
            for row in rows
            if row.id not in self.under_way
            and row.key not in self._showing
            and (row.error in gone or row.due_at < old)
        ]

    async def settle(self, row: OutboxRow) -> str | None:
        """Find out whether a message in doubt is there: it is noted, sent again, or given up. Never
        is it sent twice. None: the platform cannot be asked now."""
        line = self._lines.get(row.platform, row.account)
        if line is None:
            return None
        now = await self._outbox.get(row.key)
        if now is None or now.state != "sending":
            return now.platform_id if now else ""  # whoever sent it has heard of it meanwhile
        opened = await self._opened(row)
        if opened is None:
            return ""
        target, message = opened
        try:
            found = await _called(
                line.adapter.find_sent(row, target, message), seconds=LONGEST_QUESTION
            )
        except (Unknowable, SendRefused) as error:
            log.error("nobody knows whether a message to %s is there: %s", row.platform, error)
            await self._outbox.give_up(row.id, "uncertain", str(error))
            return ""
        except AdapterError as error:
            log.info("%s cannot be asked now: %s", row.platform, error)
            line.doubt()
            return None  # it stays in doubt until the platform can be asked
        await self._found(row, found)
        return found or ""

    async def _opened(self, row: OutboxRow) -> tuple[Target, Outgoing] | None:
        """None for a row that nobody will ever understand: it is given up, else it would hold up
        those behind it for ever."""
        try:
            return target_of(row.target), message_of(row.body)
        except msgspec.DecodeError as error:
            log.error("message %d to %s cannot be read: %s", row.id, row.platform, error)
            await self._outbox.give_up(row.id, "failed", "it cannot be read")
            return None

    async def _found(self, row: OutboxRow, found: str | None) -> None:
        if row.kind in GROWING:
            # Whoever let it grow is gone. The answer takes it over, unless that is kept already.
            over = row.kind == "progress" or await self._outbox.get(f"reply:{row.inbox_id}:0")
            if found is None:
                await self._outbox.give_up(row.id, "failed", "it was not there")
            elif over:
                await self._outbox.mark_sent(row.id, found, self._now())
            else:
                await self._outbox.mark_streaming(row.id, found)
        elif found is None:
            await self._again(row, "it was not there", 0.0)
        else:
            await self._sent(row, found)

    async def _sent(self, row: OutboxRow, found: str) -> None:
        if self.mirror is not None and (text := message_of(row.body).mirrored):
            await self.mirror(target_of(row.target), text, row.key)
        await self._outbox.mark_sent(row.id, found, self._now())

    async def _sent_anew(self, row: OutboxRow, error: str) -> None:
        """It cannot be changed any more: the answer comes as a message of its own. What is no
        answer stays as it was shown."""
        log.warning("%s: a message cannot be changed: %s", row.platform, error)
        if row.kind in GROWING:
            await self._outbox.mark_sent(row.id, row.platform_id, self._now())
        else:
            await self._outbox.retry(row.id, self._now(), error, resend=True)

    async def _again(self, row: OutboxRow, error: str, seconds: float) -> None:
        if row.attempts >= MOST_ATTEMPTS:
            log.error("a message to %s is given up: %s", row.platform, error)
            await self._outbox.give_up(row.id, "failed", error)
            return
        pause = min(max(seconds, 0.5 * 2 ** min(row.attempts, 12)), LONGEST_PAUSE)
        spread = pause * random.uniform(1.0, 1.2) if row.attempts else seconds
        await self._outbox.retry(row.id, self._now() + spread, error)

    def _now(self) -> float:
        return self._clock.now().timestamp()


async def _called(call: Awaitable[T], seconds: float = LONGEST_CALL) -> T:
    """What a platform answers. A fault of its library, or no answer, leaves us unsure: it must not
    stop all sending."""
    try:
        async with asyncio.timeout(seconds):
            return await call
    except HermesError:
        raise
    except TimeoutError as error:
        raise SendUnsure("the platform did not answer in time") from error
    except Exception as error:  # whatever a library raises
        log.exception("a call of a platform failed in an unknown way")
        raise SendUnsure(f"unexpected {type(error).__name__}") from error


def _newest(line: Line, target: Target) -> str:
    newest = getattr(line.adapter, "newest", None)
    return newest(target) if newest else ""
