"""The sandbox backend: commands run on this machine inside bubblewrap.

The system is read-only and the workspace writable. A confined sandbox sees nothing of this machine
but its programs and the folders that it was given. One `bwrap` runs while the host is open and all
programs start inside it, so they share processes, /tmp and, without network, a private loopback. No
program outlives it, and it does not outlive this process.
"""

import asyncio
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import (
    Awaitable,
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from pathlib import Path

import msgspec

from hermes.config.environment import child_environment, search_path
from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal import sandbox_init
from hermes.terminal.base import Argv, Running, Sink
from hermes.terminal.local.lifeline import Lifeline
from hermes.terminal.local.process import COLUMNS, LINES, PipeProcess
from hermes.util.processes import start_program

# What a sandbox sees of this machine, as arguments of `bwrap`.

RUN = "/run"
"""Contains the sockets of system services, through which a program could leave the sandbox."""
RESOLVER = "/etc/resolv.conf"
PROGRAM_FOLDERS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
)  # fmt: skip
SYSTEM_FILES = (
    "alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies",
    "debian_version", "fonts", "gai.conf", "ImageMagick-6", "ImageMagick-7", "inputrc",
    "java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "localtime", "lsb-release", "magic", "mime.types", "nsswitch.conf",
    "os-release", "perl", "pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs",
    "pki/tls/openssl.cnf", "profile", "profile.d", "protocols", "python3", "R", "services",
    "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "texmf", "timezone",
)  # fmt: skip
"""In /etc: settings that programs need and that hold no secrets; pip.conf, for example, may."""
NETWORK_FILES = ("/etc/hosts", RESOLVER)
SOURCES = ("/usr/src", "/usr/local/src")
"""Folders of the system that may contain projects."""


class SandboxOptions(msgspec.Struct, frozen=True):
    workspace: tuple[str, ...]
    """Writable folders, visible at the same path; commands start in the first."""
    network: bool = False
    """`terminal.sandbox_network`: share this machine's network, including everything listening
    on it."""
    writable: tuple[str, ...] = ()  #: `terminal.sandbox_writable`: further writable paths.
    readonly: tuple[str, ...] = ()
    """Paths that stay read-only although they are inside a writable folder. A confined sandbox
    sees them."""
    runs_later: tuple[str, ...] = ()
    """Relative paths that stay read-only in every project of a writable folder."""
    confined: bool = False
    """Start from an empty file system instead of a read-only view of this machine."""
    hidden: tuple[str, ...] = ()
    """Files and folders that appear empty: keys and the Hermes home. Only existing ones are
    covered."""
    tmp: str = ""  #: The folder mounted at /tmp; empty: one that is deleted with the sandbox.
    memory_mb: int = 0  #: Address space limit per process; 0 means no limit.
    processes: int = 0  #: Process limit of the user; 0 means no limit.


class _SandboxMount(msgspec.Struct, frozen=True, order=True):
    """Of two mounts at one path, the one with the higher rank applies."""

    rank: int
    words: tuple[str, ...]

    @property
    def hides(self) -> bool:
        return self.rank in (SYSTEM, HIDDEN)


SYSTEM, WRITABLE, READ_ONLY, HIDDEN = range(4)


def mount_arguments(options: SandboxOptions, private: Path) -> list[str]:
    """Return the mount arguments. `private` is a folder for files that are not of this machine."""
    mounts = _mounts(options, private)
    arguments = [
        *(_system_arguments(options, private) if options.confined else ("--ro-bind", "/", "/")),
        "--dev", "/dev", "--proc", "/proc",
    ]  # fmt: skip
    # Deeper paths are mounted later, so a workspace inside a hidden folder is visible.
    for path, mount in sorted(mounts.items()):
        arguments += [*mount.words, path]
    for path, mount in sorted(mounts.items()):
        if mount == _SandboxMount(HIDDEN, ("--tmpfs",)):
            arguments += ["--remount-ro", path]
    resolver = os.path.realpath(RESOLVER)
    # A link into the hidden /run.
    if not options.confined and resolver.startswith(f"{RUN}/") and Path(resolver).exists():
        arguments += ["--ro-bind", resolver, resolver]
    return arguments + (["--remount-ro", "/"] if options.confined else [])


