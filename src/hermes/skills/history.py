"""The history of the user's skills: every change with its reason, listed and undone."""

import asyncio
import contextlib
import json
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.core.errors import HermesError, StoreError, UsageError
from hermes.skills.history_repo import (
    AS_FOUND,
    BY_HAND,
    HISTORY_FOLDER,
    REGULAR,
    Author,
    FileUpdate,
    HistoryRepository,
    SkillChange,
    SkillCommit,
    TreeEntry,
    apply_update,
    history_lock,
    is_reachable,
    remove_temporary_files,
    skill_names,
)
from hermes.store.git import GitFailed
from hermes.util.concurrency import in_thread
from hermes.util.files import write_text

# Undo: a three-way merge of each file. The versions are before the change, after it, and now; the
# way from "after" to "before" is applied to "now". These functions decide; they write nothing.


class UndoRefused(UsageError):
    """A later change prevents the undo. Nothing was changed."""


class _MergeConflict(Exception):
    """The change and a later one touch the same place."""


async def plan_undo(repository: HistoryRepository, commit: SkillCommit) -> list[FileUpdate]:
    """Return the file updates that undo `commit`; empty when it is already undone.

    Raises `UndoRefused`.
    """
    now = await repository.entries()
    puts: list[FileUpdate] = []
    for path, before, after in await repository.changed_entries(commit.id):
        present = now.get(path)
        if present == before:
            continue
        try:
            merged = await _merge_entry(repository, before, after, present)
        except _MergeConflict:
            raise await _refusal(repository, commit, path) from None
        if not is_reachable(repository.workspace, path):
            raise await _refusal(repository, commit, path)
        puts.append(FileUpdate(path, merged))
    return puts


async def _merge_entry(
    repository: HistoryRepository,
    before: TreeEntry | None,
    after: TreeEntry | None,
    present: TreeEntry | None,
) -> TreeEntry | None:
    """Return the merged file, or None for no file. Raises `_MergeConflict`."""
    if present == after:
        return before
    if before is None or after is None or present is None:
        raise _MergeConflict
    if not all(each.mode in REGULAR for each in (before, after, present)):
        raise _MergeConflict
    mode = before.mode if present.mode == after.mode else present.mode
    if present.id == after.id:
        return TreeEntry(mode, before.id)
    if before.id in (present.id, after.id):
        return TreeEntry(mode, present.id)
    return TreeEntry(mode, await _merge_content(repository, present.id, after.id, before.id))


async def _merge_content(repository: HistoryRepository, now: str, after: str, before: str) -> str:
    """Merge three versions of a file and return the id of the result.

    Raises `_MergeConflict`, also for binary files.
    """
    git = repository.git
    contents = await git.blobs([now, after, before])
    with tempfile.TemporaryDirectory(dir=git.folder, prefix="merge-") as folder:
        paths = [Path(folder, name) for name in ("now", "after", "before")]
        for path, content in zip(paths, contents, strict=True):
            await asyncio.to_thread(path.write_bytes, content)
        try:
            merged = await git.run("merge-file", "-p", "-q", *map(str, paths))
        except GitFailed as error:
            raise _MergeConflict from error
    output = await git.run("hash-object", "-w", "--no-filters", "--stdin", data=merged)
    return output.decode().strip()


async def _refusal(repository: HistoryRepository, commit: SkillCommit, path: str) -> UndoRefused:
    later = await repository.commits_touching(path, commit.id)
    if not later:
        return UndoRefused(
            f"{commit.label} cannot be undone: {path} cannot be written",
            hint="a folder or a link is in its place",
        )
    return UndoRefused(
        f"{commit.label} cannot be undone: {path} was changed again by {later[0].label}",
        hint=f"undo {later[0].short} first, or change the file by hand",
    )


# The journal: a change is stored before it is made, so that the next process can finish the
# record of a process that died.


class PendingChange(msgspec.Struct, frozen=True):
    """A change that is being made."""

    change: SkillChange
    puts: tuple[FileUpdate, ...] = ()
    """Files to write for an undo. The process that finds the journal writes the remaining ones."""


