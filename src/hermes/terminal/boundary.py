"""`Boundary`: starts programs that cannot reach Hermes' own folder, as far as the system allows.

The analysis of commands decides what to ask. This decides what a command can touch, whatever it
does: settings, keys, approvals, jobs and logs of Hermes are out of reach of every program that the
agent starts on this machine.
"""

import json
import logging
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from hermes.config.home import Home
from hermes.config.settings import Settings

if TYPE_CHECKING:
    from hermes.terminal.confinement import Hiding

T = TypeVar("T")
log = logging.getLogger(__name__)

Mechanism = Literal["namespace", "landlock", "sandbox-exec", "none"]
Choice = Literal["auto", "namespace", "landlock", "none"]  #: The setting `security.boundary`.

WRITABLE = ("workspaces", "cache/media")
"""In the Hermes home: folders that commands may write."""
READABLE = (
    "SOUL.md", "bin", "cache/tool-results", "hooks", "memories", "models", "plugins", "scripts",
    "skills", "skins", *WRITABLE,
)  # fmt: skip
"""In the Hermes home: what commands may read. Everything else is hidden from them."""
SOURCES = Path(__file__).parents[3]
KEY_FILES = (".env", "auth.json", "config.yaml", "state.db")
NAMES = {"namespace": "mount namespace", "landlock": "Landlock", "sandbox-exec": "sandbox-exec"}


class Boundary:
    """Starts programs from a thread that is confined; see `hermes.terminal.confinement`.

    Nothing is set up before the first use. If the mechanism of `choice` does not work,
    `mechanism` is `none`, programs start without protection, and `failures` has the reasons.
    """

    def __init__(self, hiding: "Hiding", choice: Choice = "auto") -> None:
        self._hiding, self._choice = hiding, choice
        self._opening = threading.Lock()
        self._thread: _ConfinedThread | None = None
        self._holder: subprocess.Popen[bytes] | None = None
        self._state: tuple[object, ...] = ()
        self._mechanism: Mechanism | None = None
        self.failures: dict[str, str] = {}  #: Why a mechanism does not work.

    @property
    def mechanism(self) -> Mechanism:
        """What protects the home. The first use sets it up."""
        with self._opening:
            return self._open()

    @property
    def holds(self) -> bool:
        return self.mechanism != "none"

    def describe(self) -> str:
        """Say in one line what keeps commands from Hermes' own folder."""
        if self.holds:
            return f"commands cannot reach Hermes' own folder ({NAMES[self.mechanism]})"
        why = "; ".join(f"{name}: {reason}" for name, reason in self.failures.items())
        return (
            "nothing keeps commands from Hermes' own folder, so each needs approval"
            f" ({why or 'security.boundary is none'})"
        )

    def start(self, argv: Sequence[str], start: Callable[[list[str]], T]) -> T:
        """Call `start` with the command to run, in the confined thread, and return its result."""
        with self._opening:
            mechanism = self._open()
            if mechanism == "sandbox-exec":
                return start(["/usr/bin/sandbox-exec", "-p", sandbox_profile(self._hiding), *argv])
            if self._thread is None:
                return start([*argv])
            command = [*argv]
            if self._holder is not None:
                spaces = f"/proc/{self._holder.pid}/ns"
                names = (f"--user={spaces}/user", f"--mount={spaces}/mnt")
                command = [_nsenter(), *names, "--preserve-credentials", "--", *argv]
            return self._thread.call(lambda: start(command))

    def close(self) -> None:
        if self._thread is not None:
            self._thread.end()
        if self._holder is not None:
            self._holder.kill()
            self._holder.communicate()
        self._thread = self._holder = None

    def _open(self) -> Mechanism:
        """Set the mechanism up, again if the machine has changed since, and return it."""
        if self._mechanism in ("none", "sandbox-exec"):
            return self._mechanism
        if self._mechanism is not None and self._is_current(self._mechanism):
            return self._mechanism
        self.close()
        self._mechanism = self._set_up()
        if self._mechanism == "none" and self._choice != "none":
            log.warning("commands are not kept from the folder of Hermes: %s", self.failures)
        return self._mechanism

    def _is_current(self, mechanism: Mechanism) -> bool:
        holder_lives = self._holder is None or self._holder.poll() is None
        return holder_lives and self._state == self._current_state(mechanism)

    def _current_state(self, mechanism: Mechanism) -> tuple[object, ...]:
        """Return what a confinement depends on: which parts of the home exist and, for Landlock,
        when the folders above it last changed."""
        from hermes.terminal import confinement  # loads ctypes, so only when a command runs

        parts = (part for paths in self._hiding for part in paths)
        listed = confinement.listed_folders(self._hiding) if mechanism == "landlock" else ()
        return (*map(os.path.exists, parts), *(_changed_at(folder) for folder in listed))

    def _set_up(self) -> Mechanism:
        if self._choice == "none":
            return "none"
        if sys.platform == "darwin":
            return "sandbox-exec" if Path("/usr/bin/sandbox-exec").exists() else "none"
        steps: dict[Mechanism, Callable[[], None]] = {
            "namespace": self._use_namespace,
            "landlock": self._use_landlock,
        }
        for name, step in steps.items():
            if self._choice in ("auto", name):
                self._state = self._current_state(name)
                try:
                    step()
                except OSError as error:
                    self.failures[name] = error.strerror or str(error)
                    self.close()
                else:
                    return name
        return "none"

    def _use_namespace(self) -> None:
        from hermes.terminal.confinement import enter_domain, enter_namespace, landlock_version

        hiding, is_root = self._hiding, os.geteuid() == 0
        is_domain_possible = landlock_version() > 0

        def enter() -> None:
            if is_root:
                enter_namespace(hiding)
            if is_domain_possible:
                enter_domain()

        self._thread = _ConfinedThread(enter)
        if not is_root:
            self._holder = self._thread.call(self._start_holder)

    def _start_holder(self) -> subprocess.Popen[bytes]:
        """Start the process that holds the namespaces of a user without privileges."""
        from hermes.terminal import confinement

        if not _nsenter():
            raise OSError(0, "the program nsenter (util-linux) is missing")
        holder = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", confinement.__file__, json.dumps(self._hiding)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath},
            cwd="/",
            start_new_session=True,
        )
        answer = holder.stdout.readline().decode().strip() if holder.stdout else ""
        if answer != "ready":
            holder.kill()
            holder.communicate()
            raise OSError(0, answer or "namespaces of users are not available")
        return holder

    def _use_landlock(self) -> None:
        from hermes.terminal.confinement import enter_domain, landlock_version

        if not landlock_version():
            raise OSError(0, "the kernel has no Landlock, or it is switched off")
        hiding = self._hiding
        self._thread = _ConfinedThread(lambda: enter_domain(hiding))


