"""The Daytona backend: commands run in a Daytona sandbox.

Daytona stops a sandbox after `AUTO_STOP` minutes without activity. The next start stops (or
deletes) sandboxes whose owner process was killed. With `terminal.container_persistent`, the sandbox
is stopped at the end and found again by its labels.
"""

import asyncio
import base64
import binascii
import codecs
import contextlib
import logging
import math
import secrets
import shlex
from typing import Any

from hermes.sdk import ToolError
from hermes.sdk.terminal import (
    ABANDONED,
    COLUMNS,
    LEAD_GROUP,
    LINES,
    Argv,
    CloudHost,
    RemoteProcess,
    Running,
    Sink,
    is_owner_gone,
    owner_mark,
)

# Programs in a Daytona sandbox.
#
# A session command exchanges text only, and its input cannot be closed. Therefore a relay script
# runs the program there and both directions carry lines of base64, with a line `.` for the end of
# input. A terminal is another kind of session, which carries bytes.

INPUT_CHUNK = 24_576  #: Bytes of input per request.
BEGIN_MARK = b"\x1e"
"""Printed when the program takes over the terminal; output of the login shell ends there."""
END_OF_INPUT = b"\x04"
LINE_MARK = ">"

# Each piece of output becomes a line at once. After the program has ended, other processes that
# still hold its output are waited for only briefly.
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


class DaytonaProcess(RemoteProcess):
    """A program without a terminal, in its own session."""

    def __init__(self, sdk: Any, process: Any, session: str, command: str) -> None:
        super().__init__()
        self._sdk, self._process = sdk, process
        self._session, self._command = session, command

    @classmethod
    async def start(
        cls, sdk: Any, sandbox: Any, argv: Argv, on_output: Sink, on_error: Sink
    ) -> "DaytonaProcess":
        session = f"hermes-{secrets.token_hex(6)}"
        await sandbox.process.create_session(session)
        request = sdk.SessionExecuteRequest(
            command=shlex.join(
                ["sh", "-c", RELAY, "hermes", "sh", "-c", LEAD_GROUP, "hermes", *argv]
            ),
            run_async=True,
            suppress_input_echo=True,
        )
        answer = await sandbox.process.execute_session_command(session, request)
        started = cls(sdk, sandbox.process, session, answer.cmd_id)
        started.follow(started._until_end(on_output, on_error))
        return started

    async def _send(self, data: bytes) -> None:
        for begin in range(0, len(data), INPUT_CHUNK):
            piece = base64.b64encode(data[begin : begin + INPUT_CHUNK]).decode()
            await self._send_line(piece)

    async def _send_end(self) -> None:
        with contextlib.suppress(ToolError):  # the program has already ended
            await self._send_line(".")

    async def _send_line(self, line: str) -> None:
        try:
            await self._process.send_session_command_input(
                self._session, self._command, line + "\n"
            )
        except self._sdk.DaytonaError as error:
            raise ToolError(f"the program takes no input: {error}") from error

    async def _abandon(self) -> None:
        await self._delete()

    async def _delete(self) -> None:
        with contextlib.suppress(self._sdk.DaytonaError):  # deleted together with the sandbox
            await self._process.delete_session(self._session)

    async def _until_end(self, on_output: Sink, on_error: Sink) -> int:
        output, errors = _LineDecoder(on_output), _LineDecoder(on_error)
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
        """Poll for the exit code, which becomes known shortly after the logs end."""
        for pause in (0, 0.05, 0.1, 0.2, 0.5, 1.0):
            await asyncio.sleep(pause)
            command = await self._process.get_session_command(self._session, self._command)
            if command.exit_code is not None:
                return int(command.exit_code)
        return ABANDONED