def _system_arguments(options: SandboxOptions, private: Path) -> list[str]:
    """Return the part of the system that a confined sandbox sees."""
    user, group, home = os.geteuid(), os.getegid(), options.workspace[0]
    made = {
        "/etc/passwd": f"user:x:{user}:{group}::{home}:/bin/sh\n",
        "/etc/group": f"user:x:{group}:\n",
        **({} if options.network else {"/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n"}),
    }
    arguments = []
    for path, text in made.items():
        source = private / Path(path).name
        source.write_text(text)
        arguments += ["--ro-bind", str(source), path]
    real = [f"/etc/{name}" for name in SYSTEM_FILES]
    real += NETWORK_FILES if options.network else ()
    for path in (*PROGRAM_FOLDERS, *real):
        if path in PROGRAM_FOLDERS and Path(path).is_symlink():
            arguments += ["--symlink", os.readlink(path), path]  # noqa: PTH115 - as it is written
        elif Path(path).exists():
            arguments += ["--ro-bind", os.path.realpath(path), path]
    return arguments


def _mounts(options: SandboxOptions, private: Path) -> dict[str, _SandboxMount]:
    empty, tmp, other = private / "empty", Path(options.tmp or private / "tmp"), private / "var-tmp"
    empty.touch(0o444)
    for folder in (tmp, other):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = _existing_paths((*options.workspace, *options.writable))
    if "/" in opened.values():
        raise BackendUnavailable(
            "the working folder is /, so the sandbox would protect nothing",
            hint="work in a folder of your own, or set terminal.backend to local",
        )
    chosen = [
        ("/tmp", _SandboxMount(SYSTEM, ("--bind", str(tmp)))),
        ("/var/tmp", _SandboxMount(SYSTEM, ("--bind", str(other)))),
        (RUN, _SandboxMount(SYSTEM, ("--tmpfs",))),
        *_bound(WRITABLE, opened, options),
        *_bound(READ_ONLY, _existing_paths(options.readonly), options),
    ]
    seen = [path for path, mount in chosen if not mount.hides] + [*PROGRAM_FOLDERS]
    hidden = (*options.hidden, *(SOURCES if options.confined else ()))
    for path in (*_existing_paths(hidden).values(), *foreign_sockets()):
        # What a confined sandbox does not see needs no cover.
        if not options.confined or any(_is_below(path, each) for each in seen):
            cover = ("--tmpfs",) if Path(path).is_dir() else ("--ro-bind", str(empty))
            chosen.append((path, _SandboxMount(HIDDEN, cover)))
    mounts: dict[str, _SandboxMount] = {}
    for path, mount in chosen:
        mounts[path] = max(mount, mounts.get(path, mount))
    for path in opened.values():
        _protect_projects(path, options.runs_later, mounts)
    _show_python(options, mounts)
    return mounts


def _show_python(options: SandboxOptions, mounts: dict[str, _SandboxMount]) -> None:
    """Mount the Python that this process runs with, which the init program inside needs."""
    python = os.path.realpath(sys.base_prefix)
    missing = options.confined and not any(_is_below(python, each) for each in PROGRAM_FOLDERS)
    if missing and any(_is_below(path, python) for path in options.hidden):
        raise BackendUnavailable(
            f"Python is installed in {python}, so a sandbox for chats would show private files",
            hint="install Hermes with the Python of the system, or set gateway.terminal to docker",
        )
    if missing or any(_is_below(python, path) for path, mount in mounts.items() if mount.hides):
        mounts[python] = _SandboxMount(READ_ONLY, ("--ro-bind", python))


def _bound(
    rank: int, paths: Mapping[str, str], options: SandboxOptions
) -> Iterator[tuple[str, _SandboxMount]]:
    word = "--bind" if rank == WRITABLE else "--ro-bind"
    for path, real in paths.items():
        yield real, _SandboxMount(rank, (word, real))
        if options.confined:  # where the links that lead to it do not exist
            yield path, _SandboxMount(rank, (word, real))


def _existing_paths(paths: Iterable[str]) -> dict[str, str]:
    """Return real paths, so that the target of a link is covered and not the link."""
    return {path: os.path.realpath(path) for path in paths if path and Path(path).exists()}


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


# Files of projects that programs outside the sandbox run or obey, such as the hooks of git.

PROJECT_DEPTH = 3  #: Levels below a writable folder that are searched for repositories.
MAX_SEARCHED = 5_000  #: Folder entries that are looked at.
MAX_PROJECTS = 64
NOT_SEARCHED = frozenset({"node_modules", "site-packages", "__pycache__"})
REDIRECT = ".git/commondir"
"""A file that makes git read its settings elsewhere. Only git directories of worktrees have it."""


