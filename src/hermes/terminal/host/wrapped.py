"""Hosts that add something to another host."""

from collections.abc import Callable, Sequence
from pathlib import Path

from hermes.terminal.base import Host, Running
from hermes.terminal.here.lifeline import Lifeline
from hermes.terminal.sync.sync import Sync


class LaterHost:
    """A host that is made when it is first used, so that a session that runs no command pays
    nothing; made anew after it was closed."""

    def __init__(self, name: str, make: Callable[[Lifeline], Host]) -> None:
        self.name, self._make = name, make
        self._made: tuple[Host, Lifeline] | None = None

    def _host(self) -> Host:
        if self._made is None:
            lifeline = Lifeline()
            self._made = (self._make(lifeline), lifeline)
        return self._made[0]

    async def open(self) -> None:
        await self._host().open()

    async def start(
        self,
        argv: Sequence[str],
        *,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        pty: bool = False,
    ) -> Running:
        return await self._host().start(argv, on_output=on_output, on_error=on_error, pty=pty)

    async def close(self) -> None:
        made, self._made = self._made, None
        if made is not None:
            host, lifeline = made
            try:
                await host.close()
            finally:
                await lifeline.close()


class StockedHost:
    """A host that is brought files of this machine: whenever it was opened anew, and again before
    a program starts when they have changed."""

    def __init__(self, host: Host) -> None:
        self.name, self._host = host.name, host
        self._stock = {private: (Sync(host), dict[str, Path]()) for private in (False, True)}

    def bring(self, path: Path, target: str, *, private: bool = False) -> None:
        """From now on the file or folder `path` is at `target` there."""
        self._stock[private][1][target] = path

    async def open(self) -> None:
        await self._host.open()
        for private, (sync, files) in self._stock.items():
            if files:
                await sync.push([(path, to) for to, path in files.items()], private=private)

    async def start(
        self,
        argv: Sequence[str],
        *,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        pty: bool = False,
    ) -> Running:
        await self.open()
        return await self._host.start(argv, on_output=on_output, on_error=on_error, pty=pty)

    async def close(self) -> None:
        for sync, _files in self._stock.values():
            sync.forget()
        await self._host.close()