class _LineDecoder:
    """Decodes the marked lines of a text stream; passes other lines through."""

    def __init__(self, show: Sink) -> None:
        self._show, self._rest = show, ""

    def feed(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            with contextlib.suppress(binascii.Error):
                if line.startswith(LINE_MARK):
                    self._show(base64.b64decode(line[1:], validate=True))
                    continue
            self._show(codecs.encode(line + "\n", "utf-8", "replace"))


class DaytonaPtyProcess(RemoteProcess):
    """A program in a terminal."""

    def __init__(self, sdk: Any, show: Sink) -> None:
        super().__init__()
        self._sdk, self._show = sdk, show
        self._handle: Any = None
        self._begun = False

    @classmethod
    async def start(
        cls, sdk: Any, sandbox: Any, argv: Argv, on_output: Sink
    ) -> "DaytonaPtyProcess":
        """Start the terminal's login shell, whichever it is, and make it execute an uploaded
        script."""
        name = f"hermes-{secrets.token_hex(6)}"
        path = f"/tmp/{name}"
        script = PTY_SCRIPT.format(lines=LINES, columns=COLUMNS, program=shlex.join(argv))
        await sandbox.fs.upload_file(script.encode("utf-8", "surrogateescape"), path)
        started = cls(sdk, on_output)
        started._handle = await sandbox.process.create_pty_session(
            id=name, on_data=started._on_data, pty_size=sdk.PtySize(rows=LINES, cols=COLUMNS)
        )
        await started._handle.send_input(f" exec sh {path}\n")
        started.follow(started._until_end())
        return started

    def _on_data(self, data: bytes) -> None:
        if not self._begun:
            _, begin, data = data.partition(BEGIN_MARK)
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
        with contextlib.suppress(ToolError):  # the program has already ended
            await self._send(END_OF_INPUT)

    async def _abandon(self) -> None:
        with contextlib.suppress(self._sdk.DaytonaError):
            await self._handle.kill()
            await self._handle.disconnect()


AUTO_STOP = 60  #: Minutes. A long command counts as inactivity, so this must not be short.
MAX_DISK = 10  #: The most disk space in GiB that Daytona allows.
START_TIMEOUT = 300.0
MANAGED_LABEL, OWNER_LABEL, TASK_LABEL, KEEP_LABEL = (
    "hermes",
    "hermes.owner",
    "hermes.task",
    "hermes.keep",
)

log = logging.getLogger(__name__)


class DaytonaHost(CloudHost):
    name, service = "daytona", "Daytona"
    auth_hint = "set DAYTONA_API_KEY"
    create_hint = "check DAYTONA_API_KEY, terminal.daytona_image and the network"
    recreated = "it was started again"

    @property
    def _persistent(self) -> bool:
        return bool(self._settings["container_persistent"])

    def _errors(self) -> tuple[type[Exception], type[Exception]]:
        return self._sdk.DaytonaError, self._sdk.DaytonaAuthenticationError

    async def close(self) -> None:
        async with self._lock:
            sandbox, self._sandbox = self._sandbox, None
            client, self._client = self._client, None
            if client is None:
                return
            try:
                if sandbox is not None and self._persistent:
                    await sandbox.stop()
                elif sandbox is not None:
                    await sandbox.delete()
            except self._sdk.DaytonaError as error:
                self._notify(f"Daytona could not put the sandbox away: {error}")
            finally:
                await client.close()

    async def _start(self, argv: Argv, on_output: Sink, on_error: Sink, *, pty: bool) -> Running:
        if pty:
            return await DaytonaPtyProcess.start(self._sdk, self._sandbox, argv, on_output)
        return await DaytonaProcess.start(self._sdk, self._sandbox, argv, on_output, on_error)

    async def _is_running(self) -> bool:
        try:
            await self._sandbox.refresh_data()
        except self._sdk.DaytonaNotFoundError:
            return False
        return bool(self._sandbox.state == self._sdk.SandboxState.STARTED)

    async def _create(self) -> None:
        if self._client is None:
            self._client = self._sdk.AsyncDaytona(self._config())
        await self._reap_orphans()
        self._sandbox = await self._resume() or await self._create_sandbox()

    def _config(self) -> Any:
        """Return the client configuration; None lets the SDK read its own variables."""
        names = ("api_key", "api_url", "target")
        given = {name: self._context.secret(f"DAYTONA_{name.upper()}") or None for name in names}
        return self._sdk.DaytonaConfig(**given) if any(given.values()) else None

    def _labels(self) -> dict[str, str]:
        return {
            MANAGED_LABEL: "1",
            OWNER_LABEL: owner_mark(),
            TASK_LABEL: self._context.task,
            KEEP_LABEL: "yes" if self._persistent else "no",
        }

    async def _create_sandbox(self) -> Any:
        settings = self._settings
        params = self._sdk.CreateSandboxFromImageParams(
            image=settings["daytona_image"],
            resources=self._sdk.Resources(  # whole processors and GiB
                cpu=max(1, math.ceil(settings["container_cpu"])),
                memory=max(1, math.ceil(settings["container_memory"] / 1024)),
                disk=min(MAX_DISK, max(1, math.ceil(settings["container_disk"] / 1024))),
            ),
            env_vars=self._context.forward_env or None,
            labels=self._labels(),
            auto_stop_interval=AUTO_STOP,
            auto_delete_interval=-1 if self._persistent else 0,
        )
        return await self._client.create(
            params, timeout=START_TIMEOUT, on_snapshot_create_logs=self._notify_lines
        )

    async def _resume(self) -> Any:
        """Return the persistent sandbox of this task, running; None if there is no free one."""
        if not self._persistent:
            return None
        query = self._sdk.ListSandboxesQuery(
            labels={MANAGED_LABEL: "1", TASK_LABEL: self._context.task, KEEP_LABEL: "yes"}
        )
        async for sandbox in self._client.list(query):
            owner = sandbox.labels.get(OWNER_LABEL, "")
            if owner not in ("", owner_mark()) and not is_owner_gone(owner):
                continue  # in use by another process
            if sandbox.state != self._sdk.SandboxState.STARTED:
                try:
                    await sandbox.start(timeout=START_TIMEOUT)
                except self._sdk.DaytonaError as error:
                    self._notify(f"Daytona could not start the kept sandbox {sandbox.id}: {error}")
                    continue
            await sandbox.set_labels({**sandbox.labels, **self._labels()})
            return sandbox
        return None

    async def _reap_orphans(self) -> None:
        """Stop or delete sandboxes left running by processes that have ended."""
        async for sandbox in self._client.list(
            self._sdk.ListSandboxesQuery(labels={MANAGED_LABEL: "1"})
        ):
            labels = sandbox.labels
            kept = labels.get(KEEP_LABEL) == "yes"
            wanted = kept and self._persistent and labels.get(TASK_LABEL) == self._context.task
            runs = sandbox.state == self._sdk.SandboxState.STARTED
            if wanted or not runs or not is_owner_gone(labels.get(OWNER_LABEL, "")):
                continue
            log.info("putting the Daytona sandbox %s away: its process is gone", sandbox.id)
            with contextlib.suppress(self._sdk.DaytonaNotFoundError):
                await (sandbox.stop() if kept else sandbox.delete())

    def _notify_lines(self, text: str) -> None:
        for line in text.splitlines():
            if line.strip():
                self._notify(line.strip())
