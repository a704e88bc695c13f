"""A sandbox on this machine with bubblewrap: the system read-only, the workspace writable.

One `bwrap` lives as long as the host is open. All programs are started inside it, so they share
processes, /tmp and, without network, a loopback of their own; none outlives it, nor it us.
"""

import asyncio
import itertools
import os
import shutil
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal.base import Running
from hermes.terminal.here.lifeline import Lifeline
from hermes.terminal.sandbox import init
from hermes.terminal.sandbox.mounts import SandboxOptions, mount_arguments
from hermes.terminal.sandbox.process import Inside, Streams
from hermes.util.programs import start_program

START_WAIT = 15.0
"""Seconds the sandbox gets to start."""
END_WAIT = 2.0
"""Seconds it gets to end."""
RETRY_EVERY = 0.005
MESSAGE_MOST = 200_000
"""Bytes of the arguments of a program."""
LOST = 137
"""The exit code of what ended with the sandbox."""
ELSEWHERE = "another place: terminal.backend, and gateway.terminal for chats"
REFUSED = ("namespace", "uid map", "Operation not permitted", "Permission denied")


class Told(msgspec.Struct):
    """A message of the first program inside."""

    ready: bool = False
    ended: int = 0
    code: int = 0


class SandboxHost:
    """`environment` is what programs inside see."""

    name = "sandbox"

    def __init__(self, options: SandboxOptions, environment: Mapping[str, str]) -> None:
        self._options = options
        self._environment = {**environment, "TMPDIR": "/tmp"}
        self._opening = asyncio.Lock()
        self._box: _Box | None = None

    async def open(self) -> None:
        async with self._opening:
            if self._box is not None and self._box.alive:
                return
            await self._close()
            program = shutil.which("bwrap", path=self._environment.get("PATH"))
            if program is None:
                raise BackendUnavailable(
                    "bubblewrap is not installed, so there is no sandbox to run commands in",
                    hint=f"apt install bubblewrap; or name {ELSEWHERE}",
                )
            box = _Box()
            try:
                await box.begin(program, self._options, self._environment)
            except BaseException:
                await box.close()
                raise
            self._box = box

    async def start(
        self,
        argv: Sequence[str],
        *,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        pty: bool = False,
    ) -> Running:
        await self.open()
        if self._box is None:
            raise ToolError("the sandbox was closed meanwhile")
        return await self._box.start(argv, on_output, on_error, pty=pty)

    async def close(self) -> None:
        async with self._opening:
            await self._close()

    async def _close(self) -> None:
        box, self._box = self._box, None
        if box is not None:
            await box.close()


class _Box:
    """One running sandbox and our end of the socket to its first program."""

    def __init__(self) -> None:
        self._lifeline = Lifeline()
        self._numbers = itertools.count(1)
        self._inside: dict[int, Inside] = {}
        self._ready = asyncio.Event()
        self._gone = asyncio.Event()
        self._link: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: asyncio.Future[None] | None = None

    @property
    def alive(self) -> bool:
        return self._link is not None and not self._gone.is_set()

    async def begin(
        self, program: str, options: SandboxOptions, environment: Mapping[str, str]
    ) -> None:
        folder = self._lifeline.folder
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._link.setblocking(False)
        errors = folder / "errors"
        with theirs, errors.open("wb") as output:
            self._process = await start_program(
                program,
                *bwrap_arguments(options, folder, theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd="/",
                pass_fds=(theirs.fileno(),),
            )
        os.write(self._lifeline.descriptor, b"+ %d\n" % self._process.pid)
        self._waiting = asyncio.ensure_future(self._wait(self._process))
        asyncio.get_running_loop().add_reader(self._link, self._hear)
        ready = asyncio.ensure_future(self._ready.wait())
        await asyncio.wait(
            (ready, self._waiting), timeout=START_WAIT, return_when=asyncio.FIRST_COMPLETED
        )
        ready.cancel()
        if not self._ready.is_set():
            raise _refused(errors.read_text("utf-8", "replace"))

    async def start(
        self,
        argv: Sequence[str],
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None,
        *,
        pty: bool,
    ) -> Running:
        number = next(self._numbers)
        words = [os.fsencode(word).decode("latin-1") for word in argv]
        message = msgspec.json.encode({"start": number, "argv": words, "pty": pty})
        if len(message) > MESSAGE_MOST:
            raise ToolError("the arguments of the program are too long")
        streams = Streams(pty=pty, apart=on_error is not None)
        try:
            await self._say(message, streams.theirs)
        except BaseException:
            streams.close()
            raise
        finally:
            streams.close_theirs()
        inside = Inside(streams, on_output, on_error, lambda name: self._signal(number, name))
        if self.alive:
            self._inside[number] = inside
        else:
            inside.end(LOST)
        return inside

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            asyncio.get_running_loop().remove_reader(link)
            link.close()  # the first program ends, and with it the sandbox
        try:
            if self._process is not None and self._waiting is not None:
                await asyncio.wait((self._waiting,), timeout=END_WAIT)
                if self._process.returncode is None:
                    self._process.kill()
                await self._waiting
        finally:
            await self._lifeline.close()

    async def _wait(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        self._lifeline.leader_ended(process.pid)
        self._gone.set()
        inside, self._inside = self._inside, {}
        for program in inside.values():
            program.end(LOST)

    def _hear(self) -> None:
        if self._link is None:
            return
        try:
            message = self._link.recv(MESSAGE_MOST)
        except BlockingIOError:
            return
        if not message:
            asyncio.get_running_loop().remove_reader(self._link)
            return
        told = msgspec.json.decode(message, type=Told)
        if told.ready:
            self._ready.set()
        elif inside := self._inside.pop(told.ended, None):
            inside.end(told.code)

    async def _signal(self, number: int, name: int) -> None:
        if self.alive:
            await self._say(msgspec.json.encode({"signal": number, "number": name}), ())

    async def _say(self, message: bytes, descriptors: Sequence[int]) -> None:
        while self._link is not None:
            try:
                socket.send_fds(self._link, [message], [*descriptors])
            except BlockingIOError:
                await asyncio.sleep(RETRY_EVERY)
            except OSError as error:
                raise BackendUnavailable(
                    "the sandbox has ended", hint="try again; a new one is started"
                ) from error
            else:
                return
        raise ToolError("the sandbox was closed meanwhile")


def bwrap_arguments(options: SandboxOptions, private: Path, descriptor: int) -> list[str]:
    """`private` is a folder of ours, `descriptor` the socket for the first program inside."""
    folder = next((path for path in options.workspace if Path(path).is_dir()), "/")
    limits = (options.memory_mb * 1_048_576, options.processes)
    return [
        *mount_arguments(options, private),
        "--unshare-all",
        *(["--share-net"] if options.network else []),
        "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--chdir", folder,
        os.path.realpath(sys.executable), "-I", "-S", "-B", "-c", _INIT.read_text(),
        *map(str, (descriptor, *limits)),
    ]  # fmt: skip


_INIT = Path(init.__file__)


def _refused(errors: str) -> BackendUnavailable:
    said = errors.strip().splitlines() or ["it did not start in time"]
    hint = "does `bwrap --ro-bind / / --unshare-all true` work?"
    if any(word in errors for word in REFUSED):
        hint = (
            "this system does not let users make namespaces: set kernel.unprivileged_userns_clone=1"
            " and user.max_user_namespaces, or kernel.apparmor_restrict_unprivileged_userns=0"
        )
    hint += f" Or name {ELSEWHERE}"
    return BackendUnavailable(f"no sandbox can be started: {said[-1]}", hint=hint)
