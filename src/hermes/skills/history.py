"""The history of the user's skills: every change with its reason, listed and undone."""

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import msgspec

from hermes.core.errors import HermesError, StoreError, UsageError
from hermes.skills.skill import LINKED_FOLDERS
from hermes.store import (
    EXECUTABLE_MODE,
    LINK_MODE,
    CommitEntry,
    Git,
    GitCommandFailed,
    GitHistory,
    HistoryOptions,
    TreeEntry,
    UndoConflict,
    history_lock,
)
from hermes.util.concurrency import in_thread
from hermes.util.files import write_bytes, write_text

# Changes and commits

BY_HAND = "changed by hand"
AS_FOUND = "as it was before the first recorded change"
MAX_REASON_LENGTH = 500
SHORT_ID_LENGTH = 8  #: Characters of an id that are displayed.

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


class Author(StrEnum):
    AGENT = "agent"
    REVIEW = "review"  #: The review after a piece of work.
    USER = "user"
    HUB = "hub"


class SkillChange(msgspec.Struct, frozen=True):
    """A change that is about to be made."""

    action: str  #: create, patch, edit, delete, …, undo, retire; "by hand" for manual changes.
    skills: tuple[str, ...]
    reason: str
    who: Author
    session: str = ""
    paths: tuple[str, ...] = ()
    """Files and folders it touches, relative to the skill folder; empty means any."""
    undoes: str = ""  #: The id of the change that it undoes.


class SkillCommit(msgspec.Struct, frozen=True):
    """A recorded change."""

    id: str
    at: float  #: Seconds since 1970.
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
        action=found.get("Action", [""])[0],
        skills=tuple(found.get("Skill", ())),
        reason=reason,
        who=found.get("By", [""])[0],
        session=found.get("Session", [""])[0],
        undoes=found.get("Undoes", [""])[0],
    )


def _one_line(text: str) -> str:
    """Return the text on one line, so that a reason cannot contain a trailer."""
    return " ".join(_CONTROL.sub(" ", text).split())


# Files of skills

RETIRED = ".retired"  #: The folder of skills that are archived but not used.
SKIPPED_FOLDERS = frozenset({".git", "__pycache__", "node_modules", ".venv"})


def walk_files(folder: Path | str) -> Iterator[str]:
    """Yield everything below a folder that is not a folder, as relative paths."""
    for place, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if each not in SKIPPED_FOLDERS]
        relative = Path(place).relative_to(folder)
        yield from (str(relative / file) for file in files)


def skill_names(paths: Iterable[str]) -> tuple[str, ...]:
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


def remove_empty_folders(folder: Path, stop: Path) -> None:
    """Remove empty folders from `folder` upwards, excluding `stop`."""
    with contextlib.suppress(OSError):  # not empty, or gone
        while folder != stop and stop in folder.parents:
            folder.rmdir()
            folder = folder.parent


# The git store

HISTORY_FOLDER = ".history"
LOCK_FILE = ".history.lock"
LOCK_SECONDS = 20.0
MAX_DIFF_BYTES = 500_000  #: Bytes of a diff that are displayed.
GIT_SETTINGS = """\
[core]
	fsync = committed,reference
[user]
	name = Hermes
	email = hermes@localhost
"""
GIT_EXCLUDE = (
    "/.*", "!/.retired", ".*.tmp", "__pycache__/", "*.pyc", "node_modules/", ".venv/", ".DS_Store"
)  # fmt: skip
"""Hidden files at the top are state of the hub, usage counts, locks and the user's own .git. A
.gitignore does not apply: everything the agent writes must be recorded."""


HISTORY_OPTIONS = HistoryOptions(
    excluded=GIT_EXCLUDE, list_nested=walk_files, config=GIT_SETTINGS, branch="refs/heads/main"
)


class UndoRefused(UsageError):
    """A later change prevents the undo. Nothing was changed."""


_TEMPORARY_NAME = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp")
"""How `util.atomic` names a file before it is moved into place."""


class FileUpdate(msgspec.Struct, frozen=True):
    """The new content of a path; None deletes the file."""

    path: str
    entry: TreeEntry | None


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
    if target.is_symlink() or wanted.entry.mode == LINK_MODE:
        target.unlink(missing_ok=True)
    if wanted.entry.mode == LINK_MODE:
        target.symlink_to(os.fsdecode(data))
    else:
        write_bytes(target, data, mode=0o700 if wanted.entry.mode == EXECUTABLE_MODE else 0o600)