def find_projects(folder: str, skipped: Container[str] = ()) -> list[str]:
    """Return `folder` and the repositories below it, without links and hidden folders."""
    found, level, searched = [folder], [folder], 0
    for _ in range(PROJECT_DEPTH):
        below: list[str] = []
        for parent in level:
            with suppress(OSError), os.scandir(parent) as entries:
                for entry in entries:
                    searched += 1
                    usable = not entry.name.startswith(".") and entry.name not in NOT_SEARCHED
                    if usable and entry.path not in skipped and entry.is_dir(follow_symlinks=False):
                        below.append(entry.path)
            if searched > MAX_SEARCHED:
                return found[:MAX_PROJECTS]
        found += [path for path in below if os.path.lexists(f"{path}/.git")]
        level = below
    return found[:MAX_PROJECTS]


def _absent_redirects(options: SandboxOptions) -> tuple[Path, ...]:
    """Return the redirects of git that no repository in a writable folder has."""
    folders = _existing_paths((*options.workspace, *options.writable)).values()
    places = (Path(each, REDIRECT) for folder in folders for each in find_projects(folder))
    return tuple(
        place for place in places if options.runs_later and place.parent.is_dir()
        and not place.parent.is_symlink() and not os.path.lexists(place)
    )  # fmt: skip


def _protect_projects(folder: str, names: Sequence[str], mounts: dict[str, _SandboxMount]) -> None:
    """Make files that run later read-only, as far as they exist when the sandbox starts.

    The folders above them become mounts of their own, because a mount cannot be renamed: another
    folder could take the place of one that is only renamed.
    """
    if not names or not Path(folder).is_dir():
        return
    for project in find_projects(folder, {path for path, each in mounts.items() if each.rank > 1}):
        if Path(f"{project}/.git").is_dir() and not Path(f"{project}/.git").is_symlink():
            with suppress(OSError):
                Path(f"{project}/.git/hooks").mkdir(exist_ok=True)
        for name in (*names, ".git"):
            path = f"{project}/{name}"
            if not Path(path).exists() or os.path.realpath(path) != path:
                continue
            if name != ".git" or Path(path).is_file():
                mounts.setdefault(path, _SandboxMount(READ_ONLY, ("--ro-bind", path)))
            while (path := os.path.dirname(path)) != folder:  # noqa: PTH120 - no Path needed
                mounts.setdefault(path, _SandboxMount(WRITABLE, ("--bind", path)))


def foreign_sockets() -> Iterator[str]:
    """Yield sockets of other programs outside /run and /tmp; a read-only mount would not block
    them."""
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


# A program inside the sandbox; its streams are created here and passed in as descriptors.

GRACE = 0.6  #: Seconds between SIGTERM and SIGKILL.


class SandboxStreams:
    """Both ends of a program's standard streams; `apart` separates errors from output."""

    def __init__(self, *, pty: bool, apart: bool) -> None:
        self.pty = pty
        self.child_ends: list[int] = []
        """The program's ends: input, output and errors, or one terminal."""
        self.read_ends: list[int] = []
        if pty:
            ours, theirs = os.openpty()
            termios.tcsetwinsize(theirs, (LINES, COLUMNS))
            self.child_ends, self.read_ends, self.write_end = [theirs], [ours], os.dup(ours)
            return
        source, self.write_end = os.pipe()
        self.child_ends.append(source)
        for _ in range(2 if apart else 1):
            ours, theirs = os.pipe()
            self.read_ends.append(ours)
            self.child_ends.append(theirs)
        if not apart:
            self.child_ends.append(os.dup(self.child_ends[1]))

    def close_child_ends(self) -> None:
        for descriptor in self.child_ends:
            os.close(descriptor)
        self.child_ends = []

    def close(self) -> None:
        for descriptor in (*self.read_ends, self.write_end):
            os.close(descriptor)


class SandboxProcess(PipeProcess):
    """`Running` for a program in the sandbox. `send_signal` signals its process group."""

    pid = None

    def __init__(
        self,
        streams: SandboxStreams,
        on_output: Sink,
        on_error: Sink | None,
        send_signal: Callable[[int], Awaitable[None]],
    ) -> None:
        handlers = (on_output, on_error or on_output)
        reading = dict(zip(streams.read_ends, handlers, strict=False))
        super().__init__(reading, streams.write_end, terminal=streams.pty)
        self._send_signal = send_signal

    async def stop(self) -> None:
        if self._writer is not None:
            self._writer.close()
        try:
            if self.exit_code is None:
                for name in self._polite_signals():
                    await self._send_signal(name)
                await asyncio.wait((self._done,), timeout=GRACE)
        finally:
            if self.exit_code is None:
                await self._send_signal(signal.SIGKILL)
            await self.release()


