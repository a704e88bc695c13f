"""Imports an archive again and again, each time stopped one step later; prints how it ended.

Usage: cut_short.py kill|fail ARCHIVE HOME_AS_IT_WAS WORKPLACE

`kill` ends the process at the step, `fail` lets the step fail as a full disk would. After each try
the import is finished as the next start does, and one line says what is in the home.
"""

import errno
import os
import shutil
import signal
import sys
from pathlib import Path

import apsw

from hermes.config.home import Home
from hermes.core.errors import HermesError
from hermes.ops.restore import finish_restore, has_unfinished_restore, restore_archive

WATCHED = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree")
MOST_STEPS = 400
UNHARMED = 3
"""A step failed that was only tidying up."""


def stopping_at(step: int, place: Path, mode: str) -> list[int]:
    """The `step`-th change below `place` is the last one; how many were counted."""
    seen = [0]

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event not in WATCHED or str(place) not in str(args[0]):
            return
        seen[0] += 1
        if seen[0] == step:
            if mode == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(errno.ENOSPC, "No space left on device", str(args[0]))

    sys.addaudithook(hook)
    return seen


def state(root: Path) -> str:
    facts = [(root / name).read_text() for name in ("config.yaml", "skills/a.md", "SOUL.md")]
    facts.append("only old" if (root / "skills" / "old.md").exists() else "only new")
    connection = apsw.Connection(str(root / "state.db"))
    facts += [title for (title,) in connection.execute("SELECT title FROM sessions").fetchall()]
    connection.close()
    return ",".join([*facts, *(["litter"] if (root / ".import").exists() else [])])


def one_try(mode: str, archive: Path, root: Path, step: int) -> str:
    child = os.fork()
    if child == 0:
        seen = stopping_at(step, root, mode)
        try:
            restore_archive(Home(root), archive)
        except HermesError:
            os._exit(1)
        os._exit(UNHARMED if seen[0] >= step else 0)
    _, status = os.waitpid(child, 0)
    if has_unfinished_restore(Home(root)):
        finish_restore(Home(root))
    return f"{os.waitstatus_to_exitcode(status)} {state(root)}"


def main(mode: str, archive: Path, before: Path, place: Path) -> None:
    for step in range(1, MOST_STEPS):
        root = place / "home"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(before, root)
        outcome = one_try(mode, archive, root, step)
        sys.stdout.write(f"{outcome}\n")
        if outcome.startswith("0 "):
            return
    sys.exit("it never came to an end")


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