def remove_temporary_files(workspace: Path, path: str) -> None:
    """Remove temporary files that an interrupted write left at or below `path`."""
    place = workspace / path
    for left in place.rglob(".*.tmp") if place.is_dir() else place.parent.glob(".*.tmp"):
        if _TEMPORARY_NAME.fullmatch(left.name) and left.is_file():
            left.unlink(missing_ok=True)


async def plan_undo(history: GitHistory, commit: SkillCommit) -> list[FileUpdate]:
    """Return the file updates that undo `commit`; empty when it is already undone.

    Raises `UndoRefused`.
    """
    now = await history.entries()
    updates: list[FileUpdate] = []
    for change in await history.changes("", commit.id):
        present = now.get(change.path)
        if present == change.before:
            continue
        merged = await history.undo(change, present)
        if isinstance(merged, UndoConflict) or not is_reachable(history.workspace, change.path):
            raise await _refusal(history, commit, change.path)
        updates.append(FileUpdate(change.path, merged))
    return updates


async def _refusal(history: GitHistory, commit: SkillCommit, path: str) -> UndoRefused:
    later = _parse_log(await history.log(since=commit.id, path=path))
    if not later:
        return UndoRefused(
            f"{commit.label} cannot be undone: {path} cannot be written",
            hint="a folder or a link is in its place",
        )
    return UndoRefused(
        f"{commit.label} cannot be undone: {path} was changed again by {later[0].label}",
        hint=f"undo {later[0].short} first, or change the file by hand",
    )


def _parse_log(entries: Iterable[CommitEntry]) -> list[SkillCommit]:
    return [parse_commit(entry.id, entry.at, entry.message) for entry in entries]


async def _contents(history: GitHistory, updates: Iterable[FileUpdate]) -> dict[str, bytes]:
    """Return the bytes of all updated files by blob id."""
    ids = list({each.entry.id for each in updates if each.entry is not None})
    return dict(zip(ids, await history.git.blobs(ids), strict=True)) if ids else {}


class PendingChange(msgspec.Struct, frozen=True):
    """A change that is being made.

    It is stored in a journal first, so that the next process can finish the record of a process
    that died. The history lock ensures that there is at most one.
    """

    change: SkillChange
    updates: tuple[FileUpdate, ...] = msgspec.field(default=(), name="puts")
    """Files to write for an undo. The process that finds the journal writes the remaining ones."""


log = logging.getLogger(__name__)

T = TypeVar("T")

NO_GIT = "git is not installed: changes of skills are saved, but cannot be listed or undone"
INSTALL_GIT = "install git; changes are recorded from then on"
MIN_ID_LENGTH = 4
DEFAULT_LOG_LENGTH = 20


