"""The log of conversations in one SQLite file."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from hermes.core.errors import StoreError
from hermes.core.messages import Assistant, Message
from hermes.core.ports import SessionInfo
from hermes.core.usage import Usage
from hermes.store import queries
from hermes.store.database import connect
from hermes.store.faults import as_store_error, patiently
from hermes.store.rows import to_row
from hermes.store.writer import Writer

T = TypeVar("T")


class SqliteLog:
    """`core.ports.SessionLog` over `state.db`. Opened by the first call; several processes may
    share the file.

    Writes go through one thread (see `store.writer`), reads through another with a connection of
    its own, so neither blocks the event loop and a long read does not hold up a write.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._writer = Writer(path)
        self._reads = ThreadPoolExecutor(1, thread_name_prefix="store-read")
        self._reading: apsw.Connection | None = None
        self._closed = False

    async def create(self, session_id: str, *, source: str, model: str, system_prompt: str) -> None:
        """Raises `StoreError` when the session exists already."""
        await self._write(
            partial(
                queries.insert_session,
                session_id=session_id,
                source=source,
                model=model,
                system_prompt=system_prompt,
                now=self._now(),
            )
        )

    async def append(self, session_id: str, message: Message) -> int:
        """The row's id, once the message is on disk. A finished session is open again."""
        calls = len(message.calls) if isinstance(message, Assistant) else 0
        return await self._write(
            partial(
                queries.insert_message,
                session_id=session_id,
                row=to_row(message),
                calls=calls,
                now=self._now(),
            )
        )

    async def messages(self, session_id: str) -> tuple[Message, ...]:
        """Exactly what was logged, in order; `store.repair` makes it fit to send."""
        return await self._read(partial(queries.select_messages, session_id=session_id))

    async def info(self, session_id: str) -> SessionInfo:
        return await self._read(partial(queries.select_info, session_id=session_id))

    async def latest(self, source: str = "") -> SessionInfo | None:
        """The session somebody was active in last, of any source or of one."""
        return await self._read(partial(queries.select_latest, source=source))

    async def recent(self, source: str = "", limit: int = 20) -> tuple[SessionInfo, ...]:
        """The sessions started last, newest first."""
        return await self._read(partial(queries.select_recent, source=source, limit=limit))

    async def record_usage(self, session_id: str, usage: Usage, cost_usd: float | None) -> None:
        await self._write(
            partial(queries.add_usage, session_id=session_id, usage=usage, cost_usd=cost_usd)
        )

    async def finish(self, session_id: str, exit_reason: str) -> None:
        await self._write(
            partial(queries.end_session, session_id=session_id, reason=exit_reason, now=self._now())
        )

    def close(self) -> None:
        """Finish pending writes and end both threads. May be called again."""
        self._closed = True
        self._writer.close()
        self._reads.shutdown(wait=True)
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    async def _write(self, work: Callable[[apsw.Connection], T]) -> T:
        return await asyncio.wrap_future(self._writer.submit(work))

    async def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        if self._closed:
            raise StoreError("the session store is closed")
        return await asyncio.get_running_loop().run_in_executor(
            self._reads, self._reading_now, work
        )

    def _reading_now(self, work: Callable[[apsw.Connection], T]) -> T:
        if self._reading is None:
            self._reading = connect(self._path)
        connection = self._reading
        try:
            return patiently(lambda: work(connection))
        except apsw.Error as error:
            raise as_store_error(error, self._path) from error
