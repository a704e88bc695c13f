"""The audit hook: suspends an effect of the script until it has been judged.

Reads, and writes in the workspace or the temporary folder, pass at once. Other effects are reported
and wait for the verdict; a denied one raises `PermissionError`.
"""

# Called for every file that the script opens; pathlib would be too slow.
# ruff: noqa: PTH100, PTH109, PTH112, PTH115, PTH116, PTH117, PTH118, PTH119, PTH120, PTH208

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

try:
    import _posixsubprocess
except ImportError:  # a Python that cannot start programs
    _posixsubprocess = None  # type: ignore[assignment] # looked at before use

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
F_GETPATH = 50  #: A constant of macOS; Python has its name only since 3.9.
NO_FOLDER = -1
ANY_FOLDER = -2  #: The event does not say to which open folder a relative path belongs.

HARMLESS_DEVICES = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm",
)  # fmt: skip
PIPES = re.compile(r"/proc/\d+/(task/\d+/)?fd/(pipe|socket|anon_inode):")
OTHERS_MEMORY = re.compile(r"/proc/(\d+)/(task/\d+/)?(environ|mem)$")
TRACKER = re.compile(r"from multiprocessing\.resource_tracker import main;main\(\d+\)")
STARTERS = re.compile(r"system|popen|v?fork|exec\w*|posix_spawnp?|syscall|dlopen|dlsym|mprotect")
"""Functions of the C library that can be reached through any library."""


def install(exchange: Callable[[dict[str, Any]], dict[str, Any]], settings: dict[str, Any]) -> None:
    """Install the hook. `settings` has the writable folders (`roots`), the `protected` paths, and
    the pattern of files that other programs run later (`runs_later`)."""

    def verdict(effect: str, **details: Any) -> None:
        """Return if the effect is allowed."""
        reply = exchange({"kind": "effect", "effect": effect, **details})
        if "denied" in reply:
            raise PermissionError(errno.EACCES, reply["denied"])

    programs = ProgramWatch(verdict)
    if _posixsubprocess is not None:
        programs.over_fork_exec()
    judges: dict[str, Callable[..., None]] = {
        **FileWatch(verdict, settings).judges(),
        **programs.judges(),
        **NativeWatch(verdict).judges(),
        **NetworkWatch(verdict, settings["port"]).judges(),
        "sys.addaudithook": lambda: verdict("hook"),
    }

    def event(name: str, arguments: tuple[Any, ...]) -> None:
        judge = judges.get(name)
        if judge is not None:
            judge(*arguments)

    sys.addaudithook(event)


