"""Checkpoints: snapshots of a workspace before the agent changes it, and rollback to them.

`Checkpoints` takes, lists and restores them. `TurnCheckpoints` takes one per turn. `rollback` is
the command `/rollback`.
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
import shutil
import stat
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec

from hermes.core.errors import StoreError, UsageError
from hermes.core.events import Notice
from hermes.core.tool import ToolContext
from hermes.security import is_below
from hermes.store import (
    EXECUTABLE_MODE,
    LINK_MODE,
    Git,
    GitCommandFailed,
    GitHistory,
    HistoryOptions,
    TooManyFiles,
    TreeEntry,
    TreeSnapshot,
    UndoConflict,
    history_lock,
)
from hermes.terminal import FileWalk, make_link, remove_file, replace_file
from hermes.tools.editing.files import display_path
from hermes.util.files import write_bytes
from hermes.util.lazy import late_pattern
from hermes.util.text import human_duration, many

__all__ = [
    "CheckpointOptions", "Checkpoints", "TurnCheckpoints", "find_workspace", "format_checkpoints",
    "format_restored", "rollback",
]  # fmt: skip

MAX_SKIPPED = 1_000
MAX_DIFF_BYTES = 60_000  #: For a diff that is shown.
EXTRA_SETTINGS = """\
[core]
	looseCompression = 1
[gc]
	pruneExpire = now
