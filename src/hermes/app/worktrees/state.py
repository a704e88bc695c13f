"""What is in a worktree that would be lost with it."""

from pathlib import Path

import msgspec

from hermes.app.user_git import UserGit
from hermes.app.worktrees.record import Record
from hermes.app.worktrees.repository import Repository
from hermes.util.text import many

UNFINISHED = (
    "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply",
)  # fmt: skip
STATUS_SECONDS = 120.0


class State(msgspec.Struct, frozen=True):
    changed: int = 0
    """Files that are not committed, new ones too; ignored ones do not count."""
    commits: int = 0
    """Commits that nothing else leads to."""
    unfinished: bool = False
    """In the middle of a merge, a rebase or the like."""

    @property
    def clean(self) -> bool:
        return self == State()

    @property
    def words(self) -> str:
        return " and ".join(
            [
                *([many(self.commits, "commit")] if self.commits else []),
                *([f"{many(self.changed, 'file')} with changes"] if self.changed else []),
                *(["an unfinished merge or rebase"] if self.unfinished else []),
            ]
        )


async def state_of(record: Record, repository: Repository) -> State:
    """Of a worktree, or only of its branch when its folder is gone. Raises `GitFailed`."""
    path = Path(record.path)
    if not (path / ".git").exists():
        return State(commits=await _commits(repository.git, record.branch, ()))
    git = UserGit(path)
    said = await git.run(
        "status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=none",
        "--no-renames", seconds=STATUS_SECONDS,
    )  # fmt: skip
    own = path / await git.line("rev-parse", "--git-dir")
    return State(
        changed=said.output.count(b"\0"),
        commits=await _commits(git, record.branch, ("HEAD",)),
        unfinished=any((own / name).exists() for name in UNFINISHED),
    )


async def _commits(git: UserGit, branch: str, others: tuple[str, ...]) -> int:
    """How many commits would be lost with the branch and `others`."""
    wanted = [*others]
    if await git.line("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"):
        wanted.append(f"refs/heads/{branch}")
    if not wanted:
        return 0
    said = await git.run(
        "rev-list", "--count", *wanted, "--not", f"--exclude={branch}", "--branches", "--remotes",
        "--tags",
    )  # fmt: skip
    return int(said.text)
