"""Files that git ignores and a worktree needs all the same: those that .worktreeinclude lists.

The file has the form of a .gitignore. git itself says what matches, so a pattern cannot lead out of
the repository; only what git ignores is copied, so a copy never looks like work in the worktree.
"""

import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from hermes.app.references.blocks import one_line
from hermes.app.user_git import GitFailed, UserGit
from hermes.app.worktrees.repository import FOLDER, Repository
from hermes.security import is_below
from hermes.util.text import human_size, many
from hermes.util.threads import in_thread

NAME = ".worktreeinclude"
MOST_FILES = 100_000
MOST_BYTES = 2_000_000_000
MOST_TOLD = 5
LIST_SECONDS = 60.0


class Copied(msgspec.Struct, frozen=True):
    files: int
    bytes: int
    left_out: dict[str, str]
    """Why, by name."""


async def copy_included(
    repository: Repository, worktree: Path, tell: Callable[[str], None]
) -> None:
    """What cannot be copied is told, and the rest goes on."""
    rules = repository.root / NAME
    if not rules.is_file() or rules.is_symlink():
        return
    try:
        names = await _listed(repository.git)
        direct = _not_behind_links(worktree, names)
        ignored = await _ignored(worktree, direct)
    except GitFailed as error:
        tell(f"{NAME}: nothing was copied: {error}")
        return
    left_out = dict.fromkeys(names, "its folder is a link in the worktree")
    left_out |= dict.fromkeys(direct, "git does not ignore it")
    wanted = [name for name in direct if name in ignored]
    stop = threading.Event()
    try:
        done = await in_thread(_copy, repository.root, worktree, wanted, stop)
    finally:
        stop.set()
    left_out = {name: why for name, why in left_out.items() if name not in ignored} | done.left_out
    for name, why in list(left_out.items())[:MOST_TOLD]:
        tell(f"{NAME}: {one_line(name)} was not copied: {why}")
    if len(left_out) > MOST_TOLD:
        tell(f"{NAME}: {len(left_out) - MOST_TOLD:,} more were not copied")
    if done.files:
        tell(f"{NAME}: copied {many(done.files, 'file')}, {human_size(done.bytes)}")


async def _listed(git: UserGit) -> list[str]:
    """Files that match and are not tracked; a repository inside ends with a slash."""
    said = await git.run(
        "ls-files", "-z", "--others", "--ignored", f"--exclude-from={NAME}", seconds=LIST_SECONDS
    )
    names = os.fsdecode(said.output).split("\0")
    return [name for name in names if name and not name.startswith(f"{FOLDER}/")]


def _not_behind_links(worktree: Path, names: list[str]) -> list[str]:
    """Those whose folder in the worktree is none, or a real one."""
    top = Path(os.path.realpath(worktree))
    folders = {_folder(name) for name in names}
    real = {each for each in folders if os.path.realpath(top / each) == str(top / each)}
    return [name for name in names if _folder(name) in real]


def _folder(name: str) -> str:
    return name.rstrip("/").rpartition("/")[0]


async def _ignored(worktree: Path, names: list[str]) -> set[str]:
    """Those that git ignores in the worktree, where nothing of them is yet."""
    # A name may begin with a colon, which git would take for more than a name.
    data = b"".join(b"./%b\0" % os.fsencode(name) for name in names)
    said = await UserGit(worktree).run(
        "check-ignore", "-z", "--stdin", data=data, good=(0, 1), seconds=LIST_SECONDS
    )
    return {name.removeprefix("./") for name in os.fsdecode(said.output).split("\0")}


def _copy(root: Path, worktree: Path, names: Iterable[str], stop: threading.Event) -> Copied:
    files = size = 0
    left_out: dict[str, str] = {}
    for name in names:
        if stop.is_set():
            break
        try:
            length = (root / name).lstat().st_size
            if files >= MOST_FILES or size + length > MOST_BYTES:
                left_out[name] = f"more than {human_size(MOST_BYTES)} or {MOST_FILES:,} files"
                continue
            _copy_one(root, worktree, name)
        except (OSError, ValueError) as error:
            left_out[name] = (getattr(error, "strerror", None) or str(error)).lower()
        else:
            files, size = files + 1, size + length
    return Copied(files, size, left_out)


def _copy_one(root: Path, worktree: Path, name: str) -> None:
    """Never over a file that is there, and never through a link. Raises `ValueError`."""
    source, target = root / name, worktree / name
    mode = source.lstat().st_mode
    if stat.S_ISDIR(mode):
        raise ValueError("it is a repository of its own")
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise ValueError("it is not a file")
    if not is_below(os.path.realpath(source), os.path.realpath(root)):
        raise ValueError("it leads out of the repository")
    if os.path.lexists(target):
        raise ValueError("it is there already")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)
