"""Sends what is kept for sending: the lanes side by side, each in its order."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from hermes.config.settings.display import HumanDelaySettings
from hermes.core.errors import StoreError
from hermes.core.ports import Clock
from hermes.gateway.courier import Courier
from hermes.gateway.lines import Lines, Place
from hermes.store.records import OutboxRow
from hermes.store.session_store import OutboxQueue

log = logging.getLogger(__name__)

IDLE = 5.0
"""Seconds between two looks when nobody says that there is something to send."""
SOON = 0.5
"""The same, when something may be due again."""
TROUBLE = 30.0
AT_A_TIME = 100

Work = Callable[[OutboxRow], Awaitable[None]]

NATURAL = (800, 2500)
"""Milliseconds a person needs between two messages."""


def human_pause(settings: HumanDelaySettings) -> Callable[[], float]:
    """Seconds between the parts of one answer, as `human_delay` has them."""
    if settings.mode == "off":
        return lambda: 0.0
    custom = (settings.min_ms, max(settings.min_ms, settings.max_ms))
    least, most = NATURAL if settings.mode == "natural" else custom
    return lambda: random.uniform(least, most) / 1000


class Pump:
    def __init__(
        self,
        outbox: OutboxQueue,
        lines: Lines,
        courier: Courier,
        clock: Clock,
        pause: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`pause` is waited before each further part of an answer."""
        self._outbox, self._lines, self._courier, self._clock = outbox, lines, courier, clock
        self._pause = pause
        self._wake = asyncio.Event()
        self._sending: dict[str, asyncio.Task[None]] = {}
        """By lane."""
        self._ask_again: dict[int, float] = {}
        """When a platform is asked again about a row that it could not be asked about."""
        self._trouble_until = 0.0
        """Something could not be sent, so that it may soon be due again."""

    def wake(self) -> None:
        """There is something to send."""
        self._wake.set()

    async def run(self) -> None:
        """Until it is cancelled. A message on its way is finished first."""
        try:
            while True:
                self._wake.clear()
                try:
                    pause = await self._round()
                except StoreError as error:
                    log.error("the outbox cannot be read: %s", error)
                    pause = IDLE
                try:
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        finally:
            if self._sending:
                await asyncio.wait(set(self._sending.values()), timeout=IDLE)

    async def _round(self) -> float:
        """Start what is due; how long there is nothing else to do."""
        places = self._lines.places()
        if not places:
            return IDLE
        await self._ask(places)
        now = self._clock.now().timestamp()
        # Lanes at work may have all the first rows; others must not wait for them.
        rows = await self._outbox.due(places, now, limit=AT_A_TIME + len(self._sending))
        for row in rows:
            self._start(row, self._deliver)
        return SOON if rows or self._clock.monotonic() < self._trouble_until else IDLE

    async def _ask(self, places: tuple[Place, ...]) -> None:
        """Begin to ask about rows in doubt."""
        rows = await self._courier.doubtful(await self._outbox.in_doubt(places))
        now, before = self._clock.monotonic(), self._ask_again
        self._ask_again = {row.id: before[row.id] for row in rows if row.id in before}
        for row in rows:
            if self._ask_again.get(row.id, now) <= now:
                self._start(row, self._settle)

    def _start(self, row: OutboxRow, work: Work) -> None:
        if row.lane not in self._sending:
            self._sending[row.lane] = asyncio.create_task(self._watched(row, work))

    async def settle(self, places: tuple[Place, ...], seconds: float) -> bool:
        """Ask the platforms about messages whose sender was gone before it heard of them. False
        when one could not be asked in time."""
        try:
            async with asyncio.timeout(seconds):
                rows = await self._courier.doubtful(await self._outbox.in_doubt(places))
                found = [await self._courier.settle(row) for row in rows]
        except TimeoutError:
            return False
        return None not in found

    async def _settle(self, row: OutboxRow) -> None:
        now = self._clock.monotonic()
        if await self._courier.settle(row) is None:
            self._ask_again[row.id] = now + IDLE
        self._trouble_until = now + TROUBLE

    async def _deliver(self, row: OutboxRow) -> None:
        if row.kind == "reply" and not row.key.endswith(":0"):
            await self._clock.sleep(self._pause())
        if not await self._courier.deliver(row):
            self._trouble_until = self._clock.monotonic() + TROUBLE

    async def _watched(self, row: OutboxRow, work: Work) -> None:
        """Whatever happens to one message, the others go on."""
        try:
            await work(row)
        except StoreError as error:
            log.error("what became of a message cannot be kept: %s", error)
            await self._clock.sleep(1.0)
        except Exception:  # a row that cannot be dealt with must not stop all sending
            log.exception("a message to %s cannot be dealt with", row.platform)
            await self._clock.sleep(IDLE)
        finally:
            self._sending.pop(row.lane, None)
            self._wake.set()
