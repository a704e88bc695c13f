"""A program that runs behind a cloud service's API."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any

from hermes.core.errors import ToolError

GRACE = 0.7
"""Seconds a program gets to end after its input was closed; a cancelled call has one in all."""
ABANDONED = 137
"""The exit code of a program that was given up, as if it had been killed."""

LEADING = r"""
kill -0 "-$$" 2>/dev/null || ! command -v setsid >/dev/null || set -- setsid "$@"
exec "$@"
"""
"""Runs its arguments as leader of a process group, so that a program can end what it started."""


class RemoteProcess(ABC):
    """What such programs share. A subclass follows its program in `_follow` and feeds it."""

    pid = None

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self._closed = False
        self._over = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    def follow(self, until_end: Coroutine[Any, Any, int]) -> None:
        """Begin to hand over what it prints; `until_end` returns its exit code."""
        self._following = asyncio.create_task(self._follow(until_end))

    async def wait(self) -> int:
        await self._over.wait()
        return ABANDONED if self.exit_code is None else self.exit_code

    async def write(self, data: bytes) -> None:
        if self._closed or self.exit_code is not None:
            raise ToolError("the program takes no input any more")
        await self._send(data)

    async def close_input(self) -> None:
        if not self._closed:
            self._closed = True
            await self._send_end()

    async def stop(self) -> None:
        if self.exit_code is not None:
            return
        await self.close_input()
        try:
            async with asyncio.timeout(GRACE):
                await self.wait()
        except TimeoutError:
            await self._abandon()
            if self._following is not None:
                self._following.cancel()
            self._end(ABANDONED)

    def _end(self, code: int) -> None:
        if self.exit_code is None:
            self.exit_code = code
        self._over.set()

    async def _follow(self, until_end: Coroutine[Any, Any, int]) -> None:
        self._end(await until_end)

    @abstractmethod
    async def _send(self, data: bytes) -> None: ...

    @abstractmethod
    async def _send_end(self) -> None: ...

    async def _abandon(self) -> None:
        """It did not end when its input closed: do what the service can, which may be nothing."""
        return
