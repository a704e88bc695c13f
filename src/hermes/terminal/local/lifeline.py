"""Makes sure that nothing we started outlives this process, however this process ends.

A small `sh` reads from a pipe the numbers of the process groups we start. When the pipe closes,
because we closed it or because we were killed, it stops the groups that are left with all their
descendants, as `process_tree` does, and removes the private folder. It runs in a session of its
own, so a Ctrl-C or a closed terminal does not reach it.
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

# Who descends from whom among the processes of this machine, and stopping a whole family.
#
# A command's processes are those of its process group and every descendant, so a child that began
# a
# session of its own (`setsid`) is stopped too. A process that took itself out of the tree on
# purpose,
# as a daemon does by forking twice, is nobody's descendant any more and is left alone.

GRACE = 0.6
"""Seconds between SIGTERM and SIGKILL; a cancelled call must be over within one."""
FIRST_LOOK = 0.005
"""Seconds until we look for the first time whether all have gone; the pauses double."""
LAST_ROUNDS = 5
"""How often SIGKILL is sent: a member may start another while it is sent to the others."""

PROC = Path("/proc")


class Process(msgspec.Struct, frozen=True):
    pid: int
    parent: int
    group: int
    ended: bool
    """A zombie: it does nothing any more, but nobody took its exit code yet."""
    began: float
    """When it started, in some unit: tells it from a later process of the same number."""


def running() -> dict[int, Process]:
    """All processes of this machine that have not ended."""
    found = _from_proc() if (PROC / "self/stat").exists() else _from_psutil()
    return {process.pid: process for process in found if not process.ended}


def _from_proc() -> Iterator[Process]:
    # Hundreds of entries: a Path each costs too much.
    for name in os.listdir(PROC):  # noqa: PTH208 - see above
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
            # The name stands in parentheses and may hold any character.
            fields = file.read().rpartition(b")")[2].split()
            state, parent, group = fields[0], int(fields[1]), int(fields[2])
            yield Process(int(name), parent, group, state in b"ZX", float(fields[19]))


def _from_psutil() -> Iterator[Process]:
    """The same where there is no /proc; loaded on demand, since that takes a while."""
    psutil = import_module("psutil")
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError), process.oneshot():
            ended = process.status() == psutil.STATUS_ZOMBIE
            group = os.getpgid(process.pid)
            yield Process(process.pid, process.ppid(), group, ended, process.create_time())


def family(group: int, known: Iterable[Process] = ()) -> list[Process]:
    """The living of `group` and of `known` and all their descendants, parents before children."""
    processes = running()
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found = {process.pid: process for process in processes.values() if process.group == group}
    found |= {old.pid: processes[old.pid] for old in known if _still(old, processes)}
    unseen = deque(found)
    while unseen:
        for child in children.get(unseen.popleft(), ()):
            if child.pid not in found:
                found[child.pid] = child
                unseen.append(child.pid)
    return list(found.values())


def _still(old: Process, processes: dict[int, Process]) -> bool:
    now = processes.get(old.pid)
    return now is not None and now.began == old.began


async def stop_family(group: int, *, polite: Iterable[int] = (signal.SIGTERM,)) -> None:
    """End the whole family: politely, then surely. When cancelled meanwhile, surely at once."""
    members, pause = family(group), FIRST_LOOK
    asked: set[tuple[int, float]] = set()
    try:
        while members and pause < GRACE:
            # A shell that was just starting a program heeds a signal when that has ended: what is
            # new is asked too, but nobody twice, since that means haste to some programs.
            new = [each for each in members if (each.pid, each.began) not in asked]
            for number in polite:
                _send(number, new, 0 if asked else group)
            asked.update((each.pid, each.began) for each in new)
            await asyncio.sleep(pause)
            members, pause = family(group, members), pause * 2
    finally:
        for _ in range(LAST_ROUNDS):
            if not members:
                break
            _send(signal.SIGKILL, members, group)
            members = family(group, members)


def _send(number: int, members: Sequence[Process], group: int) -> None:
    """To whole groups at once and parents first, lest a shell goes on to its next command when
    its child ends.

    A group belongs to the members when its leader does, or when it is `group`.
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
    except PermissionError:  # it runs as somebody else: macOS says so for zombies as well
        return True
    return True


