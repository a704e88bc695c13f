"""Undo of an interrupted switch to another version. Uses the standard library only.

`hermes update` puts a copy of this file next to its records before it switches, and the launcher
runs that copy if it exists at the next start: it needs neither the new source, which may be
incomplete, nor an environment. Records, in `.cache/update/` of the checkout:

    switch.json   the switch in progress; deleted when it is complete
    undo.sh       starts the copy; deleted last
    env-COMMIT    the replaced environment
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SWITCH, STARTER = "switch.json", "undo.sh"
PATIENCE = 5.0  #: Seconds to wait for a git process that outlived the update.


class Records:
    """The files of an update in progress."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / ".cache" / "update"
        self.lock = root / ".cache" / "update.lock"
        self.switch = self.folder / SWITCH
        self.starter = self.folder / STARTER
        self.environment = root / ".venv"

    def replaced(self, commit: str) -> Path:
        """Return the path of the replaced environment of the version `commit`."""
        return self.folder / f"env-{commit[:12]}"


@contextmanager
def hold_lock(lock: Path, *, wait: bool) -> Iterator[None]:
    """Acquire the lock, which ends with its holder. Raises `BlockingIOError`."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(handle)


def undo(root: Path) -> bool:
    """Restore the previous version; return False if there is nothing to undo. The lock is held."""
    records = Records(root)
    try:
        switch = json.loads(records.switch.read_bytes())
    except FileNotFoundError:
        records.starter.unlink(missing_ok=True)
        return False
    _restore_environment(records, switch["before"], Path(switch["incoming"]))
    _restore_source(root, switch["before"], switch["after"])
    records.switch.unlink()
    records.starter.unlink(missing_ok=True)
    return True


def _restore_environment(records: Records, before: str, incoming: Path) -> None:
    """Restore the old environment and move the new one back."""
    aside = records.replaced(before)
    if not aside.is_dir():
        return
    if records.environment.exists():
        if not incoming.parent.is_dir() or incoming.exists():
            incoming = records.folder / "unused"
            shutil.rmtree(incoming, ignore_errors=True)
        records.environment.rename(incoming)
    aside.rename(records.environment)


def _restore_source(root: Path, before: str, after: str) -> None:
    """Reset the source. There were no local changes when the switch began, so nothing is lost."""
    _wait_for_git(root)
    added = _git(root, "diff", "--name-only", "--diff-filter=A", "-z", before, after)
    _git(root, "reset", "--hard", "--quiet", before)
    for name in added.split("\0"):
        if name:
            with suppress(FileNotFoundError):
                (root / name).unlink()
    forget_bytecode(root, before, after)


def forget_bytecode(root: Path, before: str, after: str) -> None:
    """Delete compiled files: two versions of a file with the same size and second look the same
    to Python, which would run the wrong one."""
    changed = _git(root, "diff", "--name-only", "-z", before, after, "--", "*.py")
    for name in changed.split("\0"):
        source = root / name
        for compiled in source.parent.glob(f"__pycache__/{source.stem}.*.pyc"):
            compiled.unlink(missing_ok=True)


def _wait_for_git(root: Path) -> None:
    """Remove locks of a killed git process, after waiting for one that still runs."""
    lock = Path(_git(root, "rev-parse", "--git-path", "index.lock").strip())
    lock = lock if lock.is_absolute() else root / lock
    end = time.monotonic() + PATIENCE
    while lock.exists() and time.monotonic() < end:
        time.sleep(0.1)
    lock.unlink(missing_ok=True)


def _git(root: Path, *arguments: str) -> str:
    calm = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
    place = (f"--git-dir={root / '.git'}", f"--work-tree={root}")
    done = subprocess.run(
        ["git", *calm, *place, *arguments],
        cwd=root,
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="surrogateescape",
    )
    return done.stdout


def main(root: Path) -> int:
    records = Records(root)
    try:
        with hold_lock(records.lock, wait=True):
            if undo(root):
                sys.stderr.write(
                    "hermes: an update was interrupted; the previous version was restored\n"
                )
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or error
        sys.stderr.write(f"hermes: an interrupted update cannot be undone: {said}\n")
        sys.stderr.write(f"  delete {records.starter} after you have repaired the checkout\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
