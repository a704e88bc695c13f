"""Git worktrees for sessions: create one, remove it when it is clean, clean up after crashes."""

import contextlib
import os
import platform
import re
import shlex
import shutil
import stat
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime
from pathlib import Path

import msgspec

from hermes.app import UserGit, one_line
from hermes.core.errors import UsageError
from hermes.security import is_below
from hermes.store import GitCommandFailed
from hermes.util.concurrency import async_file_lock, in_thread
from hermes.util.files import write_bytes
from hermes.util.text import human_size, many

# The owner of a worktree, stored in its administrative folder inside .git and deleted with it.

RECORD_NAME = "hermes.json"
LARGEST = 100_000


class WorktreeRecord(msgspec.Struct, frozen=True):
    path: str
    branch: str
    pid: int
    process_began: float
    host: str
    made: float  #: Seconds since 1970.

    @property
    def in_use(self) -> bool:
        """True unless the process that created it has certainly ended."""
        if self.host != platform.node():
            return True
        import psutil  # slow to load

        try:
            began: float = psutil.Process(self.pid).create_time()
        except psutil.NoSuchProcess:
            return False
        except psutil.Error:
            return True
        return abs(began - self.process_began) < 2


def own_record(path: Path, branch: str) -> WorktreeRecord:
    """Return the record of a worktree that this process owns."""
    import psutil  # slow to load

    process = psutil.Process()
    return WorktreeRecord(
        str(path), branch, process.pid, process.create_time(), platform.node(), time.time()
    )


def read_records(common: Path) -> list[WorktreeRecord]:
    """Return the records of all worktrees that Hermes created; unreadable files are skipped."""
    found = []
    for path in sorted((common / "worktrees").glob(f"*/{RECORD_NAME}")):
        try:
            if path.stat().st_size <= LARGEST:
                found.append(msgspec.json.decode(path.read_bytes(), type=WorktreeRecord))
        except (OSError, msgspec.MsgspecError):
            continue
    return found


# The repository, and the reasons why it may have no worktree.

FOLDER = ".worktrees"
WITHOUT = "leave out --worktree"


class WorktreeRepository(msgspec.Struct, frozen=True):
    """The repository of the user's folder."""

    git: UserGit  #: The top of the user's working tree.
    common: Path  #: The .git folder, which all worktrees share.
    inside: Path  #: The user's folder relative to the top.

    @property
    def root(self) -> Path:
        return self.git.folder

    @property
    def folder(self) -> Path:
        """The folder of the worktrees."""
        return self.root / FOLDER

    async def make_folder(self) -> None:
        """Create `folder` and exclude it from git, in `.git/info/exclude` instead of the project's
        .gitignore. Raises `UsageError` for a link."""
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            raise UsageError(
                f"{self.folder} is not a folder, so no worktree can be created in it",
                hint=f"move it away, or {WITHOUT}",
            )
        self.folder.mkdir(exist_ok=True)
        if await self.git.line("check-ignore", "--", f"{FOLDER}/x"):
            return
        exclude = self.common / "info" / "exclude"
        exclude.parent.mkdir(exist_ok=True)
        rules = exclude.read_bytes() if exclude.exists() else b""
        end = b"" if rules.endswith(b"\n") or not rules else b"\n"
        write_bytes(exclude, rules + end + f"/{FOLDER}/\n".encode())


async def repository_at(folder: Path) -> WorktreeRepository:
    """Find the repository. Raises `UsageError` if no worktree can be created."""
    try:
        git = UserGit(folder)
        answer = await git.run(
            "rev-parse", "--is-bare-repository", "--is-inside-work-tree", "--git-dir",
            "--git-common-dir",
        )  # fmt: skip
    except GitCommandFailed as error:
        raise _unusable(folder, error) from error
    lines = os.fsdecode(answer.output).splitlines()
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
            f"{root} is a submodule of {above}: worktrees need a whole repository",
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
            f"the repository {root} has no commits yet, so no worktree can be created",
            hint=f"commit something first, or {WITHOUT}",
        )
    inside = Path(os.path.relpath(os.path.realpath(folder), os.path.realpath(root)))
    return WorktreeRepository(UserGit(root), real_common, inside)


def _unusable(folder: Path, error: GitCommandFailed) -> UsageError:
    if "not a git repository" in str(error):
        return UsageError(
            f"{folder} is not in a git repository, so no worktree can be created",
            hint=f"run `git init` and commit, or {WITHOUT}",
        )
    hint = error.hint or WITHOUT
    if "dubious ownership" in str(error):
        place = shlex.quote(str(folder))
        hint = f"if you trust it: git config --global --add safe.directory {place}"
    return UsageError(f"no worktree can be created of {folder}: {error}", hint=hint)


