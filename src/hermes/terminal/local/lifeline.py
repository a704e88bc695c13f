"""Ensures that no started program outlives this process, however this process ends.

A supervisor (`sh`) reads the numbers of started process groups from a pipe. When the pipe closes,
because it was closed or this process was killed, the supervisor stops the remaining groups with all
their descendants and removes the private folder. It runs in its own session, so that a Ctrl-C or a
closed terminal does not reach it.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

import msgspec

from hermes.terminal.base import load_script
from hermes.terminal.boundary import Boundary

# The process tree of this machine, and stopping a whole family.
#
# A command's family is its process group and every descendant, so a child in its own session
# (`setsid`) is stopped too. A process that left the tree on purpose, as a daemon does by forking
# twice, is no longer a descendant and is left running.

GRACE = 0.6
"""Seconds between SIGTERM and SIGKILL; cancelling a call must take less than one second."""
FIRST_PAUSE = 0.005  #: Seconds before the first check that all have ended; the pauses double.
MAX_PAUSE = 0.05
KILL_ROUNDS = 5
"""How often SIGKILL is sent: a member may fork while the others are being signalled."""

PROC = Path("/proc")


class ProcessEntry(msgspec.Struct, frozen=True):
    pid: int
    parent: int
    group: int
    is_zombie: bool  #: It has ended, but its parent has not collected the exit code yet.
    started: float
    """Start time in some unit; distinguishes it from a later process with the same number."""


def running_processes() -> dict[int, ProcessEntry]:
    """Return all processes of this machine that have not ended."""
    found = _from_proc() if (PROC / "self/stat").exists() else _from_psutil()
    return {process.pid: process for process in found if not process.is_zombie}


def _from_proc() -> Iterator[ProcessEntry]:
    # Hundreds of entries: creating a Path for each costs too much.
    for name in os.listdir(PROC):  # noqa: PTH208 - see above
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
            # The name is in parentheses and may contain any character.
            fields = file.read().rpartition(b")")[2].split()
            state, parent, group = fields[0], int(fields[1]), int(fields[2])
            yield ProcessEntry(int(name), parent, group, state in b"ZX", float(fields[19]))


def _from_psutil() -> Iterator[ProcessEntry]:
    """The same without /proc. psutil is imported here because that takes a while."""
    psutil = import_module("psutil")
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError), process.oneshot():
            ended = process.status() == psutil.STATUS_ZOMBIE
            group = os.getpgid(process.pid)
            yield ProcessEntry(process.pid, process.ppid(), group, ended, process.create_time())


def process_family(group: int, known: Iterable[ProcessEntry] = ()) -> list[ProcessEntry]:
    """Return live members of `group` and `known` with all descendants, parents before children."""
    processes = running_processes()
    children: dict[int, list[ProcessEntry]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found = {process.pid: process for process in processes.values() if process.group == group}
    found |= {old.pid: processes[old.pid] for old in known if _is_same_process(old, processes)}
    unseen = deque(found)
    while unseen:
        for child in children.get(unseen.popleft(), ()):
            if child.pid not in found:
                found[child.pid] = child
                unseen.append(child.pid)
    return list(found.values())


def _is_same_process(old: ProcessEntry, processes: dict[int, ProcessEntry]) -> bool:
    now = processes.get(old.pid)
    return now is not None and now.started == old.started


async def stop_family(group: int, *, polite: Iterable[int] = (signal.SIGTERM,)) -> None:
    """Stop the whole family: `polite` signals first, then SIGKILL; SIGKILL at once if cancelled."""
    members, pause = process_family(group), FIRST_PAUSE
    asked: set[tuple[int, float]] = set()
    try:
        while members and pause < GRACE:
            # A shell that is just starting a program handles a signal only after that program ends,
            # so new members are signalled too. None is signalled twice: some programs take that as
            # a demand to quit at once.
            new = [each for each in members if (each.pid, each.started) not in asked]
            for number in polite:
                _send_signal(number, new, 0 if asked else group)
            asked.update((each.pid, each.started) for each in new)
            await asyncio.sleep(pause)
            members, pause = process_family(group, members), pause * 2
    finally:
        for _ in range(KILL_ROUNDS):
            if not members:
                break
            _send_signal(signal.SIGKILL, members, group)
            members = process_family(group, members)


def _send_signal(number: int, members: Sequence[ProcessEntry], group: int) -> None:
    """Signal whole groups at once and parents first, so that a shell does not run its next command
    when its child ends.

    A group belongs to the members if its leader does, or if it is `group`.
    """
    pids = {group, *(process.pid for process in members)}
    groups = list(dict.fromkeys(each.group for each in members if each.group in pids))
    for whole in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(whole, number)
    for process in members:
        if process.group not in groups:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, number)


def group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs as another user; macOS also reports this for zombies
        return True
    return True


class LifelineProcess(Protocol):
    """A program whose process and pipes end with the lifeline."""

    @property
    def pid(self) -> int: ...

    async def release(self) -> None: ...


class Lifeline:
    """Stops what was started when this process ends.

    `folder` is private to this user and is deleted with the lifeline. Programs started with it are
    kept behind `boundary`, if there is one.
    """

    def __init__(self, boundary: Boundary | None = None) -> None:
        self.boundary = boundary
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-shell-"))
        self._leaderless: set[int] = set()
        self._members: set[LifelineProcess] = set()
        self._start_supervisor()

    def _start_supervisor(self) -> None:
        reading, self._descriptor = os.pipe()
        try:
            self._supervisor = subprocess.Popen(
                [
                    "/bin/sh",
                    "-c",
                    load_script("local_supervisor"),
                    "hermes-lifeline",
                    str(self.folder),
                ],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        finally:
            os.close(reading)

    @property
    def descriptor(self) -> int:
        """The pipe to the supervisor; a started program writes `+ GROUP` to it first."""
        if self._descriptor < 0:
            raise RuntimeError("the lifeline is closed")
        if self._supervisor.poll() is not None:  # it was killed
            os.close(self._descriptor)
            self._start_supervisor()
            for group in {held.pid for held in self._members} | self._leaderless:
                self._send_line(b"+ %d\n" % group)
        return self._descriptor

    def register(self, held: LifelineProcess) -> None:
        """Release `held` when the lifeline closes, unless it is unregistered before."""
        self._members.add(held)

    def unregister(self, held: LifelineProcess) -> None:
        self._members.discard(held)

    def on_leader_exit(self, group: int) -> None:
        """Forget groups without members, because their numbers may be reused."""
        self._leaderless.add(group)
        for each in [each for each in self._leaderless if not group_alive(each)]:
            self._leaderless.remove(each)
            self._send_line(b"- %d\n" % each)

    def has_survivors(self, group: int) -> bool:
        """Return whether members of the group outlived its leader."""
        return group in self._leaderless

    async def close(self) -> None:
        """Stop every remaining group; returns when that is done."""
        if self._descriptor < 0:
            return
        os.close(self._descriptor)
        self._descriptor = -1
        # Not in a thread: a gateway closes many shells at once, and other work needs the threads.
        pause = FIRST_PAUSE
        while self._supervisor.poll() is None:
            await asyncio.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE)
        for held in tuple(self._members):
            await held.release()

    def _send_line(self, line: bytes) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._descriptor, line)
