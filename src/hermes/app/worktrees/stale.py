"""Worktrees that a run left behind when it crashed."""

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from hermes.app.user_git import GitFailed
from hermes.app.worktrees.record import records
from hermes.app.worktrees.removing import remove
from hermes.app.worktrees.repository import Repository
from hermes.app.worktrees.state import state_of
from hermes.security import is_below
from hermes.util.threads import in_thread

OLD_SECONDS = 24 * 3600.0
MOST = 20
"""Looked at in one go."""


async def prune_stale(repository: Repository, tell: Callable[[str], None]) -> None:
    """Removes those that are old, have nothing in them, and are used by nobody."""
    for record in records(repository.common)[:MOST]:
        # A repository that was moved, or a note that somebody changed: hands off.
        ours = Path(record.path).parent == repository.folder and record.branch.startswith("hermes")
        if not ours or record.age < OLD_SECONDS or record.in_use:
            continue
        try:
            if not (await state_of(record, repository)).clean:
                continue
            if await in_thread(somebody_is_in, Path(record.path)):
                continue
            await remove(record, repository)
        except GitFailed as error:
            tell(f"the old worktree {record.path} was not removed: {error}")
        else:
            tell(f"removed the worktree {record.path} of an earlier run; nothing was in it")


def somebody_is_in(folder: Path) -> bool:
    """Whether a process works in the folder, such as a shell of the user."""
    psutil = import_module("psutil")
    real = os.path.realpath(folder)
    for process in psutil.process_iter():
        try:
            if is_below(process.cwd(), real):
                return True
        except (psutil.Error, OSError):  # gone, or of somebody else
            continue
    return False
