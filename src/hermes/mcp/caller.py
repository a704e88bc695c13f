"""The session behind a call: its user and its model."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from hermes.core.model import ModelRequest, Reply
from hermes.core.ports import Clarifier
from hermes.core.tool import ToolContext


class Sampler(Protocol):
    """Asks a model on behalf of a server."""

    async def ask(self, request: ModelRequest, wishes: tuple[str, ...]) -> Reply:
        """Ask the first known model of `wishes` (best first), or the default model.

        Raises `ProviderError`.
        """
        ...


class Caller(msgspec.Struct, frozen=True, eq=False):
    """The session behind some tools."""

    clarifier: Clarifier | None = None  #: None without a user: questions of servers are declined.
    sampler: Sampler | None = None
    asking: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held during a question, because a user answers one at a time."""


NO_CALLER = Caller()


MAX_PAUSE_SECONDS = 900.0
"""Total time for which a call may be paused, so that a server cannot ask endlessly."""


class CallTicket:
    """One call in progress. Its `deadline` is suspended while the user answers a question."""

    def __init__(self, call: ToolContext, caller: Caller) -> None:
        self.call, self.caller = call, caller
        self.deadline: asyncio.Timeout | None = None
        self._patience = MAX_PAUSE_SECONDS

    @contextmanager
    def paused(self) -> Iterator[None]:
        deadline = self.deadline
        when = deadline.when() if deadline is not None else None
        if deadline is None or when is None:
            yield
            return
        loop = asyncio.get_running_loop()
        began, left = loop.time(), when - loop.time()
        deadline.reschedule(when + self._patience)
        try:
            yield
        finally:
            self._patience = max(0.0, self._patience - (loop.time() - began))
            if self.deadline is deadline:  # the call has not ended meanwhile
                deadline.reschedule(loop.time() + left)
