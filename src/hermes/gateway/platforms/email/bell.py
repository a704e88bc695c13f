"""What says that there may be new mail: the server (IDLE), or the clock.

`arm` first, then look, then `wait`: mail that comes between the look and the wait rings too.
"""

import asyncio
import selectors
from typing import Protocol

from hermes.gateway.platforms.base import NotConnected
from hermes.gateway.platforms.email.mailbox import Mailbox
from hermes.gateway.platforms.email.options import Options
from hermes.util.threads import in_thread

IDLE_SECONDS = 300.0
"""Seconds of one IDLE. Servers hang up after half an hour, many routers much earlier."""


class Bell(Protocol):
    async def arm(self) -> None:
        """From now on it rings. Raises `NotConnected`, `CredentialsRefused`."""
        ...

    async def wait(self) -> None:
        """Until it rings, or might have. Raises `NotConnected`."""
        ...

    def close(self) -> None:
        """Ends a wait under way."""
        ...


class PollBell:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def arm(self) -> None:
        """Nothing to do."""

    async def wait(self) -> None:
        await asyncio.sleep(self._seconds)

    def close(self) -> None:
        """Nothing to do."""


class IdleBell:
    """A connection of its own, on which nothing is asked. What the server said before `arm`
    returned may lie in a buffer; the look after it finds that mail, so nothing is missed."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._box: Mailbox | None = None
        self._closed = False

    async def arm(self) -> None:
        await in_thread(self._guarded, self._arm)

    async def wait(self) -> None:
        await in_thread(self._guarded, _wait)

    def close(self) -> None:
        self._closed = True
        if self._box is not None:
            self._box.hang_up()

    def _guarded(self, work: "Step") -> None:
        try:
            if self._box is None:
                self._box = Mailbox(self._options)
            if self._closed:
                raise NotConnected("Email is not connected")
            self._box.run(work)
        except BaseException:
            box, self._box = self._box, None
            if box is not None:
                box.hang_up()
            raise

    def _arm(self, box: Mailbox) -> None:
        box.idle(self._options.extra.folder)


class Step(Protocol):
    def __call__(self, box: Mailbox, /) -> None: ...


def _wait(box: Mailbox) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(box.socket_number(), selectors.EVENT_READ)
        selector.select(IDLE_SECONDS)
    box.idle_done()