class ChangeJournal:
    """Stores the pending change; the history lock ensures that there is at most one.

    Uses the json module, because msgspec rejects file names that are not UTF-8.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def open(self, intent: PendingChange) -> None:
        write_text(self._file, json.dumps(msgspec.to_builtins(intent)), mode=0o600)

    def unfinished(self) -> PendingChange | None:
        """Return the change of a process that died, or None. A damaged file is ignored."""
        try:
            return msgspec.convert(json.loads(self._file.read_text("utf-8")), PendingChange)
        except (FileNotFoundError, ValueError):
            return None

    def close(self) -> None:
        self._file.unlink(missing_ok=True)


log = logging.getLogger(__name__)

T = TypeVar("T")

NO_GIT = "git is not installed: changes of skills are saved, but cannot be listed or undone"
INSTALL_GIT = "install git; changes are recorded from then on"
MIN_ID_LENGTH = 4
DEFAULT_LOG_LENGTH = 20


def _ignore_notice(_text: str) -> None:
    return None


class SkillHistory:
    """Records, lists and undoes changes of the user's skills.

    `folder` is `<home>/skills`; the repository in it is created by the first change. `notify`
    receives notices for the user, each one once. `git` is the program; None searches for it, ""
    means none. Reading never writes. Writing holds a lock among all processes.
    """

    def __init__(
        self,
        folder: Path,
        notify: Callable[[str], None] = _ignore_notice,
        git: str | None = None,
    ) -> None:
        program = (shutil.which("git") or "") if git is None else git
        self._folder, self._notify = folder, notify
        self._repository = HistoryRepository(program, folder) if program else None
        self._journal = ChangeJournal(folder / HISTORY_FOLDER / "intent.json")
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
        repository = self._require_repository()
        try:
            if not repository.exists or not await repository.head():
                return []
            found = await repository.log(most=0 if skill else limit)
        except GitFailed as error:
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
        return await self._require_repository().diff(found.id)

    async def folders_added_with(self, file: str, commit_id: str) -> list[dict[str, bytes]]:
        """Return the files of each folder in which a change created `file`, by relative path.

        Empty when the change did anything else as well.
        """
        repository = self._require_repository()
        changes = await repository.changed_entries(commit_id)
        new = [path for path, before, _ in changes if not before and path.endswith(f"/{file}")]
        folders = tuple(path.removesuffix(file) for path in new)
        if not all(path.startswith(folders) for path, _, _ in changes):
            return []
        entries = await repository.entries(commit_id)
        inside = [FileUpdate(*each) for each in entries.items() if each[0].startswith(folders)]
        contents = await repository.contents(inside)
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
        async with history_lock(self._folder):
            if self._repository is None:
                self._notify_once(NO_GIT)
                return await in_thread(work), None
            await self._catch_up(self._repository)
            with _write_errors():
                self._journal.open(PendingChange(change))
            try:
                result = await in_thread(work)
            except (HermesError, OSError):
                self._journal.close()
                raise
            return result, await self._commit_change(self._repository, change)

    async def _undo(self, commit_id: str, who: Author, session: str) -> SkillCommit:
        async with history_lock(self._folder):
            repository = self._require_repository()
            await self._catch_up(repository)
            commit = await self.commit(commit_id)
            if commit.reason == AS_FOUND:
                raise UsageError(f"{commit.label} cannot be undone: the history begins with it")
            puts = await plan_undo(repository, commit)
            if not puts:
                raise UsageError(f"{commit.label} is already undone")
            change = SkillChange(
                action="undo",
                skills=commit.skills,
                reason=f"undo: {commit.reason}",
                who=who,
                session=session,
                paths=tuple(each.path for each in puts),
                undoes=commit.id,
            )
            with _write_errors():
                self._journal.open(PendingChange(change, tuple(puts)))
                try:
                    await self._apply_updates(repository, puts)
                except OSError:
                    self._journal.close()
                    raise
            done = await self._commit_change(repository, change)
            if done is None:
                raise StoreError(f"{commit.label} was undone, but that could not be recorded yet")
            return done

    async def _catch_up(self, repository: HistoryRepository) -> None:
        """Record what a process that died has done, then manual changes."""
        with _write_errors():
            try:
                await self._recover(repository)
            except GitFailed:
                if not await repository.rebuild_index():
                    aside = self._folder / f"{HISTORY_FOLDER}.broken-{time.time_ns()}"
                    (self._folder / HISTORY_FOLDER).rename(aside)
                    self._notify_once(
                        f"the history of the skills was damaged and is now in {aside}"
                    )
                await self._recover(repository)

    async def _recover(self, repository: HistoryRepository) -> None:
        repository.prepare()
        intent = self._journal.unfinished()
        if intent is not None:
            for path in intent.change.paths:
                remove_temporary_files(self._folder, path)
            # Files that differ from the newest commit are already written, or changed since.
            there = set(await repository.changed_names()) if intent.puts else set()
            rest = [each for each in intent.puts if each.path not in there]
            try:
                await self._apply_updates(repository, rest)
            except OSError as error:
                self._notify_once(f"an interrupted undo cannot be finished: {error}")
            await repository.commit_changes(intent.change)
            self._journal.close()
        names = skill_names(iter(await repository.changed_names()))
        reason = BY_HAND if await repository.head() else AS_FOUND
        await repository.commit_changes(SkillChange("by hand", names, reason, Author.USER))

    async def _apply_updates(self, repository: HistoryRepository, puts: list[FileUpdate]) -> None:
        """Write all files or, with OSError, none."""
        now = await repository.entries() if puts else {}
        back = [FileUpdate(each.path, now.get(each.path)) for each in puts]
        contents = await repository.contents([*puts, *back])

        def work() -> None:
            for number, each in enumerate(puts):
                try:
                    apply_update(self._folder, each, contents.__getitem__)
                except OSError:
                    for done in back[:number]:
                        apply_update(self._folder, done, contents.__getitem__)
                    raise

        await in_thread(work)

    async def _commit_change(
        self, repository: HistoryRepository, change: SkillChange
    ) -> SkillCommit | None:
        """Commit a change that was just made.

        The files are already written, so a failure is only reported; the next change records it.
        """
        try:
            commit = await repository.commit_changes(change)
            self._journal.close()
        except (StoreError, OSError) as error:
            self._notify_once(f"a change of skills is saved, but not recorded yet: {error}")
            return None
        if commit is not None and commit.id.startswith("00"):  # about one commit in 256
            with contextlib.suppress(StoreError):
                await repository.collect_garbage()
        return commit

    def _require_repository(self) -> HistoryRepository:
        if self._repository is None:
            raise UsageError(NO_GIT, hint=INSTALL_GIT)
        return self._repository

    def _notify_once(self, text: str) -> None:
        if text not in self._notified:
            self._notified.add(text)
            log.info("%s", text)  # the log handler of the front end shows it
            self._notify(text)

    async def _run_shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, which continues when the caller is cancelled."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._on_done)
        return await asyncio.shield(task)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("a change of skills failed: %s", task.exception())


@contextlib.contextmanager
def _write_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"the history of the skills cannot be written: {error.strerror or error}",
            hint="nothing was changed",
        ) from error
