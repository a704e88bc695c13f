"""Runs one small POSIX script on a host: arguments and data in, bytes and an exit code out.

The output is enclosed by two random marks. What a login file prints before the first mark is
dropped, and output without the second was cut off.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Coroutine
from typing import Any

import msgspec

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal.base import Host, Running, Sink

CHUNK_BYTES = 262_144  #: Bytes per write.
MAX_ERROR_BYTES = 10_000  #: Bytes of standard error that are kept.
EXIT_TIMEOUT = 0.5  #: Seconds a program may take to exit after its result is complete.

# While the script works, its standard input is watched: when this side goes away, the whole process
# group is stopped. The script must lead that group, or the signal would hit others.
WATCH_INPUT = r"""
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


class HostScriptResult(msgspec.Struct, frozen=True):
    code: int
    output: bytes
    errors: bytes


class OutputTooLong(Exception):
    """The output exceeds the requested limit."""


def new_mark() -> bytes:
    """Return a mark that starts with a byte which text does not contain, so searching is cheap."""
    return b"\x01hermes-%s\x01" % secrets.token_hex(12).encode()


class MarkedStream:
    """Passes on what is between the first and the second mark of a stream."""

    def __init__(self, mark: bytes, on_data: Sink) -> None:
        self._mark, self._on_data = mark, on_data
        self._held = b""
        self.begun = self.ended = False
        self.after = bytearray()  #: What follows the second mark.

    def feed(self, data: bytes) -> None:
        if self.ended:
            self.after += data[: MAX_ERROR_BYTES - len(self.after)]
            return
        data = self._held + data
        before, found, rest = data.partition(self._mark)
        if found:
            self._held = b""
            if self.begun:
                self._emit(before)
                self.ended = True
            self.begun = True
            if rest:
                self.feed(rest)
            return
        # An incomplete mark may begin near the end.
        last = data.rfind(self._mark[:1], max(0, len(data) - len(self._mark) + 1))
        keep = last if last >= 0 and self._mark.startswith(data[last:]) else len(data)
        self._held = data[keep:]
        if self.begun:
            self._emit(data[:keep])

    def _emit(self, data: bytes) -> None:
        if data:
            self._on_data(data)


class _BoundedOutput:
    """Passes on at most `most` bytes."""

    def __init__(self, most: int | None, on_data: Sink) -> None:
        self._most, self._size, self._on_data = most, 0, on_data
        self.excess = asyncio.Event()

    def add(self, data: bytes) -> None:
        self._size += len(data)
        if self._most is not None and self._size > self._most:
            self.excess.set()
        else:
            self._on_data(data)


async def call_script(
    host: Host,
    script: str,
    *arguments: str,
    data: bytes | AsyncIterable[bytes] | None = None,
    most: int | None = None,
    on_output: Sink | None = None,
) -> HostScriptResult:
    """Run `script` with `arguments`, and with `data` as its standard input, if any.

    With `on_output` the output is delivered as it arrives. Raises `OutputTooLong` for more than
    `most` bytes of output and `BackendUnavailable` if the connection was lost.
    """
    mark = new_mark()
    chunks: list[bytes] = []
    bounded = _BoundedOutput(most, on_output or chunks.append)
    ended = asyncio.Event()
    marked = MarkedStream(mark, bounded.add)

    def on_data(piece: bytes) -> None:
        marked.feed(piece)
        if marked.after.endswith(b"\0"):
            ended.set()

    errors, all_errors = bytearray(), bytearray()
    error_stream = MarkedStream(
        mark, lambda piece: errors.extend(piece[: MAX_ERROR_BYTES - len(errors)])
    )

    def on_error(piece: bytes) -> None:
        error_stream.feed(piece)
        all_errors[:] = (all_errors + piece)[-MAX_ERROR_BYTES:]

    text = FRAME.format(leash=WATCH_INPUT if data is None else "", script=script)
    await host.open()
    running = await host.start(
        ["sh", "-c", text, "hermes", mark.decode(), *arguments],
        on_output=on_data,
        on_error=on_error,
    )
    try:
        await _exchange(running, data, ended, bounded.excess)
        if bounded.excess.is_set():
            raise OutputTooLong
        if ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EXIT_TIMEOUT):
                    await running.wait()
    finally:
        await running.stop()
    if not ended.is_set():
        raise connection_lost(host, all_errors.replace(mark, b""))
    return HostScriptResult(int(marked.after[:-1]), b"".join(chunks), bytes(errors))


async def _exchange(
    running: Running,
    data: bytes | AsyncIterable[bytes] | None,
    ended: asyncio.Event,
    excess: asyncio.Event,
) -> None:
    """Send `data` and wait until the result is complete or too long, or the program has ended."""
    sending = asyncio.ensure_future(send_input(running, data)) if data is not None else None
    try:
        await wait_first(running.wait(), ended.wait(), excess.wait())
        if sending is not None and sending.done():
            await sending  # raises what failed while the data was produced
    finally:
        if sending is not None:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def wait_first(*work: Coroutine[Any, Any, Any], timeout: float | None = None) -> None:
    """Wait until one of them is done, at most `timeout` seconds, and cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def send_input(running: Running, data: bytes | AsyncIterable[bytes]) -> None:
    """Send all of `data` and close the input. A program that stops reading reports why itself."""
    with contextlib.suppress(ToolError):
        try:
            async for chunk in _chunks(data) if isinstance(data, bytes) else data:
                await running.write(chunk)
        finally:
            await running.close_input()


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    view = memoryview(data)
    for start in range(0, len(data), CHUNK_BYTES):
        yield bytes(view[start : start + CHUNK_BYTES])


def connection_lost(host: Host, errors: bytes | bytearray) -> BackendUnavailable:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    reason = f": {lines[-1]}" if lines else ""
    return BackendUnavailable(
        f"the connection to the {host.name} backend was lost{reason}",
        hint="try again; the connection is made anew",
    )