# The backend itself.

START_TIMEOUT = 15.0  #: Seconds the sandbox may take to start.
END_TIMEOUT = 2.0  #: Seconds it may take to end.
RETRY_INTERVAL = 0.005
MAX_MESSAGE = 200_000
"""Maximum size in bytes of a start message, which holds the program's arguments."""
EXIT_CODE_LOST = 137  #: Exit code of programs that ended with the sandbox.
OTHER_BACKENDS = "another place: terminal.backend, and gateway.terminal for chats"
START_TRIES = 3
MOUNTS_CHANGED = "Unable to apply mount flags"
"""Message of bubblewrap if a mount disappears while it starts, as when a container stops."""
NAMESPACE_ERRORS = ("namespace", "uid map", "Operation not permitted", "Permission denied")


class InitMessage(msgspec.Struct):
    """A message from the init program."""

    ready: bool = False
    ended: int = 0
    code: int = 0


class SandboxHost:
    """A sandbox as a `Host`. `environment` is what programs inside see."""

    name = "sandbox"

    def __init__(self, options: SandboxOptions, environment: Mapping[str, str]) -> None:
        self._options = options
        self._environment = {**environment, "TMPDIR": "/tmp"}
        self._opening = asyncio.Lock()
        self._running: _RunningSandbox | None = None

    async def open(self) -> None:
        async with self._opening:
            if self._running is not None and self._running.alive:
                return
            await self._close()
            program = shutil.which("bwrap", path=self._environment.get("PATH"))
            if program is None:
                raise BackendUnavailable(
                    "bubblewrap is not installed, so there is no sandbox to run commands in",
                    hint=f"apt install bubblewrap; or name {OTHER_BACKENDS}",
                )
            for left in reversed(range(START_TRIES)):
                box = _RunningSandbox(self._options)
                try:
                    await box.begin(program, self._environment)
                except BaseException as error:
                    await box.close()
                    if not left or MOUNTS_CHANGED not in str(error):
                        raise
                else:
                    self._running = box
                    return

    async def start(
        self, argv: Argv, *, on_output: Sink, on_error: Sink | None = None, pty: bool = False
    ) -> Running:
        await self.open()
        if self._running is None:
            raise ToolError("the sandbox was closed meanwhile")
        return await self._running.start(argv, on_output, on_error, pty=pty)

    async def close(self) -> None:
        async with self._opening:
            await self._close()

    async def _close(self) -> None:
        box, self._running = self._running, None
        if box is not None:
            await box.close()


