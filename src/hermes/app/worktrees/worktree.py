"""A worktree for one session."""

import contextlib
import re
import shlex
import shutil
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

from hermes.app.user_git import GitFailed, UserGit
from hermes.app.worktrees.included import copy_included
from hermes.app.worktrees.locking import locked
from hermes.app.worktrees.record import Record, record_of, save
from hermes.app.worktrees.removing import remove
from hermes.app.worktrees.repository import Repository, repository_at
from hermes.app.worktrees.stale import prune_stale
from hermes.app.worktrees.state import State, state_of
from hermes.core.errors import UsageError
from hermes.util.threads import in_thread

Tell = Callable[[str], None]
PREFIX = "hermes/"
LONGEST_NAME = 60
MOST_TRIES = 50
FILL_SECONDS = 600.0


class Worktree:
    """`folder` is where the session works: where the user is, in the new tree."""

    def __init__(self, repository: Repository, record: Record) -> None:
        self._repository, self._record = repository, record
        self.root, self.branch = Path(record.path), record.branch
        inside = self.root / repository.inside
        self.folder = inside if inside.is_dir() else self.root
        self._closed = False

    async def close(self) -> str:
        """Removes it when nothing is in it; what to tell the user. Nobody may work in it now."""
        if self._closed:
            return ""
        self._closed = True
        try:
            state = await state_of(self._record, self._repository)
            if not state.clean:
                return self._kept(state)
            async with locked(self._repository):
                await remove(self._record, self._repository)
        except GitFailed as error:
            return self._kept(State(), str(error))
        return f"removed the worktree {self.root}: nothing was changed in it"

    def _kept(self, state: State, problem: str = "") -> str:
        place, branch = shlex.quote(str(self.root)), shlex.quote(self.branch)
        there = self.root.exists()
        what = (
            f"the worktree {self.root} (branch {self.branch})"
            if there
            else (f"the branch {self.branch}; its worktree is gone")
        )
        lines = [f"kept {what}: {problem or state.words}"]
        if there and state.changed:
            lines.append(f"  commit: git -C {place} add -A && git -C {place} commit")
        lines.append(f"  merge:  git merge {branch}")
        removing = f"git worktree remove --force {place} && " if there else ""
        lines.append(f"  remove: {removing}git branch -D {branch}")
        return "\n".join(lines)


async def open_worktree(folder: Path, name: str, tell: Tell) -> Worktree:
    """A new worktree of the repository that `folder` is in, on a new branch.

    `name` is that of the session; without one it is named after the time. `tell` gets what the
    user should know. Raises `UsageError` where there can be none, and `GitFailed`.
    """
    repository = await repository_at(folder)
    async with locked(repository):
        await prune_stale(repository, tell)
        repository.usable_folder()
        await repository.keep_out_of_status()
        record = await _claimed(repository, name)
        await _undone_unless_done(_make(repository, record), repository, record)
    await _undone_unless_done(_fill(repository, record, tell), repository, record)
    if (Path(record.path) / ".gitmodules").exists():
        tell("submodules are empty in the worktree: `git submodule update --init` fills them")
    return Worktree(repository, record)


async def _claimed(repository: Repository, name: str) -> Record:
    """A name that nobody has; its empty folder keeps others from taking it."""
    git = repository.git
    # A branch `hermes` leaves no room for `hermes/…`.
    taken = await git.line("rev-parse", "--verify", "--quiet", f"refs/heads/{PREFIX[:-1]}")
    prefix = PREFIX.replace("/", "-") if taken else PREFIX
    wanted = slug(name) or f"{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    for number in range(1, MOST_TRIES + 1):
        each = wanted if number == 1 else f"{wanted}-{number}"
        path, branch = repository.folder / each, prefix + each
        if await git.line("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"):
            continue
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return record_of(path, branch)
    raise UsageError(
        f"there are too many worktrees named {wanted}", hint="`git worktree list` shows them"
    )


async def _make(repository: Repository, record: Record) -> None:
    """Without its files, which may take their time."""
    await repository.git.run(
        "worktree", "add", "--quiet", "--no-checkout", "--no-track", "-b", record.branch, "--",
        record.path, "HEAD",
    )  # fmt: skip
    own = await UserGit(Path(record.path)).line("rev-parse", "--absolute-git-dir")
    save(record, Path(own))


async def _fill(repository: Repository, record: Record, tell: Tell) -> None:
    git = UserGit(Path(record.path))
    await git.run("reset", "--hard", "--quiet", seconds=FILL_SECONDS)
    await copy_included(repository, git.folder, tell)


async def _undone_unless_done(
    step: Awaitable[None], repository: Repository, record: Record
) -> None:
    try:
        await step
    except BaseException:
        await _unmake(repository, record)
        raise


async def _unmake(repository: Repository, record: Record) -> None:
    """What was made before it failed; the failure itself is what is told."""
    with contextlib.suppress(GitFailed):
        await remove(record, repository, force=True)
        return
    await in_thread(shutil.rmtree, record.path, ignore_errors=True)
    with contextlib.suppress(GitFailed):
        await remove(record, repository)


def slug(name: str) -> str:
    """A name for a folder and a branch; "" when nothing of `name` can be in one."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")
    return plain[:LONGEST_NAME].rstrip("-")