"""
EXCLUDED = (
    "node_modules/", ".venv/", "venv/", "__pycache__/", "*.pyc", ".mypy_cache/", ".pytest_cache/",
    ".ruff_cache/", ".tox/", ".nox/", ".gradle/", ".terraform/", ".DS_Store", ".hermes-*.tmp",
)  # fmt: skip
"""Never stored, in addition to what .gitignore files of the workspace exclude."""


class CheckpointRecord(msgspec.Struct, frozen=True):
    """One turn of the agent, or one rollback, that changed files. Stored as a JSON file.

    Changes between `before` and `after` are the agent's. Changes between the `after` of one record
    and the `before` of the next are the user's.
    """

    id: str  #: Sorts by time.
    time: float
    reason: str
    session: str
    before: str  #: Tree of the workspace at the start.
    after: str = ""  #: Tree at the end; "" while the turn runs, or when it was killed.
    changed: int = 0  #: Number of files that differ between the two.
    kind: Literal["turn", "rollback"] = "turn"
    skipped: tuple[str, ...] = ()  #: Files that were too large to store.


class SnapshotLimits(msgspec.Struct, frozen=True):
    file_bytes: int = 10_000_000  #: Larger files are not stored.
    files: int = 50_000  #: A workspace with more files has no checkpoints.


LOCK_SECONDS = 10.0
RESET_HINT = "if this persists, start over with: hermes checkpoints clear"
REFS = "refs/checkpoints"


class CheckpointRepo:
    """The files of the checkpoints of one workspace: a git store, records and a lock.

    `notify` gets messages for the user.
    """

    def __init__(
        self,
        folder: Path,
        workspace: Path,
        program: str,
        limits: SnapshotLimits,
        notify: Callable[[str], None],
    ) -> None:
        self._folder = store_folder(folder, workspace)
        self._workspace, self._notify = workspace, notify
        self._lock = self._folder.with_suffix(".lock")
        self._records = self._folder / "records"
        self._program, self._limits, self._home = program, limits, folder.parent

    @cached_property
    def history(self) -> GitHistory:
        workspace, limits = self._workspace, self._limits
        options = HistoryOptions(
            excluded=(*EXCLUDED, *_exclude_own_home(self._home, workspace)),
            list_nested=lambda nested: (
                relative for _, relative in FileWalk(nested, threading.Event(), hidden=True).files()
            ),
            config=EXTRA_SETTINGS,
            gitignore=True,
            max_file_bytes=limits.file_bytes,
            max_files=limits.files,
        )
        git = Git(self._program, self._folder / "git", workspace, RESET_HINT)
        return GitHistory(git, workspace, options)

    @property
    def exists(self) -> bool:
        return self._folder.exists()

    def _locked(self) -> AbstractAsyncContextManager[None]:
        busy = "another Hermes process is using the checkpoints; try again"
        return history_lock(self._lock, LOCK_SECONDS, busy)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Lock the store, creating it if needed."""
        async with self._locked():
            self._prepare()
            yield

    async def snapshot(self) -> TreeSnapshot:
        """Take a snapshot of the workspace."""
        try:
            found = await self.history.snapshot()
        except GitCommandFailed:
            # A file disappeared during the command, or the index is damaged. Git rebuilds the
            # index from the workspace.
            self.history.remove_index()
            found = await self.history.snapshot()
        return TreeSnapshot(found.tree, tuple(map(display_path, found.skipped[:MAX_SKIPPED])))

    async def repair(self) -> bool:
        """Move a damaged store aside and start an empty one; return whether it was damaged."""
        if await self.history.is_sound():
            return False
        aside = self._folder.with_name(f"{self._folder.name}.broken-{time.time_ns()}")
        await asyncio.to_thread(self._folder.rename, aside)
        self._notify(
            f"the checkpoints of {self._workspace} were damaged and have been moved to {aside}"
        )
        self._prepare()
        return True

    async def save(self, record: CheckpointRecord) -> None:
        refs = {f"{REFS}/{record.id}/before": record.before}
        if record.after:
            refs[f"{REFS}/{record.id}/after"] = record.after
        await self.history.set_refs(refs)
        self._records.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._records / f"{record.id}.json"
        await asyncio.to_thread(write_bytes, path, msgspec.json.encode(record), mode=0o600)

    def records(self) -> list[CheckpointRecord]:
        """Return all records, newest first; unreadable files are ignored."""
        found: list[CheckpointRecord] = []
        for path in sorted(self._records.glob("*.json"), reverse=True):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                found.append(msgspec.json.decode(path.read_bytes(), type=CheckpointRecord))
        return found

    async def drop(self, records: Sequence[CheckpointRecord]) -> None:
        for record in records:
            (self._records / f"{record.id}.json").unlink(missing_ok=True)
        await self._drop_orphans()

    async def _drop_orphans(self) -> None:
        """Delete git references without a record, such as those of an interrupted checkpoint."""
        known = {record.id for record in self.records()}
        found = await self.history.git.line("for-each-ref", "--format=%(refname)", REFS)
        loose = (name for name in found.split() if name.split("/")[2] not in known)
        await self.history.set_refs(dict.fromkeys(loose, ""))

    async def collect_garbage(self, *, now: bool) -> None:
        """Free the space of dropped checkpoints; git decides when, unless `now`."""
        await self._drop_orphans()
        await self.history.collect_garbage(now=now)

    async def clear(self) -> None:
        async with self._locked():
            await asyncio.to_thread(shutil.rmtree, self._folder)

    def _prepare(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.history.prepare()
        name = self._folder / "workspace"
        if not name.exists():
            write_bytes(name, os.fsencode(self._workspace))


def store_folder(folder: Path, workspace: Path) -> Path:
    """Return the folder of the store of a workspace (a real path)."""
    return folder / hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]


def find_workspace(folder: Path, place: Path) -> Path:
    """Return the nearest folder at or above `place` that has checkpoints, else `place`."""
    real = Path(os.path.realpath(place))
    above = (real, *real.parents)
    return next((each for each in above if store_folder(folder, each).exists()), real)


def _exclude_own_home(own_home: Path, workspace: Path) -> list[str]:
    """Return an exclude pattern for the home of Hermes when it is inside the workspace."""
    home = os.path.realpath(own_home)
    if not is_below(home, str(workspace)) or home == str(workspace):
        return []
    name = os.path.relpath(home, workspace)
    return ["/" + "".join(f"\\{c}" if c in "*?[\\" else c for c in name) + "/"]


