"""HTTP connections of clients who never say what they want, or never read, are given up.

uvicorn waits for them for ever, and whoever opens enough of them keeps everybody else out.
"""

import asyncio
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Impatient(H11Protocol):
    head_seconds: ClassVar[float] = 15.0
    """For a client to say what it wants."""
    send_seconds: ClassVar[float] = 60.0
    """For a client to read what it was sent."""
    _saying: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            _stop(self._saying)
            self._saying = None

    def _wait_for_head(self) -> None:
        if self._saying is None:
            self._saying = self.loop.call_later(self.head_seconds, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading = self.loop.call_later(self.send_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _stop(self._reading)

    def connection_lost(self, exc: Exception | None) -> None:
        _stop(self._saying)
        _stop(self._reading)
        super().connection_lost(exc)


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
