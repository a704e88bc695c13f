"""This machine, behind bubblewrap."""

import asyncio
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from hermes.config.environment import child_environment, search_path
from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal import sandbox_init
from hermes.terminal.base import Running
from hermes.terminal.local.lifeline import Lifeline
from hermes.terminal.local.process import COLUMNS, LINES, PATIENCE, Reading, Writing
from hermes.util.programs import start_program

# What a sandbox sees of this machine, as arguments of `bwrap`.

RUN = "/run"
"""Here are the sockets of the system's services; who reaches those is not in a sandbox."""
RESOLVER = "/etc/resolv.conf"


class SandboxOptions(msgspec.Struct, frozen=True):
    workspace: tuple[str, ...]
    """Folders that can be written, at the same path; commands begin in the first."""
    network: bool = False
    """`terminal.sandbox_network`: the network of this machine, with all that listens on it."""
    writable: tuple[str, ...] = ()
    """`terminal.sandbox_writable`: more that can be written."""
    readonly: tuple[str, ...] = ()
    """What stays read-only although it lies in a folder that can be written."""
    hidden: tuple[str, ...] = ()
    """Files and folders that seem empty: keys, and our own home. Only what exists is covered."""
    tmp: str = ""
    """The folder that is /tmp inside; empty is one that vanishes with the sandbox."""
    memory_mb: int = 0
    """Address space of a process; 0 is no limit."""
    processes: int = 0
    """Processes of the user; 0 is no limit."""


class _Mount(msgspec.Struct, frozen=True, order=True):
    """Of two at one place the one with the higher rank counts."""

    rank: int
    words: tuple[str, ...]

    @property
    def hides(self) -> bool:
        return self.rank in (SYSTEM, HIDDEN)


SYSTEM, OPENED, READ_ONLY, HIDDEN = range(4)


def mount_arguments(options: SandboxOptions, private: Path) -> list[str]:
    """`private` is a folder of ours for the parts that are not of this machine."""
    mounts = _mounts(options, private)
    # Our first program inside needs the Python that we run with.
    python = os.path.realpath(sys.base_prefix)
    if any(python.startswith(f"{path}/") for path, mount in mounts.items() if mount.hides):
        mounts[python] = _Mount(READ_ONLY, ("--ro-bind", python))
    arguments = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    # What lies deeper comes later, so a workspace in a hidden folder is seen.
    for path, mount in sorted(mounts.items()):
        arguments += [*mount.words, path]
    for path, mount in sorted(mounts.items()):
        if mount == _Mount(HIDDEN, ("--tmpfs",)):
            arguments += ["--remount-ro", path]
    return [*arguments, *_resolver()]


def _mounts(options: SandboxOptions, private: Path) -> dict[str, _Mount]:
    empty, tmp, other = private / "empty", Path(options.tmp or private / "tmp"), private / "var-tmp"
    empty.touch(0o444)
    for folder in (tmp, other):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = _existing((*options.workspace, *options.writable))
    if "/" in opened:
        raise BackendUnavailable(
            "the working folder is /, so the sandbox would protect nothing",
            hint="work in a folder of your own, or set terminal.backend to local",
        )
    chosen = [
        ("/tmp", _Mount(SYSTEM, ("--bind", str(tmp)))),
        ("/var/tmp", _Mount(SYSTEM, ("--bind", str(other)))),
        (RUN, _Mount(SYSTEM, ("--tmpfs",))),
        *((path, _Mount(OPENED, ("--bind", path))) for path in opened),
        *((path, _Mount(READ_ONLY, ("--ro-bind", path))) for path in _existing(options.readonly)),
    ]
    for path in (*_existing(options.hidden), *sockets()):
        cover = ("--tmpfs",) if Path(path).is_dir() else ("--ro-bind", str(empty))
        chosen.append((path, _Mount(HIDDEN, cover)))
    mounts: dict[str, _Mount] = {}
    for path, mount in chosen:
        mounts[path] = max(mount, mounts.get(path, mount))
    return mounts


def _existing(paths: Iterable[str]) -> list[str]:
    """Real paths: a link is not covered but the place it leads to."""
    return [os.path.realpath(path) for path in paths if path and Path(path).exists()]


def sockets() -> Iterator[str]:
    """Sockets of other programs outside of /run and /tmp: read-only does not tame them."""
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "surrogateescape").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        path = line.split(maxsplit=7)[7:]
        if path and path[0].startswith("/") and not path[0].startswith(("/run/", "/tmp/")):
            real = os.path.realpath(path[0])
            if not real.startswith(("/run/", "/tmp/")) and Path(real).is_socket():
                yield real