class _ConfinedThread:
    """A thread that first calls `enter` and then runs calls for other threads.

    Raises what `enter` raises. The thread is never used for anything else: what confines it cannot
    be undone. It ends with this object.
    """

    def __init__(self, enter: Callable[[], None]) -> None:
        self._calls = queue.SimpleQueue[Callable[[], None] | None]()
        serve = partial(_run_calls, self._calls)  # has no reference to this object
        threading.Thread(target=serve, name="hermes-launcher", daemon=True).start()
        self.call(enter)

    def __del__(self) -> None:
        self.end()

    def call(self, work: Callable[[], T]) -> T:
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
                done.set_exception(error)

        self._calls.put(run)
        return done.result()

    def end(self) -> None:
        self._calls.put(None)


def _run_calls(calls: "queue.SimpleQueue[Callable[[], None] | None]") -> None:
    while (work := calls.get()) is not None:
        work()
        del work  # it refers to the program that was started


def open_boundary(home: Home, settings: Settings) -> Boundary:
    """Return the boundary around a Hermes home; the same object for all sessions of a process."""
    security, programs = settings.security, frozenset(_named_programs(home.root, settings))
    places = (home.root, home.default_root, security.boundary, security.boundary_writable)
    return _boundary(*places, programs)


def _named_programs(root: Path, settings: Settings) -> Iterator[str]:
    """Yield files in the home that the hooks and MCP servers of the settings name, with their
    folders: these programs must be able to start."""
    hooks = [each.command for group in settings.hooks.values() for each in group]
    words = [word for command in hooks for word in command.split()]
    for server in settings.mcp_servers.values():
        words += [server.command, *server.args]
    for word in words:
        path = Path(os.path.realpath(Path(word.strip("'\"")).expanduser()))
        if path.is_relative_to(root.resolve()) and path.is_file() and path.name not in KEY_FILES:
            yield str(path if path.parent == root.resolve() else path.parent)


@lru_cache(maxsize=8)
def _boundary(
    home: Path,
    default_root: Path,
    choice: Choice,
    writable: tuple[str, ...],
    programs: frozenset[str],
) -> Boundary:
    from hermes.terminal.confinement import Hiding  # loads ctypes

    root = os.path.realpath(home)
    roots = {root, os.path.realpath(default_root)}
    hidden = sorted(each for each in roots if not _is_inside(each, roots))
    # The installation itself may be in the home.
    code = [str(Path(each).resolve()) for each in (sys.prefix, sys.base_prefix, SOURCES)]
    readable = {f"{root}/{name}" for name in READABLE} | programs
    readable |= {each for each in code if _is_inside(each, hidden)}
    named = {str(Path(root, name)) for name in (*WRITABLE, *writable)}
    return Boundary(
        Hiding(tuple(hidden), tuple(sorted(readable - named)), tuple(sorted(named))), choice
    )


def _is_inside(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def sandbox_profile(hiding: "Hiding") -> str:
    """Return the profile of `sandbox-exec` on macOS."""

    def rule(decision: str, operations: str, paths: Sequence[str]) -> str:
        names = " ".join(f"(subpath {json.dumps(path, ensure_ascii=False)})" for path in paths)
        return f"({decision} {operations} {names})" if names else ""

    return "\n".join(
        (
            "(version 1)",
            "(allow default)",
            rule("deny", "file-read-data file-write*", hiding.hidden),
            rule("allow", "file-read-data", (*hiding.readable, *hiding.writable)),
            rule("allow", "file-write*", hiding.writable),
        )
    )


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - for each command; a Path is slow
    except OSError:
        return 0


@lru_cache(maxsize=1)
def _nsenter() -> str:
    return shutil.which("nsenter", path=os.defpath + ":/usr/sbin:/sbin") or ""
