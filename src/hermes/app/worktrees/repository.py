"""The repository a worktree is made of, and why one may not be."""

import os
import shlex
from pathlib import Path

import msgspec

from hermes.app.user_git import GitFailed, UserGit
from hermes.core.errors import UsageError
from hermes.util.atomic import write_bytes

FOLDER = ".worktrees"
WITHOUT = "leave out --worktree"


class Repository(msgspec.Struct, frozen=True):
    git: UserGit
    """At the top of the user's working tree."""
    common: Path
    """Its .git folder, which all worktrees share."""
    inside: Path
    """Where the user is, seen from the top."""

    @property
    def root(self) -> Path:
        return self.git.folder

    @property
    def folder(self) -> Path:
        """Where worktrees go."""
        return self.root / FOLDER

    def usable_folder(self) -> Path:
        """`folder`, made if need be. A link there could lead anywhere. Raises `UsageError`."""
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            raise UsageError(
                f"{self.folder} is not a folder, so worktrees cannot be made in it",
                hint=f"move it away, or {WITHOUT}",
            )
        self.folder.mkdir(exist_ok=True)
        return self.folder

    async def keep_out_of_status(self) -> None:
        """Worktrees are not files of the project: git is told so beside it, not in .gitignore."""
        if await self.git.line("check-ignore", "--", f"{FOLDER}/x"):
            return
        exclude = self.common / "info" / "exclude"
        exclude.parent.mkdir(exist_ok=True)
        rules = exclude.read_bytes() if exclude.exists() else b""
        end = b"" if rules.endswith(b"\n") or not rules else b"\n"
        write_bytes(exclude, rules + end + f"/{FOLDER}/\n".encode())


async def repository_at(folder: Path) -> Repository:
    """Raises `UsageError` where no worktree can be made."""
    try:
        git = UserGit(folder)
        said = await git.run(
            "rev-parse", "--is-bare-repository", "--is-inside-work-tree", "--git-dir",
            "--git-common-dir",
        )  # fmt: skip
    except GitFailed as error:
        raise _unusable(folder, error) from error
    lines = os.fsdecode(said.output).splitlines()
    if len(lines) != 4:
        raise UsageError(f"the path of {folder!r} has a line break in it", hint=WITHOUT)
    bare, in_tree, own, common = lines
    if bare == "true":
        raise UsageError(
            f"{folder} is a bare repository: there are no files to work on",
            hint=f"start hermes in a clone of it, or {WITHOUT}",
        )
    if in_tree != "true":
        raise UsageError(
            f"{folder} is inside the .git folder of a repository",
            hint=f"start hermes in its working tree, or {WITHOUT}",
        )
    root = Path(await git.line("rev-parse", "--show-toplevel"))
    if above := await git.line("rev-parse", "--show-superproject-working-tree"):
        raise UsageError(
            f"{root} is a submodule of {above}: worktrees are made of whole repositories",
            hint=f"start hermes in {above}, or {WITHOUT}",
        )
    real_common = Path(os.path.realpath(folder / common))
    if os.path.realpath(folder / own) != str(real_common):
        raise UsageError(
            f"{root} is itself a worktree",
            hint=f"start hermes in {real_common.parent}, or {WITHOUT}: it is separate already",
        )
    if not await git.line("rev-parse", "--verify", "--quiet", "HEAD^{commit}"):
        raise UsageError(
            f"the repository {root} has no commits yet, so there is nothing to make a worktree of",
            hint=f"commit something first, or {WITHOUT}",
        )
    inside = Path(os.path.relpath(os.path.realpath(folder), os.path.realpath(root)))
    return Repository(UserGit(root), real_common, inside)


def _unusable(folder: Path, error: GitFailed) -> UsageError:
    if "not a git repository" in str(error):
        return UsageError(
            f"{folder} is not in a git repository, so there can be no worktree",
            hint=f"run `git init` and commit, or {WITHOUT}",
        )
    hint = error.hint or WITHOUT
    if "dubious ownership" in str(error):
        place = shlex.quote(str(folder))
        hint = f"if you trust it: git config --global --add safe.directory {place}"
    return UsageError(f"there can be no worktree of {folder}: {error}", hint=hint)