def _resolver() -> list[str]:
    """Where the resolver's settings are a link into /run, they are brought back."""
    real = os.path.realpath(RESOLVER)
    return ["--ro-bind", real, real] if real.startswith(f"{RUN}/") and Path(real).exists() else []


# A program inside the sandbox: its descriptors were made here and handed in.

GRACE = 0.6
"""Seconds between SIGTERM and SIGKILL."""
KILLED_WAIT = 0.3
"""Seconds a killed program gets to be gone."""


class Streams:
    """Both ends of a program's standard streams; `apart` keeps its errors from its output."""

    def __init__(self, *, pty: bool, apart: bool) -> None:
        self.pty = pty
        self.theirs: list[int] = []
        """Of the program: input, output and errors, or one for all."""
        self.reading: list[int] = []
        if pty:
            ours, theirs = os.openpty()
            termios.tcsetwinsize(theirs, (LINES, COLUMNS))
            self.theirs, self.reading, self.writing = [theirs], [ours], os.dup(ours)
            return
        source, self.writing = os.pipe()
        self.theirs.append(source)
        for _ in range(2 if apart else 1):
            ours, theirs = os.pipe()
            self.reading.append(ours)
            self.theirs.append(theirs)
        if not apart:
            self.theirs.append(os.dup(self.theirs[1]))

    def close_theirs(self) -> None:
        for descriptor in self.theirs:
            os.close(descriptor)
        self.theirs = []

    def close(self) -> None:
        for descriptor in (*self.reading, self.writing):
            os.close(descriptor)


class Inside:
    """See `base.Running`. `tell` has a signal sent to its process group."""

    pid = None

    def __init__(
        self,
        streams: Streams,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None,
        tell: Callable[[int], Awaitable[None]],
    ) -> None:
        self.exit_code: int | None = None
        self._tell, self._pty = tell, streams.pty
        self._done = asyncio.get_running_loop().create_future()
        self._writing = Writing(streams.writing, terminal=streams.pty)
        handlers = (on_output, on_error or on_output)
        self._readings = [
            Reading(descriptor, handler, self._look)
            for descriptor, handler in zip(streams.reading, handlers, strict=False)
        ]

    async def wait(self) -> int:
        return int(await asyncio.shield(self._done))

    async def write(self, data: bytes) -> None:
        if self.exit_code is not None:
            raise ToolError("the program takes no input")
        await self._writing.write(data)

    async def close_input(self) -> None:
        await self._writing.end()

    async def stop(self) -> None:
        polite = [signal.SIGHUP, signal.SIGTERM] if self._pty else [signal.SIGTERM]
        self._writing.close()
        try:
            if self.exit_code is None:
                for name in polite:
                    await self._tell(name)
                await asyncio.wait((self._done,), timeout=GRACE)
        finally:
            if self.exit_code is None:
                await self._tell(signal.SIGKILL)
                await asyncio.wait((self._done,), timeout=KILLED_WAIT)
            for reading in self._readings:
                reading.close()
            if not self._done.done():
                self.exit_code = 128 + signal.SIGKILL
                self._done.set_result(self.exit_code)

    def end(self, code: int) -> None:
        """It has ended; others may still hold its output."""
        if self.exit_code is not None:
            return
        self.exit_code = code
        self._writing.close()
        for reading in self._readings:
            reading.drain()
        self._look()
        if not self._done.done():
            asyncio.get_running_loop().call_later(PATIENCE, self._finish)

    def _look(self) -> None:
        if self.exit_code is not None and all(reading.ended for reading in self._readings):
            self._finish()

    def _finish(self) -> None:
        """All output was handed over; what others still write is thrown away."""
        for reading in self._readings:
            reading.discard()
        if not self._done.done():
            self._done.set_result(self.exit_code)


# A sandbox on this machine with bubblewrap: the system read-only, the workspace writable.
#
# One `bwrap` lives as long as the host is open. All programs are started inside it, so they share
# processes, /tmp and, without network, a loopback of their own; none outlives it, nor it us.

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


_INIT = Path(sandbox_init.__file__)


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


# Whether a program of this machine works.

SECONDS = 5.0
"""The longest a program may take to say how it is."""
SANDBOX = ("bwrap", "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "true")
"""The smallest that bubblewrap can make."""


def is_installed(program: str) -> bool:
    return shutil.which(program, path=search_path()) is not None


def fault(command: Sequence[str]) -> str:
    """Why a program does not work; empty when it does."""
    program = shutil.which(command[0], path=search_path()) or command[0]
    try:
        done = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            env=child_environment(saved={}),
            cwd=os.sep,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {SECONDS:g} s"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (said[-1] if said else f"exit code {done.returncode}") if done.returncode else ""