CONFLICT_REASONS = {
    UndoConflict.DELETED: "you deleted it since",
    UndoConflict.RECREATED: "the agent deleted it and you made it anew",
    UndoConflict.CHANGED_NEW: "the agent made it and you changed it since",
    UndoConflict.CHANGED: "you changed it since",
    UndoConflict.SAME_LINES: "you changed the same lines since",
}
BLOBS_PER_READ = 16  #: Limits the memory used for contents.


class Restored(msgspec.Struct, frozen=True):
    """The result of a rollback. Paths are relative to the workspace."""

    number: int
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()  #: Restored, with changes of the user kept.
    kept: dict[str, str] = {}  #: Files that were not changed, with the reason.


class RestorePlan(msgspec.Struct):
    now: dict[str, TreeEntry]
    goal: dict[str, TreeEntry | None]  #: The new state of each file; None deletes it.
    kept: dict[str, str]
    merged: set[str]  #: Files of `goal` with changes of both agent and user.


async def plan_restore(
    history: GitHistory, chain: Sequence[CheckpointRecord], now_tree: str, only: str, *, force: bool
) -> RestorePlan:
    """Plan to undo the records of `chain`, newest first; `only` is a path, or "" for all."""
    now = await history.entries(now_tree)
    made = RestorePlan(now, {}, {}, set())
    ended = now_tree
    for record in chain:
        for change in await history.changes(record.before, record.after or ended):
            path = change.path
            outside = only and path != only and not path.startswith(f"{only}/")
            if outside or path in made.kept:
                continue
            current = made.goal.get(path, now.get(path))
            if current is None and path == only:
                current = change.after  # a deleted file that the user names is wanted back
            result = await history.undo(change, current)
            if isinstance(result, UndoConflict):
                made.kept[path] = CONFLICT_REASONS[result]
                made.goal.pop(path, None)
            else:
                made.goal[path] = result
                if result not in (change.before, current):
                    made.merged.add(path)
        ended = record.before
    if force and made.kept:
        oldest = await history.entries(chain[-1].before)
        made.goal |= {path: oldest.get(path) for path in made.kept}
        made.merged -= made.kept.keys()
        made.kept.clear()
    skipped = {path for record in chain for path in record.skipped}
    for path in [path for path, entry in made.goal.items() if entry is None]:
        if display_path(path) in skipped:
            made.kept[path] = "it was too big to keep"
            del made.goal[path]
    return made