# Copies of ignored files that match `.worktreeinclude`, which has the syntax of a .gitignore.
#
# git itself matches it, so a pattern cannot lead out of the repository. Only ignored files are
# copied, so a copy never looks like a change in the worktree.

INCLUDE_FILE = ".worktreeinclude"
MAX_FILES = 100_000
MAX_BYTES = 2_000_000_000
MAX_LISTED = 5
LIST_SECONDS = 60.0


async def copy_included(
    repository: WorktreeRepository, worktree: Path, tell: Callable[[str], None]
) -> None:
    """Copy the files; files that cannot be copied are reported."""
    rules = repository.root / INCLUDE_FILE
    if not rules.is_file() or rules.is_symlink():
        return
    only = f"--exclude-from={INCLUDE_FILE}"
    try:
        # Files that match and are not tracked; a repository inside ends with a slash.
        found = await repository.git.run(
            "ls-files", "-z", "--others", "--ignored", only, seconds=LIST_SECONDS
        )
        listed = os.fsdecode(found.output).split("\0")
        names = [name for name in listed if name and not name.startswith(f"{FOLDER}/")]
        direct = _without_linked_folders(worktree, names)
        # A name may begin with a colon, which git would take for a pathspec.
        data = b"".join(b"./%b\0" % os.fsencode(name) for name in direct)
        found = await UserGit(worktree).run(
            "check-ignore", "-z", "--stdin", data=data, good=(0, 1), seconds=LIST_SECONDS
        )
        ignored = {name.removeprefix("./") for name in os.fsdecode(found.output).split("\0")}
    except GitCommandFailed as error:
        tell(f"{INCLUDE_FILE}: nothing was copied: {error}")
        return
    left_out = dict.fromkeys(names, "its folder is a link in the worktree")
    left_out |= dict.fromkeys(direct, "git does not ignore it")
    wanted = [name for name in direct if name in ignored]
    stop = threading.Event()
    try:
        files, size, failed = await in_thread(_copy, repository.root, worktree, wanted, stop)
    finally:
        stop.set()
    left_out = {name: why for name, why in left_out.items() if name not in ignored} | failed
    for name, why in list(left_out.items())[:MAX_LISTED]:
        tell(f"{INCLUDE_FILE}: {one_line(name)} was not copied: {why}")
    if len(left_out) > MAX_LISTED:
        tell(f"{INCLUDE_FILE}: {len(left_out) - MAX_LISTED:,} more were not copied")
    if files:
        tell(f"{INCLUDE_FILE}: copied {many(files, 'file')}, {human_size(size)}")


def _without_linked_folders(worktree: Path, names: list[str]) -> list[str]:
    """Return those whose folder in the worktree is missing or a real folder."""
    top = Path(os.path.realpath(worktree))
    folders = {_folder(name) for name in names}
    real = {each for each in folders if os.path.realpath(top / each) == str(top / each)}
    return [name for name in names if _folder(name) in real]


def _folder(name: str) -> str:
    return name.rstrip("/").rpartition("/")[0]


def _copy(
    root: Path, worktree: Path, names: Iterable[str], stop: threading.Event
) -> tuple[int, int, dict[str, str]]:
    """Return the number and size of the copied files, and why others were left out, by name."""
    files = size = 0
    left_out: dict[str, str] = {}
    for name in names:
        if stop.is_set():
            break
        try:
            length = (root / name).lstat().st_size
            if files >= MAX_FILES or size + length > MAX_BYTES:
                left_out[name] = f"more than {human_size(MAX_BYTES)} or {MAX_FILES:,} files"
                continue
            _copy_one(root, worktree, name)
        except (OSError, ValueError) as error:
            left_out[name] = (getattr(error, "strerror", None) or str(error)).lower()
        else:
            files, size = files + 1, size + length
    return files, size, left_out


def _copy_one(root: Path, worktree: Path, name: str) -> None:
    """Copy one file without replacing another or following a link. Raises `ValueError`."""
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


# git does not serialise changes of worktrees, so a lock does.

LOCK_NAME = "hermes-worktrees.lock"
LOCK_SECONDS = 60.0


