"""The connection that mail is read and kept with: opened when needed, used by one at a time."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from hermes.gateway.platforms.base import NotConnected
from hermes.gateway.platforms.email.mailbox import Mailbox
from hermes.gateway.platforms.email.options import Options
from hermes.util.threads import in_thread

T = TypeVar("T")


class Desk:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._turn = asyncio.Lock()
        self._box: Mailbox | None = None
        self._closed = False

    async def use(self, work: Callable[[Mailbox], T]) -> T:
        """`work` with an open mailbox, in a thread. A connection that broke while it lay idle is
        made anew, once. Raises `NotConnected`, `CredentialsRefused`."""
        async with self._turn:
            if self._box is not None:
                try:
                    return await self._with(self._box, work)
                except NotConnected:
                    self._box = None
            return await self._with(await in_thread(self._open), work)

    def close(self) -> None:
        self._closed = True
        if self._box is not None:
            self._box.hang_up()

    def _open(self) -> Mailbox:
        self._check()
        box = Mailbox(self._options)
        try:
            self._check()
        except NotConnected:  # nobody waits for it any more
            box.hang_up()
            raise
        return box

    def _check(self) -> None:
        if self._closed:
            raise NotConnected("Email is not connected")

    async def _with(self, box: Mailbox, work: Callable[[Mailbox], T]) -> T:
        self._box = box
        try:
            return await in_thread(box.run, work)
        except BaseException:  # also when nobody waits any more: the thread must not linger
            self._box = None
            box.hang_up()
            raise
