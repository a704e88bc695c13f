"""Taking a worktree away, with its branch."""

import contextlib
from pathlib import Path

from hermes.app.worktrees.record import Record
from hermes.app.worktrees.repository import Repository

REMOVE_SECONDS = 120.0


async def remove(record: Record, repository: Repository, *, force: bool = False) -> None:
    """Without `force` git looks once more whether it is clean and locked. Raises `GitFailed`."""
    git = repository.git
    if Path(record.path).exists():
        forced = ["--force", "--force"] if force else []
        await git.run("worktree", "remove", *forced, "--", record.path, seconds=REMOVE_SECONDS)
    else:
        await git.run("worktree", "prune")
    if await git.line("rev-parse", "--verify", "--quiet", f"refs/heads/{record.branch}"):
        await git.run("branch", "--quiet", "-D", "--", record.branch)
    with contextlib.suppress(OSError):  # there are others in it
        repository.folder.rmdir()