class FileWatch:
    def __init__(self, verdict: Callable[..., None], settings: dict[str, Any]) -> None:
        self.verdict = verdict
        self.roots = [os.path.realpath(path) for path in settings["roots"]]
        named = settings["protected"]
        self.protected = list(dict.fromkeys([*named, *map(os.path.realpath, named)]))
        self.runs_later = re.compile(settings["runs_later"])
        self.places = settings["places"]
        self.programs = [os.path.realpath(path) for path in (sys.prefix, sys.base_prefix)]
        self.has_read_outside = False
        self.allowed: set[str] = set()
        self.allowed_trees: list[str] = []

    def judges(self) -> dict[str, Callable[..., None]]:
        return {
            "open": self.opens,
            "os.remove": self.removes,
            "os.rmdir": self.removes,
            "os.rename": self.renames,
            "os.mkdir": self.makes_folder,
            "os.chmod": lambda path, _mode, folder: self.changes(path, folder),
            "os.chown": lambda path, _user, _group, folder: self.changes(path, folder),
            "os.link": self.links,
            "os.symlink": lambda _target, path, folder: self.changes(path, folder, follow=False),
            "os.truncate": lambda path, _length: self.changes(path, NO_FOLDER),
            "os.setxattr": lambda path, *_: self.changes(path, NO_FOLDER),
            "shutil.rmtree": self.removes_tree,
            "sqlite3.connect": self.connects,
        }

    def opens(self, path: Any, mode: str | None, flags: int) -> None:
        if isinstance(path, int):
            return
        writes = bool(flags & WRITES) or (mode is not None and bool(set(mode) & set("wax+")))
        for real in resolved(path, ANY_FOLDER if mode is None else NO_FOLDER):
            if writes:
                self.writing(path, real)
            else:
                self.reading(path, real)

    def changes(self, path: Any, folder: int, *, follow: bool = True) -> None:
        for real in resolved(path, folder, follow=follow):
            self.writing(path, real)

    def makes_folder(self, path: Any, _mode: int, folder: int) -> None:
        for real in resolved(path, folder):
            if not os.path.lexists(real):  # otherwise nothing will happen
                self.writing(path, real)

    def removes(self, path: Any, folder: int) -> None:
        for real in resolved(path, folder, follow=False):
            self.writing(path, real, goes=True)

    def renames(self, path: Any, target: Any, folder: int, target_folder: int) -> None:
        self.removes(path, folder)
        self.removes(target, target_folder)

    def links(self, path: Any, target: Any, folder: int, target_folder: int) -> None:
        """A write through a second name of a file changes the file."""
        self.changes(path, folder, follow=False)
        self.changes(target, target_folder, follow=False)

    def removes_tree(self, path: Any, folder: int | None = None) -> None:
        for real in resolved(path, NO_FOLDER if folder is None else folder, follow=False):
            if not self.is_open(real, goes=True):
                self.verdict("tree", path=shown(path), real=real)
                self.allowed_trees.append(real)

    def connects(self, database: Any) -> None:
        name = os.fsdecode(database)
        if name.startswith("file:"):
            name = unquote(re.split(r"[?#]", re.sub(r"^file:(//[^/]*)?", "", name))[0])
        if name and name != ":memory:":
            self.changes(name, NO_FOLDER)

    def writing(self, path: Any, real: str, *, goes: bool = False) -> None:
        if not self.is_open(real, goes=goes):
            self.verdict("write", path=shown(path), real=real, goes=goes, device=is_device(real))
            self.allowed.add(real)

    def reading(self, path: Any, real: str) -> None:
        if real in self.allowed:
            return
        others = OTHERS_MEMORY.match(real)
        if others and int(others[1]) != os.getpid():
            self.verdict("memory", path=shown(path))
        elif any(below(real, place) for place in self.protected):
            self.verdict("read", path=shown(path), real=real)
        elif not self.has_read_outside and self.is_outside(real):
            self.verdict("outside", path=shown(path), real=real)
            self.has_read_outside = True  # one file is enough to know

    def is_outside(self, real: str) -> bool:
        """Return whether it is a private file outside the workspace."""
        home, roots = self.places["home"], self.roots
        if any(below(real, place) for place in self.programs):
            return False
        if below(real, home):
            # The temporary folder may contain the home.
            opened = [root for root in roots if below(root, home)] + self.places["in_home"]
        else:
            opened = roots + self.places["elsewhere"]
        return not any(below(real, place) for place in opened)

    def is_open(self, real: str, *, goes: bool) -> bool:
        """Return whether a path may be changed without asking; `goes`: it is deleted or moved."""
        if real in self.allowed or any(below(real, tree) for tree in self.allowed_trees):
            return True
        if any(below(real, device) for device in HARMLESS_DEVICES) or PIPES.match(real):
            return True
        if self.runs_later.search(real) or any(below(real, place) for place in self.protected):
            return False
        if goes and any(below(place, real) for place in (*self.protected, *self.roots)):
            return False  # they would be deleted or moved with it
        return any(below(real, root) for root in self.roots) and not is_device(real)


