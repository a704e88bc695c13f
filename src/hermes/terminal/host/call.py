"""One small POSIX script on a host: arguments and data go in, bytes and an exit code come out.

The output stands between two marks nobody else knows. What a login file prints before the first is
dropped, and an answer without the second was cut off.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any

import msgspec

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal.base import Host, Running

CHUNK = 262_144
"""Bytes written at once."""
ERRORS_KEPT = 10_000
"""Bytes of standard error that are kept."""
LAST_WAIT = 0.5
"""Seconds a program that has said its last word gets to end."""

# While it works, its standard input is its leash: when our side goes away, all of it is ended. It
# must lead its process group for that, or the signal would hit others.
LEASHED = r"""
exec 3<&0 </dev/null
watcher=
if kill -0 "-$$" 2>/dev/null; then
  { while read -r _; do :; done; kill -TERM 0; } <&3 3<&- >/dev/null 2>&1 &
  watcher=$!
fi
exec 3<&-
"""

FRAME = r"""
mark=$1
shift
export LC_ALL=C
unset CDPATH
printf %s "$mark"
printf %s "$mark" >&2
watcher=
{leash}
(
{script}
)
code=$?
[ -z "$watcher" ] || kill "$watcher" 2>/dev/null
printf '%s%s\0' "$mark" "$code"
"""


class Answer(msgspec.Struct, frozen=True):
    code: int
    output: bytes
    errors: bytes


class Excess(Exception):
    """More came than was asked for."""


def new_mark() -> bytes:
    """Begins with a byte that text does not hold, so that searching for it is cheap."""
    return b"\x01hermes-%s\x01" % secrets.token_hex(12).encode()


class Marked:
    """Hands on what stands between the first and the second mark of a stream."""

    def __init__(self, mark: bytes, on_data: Callable[[bytes], None]) -> None:
        self._mark, self._on_data = mark, on_data
        self._held = b""
        self.begun = self.ended = False
        self.after = bytearray()
        """What follows the second mark."""

    def feed(self, data: bytes) -> None:
        if self.ended:
            self.after += data[: ERRORS_KEPT - len(self.after)]
            return
        data = self._held + data
        before, found, rest = data.partition(self._mark)
        if found:
            self._held = b""
            if self.begun:
                self._hand(before)
                self.ended = True
            self.begun = True
            if rest:
                self.feed(rest)
            return
        keep = self._possible_start(data)
        self._held = data[keep:]
        if self.begun:
            self._hand(data[:keep])

    def _possible_start(self, data: bytes) -> int:
        """Where a mark may begin whose rest has not come yet."""
        last = data.rfind(self._mark[:1], max(0, len(data) - len(self._mark) + 1))
        return last if last >= 0 and self._mark.startswith(data[last:]) else len(data)

    def _hand(self, data: bytes) -> None:
        if data:
            self._on_data(data)


class _Bounded:
    """Hands on at most `most` bytes."""

    def __init__(self, most: int | None, on_data: Callable[[bytes], None]) -> None:
        self._most, self._size, self._on_data = most, 0, on_data
        self.excess = asyncio.Event()

    def add(self, data: bytes) -> None:
        self._size += len(data)
        if self._most is not None and self._size > self._most:
            self.excess.set()
        else:
            self._on_data(data)


async def call(
    host: Host,
    script: str,
    *arguments: str,
    data: bytes | AsyncIterable[bytes] | None = None,
    most: int | None = None,
    on_output: Callable[[bytes], None] | None = None,
) -> Answer:
    """Run `script` with `arguments`, and with `data` as its standard input, if any.

    More than `most` bytes of output raise `Excess`; with `on_output` it is handed over as it comes.
    An answer that was cut off raises `BackendUnavailable`.
    """
    mark = new_mark()
    chunks: list[bytes] = []
    bounded = _Bounded(most, on_output or chunks.append)
    ended = asyncio.Event()
    marked = Marked(mark, bounded.add)

    def on_data(piece: bytes) -> None:
        marked.feed(piece)
        if marked.after.endswith(b"\0"):
            ended.set()

    errors, said = bytearray(), bytearray()
    complaints = Marked(mark, lambda piece: errors.extend(piece[: ERRORS_KEPT - len(errors)]))

    def on_error(piece: bytes) -> None:
        complaints.feed(piece)
        said[:] = (said + piece)[-ERRORS_KEPT:]

    text = FRAME.format(leash=LEASHED if data is None else "", script=script)
    await host.open()
    running = await host.start(
        ["sh", "-c", text, "hermes", mark.decode(), *arguments],
        on_output=on_data,
        on_error=on_error,
    )
    try:
        await _converse(running, data, ended, bounded.excess)
        if bounded.excess.is_set():
            raise Excess
        if ended.is_set():
            await finish(running)
    finally:
        await running.stop()
    if not ended.is_set():
        raise cut_off(host, said.replace(mark, b""))
    return Answer(int(marked.after[:-1]), b"".join(chunks), bytes(errors))


async def _converse(
    running: Running,
    data: bytes | AsyncIterable[bytes] | None,
    ended: asyncio.Event,
    excess: asyncio.Event,
) -> None:
    """Until the answer is complete, too long, or the program is gone."""
    sending = asyncio.ensure_future(send(running, data)) if data is not None else None
    waiting = {
        asyncio.ensure_future(work) for work in (running.wait(), ended.wait(), excess.wait())
    }
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if sending is not None and sending.done():
            await sending  # what failed while the data was made is told here
    finally:
        tasks: list[asyncio.Future[Any]] = [*waiting, *([sending] if sending else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def send(running: Running, data: bytes | AsyncIterable[bytes]) -> None:
    """All of `data`, then the end. A program that reads no more says why by other means."""
    with contextlib.suppress(ToolError):
        try:
            async for chunk in _chunks(data) if isinstance(data, bytes) else data:
                await running.write(chunk)
        finally:
            await running.close_input()


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    view = memoryview(data)
    for start in range(0, len(data), CHUNK):
        yield bytes(view[start : start + CHUNK])


async def finish(running: Running) -> None:
    """Let a program end by itself that has nothing left to do."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_WAIT):
            await running.wait()


def cut_off(host: Host, errors: bytes | bytearray) -> BackendUnavailable:
    said = errors.decode("utf-8", "replace").strip().splitlines()
    reason = f": {said[-1]}" if said else ""
    return BackendUnavailable(
        f"the connection to the {host.name} backend was lost{reason}",
        hint="try again; the connection is made anew",
    )