class _RunningSandbox:
    """One running sandbox, and this side of the socket to its init program."""

    def __init__(self, options: SandboxOptions) -> None:
        self._options = options
        self._redirects: tuple[Path, ...] = ()
        """Files of git that must not appear, because they would lead around protected ones."""
        self._lifeline = Lifeline()
        self._numbers = itertools.count(1)
        self._processes: dict[int, SandboxProcess] = {}
        self._ready = asyncio.Event()
        self._exited = asyncio.Event()
        self._socket: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: asyncio.Future[None] | None = None

    @property
    def alive(self) -> bool:
        return self._socket is not None and not self._exited.is_set()

    async def begin(self, program: str, environment: Mapping[str, str]) -> None:
        folder, options = self._lifeline.folder, self._options
        arguments = await asyncio.to_thread(mount_arguments, options, folder)
        self._redirects = await asyncio.to_thread(_absent_redirects, options)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        errors = folder / "errors"
        with theirs, errors.open("wb") as output:
            self._process = await start_program(
                program,
                *arguments,
                *init_arguments(options, theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd="/",
                pass_fds=(theirs.fileno(),),
            )
        os.write(self._lifeline.descriptor, b"+ %d\n" % self._process.pid)
        self._waiting = asyncio.ensure_future(self._wait(self._process))
        asyncio.get_running_loop().add_reader(self._socket, self._on_message)
        ready = asyncio.ensure_future(self._ready.wait())
        await asyncio.wait(
            (ready, self._waiting), timeout=START_TIMEOUT, return_when=asyncio.FIRST_COMPLETED
        )
        ready.cancel()
        if not self._ready.is_set():
            raise _sandbox_unavailable(errors.read_text("utf-8", "replace"))

    async def start(
        self, argv: Argv, on_output: Sink, on_error: Sink | None, *, pty: bool
    ) -> Running:
        number = next(self._numbers)
        words = [os.fsencode(word).decode("latin-1") for word in argv]
        message = msgspec.json.encode({"start": number, "argv": words, "pty": pty})
        if len(message) > MAX_MESSAGE:
            raise ToolError("the arguments of the program are too long")
        streams = SandboxStreams(pty=pty, apart=on_error is not None)
        try:
            await self._send(message, streams.child_ends)
        except BaseException:
            streams.close()
            raise
        finally:
            streams.close_child_ends()
        process = SandboxProcess(
            streams, on_output, on_error, lambda name: self._signal(number, name)
        )
        if self.alive:
            self._processes[number] = process
        else:
            process.on_exit(EXIT_CODE_LOST)
        return process

    async def close(self) -> None:
        link, self._socket = self._socket, None
        if link is not None:
            asyncio.get_running_loop().remove_reader(link)
            link.close()  # the init program ends, and with it the sandbox
        try:
            if self._process is not None and self._waiting is not None:
                await asyncio.wait((self._waiting,), timeout=END_TIMEOUT)
                if self._process.returncode is None:
                    self._process.kill()
                await self._waiting
        finally:
            self._remove_redirects()
            await self._lifeline.close()

    def _remove_redirects(self) -> None:
        for path in self._redirects:
            with suppress(OSError):
                path.unlink()

    async def _wait(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        self._lifeline.on_leader_exit(process.pid)
        self._exited.set()
        inside, self._processes = self._processes, {}
        for program in inside.values():
            program.on_exit(EXIT_CODE_LOST)

    def _on_message(self) -> None:
        if self._socket is None:
            return
        try:
            message = self._socket.recv(MAX_MESSAGE)
        except BlockingIOError:
            return
        if not message:
            asyncio.get_running_loop().remove_reader(self._socket)
            return
        event = msgspec.json.decode(message, type=InitMessage)
        if event.ready:
            self._ready.set()
        elif process := self._processes.pop(event.ended, None):
            self._remove_redirects()
            process.on_exit(event.code)

    async def _signal(self, number: int, name: int) -> None:
        if self.alive:
            await self._send(msgspec.json.encode({"signal": number, "number": name}), ())

    async def _send(self, message: bytes, descriptors: Sequence[int]) -> None:
        while self._socket is not None:
            try:
                socket.send_fds(self._socket, [message], [*descriptors])
            except BlockingIOError:
                await asyncio.sleep(RETRY_INTERVAL)
            except OSError as error:
                raise BackendUnavailable(
                    "the sandbox has ended", hint="try again; a new one is started"
                ) from error
            else:
                return
        raise ToolError("the sandbox was closed meanwhile")


def init_arguments(options: SandboxOptions, descriptor: int) -> list[str]:
    """Return the arguments of `bwrap` after the mounts; `descriptor` is the socket of the init
    program."""
    folder = next((path for path in options.workspace if Path(path).is_dir()), "/")
    limits = (options.memory_mb * 1_048_576, options.processes)
    return [
        "--unshare-all",
        *(["--share-net"] if options.network else []),
        "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--chdir", folder,
        os.path.realpath(sys.executable), "-I", "-S", "-B", "-c", _INIT_SOURCE.read_text(),
        *map(str, (descriptor, *limits)),
    ]  # fmt: skip


_INIT_SOURCE = Path(sandbox_init.__file__)


def _sandbox_unavailable(errors: str) -> BackendUnavailable:
    lines = errors.strip().splitlines() or ["it did not start in time"]
    hint = "does `bwrap --ro-bind / / --unshare-all true` work?"
    if any(word in errors for word in NAMESPACE_ERRORS):
        hint = (
            "this system does not let users make namespaces: set kernel.unprivileged_userns_clone=1"
            " and user.max_user_namespaces, or kernel.apparmor_restrict_unprivileged_userns=0"
        )
    hint += f" Or name {OTHER_BACKENDS}"
    return BackendUnavailable(f"no sandbox can be started: {lines[-1]}", hint=hint)


# Whether a program of this machine works; used by doctor and set-up.

PROBE_TIMEOUT = 5.0  #: Seconds a probed program may take.
SANDBOX_PROBE = ("bwrap", "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "true")
"""The smallest sandbox that bubblewrap can create."""


def is_installed(program: str) -> bool:
    return shutil.which(program, path=search_path()) is not None


def probe_program(command: Sequence[str]) -> str:
    """Run a program and return why it does not work; empty if it does."""
    program = shutil.which(command[0], path=search_path()) or command[0]
    try:
        done = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_TIMEOUT,
            env=child_environment(saved={}),
            cwd=os.sep,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {PROBE_TIMEOUT:g} s"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (lines[-1] if lines else f"exit code {done.returncode}") if done.returncode else ""
