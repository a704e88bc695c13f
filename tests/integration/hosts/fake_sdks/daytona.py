"""A fake of the Daytona SDK, with the part of its surface that is used (checked with 0.226).

Sandboxes are objects, programs run on this machine: a session command as text with an input that
cannot be closed, a terminal as a login shell in a pseudo-terminal, as in the real service.
"""

import asyncio
import codecs
import contextlib
import enum
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class DaytonaError(Exception):
    pass


DaytonaAuthenticationError = type("DaytonaAuthenticationError", (DaytonaError,), {})
DaytonaNotFoundError = type("DaytonaNotFoundError", (DaytonaError,), {})


class SandboxState(enum.StrEnum):
    STARTED = "started"
    STOPPED = "stopped"


@dataclass
class DaytonaConfig:
    api_key: str | None = None
    api_url: str | None = None
    target: str | None = None


Resources = make_dataclass("Resources", ["cpu", "memory", "disk"])
CreateSandboxFromImageParams = make_dataclass(
    "CreateSandboxFromImageParams",
    ["image", "resources", "env_vars", "labels", "auto_stop_interval", "auto_delete_interval"],
)
ListSandboxesQuery = make_dataclass("ListSandboxesQuery", ["labels"])
SessionExecuteRequest = make_dataclass(
    "SessionExecuteRequest", ["command", "run_async", "suppress_input_echo"]
)
PtySize = make_dataclass("PtySize", ["rows", "cols"])


@dataclass
class State:
    sandboxes: list["Sandbox"] = field(default_factory=list)
    configs: list[DaytonaConfig | None] = field(default_factory=list)
    refuse: Exception | None = None
    closed: int = 0


STATE = State()


class AsyncDaytona:
    def __init__(self, config: DaytonaConfig | None = None) -> None:
        STATE.configs.append(config)

    async def create(self, params, *, timeout, on_snapshot_create_logs) -> "Sandbox":
        if STATE.refuse:
            raise STATE.refuse
        on_snapshot_create_logs("building\nbuilt\n")
        STATE.sandboxes.append(Sandbox(params.labels, params))
        return STATE.sandboxes[-1]

    async def list(self, query) -> AsyncIterator["Sandbox"]:
        for sandbox in [*STATE.sandboxes]:
            if query.labels.items() <= sandbox.labels.items():
                yield sandbox

    async def close(self) -> None:
        STATE.closed += 1


class Sandbox:
    def __init__(self, labels: dict[str, str], params: Any = None) -> None:
        self.id, self.labels, self.params = f"sandbox-{id(self)}", labels, params
        self.state = SandboxState.STARTED
        self.process, self.fs = Process(self), FileSystem()
        self.done: list[str] = []

    async def start(self, timeout: float) -> None:
        self.state = SandboxState.STARTED
        self.done.append("start")

    async def stop(self) -> None:
        self.state = SandboxState.STOPPED
        self.done.append("stop")

    async def delete(self) -> None:
        STATE.sandboxes.remove(self)
        self.done.append("delete")

    async def refresh_data(self) -> None:
        if self not in STATE.sandboxes:
            raise DaytonaNotFoundError(self.id)

    async def set_labels(self, labels: dict[str, str]) -> dict[str, str]:
        self.labels = labels
        return labels


class FileSystem:
    async def upload_file(self, src: bytes, dst: str) -> None:
        await asyncio.to_thread(Path(dst).write_bytes, src)


class Process:
    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.sessions: dict[str, subprocess.Popen[bytes] | None] = {}
        self.requests: list[Any] = []

    async def create_session(self, session_id: str) -> None:
        if self._sandbox.state is not SandboxState.STARTED:
            raise DaytonaError("the sandbox is not running")
        self.sessions[session_id] = None

    async def execute_session_command(self, session_id: str, req: Any) -> SimpleNamespace:
        self.requests.append(req)
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.sessions[session_id] = await asyncio.to_thread(
            subprocess.Popen, ["sh", "-c", req.command], start_new_session=True, **pipes
        )
        return SimpleNamespace(cmd_id="cmd-1")

    async def send_session_command_input(self, session_id: str, command_id: str, data: str) -> None:
        process = self._session(session_id)
        if process.poll() is not None:
            raise DaytonaError("command already completed")
        await asyncio.to_thread(process.stdin.write, data.encode())
        await asyncio.to_thread(process.stdin.flush)

    async def get_session_command_logs_async(self, session_id, command_id, on_stdout, on_stderr):
        process = self._session(session_id)
        await asyncio.gather(_read(process.stdout, on_stdout), _read(process.stderr, on_stderr))

    async def get_session_command(self, session_id: str, command_id: str) -> SimpleNamespace:
        return SimpleNamespace(exit_code=self._session(session_id).poll())

    async def delete_session(self, session_id: str) -> None:
        process = self.sessions.pop(session_id)
        assert process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.wait)
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError, ValueError):
                pipe.close()

    async def create_pty_session(self, id, on_data, pty_size):  # noqa: A002 - its real name
        assert (pty_size.rows, pty_size.cols) == (40, 120)
        return PtyHandle(on_data)

    def _session(self, session_id: str) -> subprocess.Popen[bytes]:
        process = self.sessions.get(session_id)
        if process is None:
            raise DaytonaNotFoundError(session_id)
        return process


class PtyHandle:
    """A login shell with a prompt, in a terminal."""

    def __init__(self, on_data: Callable[[bytes], None]) -> None:
        self._terminal, theirs = os.openpty()
        self._process = subprocess.Popen(
            ["setsid", "--ctty", "sh", "-i"],
            **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
            env={**os.environ, "PS1": "prompt> ", "ENV": ""},
        )
        os.close(theirs)
        self._over = asyncio.ensure_future(self._follow(on_data))

    async def _follow(self, on_data: Callable[[bytes], None]) -> int:
        with contextlib.suppress(OSError):
            while data := await asyncio.to_thread(os.read, self._terminal, 4096):
                on_data(data)
        return await asyncio.to_thread(self._process.wait)

    async def send_input(self, data: str | bytes) -> None:
        os.write(self._terminal, data.encode() if isinstance(data, str) else data)

    async def wait(self) -> SimpleNamespace:
        code = await asyncio.shield(self._over)
        return SimpleNamespace(exit_code=code if code >= 0 else 128 - code)

    async def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)

    async def disconnect(self) -> None:
        await asyncio.wait((self._over,))
        with contextlib.suppress(OSError):
            os.close(self._terminal)


async def _read(pipe: Any, show: Callable[[str], None]) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while data := await asyncio.to_thread(os.read, pipe.fileno(), 4096):
        show(decoder.decode(data))
