"""The git repository of the skill history: changes as commits, files as trees."""

import asyncio
import contextlib
import os
import re
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from hermes.core.errors import StoreError
from hermes.skills.skill import LINKED_FOLDERS
from hermes.store.git import SETTINGS, Git, GitFailed
from hermes.util.files import write_bytes, write_text

if TYPE_CHECKING:
    from filelock import FileLock

# Changes and commits

BY_HAND = "changed by hand"
AS_FOUND = "as it was before the first recorded change"
MAX_REASON_LENGTH = 500
SHORT_ID_LENGTH = 8
"""Characters of an id that are displayed."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


class Author(StrEnum):
    AGENT = "agent"
    REVIEW = "review"
    """The review after a piece of work."""
    USER = "user"
    HUB = "hub"


class SkillChange(msgspec.Struct, frozen=True):
    """A change that is about to be made."""

    action: str
    """create, patch, edit, delete, …, undo, retire; "by hand" for manual changes."""
    skills: tuple[str, ...]
    reason: str
    who: Author
    session: str = ""
    paths: tuple[str, ...] = ()
    """Files and folders it touches, relative to the skill folder; empty means any."""
    undoes: str = ""
    """The id of the change that it undoes."""


class SkillCommit(msgspec.Struct, frozen=True):
    """A recorded change."""

    id: str
    at: float
    """Seconds since 1970."""
    action: str
    skills: tuple[str, ...]
    reason: str
    who: str
    session: str = ""
    undoes: str = ""

    @property
    def short(self) -> str:
        return self.id[:SHORT_ID_LENGTH]

    @property
    def label(self) -> str:
        """The id and the reason, for messages."""
        return f"{self.short} ({self.reason})"


def format_message(change: SkillChange) -> str:
    """Return the commit message: the reason, then one `Key: value` a line as in git trailers."""
    reason = _one_line(change.reason)[:MAX_REASON_LENGTH] or " ".join(
        (change.action, *change.skills)
    )
    trailers = [
        *(("Skill", name) for name in change.skills),
        ("Action", change.action),
        ("By", change.who.value),
        ("Session", change.session),
        ("Undoes", change.undoes),
    ]
    lines = [f"{key}: {_one_line(value)}" for key, value in trailers if value]
    return "\n".join((reason, "", *lines, ""))


def parse_commit(commit_id: str, at: str, message: str) -> SkillCommit:
    """The inverse of `format_message`; missing values of a foreign commit are ""."""
    reason, _, rest = message.strip("\n").partition("\n")
    found: dict[str, list[str]] = {}
    for line in rest.splitlines():
        key, colon, value = line.partition(": ")
        if colon:
            found.setdefault(key, []).append(value)
    return SkillCommit(
        id=commit_id,
        at=float(at),
        action=_first_trailer(found, "Action"),
        skills=tuple(found.get("Skill", ())),
        reason=reason,
        who=_first_trailer(found, "By"),
        session=_first_trailer(found, "Session"),
        undoes=_first_trailer(found, "Undoes"),
    )


def _first_trailer(found: dict[str, list[str]], key: str) -> str:
    return found.get(key, [""])[0]


def _one_line(text: str) -> str:
    """Return the text on one line, so that a reason cannot contain a trailer."""
    return " ".join(_CONTROL.sub(" ", text).split())


# Tree entries and file updates

LINK = "120000"
EXECUTABLE = "100755"
REGULAR = ("100644", EXECUTABLE)
RETIRED = ".retired"
"""The folder of skills that are archived but not used."""

_TEMPORARY_NAME = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp")
"""How `util.atomic` names a file before it is moved into place."""


class TreeEntry(msgspec.Struct, frozen=True):
    """A file in a tree."""

    mode: str
    id: str


class FileUpdate(msgspec.Struct, frozen=True):
    """The new content of a path; None deletes the file."""

    path: str
    entry: TreeEntry | None


def skill_names(paths: Iterator[str]) -> tuple[str, ...]:
    """Return the names of the skills to which files belong, judged by their paths."""
    found: dict[str, None] = {}
    for path in paths:
        folders = [each for each in PurePosixPath(path).parts[:-1] if each != RETIRED]
        linked = next((n for n, each in enumerate(folders) if n and each in LINKED_FOLDERS), None)
        if name := folders[:linked][-1:]:
            found[name[0]] = None
    return tuple(sorted(found))


def is_reachable(workspace: Path, path: str) -> bool:
    """Whether `path` can be written without following a link or replacing a folder."""
    place = workspace
    for part in PurePosixPath(path).parts[:-1]:
        place /= part
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            return False
    return (workspace / path).is_symlink() or not (workspace / path).is_dir()


def apply_update(workspace: Path, wanted: FileUpdate, content: Callable[[str], bytes]) -> None:
    """Write or delete a file. `content` returns the bytes of a blob id."""
    target = workspace / wanted.path
    if not is_reachable(workspace, wanted.path):
        raise OSError(f"{wanted.path} cannot be reached")
    if wanted.entry is None:
        target.unlink(missing_ok=True)
        remove_empty_folders(target.parent, workspace)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    data = content(wanted.entry.id)
    if target.is_symlink() or wanted.entry.mode == LINK:
        target.unlink(missing_ok=True)
    if wanted.entry.mode == LINK:
        target.symlink_to(os.fsdecode(data))
    else:
        write_bytes(target, data, mode=0o755 if wanted.entry.mode == EXECUTABLE else 0o644)


def remove_temporary_files(workspace: Path, path: str) -> None:
    """Remove temporary files that an interrupted write left at or below `path`."""
    place = workspace / path
    for left in place.rglob(".*.tmp") if place.is_dir() else place.parent.glob(".*.tmp"):
        if _TEMPORARY_NAME.fullmatch(left.name) and left.is_file():
            left.unlink(missing_ok=True)


def remove_empty_folders(folder: Path, stop: Path) -> None:
    """Remove empty folders from `folder` upwards, excluding `stop`."""
    with contextlib.suppress(OSError):  # not empty, or gone
        while folder != stop and stop in folder.parents:
            folder.rmdir()
            folder = folder.parent


HISTORY_FOLDER = ".history"
BRANCH = "refs/heads/main"
MAX_FILE_BYTES = 10_000_000
"""Larger files are not recorded."""
MAX_DIFF_BYTES = 500_000
"""Bytes of a diff that are displayed."""
GIT_SETTINGS = """\
[core]
	fsync = committed,reference
