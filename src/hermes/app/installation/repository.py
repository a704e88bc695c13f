"""What git knows about a checkout: what is new, and what stands in the way of having it."""

import re
from pathlib import Path

import msgspec

from hermes.app.user_git import GitFailed, UserGit
from hermes.core.errors import HermesError

FETCH_SECONDS = 300.0
SHOWN_COMMITS = 20
SHOWN_LINES = 40
VERSION_FILE = "src/hermes/__init__.py"

_VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)
_OFFLINE = (
    "could not resolve host", "unable to access", "could not read from remote",
    "connection", "network is unreachable", "timed out", "took longer",
)  # fmt: skip


class UpdateFailed(HermesError):
    """The program stays as it is."""


class News(msgspec.Struct, frozen=True):
    """What an update would bring."""

    current: str
    """The commit in use."""
    target: str
    """The commit it goes to."""
    upstream: str
    """The branch it comes from, such as `origin/main`."""
    version: str
    """The version of the target."""
    commits: tuple[str, ...]
    """Subjects, newest first; at most `SHOWN_COMMITS`."""
    total: int
    """How many commits there are."""
    changes: tuple[str, ...]
    """New lines of the changelog."""


class Repository:
    """The checkout as git sees it."""

    def __init__(self, root: Path) -> None:
        self.root, self._git = root, UserGit(root)

    async def head(self) -> str:
        return await self._git.line("rev-parse", "HEAD")

    async def fetch(self) -> str:
        """Get what is new from the branch that this one follows; the name of that branch."""
        branch = await self._git.line("symbolic-ref", "--quiet", "--short", "HEAD")
        if not branch:
            raise UpdateFailed(
                f"{self.root} is on no branch", hint=f"git -C {self.root} switch main"
            )
        upstream = await self._git.line(
            "rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}"
        )
        remote = await self._git.line("config", "--get", f"branch.{branch}.remote")
        if not upstream or not remote:
            raise UpdateFailed(
                f"the branch {branch} follows no other one, so nothing says what is newer",
                hint=f"git -C {self.root} branch --set-upstream-to origin/{branch}",
            )
        try:
            await self._git.run("fetch", "--quiet", remote, seconds=FETCH_SECONDS)
        except GitFailed as error:
            raise _not_fetched(remote, error) from error
        return upstream

    async def news(self, upstream: str) -> News | None:
        """What `upstream` has that is not here. Raises `UpdateFailed` when both went apart."""
        counted = await self._git.run("rev-list", "--left-right", "--count", f"HEAD...{upstream}")
        ahead, behind = (int(number) for number in counted.text.split())
        if not behind:
            return None
        if ahead:
            raise UpdateFailed(
                f"there are {ahead} commits here that {upstream} does not have",
                hint=f"git -C {self.root} rebase {upstream}, then again: hermes update",
            )
        current, target = await self.head(), await self._git.line("rev-parse", upstream)
        subjects = await self._git.run(
            "log", "--format=%s", f"--max-count={SHOWN_COMMITS}", f"{current}..{target}"
        )
        return News(
            current,
            target,
            upstream,
            await self.version_of(target),
            tuple(subjects.text.splitlines()),
            behind,
            await self._changes(current, target),
        )

    async def version_of(self, commit: str) -> str:
        found = _VERSION.search(await self._git.line("show", f"{commit}:{VERSION_FILE}"))
        return found[1] if found else "?"

    async def check_clean(self, target: str) -> None:
        """Raises `UpdateFailed` when changes of the user's could be lost."""
        changed = (await self._git.run("status", "--porcelain", "--untracked-files=no")).text
        if changed:
            names = [line[3:] for line in changed.splitlines()]
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise UpdateFailed(
                f"files were changed here: {', '.join(names[:3])}{more}",
                hint=f"git -C {self.root} stash; hermes update; git -C {self.root} stash pop",
            )
        new = await self._git.run("diff", "--name-only", "--diff-filter=A", "-z", "HEAD", target)
        in_the_way = [name for name in new.text.split("\0") if name and self._is_there(name)]
        if in_the_way:
            raise UpdateFailed(
                f"{in_the_way[0]} is in the way: the new version has a file of that name",
                hint=f"move {self.root / in_the_way[0]} elsewhere",
            )

    def _is_there(self, name: str) -> bool:
        path = self.root / name
        return path.is_symlink() or path.exists()

    async def is_ancestor(self, one: str, other: str) -> bool:
        """Whether `other` has everything that `one` has."""
        return not await self._git.line("rev-list", "--max-count=1", one, f"^{other}")

    async def add_tree(self, folder: Path, commit: str) -> None:
        """The files of `commit` in a folder of their own."""
        await self._git.run("worktree", "prune")
        await self._git.run(
            "worktree", "add", "--detach", "--force", str(folder), commit, seconds=FETCH_SECONDS
        )

    async def forget_trees(self) -> None:
        """After their folders were deleted."""
        await self._git.run("worktree", "prune")

    async def forward(self, target: str) -> None:
        await self._git.run("merge", "--ff-only", "--quiet", target, seconds=FETCH_SECONDS)

    async def back(self, commit: str) -> None:
        """To an earlier commit; changes of the user's stay, or git refuses."""
        await self._git.run("reset", "--keep", "--quiet", commit, seconds=FETCH_SECONDS)

    async def _changes(self, current: str, target: str) -> tuple[str, ...]:
        diff = await self._git.run("diff", "--unified=0", current, target, "--", "CHANGELOG.md")
        lines = [line[1:].rstrip() for line in diff.text.splitlines() if line.startswith("+")]
        return tuple(line for line in lines if line and not line.startswith("++ "))[:SHOWN_LINES]


def _not_fetched(remote: str, error: GitFailed) -> UpdateFailed:
    said = str(error).removeprefix("git fetch: ")
    if any(sign in said.lower() for sign in _OFFLINE):
        return UpdateFailed(
            f"{remote} cannot be reached: {said}",
            hint="check the network connection and try again; nothing was changed",
        )
    return UpdateFailed(f"git cannot fetch from {remote}: {said}", hint="nothing was changed")
