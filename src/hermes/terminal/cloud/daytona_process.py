"""Programs in a Daytona sandbox.

A session command takes and gives text only and its input cannot be closed. So a small script runs
the program there, and what goes in and out are lines of base64: exact bytes, and a line `.` for the
end of the input. A terminal is a session of its own kind, which takes bytes.
"""

import asyncio
import base64
import binascii
import codecs
import contextlib
import secrets
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from hermes.core.errors import ToolError
from hermes.terminal.cloud.process import ABANDONED, LEADING, RemoteProcess
from hermes.terminal.here.spawn import COLUMNS, LINES

PIECE = 24_576
"""Bytes of input sent at once."""
BEGIN = b"\x1e"
"""Printed when the program takes over the terminal: what the login shell showed ends there."""
END_OF_INPUT = b"\x04"
MARK = ">"

# Each piece of output becomes a line as soon as it is there. When the program has ended but
# another still holds its output, we do not wait for that one for long.
RELAY = r"""
d=$(mktemp -d) || exit 125
trap 'rm -rf "$d"' EXIT
mkfifo "$d/in" "$d/out" "$d/err" || exit 125
encode() {
  while dd bs=32768 count=1 of="$1" 2>/dev/null && [ -s "$1" ]; do
    printf '>%s\n' "$(base64 <"$1" | tr -d '\n')"
  done
}
decode() {
  while IFS= read -r line && [ "$line" != . ]; do printf %s "$line" | base64 -d; done
}
exec 3<&0
decode <&3 >"$d/in" & feeder=$!
encode "$d/o" <"$d/out" & first=$!
encode "$d/e" <"$d/err" >&2 & second=$!
"$@" <"$d/in" >"$d/out" 2>"$d/err" 3<&-
code=$?
kill "$feeder" 2>/dev/null
for _ in 1 2 3 4 5; do
  kill -0 "$first" 2>/dev/null || kill -0 "$second" 2>/dev/null || break
  sleep 0.1
done
kill "$first" "$second" 2>/dev/null
exit "$code"
"""

PTY_SCRIPT = r"""rm -f "$0"
stty rows {lines} cols {columns} 2>/dev/null
printf '\036'
exec {program}
"""


class SessionProcess(RemoteProcess):
    """A program without a terminal, in a session of its own."""

    def __init__(self, sdk: Any, process: Any, session: str, command: str) -> None:
        super().__init__()
        self._sdk, self._process = sdk, process
        self._session, self._command = session, command

    @classmethod
    async def start(
        cls,
        sdk: Any,
        sandbox: Any,
        argv: Sequence[str],
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None],
    ) -> "SessionProcess":
        session = f"hermes-{secrets.token_hex(6)}"
        await sandbox.process.create_session(session)
        request = sdk.SessionExecuteRequest(
            command=shlex.join(["sh", "-c", RELAY, "hermes", "sh", "-c", LEADING, "hermes", *argv]),
            run_async=True,
            suppress_input_echo=True,
        )
        answer = await sandbox.process.execute_session_command(session, request)
        started = cls(sdk, sandbox.process, session, answer.cmd_id)
        started.follow(started._until_end(on_output, on_error))
        return started

    async def _send(self, data: bytes) -> None:
        for begin in range(0, len(data), PIECE):
            piece = base64.b64encode(data[begin : begin + PIECE]).decode()
            await self._line(piece)

    async def _send_end(self) -> None:
        with contextlib.suppress(ToolError):  # it has ended by itself
            await self._line(".")

    async def _line(self, line: str) -> None:
        try:
            await self._process.send_session_command_input(
                self._session, self._command, line + "\n"
            )
        except self._sdk.DaytonaError as error:
            raise ToolError(f"the program takes no input: {error}") from error

    async def _abandon(self) -> None:
        await self._delete()

    async def _delete(self) -> None:
        with contextlib.suppress(self._sdk.DaytonaError):  # gone with the sandbox
            await self._process.delete_session(self._session)

    async def _until_end(
        self, on_output: Callable[[bytes], None], on_error: Callable[[bytes], None]
    ) -> int:
        output, errors = _Decoder(on_output), _Decoder(on_error)
        try:
            await self._process.get_session_command_logs_async(
                self._session, self._command, output.feed, errors.feed
            )
            code = await self._exit_code()
        except self._sdk.DaytonaError as error:
            on_error(f"\nDaytona: {error}\n".encode())
            return ABANDONED
        await self._delete()
        return code

    async def _exit_code(self) -> int:
        """The logs end a moment before the code is known."""
        for pause in (0, 0.05, 0.1, 0.2, 0.5, 1.0):
            await asyncio.sleep(pause)
            command = await self._process.get_session_command(self._session, self._command)
            if command.exit_code is not None:
                return int(command.exit_code)
        return ABANDONED


class _Decoder:
    """Takes text in pieces and hands on the bytes of its marked lines; others as they are."""

    def __init__(self, show: Callable[[bytes], None]) -> None:
        self._show, self._rest = show, ""

    def feed(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            with contextlib.suppress(binascii.Error):
                if line.startswith(MARK):
                    self._show(base64.b64decode(line[1:], validate=True))
                    continue
            self._show(codecs.encode(line + "\n", "utf-8", "replace"))


class PtyProcess(RemoteProcess):
    """A program in a terminal."""

    def __init__(self, sdk: Any, show: Callable[[bytes], None]) -> None:
        super().__init__()
        self._sdk, self._show = sdk, show
        self._handle: Any = None
        self._begun = False

    @classmethod
    async def start(
        cls, sdk: Any, sandbox: Any, argv: Sequence[str], on_output: Callable[[bytes], None]
    ) -> "PtyProcess":
        """The terminal begins with a login shell; we have it run a file, whatever it is."""
        name = f"hermes-{secrets.token_hex(6)}"
        path = f"/tmp/{name}"
        script = PTY_SCRIPT.format(lines=LINES, columns=COLUMNS, program=shlex.join(argv))
        await sandbox.fs.upload_file(script.encode("utf-8", "surrogateescape"), path)
        started = cls(sdk, on_output)
        started._handle = await sandbox.process.create_pty_session(
            id=name,
            on_data=started._heard,
            pty_size=sdk.PtySize(rows=LINES, cols=COLUMNS),
        )
        await started._handle.send_input(f" exec sh {path}\n")
        started.follow(started._until_end())
        return started

    def _heard(self, data: bytes) -> None:
        if not self._begun:
            _, begin, data = data.partition(BEGIN)
            self._begun = bool(begin)
        if self._begun and data:
            self._show(data)

    async def _until_end(self) -> int:
        result = await self._handle.wait()
        await self._handle.disconnect()
        return ABANDONED if result.exit_code is None else int(result.exit_code)

    async def _send(self, data: bytes) -> None:
        try:
            await self._handle.send_input(data)
        except self._sdk.DaytonaError as error:
            raise ToolError(f"the program takes no input: {error}") from error

    async def _send_end(self) -> None:
        with contextlib.suppress(ToolError):  # it has ended by itself
            await self._send(END_OF_INPUT)

    async def _abandon(self) -> None:
        with contextlib.suppress(self._sdk.DaytonaError):
            await self._handle.kill()
            await self._handle.disconnect()