class Restorer:
    def __init__(self, git: Git, workspace: Path) -> None:
        self._git, self._workspace = git, workspace

    async def apply(self, number: int, made: RestorePlan) -> Restored:
        """Change the files. Never raises for one file: the result names it as kept.

        .gitignore files come first, because they determine what may be removed. Removals come
        second, because they may make room for a file where a folder is.
        """
        differing = {
            path: entry for path, entry in made.goal.items() if entry != made.now.get(path)
        }
        back = {path: entry for path, entry in differing.items() if entry is not None}
        rules = {path: entry for path, entry in back.items() if path.endswith(".gitignore")}
        kept = dict(made.kept)
        done = await self._write(rules, kept)
        gone = [path for path, entry in differing.items() if entry is None]
        ignored = await self._ignored(gone)
        kept |= dict.fromkeys(ignored, "it is ignored by git, so it may have been there before")
        removed = await asyncio.to_thread(
            self._remove_all, [path for path in gone if path not in ignored], kept
        )
        rest = {path: entry for path, entry in back.items() if path not in rules}
        done = sorted([*done, *await self._write(rest, kept)])
        return Restored(
            number,
            tuple(display_path(path) for path in done if path not in made.merged),
            tuple(map(display_path, removed)),
            tuple(display_path(path) for path in done if path in made.merged),
            {display_path(path): reason for path, reason in sorted(kept.items())},
        )

    async def _write(self, back: dict[str, TreeEntry], kept: dict[str, str]) -> list[str]:
        done: list[str] = []
        paths = sorted(back)
        for start in range(0, len(paths), BLOBS_PER_READ):
            some = paths[start : start + BLOBS_PER_READ]
            contents = await self._git.blobs([back[path].id for path in some])
            for path, content in zip(some, contents, strict=True):
                try:
                    await asyncio.to_thread(self._put, path, back[path].mode, content)
                    done.append(path)
                except OSError as error:
                    kept[path] = f"it cannot be written: {(error.strerror or str(error)).lower()}"
        return done

    def _put(self, name: str, mode: str, content: bytes) -> None:
        path = os.path.join(self._workspace, name)  # noqa: PTH118 - bytes that are no text
        try:
            _write_entry(path, mode, content)
        except IsADirectoryError:
            os.rmdir(path)  # noqa: PTH106 - an empty folder has nothing to lose
            _write_entry(path, mode, content)

    async def _ignored(self, paths: Sequence[str]) -> set[str]:
        if not paths:
            return set()
        # "./" prevents git from reading a name such as ":x" as a pattern.
        data = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
        output = await self._git.run(
            "check-ignore", "--no-index", "-z", "--stdin", data=data, good=(0, 1)
        )
        return {os.fsdecode(name[2:]) for name in output.split(b"\0") if name}

    def _remove_all(self, paths: Sequence[str], kept: dict[str, str]) -> list[str]:
        done: list[str] = []
        for name in paths:
            path = os.path.join(self._workspace, name)  # noqa: PTH118 - the same
            try:
                remove_file(path, link=True)
                done.append(name)
            except FileNotFoundError:
                done.append(name)
            except OSError as error:
                kept[name] = f"it cannot be removed: {(error.strerror or str(error)).lower()}"
                continue
            folder = Path(path).parent
            with contextlib.suppress(OSError):  # until one is not empty
                while folder != self._workspace:
                    folder.rmdir()
                    folder = folder.parent
        return done


def _write_entry(path: str, mode: str, content: bytes) -> None:
    if mode == LINK_MODE or os.path.islink(path):  # noqa: PTH114 - bytes that are no text
        with contextlib.suppress(FileNotFoundError):
            remove_file(path, link=True)
    if mode == LINK_MODE:
        make_link(path, content)
        return
    replace_file(path, content)
    current = stat.S_IMODE(os.lstat(path).st_mode)
    wanted = current | (current & 0o444) >> 2 if mode == EXECUTABLE_MODE else current & ~0o111
    if wanted != current:
        os.chmod(path, wanted)  # noqa: PTH101 - the same


class CheckpointOptions(msgspec.Struct, frozen=True):
    max_snapshots: int = 50  #: The setting `checkpoints.max_snapshots`.
    max_age_days: float = 30
    limits: SnapshotLimits = SnapshotLimits()


class Checkpoint(msgspec.Struct, frozen=True):
    """One line of the list of checkpoints."""

    number: int  #: 1 is the newest.
    id: str
    time: float
    reason: str
    session: str
    changed: int  #: Files changed from this checkpoint to the next; 0 while the turn runs.
    ended: bool
    kind: str


