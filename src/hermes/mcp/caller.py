"""Who a call is made for: the session, its user and its model."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from hermes.core.model import ModelRequest, Reply
from hermes.core.ports import Clarifier
from hermes.core.tool import ToolContext


class Sampler(Protocol):
    """Asks a model for a server."""

    async def ask(self, request: ModelRequest, wishes: tuple[str, ...]) -> Reply:
        """`wishes` are models, the best first; the first that is known is asked, without one the
        usual model. Raises a `ProviderError`."""
        ...


class Caller(msgspec.Struct, frozen=True, eq=False):
    """The session behind some tools."""

    clarifier: Clarifier | None = None
    """None: nobody is there, and what servers want to know is declined."""
    sampler: Sampler | None = None
    asking: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """A person answers one question at a time."""


NO_CALLER = Caller()


MAX_PAUSE_SECONDS = 900.0
"""Seconds a call may stand still in all, so that a server cannot ask without an end."""


class CallTicket:
    """One call under way. `deadline` stands still while somebody thinks about a question."""

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
