"""Going back to a checkpoint: planned in the store, then done to the files one by one."""

import asyncio
import contextlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hermes.store.git import Git
from hermes.terminal.here.replacing import make_link, remove, replace
from hermes.tools.checkpoints.records import Record
from hermes.tools.checkpoints.trees import Trees
from hermes.tools.checkpoints.undoing import Conflict, Entry, undone
from hermes.tools.texts import shown

LINK, EXECUTABLE = "120000", "100755"
AT_ONCE = 16
"""Files read from the store at a time."""


class Restored(msgspec.Struct, frozen=True):
    """What going back did. Paths are relative to the workspace."""

    number: int
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    """Restored with the user's own changes kept."""
    kept: dict[str, str] = {}
    """Left as they are, with the reason."""


class Plan(msgspec.Struct):
    now: dict[str, Entry]
    goal: dict[str, Entry | None]
    """What becomes of each file that is touched."""
    kept: dict[str, str]
    merged: set[str]
    """Those of `goal` in which changes of both are."""


async def plan(
    trees: Trees, chain: Sequence[Record], now_tree: str, only: str, *, force: bool
) -> Plan:
    """Undo the records of `chain`, the newest first; `only` is a file or a folder, or ""."""
    now = await trees.entries(now_tree)
    made = Plan(now, {}, {}, set())
    ended = now_tree
    for record in chain:
        for delta in await trees.deltas(record.before, record.after or ended):
            path = delta.path
            if (only and not _within(path, only)) or path in made.kept:
                continue
            current = made.goal.get(path, now.get(path))
            if current is None and path == only:
                current = delta.after  # who names a file that is gone wants it back
            result = await undone(delta, current, trees.merge)
            if isinstance(result, Conflict):
                made.kept[path] = result.reason
                made.goal.pop(path, None)
            else:
                made.goal[path] = result
                if result not in (delta.before, current):
                    made.merged.add(path)
        ended = record.before
    if force and made.kept:
        oldest = await trees.entries(chain[-1].before)
        made.goal |= {path: oldest.get(path) for path in made.kept}
        made.merged -= made.kept.keys()
        made.kept.clear()
    skipped = {path for record in chain for path in record.skipped}
    for path in [path for path, entry in made.goal.items() if entry is None]:
        if shown(path) in skipped:
            made.kept[path] = "it was too big to keep"
            del made.goal[path]
    return made


def _within(path: str, only: str) -> bool:
    return path == only or path.startswith(f"{only}/")


class Restorer:
    def __init__(self, git: Git, workspace: Path) -> None:
        self._git, self._workspace = git, workspace

    async def carry_out(self, number: int, made: Plan) -> Restored:
        """First the rules of what git ignores: they say what may be removed. Then the removals,
        which may make room for a file where a folder is. Then the rest."""
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
            tuple(shown(path) for path in done if path not in made.merged),
            tuple(map(shown, removed)),
            tuple(shown(path) for path in done if path in made.merged),
            {shown(path): reason for path, reason in sorted(kept.items())},
        )

    async def _write(self, back: dict[str, Entry], kept: dict[str, str]) -> list[str]:
        done: list[str] = []
        paths = sorted(back)
        for start in range(0, len(paths), AT_ONCE):
            some = paths[start : start + AT_ONCE]
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
            _put(path, mode, content)
        except IsADirectoryError:
            os.rmdir(path)  # noqa: PTH106 - an empty folder has nothing to lose
            _put(path, mode, content)

    async def _ignored(self, paths: Sequence[str]) -> set[str]:
        if not paths:
            return set()
        # "./" keeps a name such as ":x" from being read as a pattern.
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
                remove(path, link=True)
                done.append(name)
            except FileNotFoundError:
                done.append(name)
            except OSError as error:
                kept[name] = f"it cannot be removed: {(error.strerror or str(error)).lower()}"
                continue
            self._tidy(Path(path).parent)
        return done

    def _tidy(self, folder: Path) -> None:
        """Folders that the removal left empty."""
        with contextlib.suppress(OSError):
            while folder != self._workspace:
                folder.rmdir()
                folder = folder.parent


def _put(path: str, mode: str, content: bytes) -> None:
    if mode == LINK or os.path.islink(path):  # noqa: PTH114 - bytes that are no text
        with contextlib.suppress(FileNotFoundError):
            remove(path, link=True)
    if mode == LINK:
        make_link(path, content)
        return
    replace(path, content)
    current = stat.S_IMODE(os.lstat(path).st_mode)
    wanted = current | (current & 0o444) >> 2 if mode == EXECUTABLE else current & ~0o111
    if wanted != current:
        os.chmod(path, wanted)  # noqa: PTH101 - the same