class Checkpoints:
    """Takes and restores checkpoints of one workspace.

    `folder` has the stores of all workspaces. `user_home` gets no checkpoints. Every operation may
    be cancelled, and several processes may use the same workspace. `git` is the program; None
    looks it up, "" means that it is not installed.
    """

    def __init__(
        self,
        folder: Path,
        workspace: Path,
        user_home: Path,
        options: CheckpointOptions | None = None,
        *,
        git: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.workspace = Path(os.path.realpath(workspace))
        self._options = options or CheckpointOptions()
        self._now = now
        self._notices: list[str] = []
        program = shutil.which("git") if git is None else git
        self._repo = CheckpointRepo(
            folder, self.workspace, program or "git", self._options.limits, self._notices.append
        )
        self.problem = "no checkpoints: git is not installed"
        """Why the workspace has no checkpoints; "" when it has."""
        if program:
            self.problem = _unsuitable_reason(str(self.workspace), folder.parent, user_home)

    def notices(self) -> list[str]:
        """Return and clear the messages for the user."""
        notices = list(self._notices)
        self._notices.clear()
        return notices

    async def take(self, reason: str, session: str = "") -> CheckpointRecord | None:
        """Take a checkpoint before changes; on failure return None and add a notice."""
        if self.problem:
            return None
        try:
            async with self._repo.open():
                try:
                    return await self._take_locked(reason, session)
                except GitCommandFailed:
                    if not await self._repo.repair():
                        raise
                return await self._take_locked(reason, session)
        except TooManyFiles as error:
            self.problem = f"no checkpoints: {error}"
        except (StoreError, OSError) as error:
            self._notices.append(f"no checkpoint was taken: {error}")
        return None

    async def _take_locked(self, reason: str, session: str) -> CheckpointRecord:
        record = self._new_record(reason, session, await self._repo.snapshot())
        await self._repo.save(record)
        return record

    async def finish(self, record: CheckpointRecord) -> None:
        """Store the state after the changes of `record`; drop it when nothing changed."""
        try:
            async with self._repo.open():
                try:
                    await self._finish(record, await self._repo.snapshot())
                    await self._prune()
                except GitCommandFailed:
                    if not await self._repo.repair():
                        raise
        except (StoreError, OSError) as error:
            self._notices.append(f"the checkpoint is incomplete: {error}")

    async def _finish(self, record: CheckpointRecord, snapshot: TreeSnapshot) -> None:
        if snapshot.tree == record.before:
            await self._repo.drop([record])
            return
        changed = len(await self._repo.history.changes(record.before, snapshot.tree))
        done = msgspec.structs.replace(record, after=snapshot.tree, changed=changed)
        await self._repo.save(done)

    async def diff(self, number: int, file: str = "") -> str:
        """Return the diff from checkpoint `number` to now."""
        self._require_available()
        only = self.relative(file)
        async with self._repo.open():
            record = self._records_back_to(number)[-1]
            now = await self._repo.snapshot()
            return await self._repo.history.diff(
                record.before, now.tree, only, limit=MAX_DIFF_BYTES
            )

    async def restore(
        self, number: int, file: str = "", session: str = "", *, force: bool = False
    ) -> Restored:
        """Undo what the agent changed since checkpoint `number`, in one file or everywhere.

        Changes of the user stay. A file in which both changed the same lines is left as it is and
        named in the result; `force` takes the version of the checkpoint instead. The state before
        the rollback becomes a checkpoint of `session`, so that it can be undone.
        """
        self._require_available()
        only = self.relative(file)
        async with self._repo.open():
            chain = self._records_back_to(number)
            now = await self._repo.snapshot()
            made = await plan_restore(self._repo.history, chain, now.tree, only, force=force)
            if only and not made.goal and not made.kept:
                raise UsageError(
                    f"{file} was not changed since checkpoint {number}",
                    hint="the diff of a checkpoint shows what was",
                )
            record = self._new_record(f"rollback to {number}", session, now, kind="rollback")
            await self._repo.save(record)
            restored = await Restorer(self._repo.history.git, self.workspace).apply(number, made)
            await self._finish(record, await self._repo.snapshot())
            await self._prune()
            return restored

    async def prune(self) -> int:
        """Drop checkpoints that are too old or too many, free the space, return the number."""
        if not self._repo.exists or self.problem:
            return 0
        async with self._repo.open():
            dropped = await self._prune()
            await self._repo.collect_garbage(now=True)
            return dropped

    async def clear(self) -> None:
        """Delete all checkpoints of the workspace."""
        if self._repo.exists:
            await self._repo.clear()

    def relative(self, file: str) -> str:
        """Return a path relative to the workspace; "" is the whole workspace."""
        if not file:
            return ""
        path = os.path.normpath(self.workspace / file)
        if not is_below(path, str(self.workspace)):
            raise UsageError(f"{file} is not in {self.workspace}")
        return "" if path == str(self.workspace) else os.path.relpath(path, self.workspace)

    def _require_available(self) -> None:
        if self.problem:
            raise UsageError(self.problem)

    def _records_back_to(self, number: int) -> Sequence[CheckpointRecord]:
        """Return the records from the newest to the one with this number."""
        records = self._repo.records()
        if 1 <= number <= len(records):
            return records[:number]
        there = f"the oldest is {len(records)}" if records else "there are none yet"
        raise UsageError(f"there is no checkpoint {number}", hint=there)

    def _new_record(
        self, reason: str, session: str, snapshot: TreeSnapshot, **fields: str
    ) -> CheckpointRecord:
        now = self._now()
        id_ = f"{int(now * 1_000_000):017d}-{secrets.token_hex(3)}"
        record = CheckpointRecord(
            id_, now, reason, session, snapshot.tree, skipped=snapshot.skipped
        )
        return msgspec.structs.replace(record, **fields)

    async def _prune(self) -> int:
        records = self._repo.records()
        oldest = self._now() - self._options.max_age_days * 86_400
        most = self._options.max_snapshots
        going = [each for n, each in enumerate(records) if n >= most or each.time < oldest]
        if going:
            await self._repo.drop(going)
            await self._repo.collect_garbage(now=False)
        return len(going)

    async def list(self) -> list[Checkpoint]:
        records = await asyncio.to_thread(self._repo.records)
        return [
            Checkpoint(
                number, each.id, each.time, each.reason, each.session, each.changed,
                bool(each.after), each.kind,
            )
            for number, each in enumerate(records, 1)
        ]  # fmt: skip


def _unsuitable_reason(workspace: str, own_home: Path, user_home: Path) -> str:
    if is_below(os.path.realpath(user_home), workspace):
        return f"no checkpoints: {workspace} contains your home folder"
    if os.path.realpath(own_home) == workspace:
        return f"no checkpoints: {workspace} is the home folder of Hermes"
    if not Path(workspace).is_dir():
        return f"no checkpoints: the folder {workspace} does not exist"
    return ""


DEFAULT_REASON = "changes by the agent"
MAX_REASON = 80


class TurnCheckpoints:
    """Takes one checkpoint per turn of a conversation, before its first change.

    Tools that may change files call `before_change`; the agent calls `turn_ended`. Every change in
    between counts as the agent's, whether by a file tool, a command, a script or a subagent.
    Changes outside of turns count as the user's. `find` is called at the first change, because most
    conversations make none.
    """

    def __init__(self, find: Callable[[], Checkpoints]) -> None:
        self._find = find
        self._checkpoints: Checkpoints | None = None
        self._session_id, self._reason = "", DEFAULT_REASON
        self._taken = False
        self._record: CheckpointRecord | None = None
        self._problem_shown = False
        self._one_at_a_time = asyncio.Lock()

    def turn_started(self, session_id: str, reason: str) -> None:
        """`reason` is the message of the user; the list of checkpoints shows its beginning."""
        first = next(iter(reason.strip().splitlines()), "")
        cut = first if len(first) <= MAX_REASON else f"{first[:MAX_REASON]}…"
        self._session_id, self._reason = session_id, cut or DEFAULT_REASON

    async def before_change(self, call: ToolContext) -> None:
        """Return when the checkpoint is taken, or failed; a failure must not block the agent."""
        async with self._one_at_a_time:
            if self._taken:
                return
            self._checkpoints = checkpoints = self._checkpoints or self._find()
            session_id = self._session_id or call.session_id
            self._record = await checkpoints.take(self._reason, session_id)
            self._taken = True
        for text in checkpoints.notices():
            call.announce(Notice(text))
        if checkpoints.problem and not self._problem_shown:
            self._problem_shown = True
            call.announce(Notice(checkpoints.problem))

    async def turn_ended(self) -> list[str]:
        """Finish the checkpoint of the turn, however it ended; return messages for the user."""
        record, self._record, self._taken = self._record, None, False
        self._session_id, self._reason = "", DEFAULT_REASON
        if self._checkpoints is None:
            return []
        if record is not None:
            await self._checkpoints.finish(record)
        return self._checkpoints.notices()


ROLLBACK_COMMAND = "/rollback"
ROLLBACK_USAGE = "/rollback, /rollback N, /rollback diff N, /rollback N FILE or /rollback all"
ALL = "all"
MAX_NAMED_FILES = 20  #: Files that a report names; the rest is counted.
_ARGUMENTS = late_pattern(r"(?P<diff>diff\s+)?(?P<number>\d+)(?:\s+(?P<file>.+))?")


async def rollback(checkpoints: Checkpoints, arguments: str, sessions: Sequence[str] = ()) -> str:
    """Run `/rollback ARGUMENTS` and return its answer; raises `UsageError` and `StoreError`.

    Only checkpoints of `sessions`, the current one first, are listed; all if there are none.
    """
    if arguments.strip() in ("", ALL):
        found = await checkpoints.list()
        shown = [each for each in found if each.session in sessions or not sessions]
        if arguments.strip() == ALL or not found:
            return format_checkpoints(found, checkpoints.problem)
        others = len(found) - len(shown)
        if not others:
            return format_checkpoints(shown)
        listed = format_checkpoints(shown) if shown else "no files were changed in this session"
        return f"{listed}\n`{ROLLBACK_COMMAND} {ALL}` lists {others} of other sessions too."
    match = _ARGUMENTS.fullmatch(arguments.strip())
    if match is None:
        raise UsageError(f"{arguments.strip()!r} is not understood", hint=ROLLBACK_USAGE)
    number, file = int(match["number"]), match["file"] or ""
    if match["diff"]:
        changes = await checkpoints.diff(number, file)
        return changes or f"nothing has changed since checkpoint {number}"
    return format_restored(await checkpoints.restore(number, file, next(iter(sessions), "")))


def format_checkpoints(
    found: Sequence[Checkpoint],
    problem: str = "",
    *,
    command: str = ROLLBACK_COMMAND,
    now: float | None = None,
) -> str:
    """Format the list; `command` is what the user types to go back."""
    if not found:
        return problem or "there are no checkpoints here yet"
    moment = time.time() if now is None else now
    lines = [
        f"{each.number:>3}  {human_duration(moment - each.time):>7} ago  "
        f"{many(each.changed, 'file') if each.ended else '…':>9}  {each.reason}"
        for each in found
    ]
    return "\n".join([*lines, "", f"Files as they were before each. `{command} N` goes back."])


def format_restored(done: Restored, *, command: str = ROLLBACK_COMMAND) -> str:
    lines = [
        *_files_line("restored", done.restored),
        *_files_line("restored, with your own changes kept", done.merged),
        *_files_line("removed", done.removed),
    ]
    if not lines:
        lines = ["nothing to restore"]
    if done.kept:
        lines.append("left as they are:")
        kept = list(done.kept.items())
        lines += [f"  {path}: {reason}" for path, reason in kept[:MAX_NAMED_FILES]]
        if len(kept) > MAX_NAMED_FILES:
            lines.append(f"  and {len(kept) - MAX_NAMED_FILES} more")
    if done.restored or done.merged or done.removed:
        lines.append(f"`{command} 1` undoes this.")
    return "\n".join(lines)


def _files_line(what: str, paths: Sequence[str]) -> list[str]:
    if not paths:
        return []
    more = f" and {len(paths) - MAX_NAMED_FILES} more" if len(paths) > MAX_NAMED_FILES else ""
    return [f"{what}: {', '.join(paths[:MAX_NAMED_FILES])}{more}"]