# Functions for `sh` that find and signal processes with all their descendants.
#
# Only what the shell itself can do, and forms of `kill` on which BusyBox, dash and bash agree. A
# line
# of /proc/N/stat is `N (any name) state parent group …`; zombies do not count. Without /proc there
# are only groups. `groups` and `members` are lists with a blank at both ends.

FAMILY = r"""
look() {
  table= living=' ' known=$members members=' ' grown=yes
  for file in /proc/[0-9]*/stat; do
    read -r line <"$file" || continue
    process=${file#/proc/} process=${process%/stat}
    set -- ${line##*) }
    [ "$1" = Z ] || table="$table $process $2 $3" living="$living$process "
  done
  for process in $known; do
    case "$living" in *" $process "*) members="$members$process " ;; esac
  done
  while [ "$grown" ]; do
    grown=
    set -- $table
    while [ $# -ge 3 ]; do
      case "$members" in *" $1 "*) ;; *)
        case "$groups" in *" $3 "*) members="$members$1 " grown=yes ;; *)
          case "$members" in *" $2 "*) members="$members$1 " grown=yes ;; esac ;;
        esac ;;
      esac
      shift 3
    done
  done
}
alive() {
  look
  [ "$members" = ' ' ] || return 0
  [ "$table" ] && return 1
  for group in $groups; do kill -0 "-$group" && return 0; done
  return 1
}
signal() {
  for group in $groups; do kill "-$1" "-$group"; done
  for process in $members; do kill "-$1" "$process"; done
}
"""


# Only what the shell itself can do, but for `sleep` and `rm`.
KEEPER = r"""
trap '' HUP INT TERM
groups=' ' members=' '
while read -r sign group; do
  kept=' '
  for known in $groups; do [ "$known" = "$group" ] || kept="$kept$known "; done
  groups=$kept
  [ "$sign" = + ] && groups="$groups$group "
done
FAMILY
if alive; then
  signal TERM
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.1
    alive || break
  done
  signal KILL
fi
rm -rf -- "$1"
""".replace("FAMILY", FAMILY)


class Held(Protocol):
    """A program whose process and pipes end with the lifeline."""

    @property
    def pid(self) -> int: ...

    async def release(self) -> None: ...


class Lifeline:
    """`folder` is private to this user and vanishes with the lifeline."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-shell-"))
        self._left: set[int] = set()
        self._held: set[Held] = set()
        self._begin()

    def _begin(self) -> None:
        reading, self._descriptor = os.pipe()
        try:
            self._keeper = subprocess.Popen(
                ["/bin/sh", "-c", KEEPER, "hermes-lifeline", str(self.folder)],
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
        """The pipe to the keeper, for a program that writes `+ GROUP` there before all else."""
        if self._descriptor < 0:
            raise RuntimeError("the lifeline is closed")
        if self._keeper.poll() is not None:  # somebody killed it
            os.close(self._descriptor)
            self._begin()
            for group in {held.pid for held in self._held} | self._left:
                self._tell(b"+ %d\n" % group)
        return self._descriptor

    def hold(self, held: Held) -> None:
        """`held` is released when the lifeline closes, if not dropped before."""
        self._held.add(held)

    def drop(self, held: Held) -> None:
        self._held.discard(held)

    def leader_ended(self, group: int) -> None:
        """Its number may be used again as soon as nothing of the group is left."""
        self._left.add(group)
        for each in [each for each in self._left if not group_alive(each)]:
            self._left.remove(each)
            self._tell(b"- %d\n" % each)

    def is_left(self, group: int) -> bool:
        """Whether members of the group outlived its leader."""
        return group in self._left

    async def close(self) -> None:
        """Stop every group that is left; returns when that is done."""
        if self._descriptor < 0:
            return
        os.close(self._descriptor)
        self._descriptor = -1
        await asyncio.to_thread(self._keeper.wait)
        for held in tuple(self._held):
            await held.release()

    def _tell(self, line: bytes) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._descriptor, line)