@contextlib.asynccontextmanager
async def locked(repository: WorktreeRepository) -> AsyncIterator[None]:
    """Lock the worktrees of a repository until the process ends. Raises `GitCommandFailed`."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            lock = async_file_lock(repository.common / LOCK_NAME, LOCK_SECONDS)
            await stack.enter_async_context(lock)
        except TimeoutError as error:
            raise GitCommandFailed("another Hermes is changing the worktrees") from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise GitCommandFailed(f"{repository.common} cannot be written: {reason}") from error
        yield


REMOVE_SECONDS = 120.0


async def remove(
    record: WorktreeRecord, repository: WorktreeRepository, *, force: bool = False
) -> None:
    """Remove a worktree and its branch. Raises `GitCommandFailed`.

    Without `force` git checks again that it is clean and not locked.
    """
    git = repository.git
    if Path(record.path).exists():
        forced = ["--force", "--force"] if force else []
        await git.run("worktree", "remove", *forced, "--", record.path, seconds=REMOVE_SECONDS)
    else:
        await git.run("worktree", "prune")
    if await git.line("rev-parse", "--verify", "--quiet", f"refs/heads/{record.branch}"):
        await git.run("branch", "--quiet", "-D", "--", record.branch)
    with contextlib.suppress(OSError):  # it contains others
        repository.folder.rmdir()


UNFINISHED = (
    "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply",
)  # fmt: skip
STATUS_SECONDS = 120.0


class WorktreeState(msgspec.Struct, frozen=True):
    """The work that would be lost with a worktree."""

    changed: int = 0  #: Uncommitted files including new ones; ignored ones do not count.
    commits: int = 0  #: Commits that no other branch contains.
    unfinished: bool = False  #: In the middle of a merge, a rebase or similar.

    @property
    def clean(self) -> bool:
        return self == WorktreeState()

    @property
    def words(self) -> str:
        facts = {
            many(self.commits, "commit"): self.commits,
            f"{many(self.changed, 'file')} with changes": self.changed,
            "an unfinished merge or rebase": self.unfinished,
        }
        return " and ".join(fact for fact, is_true in facts.items() if is_true)


async def state_of(record: WorktreeRecord, repository: WorktreeRepository) -> WorktreeState:
    """Examine a worktree, or only its branch if its folder is gone. Raises `GitCommandFailed`."""
    path = Path(record.path)
    if not (path / ".git").exists():
        return WorktreeState(commits=await _count_commits(repository.git, record.branch))
    git = UserGit(path)
    status = await git.run(
        "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames",
        seconds=STATUS_SECONDS,
    )  # fmt: skip
    # The state of a submodule is not known, because git would have to run with its settings.
    staged = os.fsdecode((await git.run("ls-files", "-z", "--stage")).output).split("\0")
    modules = [line.partition("\t")[2] for line in staged if line.startswith("160000 ")]
    filled = sum((path / name / ".git").exists() for name in modules)
    own = path / await git.line("rev-parse", "--git-dir")
    return WorktreeState(
        changed=status.output.count(b"\0") + filled,
        commits=await _count_commits(git, record.branch, "HEAD"),
        unfinished=any((own / name).exists() for name in UNFINISHED),
    )


async def _count_commits(git: UserGit, branch: str, *others: str) -> int:
    """Return how many commits would be lost with the branch and `others`."""
    wanted = [*others]
    if await git.line("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"):
        wanted.append(f"refs/heads/{branch}")
    if not wanted:
        return 0
    counted = await git.run(
        "rev-list", "--count", *wanted, "--not", f"--exclude={branch}", "--branches", "--remotes",
        "--tags",
    )  # fmt: skip
    return int(counted.text)


# Worktrees that a crashed run left behind.

OLD_SECONDS = 24 * 3600.0
MAX_STALE = 20  #: Worktrees that are examined at a time.


async def prune_stale(repository: WorktreeRepository, tell: Callable[[str], None]) -> None:
    """Remove worktrees that are old, clean and unused."""
    for record in read_records(repository.common)[:MAX_STALE]:
        # The repository was moved, or the owner file was changed: leave it alone.
        ours = Path(record.path).parent == repository.folder and record.branch.startswith("hermes")
        if not ours or time.time() - record.made < OLD_SECONDS or record.in_use:
            continue
        try:
            clean = (await state_of(record, repository)).clean
            if not clean or await in_thread(is_in_use, Path(record.path)):
                continue
            await remove(record, repository)
        except GitCommandFailed as error:
            tell(f"the old worktree {record.path} was not removed: {error}")
        else:
            tell(f"removed the worktree {record.path} of an earlier run; it had no changes")


def is_in_use(folder: Path) -> bool:
    """Return whether a process, such as a shell of the user, works in the folder."""
    import psutil  # slow to load

    real = os.path.realpath(folder)
    for process in psutil.process_iter():
        try:
            if is_below(process.cwd(), real):
                return True
        except (psutil.Error, OSError):  # ended, or of another user
            continue
    return False


Tell = Callable[[str], None]
PREFIX = "hermes/"
LONGEST_NAME = 60
MAX_TRIES = 50
FILL_SECONDS = 600.0


class Worktree:
    """A worktree of a session. `folder` is the working folder in the new tree."""

    def __init__(self, repository: WorktreeRepository, record: WorktreeRecord) -> None:
        self._repository, self._record = repository, record
        self.root, self.branch = Path(record.path), record.branch
        inside = self.root / repository.inside
        self.folder = inside if inside.is_dir() else self.root
        self._closed = False

    async def close(self) -> str:
        """Remove it if it is clean and return a message for the user. No process may use it."""
        if self._closed:
            return ""
        self._closed = True
        try:
            state = await state_of(self._record, self._repository)
            if not state.clean:
                return self._explain_kept(state)
            async with locked(self._repository):
                await remove(self._record, self._repository)
        except GitCommandFailed as error:
            return self._explain_kept(WorktreeState(), str(error))
        return f"removed the worktree {self.root}: nothing was changed in it"

    def _explain_kept(self, state: WorktreeState, problem: str = "") -> str:
        place, branch = shlex.quote(str(self.root)), shlex.quote(self.branch)
        there = self.root.exists()
        what = f"the branch {self.branch}; its worktree is gone"
        if there:
            what = f"the worktree {self.root} (branch {self.branch})"
        lines = [f"kept {what}: {problem or state.words}"]
        if there and state.changed:
            lines.append(f"  commit: git -C {place} add -A && git -C {place} commit")
        lines.append(f"  merge:  git merge {branch}")
        removing = f"git worktree remove --force {place} && " if there else ""
        lines.append(f"  remove: {removing}git branch -D {branch}")
        return "\n".join(lines)


async def open_worktree(folder: Path, name: str, tell: Tell) -> Worktree:
    """Create a worktree of the repository of `folder`, on a new branch.

    `name` is the name of the session; the default is the time. `tell` receives messages for the
    user. Raises `UsageError` if there can be none, and `GitCommandFailed`.
    """
    repository = await repository_at(folder)
    async with locked(repository):
        await prune_stale(repository, tell)
        await repository.make_folder()
        record = await _claim_name(repository, name)
        async with _removed_on_failure(repository, record):
            # Without its files, which can take long.
            await repository.git.run(
                "worktree", "add", "--quiet", "--no-checkout", "--no-track", "-b", record.branch,
                "--", record.path, "HEAD",
            )  # fmt: skip
            own = await UserGit(Path(record.path)).line("rev-parse", "--absolute-git-dir")
            write_bytes(Path(own, RECORD_NAME), msgspec.json.encode(record))
    async with _removed_on_failure(repository, record):
        git = UserGit(Path(record.path))
        await git.run("reset", "--hard", "--quiet", seconds=FILL_SECONDS)
        await copy_included(repository, git.folder, tell)
    if (Path(record.path) / ".gitmodules").exists():
        tell("submodules are empty in the worktree: `git submodule update --init` fills them")
    return Worktree(repository, record)


async def _claim_name(repository: WorktreeRepository, name: str) -> WorktreeRecord:
    """Reserve an unused name by creating its empty folder."""
    git = repository.git
    # A branch `hermes` would prevent `hermes/…`.
    taken = await git.line("rev-parse", "--verify", "--quiet", f"refs/heads/{PREFIX[:-1]}")
    prefix = PREFIX.replace("/", "-") if taken else PREFIX
    wanted = slug(name) or f"{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    for number in range(1, MAX_TRIES + 1):
        each = wanted if number == 1 else f"{wanted}-{number}"
        path, branch = repository.folder / each, prefix + each
        if await git.line("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"):
            continue
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return own_record(path, branch)
    raise UsageError(
        f"there are too many worktrees named {wanted}", hint="`git worktree list` shows them"
    )


@contextlib.asynccontextmanager
async def _removed_on_failure(
    repository: WorktreeRepository, record: WorktreeRecord
) -> AsyncIterator[None]:
    """Remove the worktree if the block fails or is cancelled."""
    try:
        yield
    except BaseException:
        try:
            await remove(record, repository, force=True)
        except GitCommandFailed:
            await in_thread(shutil.rmtree, record.path, ignore_errors=True)
            with contextlib.suppress(GitCommandFailed):
                await remove(record, repository)
        raise


def slug(name: str) -> str:
    """Return a name for a folder and a branch; "" if `name` has no usable character."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")
    return plain[:LONGEST_NAME].rstrip("-")