class ProgramWatch:
    def __init__(self, verdict: Callable[..., None]) -> None:
        self.verdict = verdict
        self.local = threading.local()

    def judges(self) -> dict[str, Callable[..., None]]:
        return {
            "subprocess.Popen": self.starts,
            "os.posix_spawn": lambda path, words, _environment: self.spawns(words, path),
            "os.exec": lambda path, words, _environment: self.replaces(words, path),
            "os.system": lambda text: self.command(text=os.fsdecode(text)),
            "os.kill": self.kills,
        }

    def starts(self, program: Any, words: Any, folder: Any, _environment: Any) -> None:
        words = [words] if isinstance(words, (str, bytes)) else words
        self.command(line_of(words, program), folder=folder)
        self.local.judged = judged_as(words, program)

    def over_fork_exec(self) -> None:
        """Wrap `fork_exec`, which raises no event; `multiprocessing` starts programs with it."""
        plain = _posixsubprocess.fork_exec

        def fork_exec(words: Any, programs: Any, *rest: Any) -> int:
            self.spawns(words, programs[0])
            pid: int = plain(words, programs, *rest)
            return pid

        _posixsubprocess.fork_exec = fork_exec
        loaded = sys.modules.get("subprocess")
        if hasattr(loaded, "_fork_exec"):
            vars(loaded)["_fork_exec"] = fork_exec

    def spawns(self, words: Any, program: Any) -> None:
        """Judge a program, unless it was just judged as a call of `subprocess`."""
        judged = self.local.__dict__.pop("judged", None)
        if judged != judged_as(words, program):
            self.command(line_of(words, program))

    def replaces(self, words: Any, program: Any) -> None:
        """Judge a program once, although `execvp` tries one folder after the other."""
        judged = judged_as(words, program)
        if getattr(self.local, "tried", None) != judged:
            self.command(line_of(words, program))
            self.local.tried = judged

    def kills(self, pid: int, number: int) -> None:
        if pid == -1:
            self.command(("kill", f"-{int(number)}", "-1"))

    def command(self, words: tuple[str, ...] = (), text: str = "", folder: Any = None) -> None:
        if words[:1] == (sys.executable,) and TRACKER.fullmatch(words[-1]):
            return  # it only cleans up after shared memory
        where = os.path.realpath(os.fsdecode(folder) if folder else os.getcwd())
        self.verdict("command", words=words, text=text, folder=where)


class NetworkWatch:
    """Reports each connection, because what the script has read since the last one counts."""

    def __init__(self, verdict: Callable[..., None], port: int) -> None:
        self.verdict, self.port = verdict, port
        self.local = threading.local()
        self.names: dict[str, str] = {}  #: Addresses that were looked up, with their names.

    def judges(self) -> dict[str, Callable[..., None]]:
        return {
            "socket.connect": lambda _socket, address: self.connects(address),
            "socket.sendto": lambda _socket, address: self.connects(address),
            "socket.sendmsg": lambda _socket, address: self.connects(address),
            "socket.getaddrinfo": lambda host, port, *_: self.looks_up(host, port),
            "socket.gethostbyname": lambda host: self.looks_up(host, 0),
            "socket.gethostbyaddr": lambda host: self.looks_up(host, 0),
        }

    def connects(self, address: Any) -> None:
        if not isinstance(address, tuple) or len(address) < 2 or self.is_ours(address):
            return  # a socket of this machine
        host = address[0] if isinstance(address[0], str) else os.fsdecode(address[0])
        self.asks(self.names.get(host, host), address[1])

    def is_ours(self, address: tuple[Any, ...]) -> bool:
        """Return whether it is the connection over which the verdicts come."""
        return bool(self.port) and address[:2] == ("127.0.0.1", self.port)

    def looks_up(self, host: Any, port: Any) -> None:
        if host is None or getattr(self.local, "asking", False):
            return
        name = host if isinstance(host, str) else os.fsdecode(host)
        self.asks(name, port)
        self.local.asking = True
        try:
            # A failure is the script's to find out.
            with contextlib.suppress(OSError, UnicodeError):
                for found in socket.getaddrinfo(name, None):
                    self.names[str(found[4][0])] = name
        finally:
            self.local.asking = False

    def asks(self, host: str, port: Any) -> None:
        if getattr(self.local, "asking", False):
            return
        self.local.asking = True
        try:
            self.verdict("connect", host=host, port=port if isinstance(port, int) else 0)
        finally:
            self.local.asking = False