class SkillHistory:
    """Records, lists and undoes changes of the user's skills.

    `folder` is `<home>/skills`; the git store in it is created by the first change. `notify`
    receives notices for the user, each one once. `git` is the program; None searches for it, ""
    means none. Reading never writes. Writing holds a lock among all processes.
    """

    def __init__(
        self,
        folder: Path,
        notify: Callable[[str], None] = lambda _text: None,
        git: str | None = None,
    ) -> None:
        program = (shutil.which("git") or "") if git is None else git
        self._folder, self._notify = folder, notify
        self._history = None
        if program:
            store = Git(program, folder / HISTORY_FOLDER, folder)
            self._history = GitHistory(store, folder, HISTORY_OPTIONS)
        self._journal = folder / HISTORY_FOLDER / "intent.json"
        self._notified: set[str] = set()
        self._running: set[asyncio.Task[Any]] = set()

    async def record(
        self, change: SkillChange, work: Callable[[], T]
    ) -> tuple[T, SkillCommit | None]:
        """Run `work` and record it as `change`.

        Earlier manual changes become a commit of their own. `work` runs in a thread under the lock
        and changes the files below `change.paths` completely or not at all. Its exceptions are
        raised here, and nothing is recorded then. The commit is None when nothing differs or git is
        missing. Cancelling the caller does not stop the work. If the process dies, the next one
        finishes the record.
        """
        return await self._run_shielded(self._record(change, work))

    async def undo(
        self, commit_id: str, who: Author = Author.USER, session: str = ""
    ) -> SkillCommit:
        """Undo one change with a new change.

        Raises `UndoRefused` when a later change prevents it; nothing is changed then.
        """
        return await self._run_shielded(self._undo(commit_id, who, session))

    async def log(self, skill: str = "", limit: int = DEFAULT_LOG_LENGTH) -> list[SkillCommit]:
        """Return changes, the newest first; `limit` 0 returns all."""
        history = self._require_history()
        try:
            if not (history.git.folder / "HEAD").exists() or not await history.head():
                return []
            found = _parse_log(await history.log(most=0 if skill else limit))
        except GitCommandFailed as error:
            raise StoreError(
                f"the history of the skills cannot be read: {error}",
                hint="the next change of a skill repairs it, or moves it aside and starts anew",
            ) from error
        found = [each for each in found if not skill or skill in each.skills]
        return found[:limit] if limit else found

    async def commit(self, commit_id: str = "") -> SkillCommit:
        """Return a change by id or unique prefix; the newest one for an empty id."""
        every = await self.log(limit=0)
        if not every:
            raise UsageError("no change of skills is recorded yet")
        if not commit_id:
            return every[0]
        wanted = commit_id.strip().lower()
        found = [each for each in every if each.id.startswith(wanted)]
        if len(wanted) < MIN_ID_LENGTH or not found:
            raise UsageError(
                f"no change has the id {commit_id!r}", hint="list the ids: `hermes skills log`"
            )
        if len(found) > 1:
            raise UsageError(
                f"{commit_id} matches {len(found)} changes", hint="give more characters of the id"
            )
        return found[0]

    async def diff(self, commit_id: str = "") -> str:
        """Return the diff of a change, by default of the newest one."""
        found = await self.commit(commit_id)
        return await self._require_history().diff("", found.id, limit=MAX_DIFF_BYTES)

    async def folders_added_with(self, file: str, commit_id: str) -> list[dict[str, bytes]]:
        """Return the files of each folder in which a change created `file`, by relative path.

        Empty when the change did anything else as well.
        """
        history = self._require_history()
        changes = await history.changes("", commit_id)
        new = [each.path for each in changes if not each.before and each.path.endswith(f"/{file}")]
        folders = tuple(path.removesuffix(file) for path in new)
        if not all(each.path.startswith(folders) for each in changes):
            return []
        entries = await history.entries(commit_id)
        inside = [FileUpdate(*each) for each in entries.items() if each[0].startswith(folders)]
        contents = await _contents(history, inside)
        return [
            {
                path.removeprefix(folder): contents[entry.id]
                for path, entry in entries.items()
                if path.startswith(folder)
            }
            for folder in folders
        ]

    async def _record(
        self, change: SkillChange, work: Callable[[], T]
    ) -> tuple[T, SkillCommit | None]:
        async with self._locked():
            if self._history is None:
                self._notify_once(NO_GIT)
                return await in_thread(work), None
            await self._catch_up(self._history)
            with _write_errors():
                self._write_journal(PendingChange(change))
            try:
                result = await in_thread(work)
            except (HermesError, OSError):
                self._journal.unlink(missing_ok=True)
                raise
            return result, await self._commit_change(self._history, change)

    async def _undo(self, commit_id: str, who: Author, session: str) -> SkillCommit:
        async with self._locked():
            history = self._require_history()
            await self._catch_up(history)
            commit = await self.commit(commit_id)
            if commit.reason == AS_FOUND:
                raise UsageError(f"{commit.label} cannot be undone: the history begins with it")
            updates = await plan_undo(history, commit)
            if not updates:
                raise UsageError(f"{commit.label} is already undone")
            change = SkillChange(
                action="undo",
                skills=commit.skills,
                reason=f"undo: {commit.reason}",
                who=who,
                session=session,
                paths=tuple(each.path for each in updates),
                undoes=commit.id,
            )
            with _write_errors():
                self._write_journal(PendingChange(change, tuple(updates)))
                try:
                    await self._apply_updates(history, updates)
                except OSError:
                    self._journal.unlink(missing_ok=True)
                    raise
            done = await self._commit_change(history, change)
            if done is None:
                raise StoreError(f"{commit.label} was undone, but that could not be recorded yet")
            return done

    async def _catch_up(self, history: GitHistory) -> None:
        """Record what a process that died has done, then manual changes."""
        with _write_errors():
            try:
                await self._recover(history)
            except GitCommandFailed:
                if not await history.rebuild_index():
                    aside = self._folder / f"{HISTORY_FOLDER}.broken-{time.time_ns()}"
                    (self._folder / HISTORY_FOLDER).rename(aside)
                    self._notify_once(
                        f"the history of the skills was damaged and is now in {aside}"
                    )
                await self._recover(history)

    async def _recover(self, history: GitHistory) -> None:
        history.prepare()
        intent = self._read_journal()
        if intent is not None:
            for path in intent.change.paths:
                remove_temporary_files(self._folder, path)
            # Files that differ from the newest commit are already written, or changed since.
            there = set(await history.changed_names()) if intent.updates else set()
            rest = [each for each in intent.updates if each.path not in there]
            try:
                await self._apply_updates(history, rest)
            except OSError as error:
                self._notify_once(f"an interrupted undo cannot be finished: {error}")
            await self._commit(history, intent.change)
            self._journal.unlink(missing_ok=True)
        names = skill_names(await history.changed_names())
        reason = BY_HAND if await history.head() else AS_FOUND
        await self._commit(history, SkillChange("by hand", names, reason, Author.USER))

    def _write_journal(self, intent: PendingChange) -> None:
        # msgspec rejects file names that are not UTF-8.
        write_text(self._journal, json.dumps(msgspec.to_builtins(intent)), mode=0o600)

    def _read_journal(self) -> PendingChange | None:
        """Return the change of a process that died, or None. A damaged file is ignored."""
        try:
            return msgspec.convert(json.loads(self._journal.read_text("utf-8")), PendingChange)
        except (FileNotFoundError, ValueError):
            return None

    async def _apply_updates(self, history: GitHistory, updates: list[FileUpdate]) -> None:
        """Write all files or, with OSError, none."""
        now = await history.entries() if updates else {}
        back = [FileUpdate(each.path, now.get(each.path)) for each in updates]
        contents = await _contents(history, [*updates, *back])

        def work() -> None:
            for number, each in enumerate(updates):
                try:
                    apply_update(self._folder, each, contents.__getitem__)
                except OSError:
                    for done in back[:number]:
                        apply_update(self._folder, done, contents.__getitem__)
                    raise

        await in_thread(work)

    async def _commit(self, history: GitHistory, change: SkillChange) -> SkillCommit | None:
        """Commit the current files below the paths of a change; None when nothing differs."""
        snapshot = await history.snapshot(change.paths)
        new = await history.commit(snapshot.tree, format_message(change))
        return _parse_log(await history.log(new, most=1))[0] if new else None

    async def _commit_change(self, history: GitHistory, change: SkillChange) -> SkillCommit | None:
        """Commit a change that was just made.

        The files are already written, so a failure is only reported; the next change records it.
        """
        try:
            commit = await self._commit(history, change)
            self._journal.unlink(missing_ok=True)
        except (StoreError, OSError) as error:
            self._notify_once(f"a change of skills is saved, but not recorded yet: {error}")
            return None
        if commit is not None and commit.id.startswith("00"):  # about one commit in 256
            with contextlib.suppress(StoreError):
                await history.collect_garbage()
        return commit

    def _locked(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Hold the lock of the skills. It is released when the process ends."""
        return history_lock(
            self._folder / LOCK_FILE, LOCK_SECONDS, "another Hermes is changing skills"
        )

    def _require_history(self) -> GitHistory:
        if self._history is None:
            raise UsageError(NO_GIT, hint=INSTALL_GIT)
        return self._history

    def _notify_once(self, text: str) -> None:
        if text not in self._notified:
            self._notified.add(text)
            log.info("%s", text)  # the log handler of the front end shows it
            self._notify(text)

    async def _run_shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, which continues when the caller is cancelled."""

        def on_done(task: asyncio.Task[T]) -> None:
            self._running.discard(task)
            if not task.cancelled() and task.exception() is not None:
                log.debug("a change of skills failed: %s", task.exception())

        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(on_done)
        return await asyncio.shield(task)


@contextlib.contextmanager
def _write_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"the history of the skills cannot be written: {error.strerror or error}",
            hint="nothing was changed",
        ) from error
