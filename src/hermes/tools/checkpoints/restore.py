"""Restoring a checkpoint: plan the rollback in the git store, then change the files."""

import asyncio
import contextlib
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from hermes.store import EXECUTABLE_MODE, LINK_MODE, Git, GitHistory, TreeEntry, UndoConflict
from hermes.terminal import make_link, remove_file, replace_file
from hermes.tools.editing.files import display_path
from hermes.util.files import write_bytes

MAX_SKIPPED = 1_000


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


def new_record_id(now: float) -> str:
    return f"{int(now * 1_000_000):017d}-{secrets.token_hex(3)}"


class CheckpointRecords:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> list[CheckpointRecord]:
        """Return all records, newest first; unreadable files are ignored."""
        found: list[CheckpointRecord] = []
        names = sorted(self._folder.glob("*.json"), reverse=True)
        for path in names:
            with contextlib.suppress(OSError, msgspec.DecodeError):
                found.append(msgspec.json.decode(path.read_bytes(), type=CheckpointRecord))
        return found

    def save(self, record: CheckpointRecord) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_bytes(self._path(record.id), msgspec.json.encode(record), mode=0o600)

    def get(self, record_id: str) -> CheckpointRecord | None:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode(self._path(record_id).read_bytes(), type=CheckpointRecord)
        return None

    def drop(self, record: CheckpointRecord) -> None:
        self._path(record.id).unlink(missing_ok=True)

    def _path(self, record_id: str) -> Path:
        return self._folder / f"{os.path.basename(record_id)}.json"  # noqa: PTH119 - a name only


CONFLICT_REASONS = {
    UndoConflict.DELETED: "you deleted it since",
    UndoConflict.RECREATED: "the agent deleted it and you made it anew",
    UndoConflict.CHANGED_NEW: "the agent made it and you changed it since",
    UndoConflict.CHANGED: "you changed it since",
    UndoConflict.SAME_LINES: "you changed the same lines since",
}
MAX_DIFF_BYTES = 60_000  #: For a diff that is shown.
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
            self._remove_empty_folders(Path(path).parent)
        return done

    def _remove_empty_folders(self, folder: Path) -> None:
        """Remove folders that the removal left empty."""
        with contextlib.suppress(OSError):
            while folder != self._workspace:
                folder.rmdir()
                folder = folder.parent


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