class NativeWatch:
    def __init__(self, verdict: Callable[..., None]) -> None:
        self.verdict = verdict
        library = os.path.dirname(os.path.abspath(os.__file__))
        packages = [
            path for path in sys.path if path.endswith(("/site-packages", "/dist-packages"))
        ]
        self.packages = [os.path.realpath(path) for path in (library, *packages)]
        self.allowed = False

    def judges(self) -> dict[str, Callable[..., None]]:
        return {
            "ctypes.dlopen": self.loads,
            "ctypes.dlsym": self.looks_up,
            "ctypes.dlsym/handle": lambda *_: self.native("a function of a library's number"),
            "ctypes.call_function": lambda *_: self.native("a function by its address"),
        }

    def loads(self, name: Any) -> None:
        """Judge a library. Without a name nothing new is loaded, as by `import ctypes`."""
        if name is not None and not self.is_installed(name):
            self.native(f"the library {shown(name)}")

    def looks_up(self, library: Any, name: Any) -> None:
        if str(name).startswith(("Py", "_Py")):
            return
        if STARTERS.fullmatch(str(name)) or not self.is_installed(getattr(library, "_name", "")):
            self.native(f"the function {name}")

    def is_installed(self, name: Any) -> bool:
        """Return whether it belongs to an installed package, whose import would load it too."""
        if not isinstance(name, (str, bytes)) or os.sep not in os.fsdecode(name):
            return False
        real = os.path.realpath(os.fsdecode(name))
        return any(below(real, folder) for folder in self.packages)

    def native(self, what: str) -> None:
        if not self.allowed:
            self.verdict("native", what=what)
            self.allowed = True


def resolved(path: Any, folder: int, *, follow: bool = True) -> Iterator[str]:
    """Yield the real path that is meant, or each possible one."""
    if isinstance(path, int):
        opened = path_of(path)
        if opened:
            yield opened
        return
    name = os.fsdecode(path)
    bases = [os.getcwd()]
    if not os.path.isabs(name):
        if folder == ANY_FOLDER:
            bases += open_folders()
        elif folder >= 0:
            bases = [path_of(folder) or "/"]
    for base in bases:
        full = os.path.join(base, name)
        if follow:
            yield os.path.realpath(full)
        else:
            full = full.rstrip("/") or "/"
            yield os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))


def open_folders() -> list[str]:
    try:
        numbers = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        return []
    return [path for path in map(path_of, numbers) if os.path.isdir(path)]


def path_of(descriptor: int) -> str:
    """Return the path of an open file or folder; "" if it has none."""
    try:
        if sys.platform == "darwin":
            path = os.fsdecode(fcntl.fcntl(descriptor, F_GETPATH, bytes(1024)).rstrip(b"\0"))
        else:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""
    return path if path.startswith("/") else ""


def is_device(real: str) -> bool:
    try:
        mode = os.stat(real).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISBLK(mode) or stat.S_ISCHR(mode)


def line_of(words: Any, program: Any) -> tuple[str, ...]:
    """Return the program that is run, and its arguments."""
    return (os.fsdecode(program), *map(os.fsdecode, list(words)[1:]))


def judged_as(words: Any, program: Any) -> tuple[str, ...]:
    return (os.path.basename(os.fsdecode(program)), *map(os.fsdecode, words))


def shown(path: Any) -> str:
    return str(path) if isinstance(path, int) else os.fsdecode(path)


def below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