[user]
	name = Hermes
	email = hermes@localhost
"""
GIT_EXCLUDE = """\
/.*
!/.retired
.*.tmp
__pycache__/
*.pyc
node_modules/
.venv/
.DS_Store
"""
"""Hidden files at the top are state of the hub, usage counts, locks and the user's own .git. A
.gitignore does not apply: everything the agent writes must be recorded."""
GIT_ATTRIBUTES = "* -text !eol -ident !filter !working-tree-encoding\n"
"""Takes precedence over every .gitattributes in the folder: files are recorded byte for byte."""
SKIPPED_FOLDERS = frozenset({".git", "__pycache__", "node_modules", ".venv"})


class HistoryRepository:
    """Used by one task at a time. The caller holds the lock for everything that writes."""

    def __init__(self, program: str, workspace: Path) -> None:
        self.workspace = workspace
        self._exclude = workspace / HISTORY_FOLDER / "info" / "exclude"
        self.git = Git(program, workspace / HISTORY_FOLDER, workspace)

    @property
    def exists(self) -> bool:
        return (self.git.folder / "HEAD").exists()

    def prepare(self) -> None:
        """Create the repository, or restore its settings if they differ from ours."""
        folder = self.git.folder
        for name in ("objects", "refs", "info"):
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in {
            "HEAD": f"ref: {BRANCH}\n",
            "config": SETTINGS + GIT_SETTINGS,
            "info/exclude": GIT_EXCLUDE,
            "info/attributes": GIT_ATTRIBUTES,
        }.items():
            path = folder / name
            if not path.exists() or path.read_text("utf-8", "replace") != text:
                write_text(path, text, mode=0o600)
        for left in ("index.lock", f"{BRANCH}.lock"):  # left by a git process that was killed
            (folder / left).unlink(missing_ok=True)

    async def head(self) -> str:
        """Return the id of the newest commit, or ""."""
        output = await self.git.run("rev-parse", "--verify", "--quiet", BRANCH, good=(0, 1))
        return output.decode().strip()

    async def changed_names(self) -> list[str]:
        """Return the files that are new, changed or deleted since the index was written."""
        output = await self.git.run(
            "ls-files", "-z", "--others", "--modified", "--deleted", "-X", str(self._exclude)
        )
        names: dict[str, None] = {}
        for name in (os.fsdecode(each) for each in output.split(b"\0") if each):
            # git lists a nested repository as one folder.
            inside = self._files_below(name) if name.endswith("/") else (name,)
            names.update(dict.fromkeys(inside))
        return list(names)

    async def commit_changes(self, change: SkillChange) -> SkillCommit | None:
        """Commit the current files below the paths of a change; None when nothing differs."""
        tree = await self._write_tree(change.paths)
        head = await self.head()
        if head:
            committed = await self.git.run("rev-parse", "--verify", f"{head}^{{tree}}")
            if tree == committed.decode().strip():
                return None
        if not head and not await self.git.run("ls-tree", tree):
            return None
        parent = ("-p", head) if head else ()
        message = format_message(change).encode()
        output = await self.git.run("commit-tree", tree, *parent, "-F", "-", data=message)
        commit_id = output.decode().strip()
        await self.git.run("update-ref", BRANCH, commit_id, head or "0" * 40)
        return (await self.log(commit_id, most=1))[0]

    async def log(self, start: str = BRANCH, most: int = 0) -> list[SkillCommit]:
        """Return commits, the newest first; `most` 0 returns all."""
        limit = (f"--max-count={most}",) if most else ()
        output = await self.git.run("log", "-z", "--format=%H%x1f%ct%x1f%B", *limit, start, "--")
        texts = [each for each in output.decode("utf-8", "replace").split("\0") if each]
        return [parse_commit(*text.split("\x1f", 2)) for text in texts]

    async def commits_touching(self, path: str, since: str) -> list[SkillCommit]:
        """Return the commits after `since` that changed a file, the newest first."""
        output = await self.git.run(
            "log", "-z", "--format=%H%x1f%ct%x1f%B", f"{since}..{BRANCH}", "--",
            f":(literal){path}",
        )  # fmt: skip
        texts = [each for each in output.decode("utf-8", "replace").split("\0") if each]
        return [parse_commit(*text.split("\x1f", 2)) for text in texts]

    async def diff(self, commit_id: str) -> str:
        """Return the changes of a commit as text."""
        output = await self.git.run(
            "show", "--format=", "--no-color", "--no-ext-diff", "--no-textconv", commit_id, "--"
        )
        text = output[:MAX_DIFF_BYTES].decode("utf-8", "replace")
        rest = output[MAX_DIFF_BYTES:].count(b"\n")
        return f"{text}\n[… {rest} more lines]" if rest else text

    async def changed_entries(
        self, commit_id: str
    ) -> list[tuple[str, TreeEntry | None, TreeEntry | None]]:
        """Return the changes of a commit: path, entry before and entry after."""
        output = await self.git.run(
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-commit-id",
            "--root",
            commit_id,
        )
        fields = output.split(b"\0")
        found = []
        for meta, name in zip(fields[0::2], fields[1::2], strict=False):
            old_mode, new_mode, old, new, _ = meta.decode().lstrip(":").split()
            found.append(
                (os.fsdecode(name), _tree_entry(old_mode, old), _tree_entry(new_mode, new))
            )
        return found

    async def entries(self, commit: str = BRANCH) -> dict[str, TreeEntry]:
        """Return all files of a commit, by default of the newest one."""
        output = await self.git.run("ls-tree", "-r", "-z", commit)
        found: dict[str, TreeEntry] = {}
        for line in output.split(b"\0"):
            if line:
                meta, _, name = line.partition(b"\t")
                mode, _, object_id = meta.decode().split()
                found[os.fsdecode(name)] = TreeEntry(mode, object_id)
        return found

    async def contents(self, puts: Sequence[FileUpdate]) -> dict[str, bytes]:
        """Return the bytes of all updated files by blob id."""
        ids = list({each.entry.id for each in puts if each.entry is not None})
        return dict(zip(ids, await self.git.blobs(ids), strict=True)) if ids else {}

    async def collect_garbage(self) -> None:
        """Let git pack loose objects when it is worthwhile."""
        await self.git.run("gc", "--quiet", "--auto")

    async def rebuild_index(self) -> bool:
        """Rebuild the index from the newest commit; return False when more is damaged."""
        (self.git.folder / "index").unlink(missing_ok=True)
        try:
            await self.git.run("fsck", "--connectivity-only", "--no-dangling", "--no-progress")
            if await self.head():
                await self.git.run("read-tree", BRANCH)
        except GitFailed:
            return False
        return True

    async def _write_tree(self, under: Sequence[str]) -> str:
        names = [name for name in await self.changed_names() if not under or _is_below(name, under)]
        keep = [name for name in names if self._is_recorded(name)]
        await self._update("--add", "--remove", "--replace", names=keep)
        await self._update("--force-remove", names=sorted(set(names) - set(keep)))
        return (await self.git.run("write-tree")).decode().strip()

    async def _update(self, *options: str, names: Sequence[str]) -> None:
        if names:
            data = b"".join(os.fsencode(name) + b"\0" for name in names)
            await self.git.run("update-index", "-z", *options, "--stdin", data=data)

    def _files_below(self, folder: str) -> Iterator[str]:
        for place, folders, files in os.walk(self.workspace / folder):
            folders[:] = [each for each in folders if each not in SKIPPED_FOLDERS]
            relative = Path(place).relative_to(self.workspace)
            yield from (str(relative / file) for file in files)

    def _is_recorded(self, name: str) -> bool:
        """Whether a file is recorded. Deleted files are, so that git removes them."""
        try:
            found = (self.workspace / name).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError as error:
            raise StoreError(f"{name} cannot be looked at: {error.strerror}") from error
        readable = os.access(self.workspace / name, os.R_OK)
        regular = stat.S_ISREG(found.st_mode) and found.st_size <= MAX_FILE_BYTES and readable
        return regular or stat.S_ISLNK(found.st_mode)


def _is_below(name: str, folders: Sequence[str]) -> bool:
    return any(name == each or name.startswith(f"{each}/") for each in folders)


def _tree_entry(mode: str, object_id: str) -> TreeEntry | None:
    return None if mode == "000000" else TreeEntry(mode, object_id)


# The lock: one writer among all processes

LOCK_FILE = ".history.lock"
LOCK_SECONDS = 20.0
_LOCK_POLL = 0.02


@contextlib.asynccontextmanager
async def history_lock(folder: Path) -> AsyncIterator[None]:
    """Hold the lock of the skills in `folder`. It is released when the process ends."""
    from filelock import FileLock  # slow to load, and most sessions change no skill

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK_FILE, mode=0o600, fallback_to_soft=False)
        await _acquire(lock)
    except OSError as error:
        raise StoreError(
            f"the skills in {folder} cannot be locked: {error.strerror or error}",
            hint="look at the owner and the permissions of that folder",
        ) from error
    try:
        yield
    finally:
        lock.release()


async def _acquire(lock: "FileLock") -> None:
    from filelock import Timeout

    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            lock.acquire(blocking=False)
            return
        except Timeout as error:
            if time.monotonic() > end:
                raise StoreError(
                    "another Hermes is changing skills", hint="try again in a moment"
                ) from error
            await asyncio.sleep(_LOCK_POLL)
