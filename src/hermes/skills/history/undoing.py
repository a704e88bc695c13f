"""Taking one change back while keeping what came after it. Only decides; puts nothing.

A file has three versions: before the change, after it, and now. Undoing is a three-way merge: what
leads from after to before is done to what is there now.
"""

import asyncio
import tempfile
from pathlib import Path

from hermes.core.errors import UsageError
from hermes.skills.history.changes import Commit
from hermes.skills.history.files import REGULAR, Entry, Put, reachable
from hermes.skills.history.repository import Repository
from hermes.store.git import GitFailed


class UndoRefused(UsageError):
    """A later change is in the way; nothing was done."""


class _Collides(Exception):
    """Both the change and a later one have a say in the same place."""


async def reversal(repository: Repository, commit: Commit) -> list[Put]:
    """What to put so that `commit` is undone; empty when it is already. Raises `UndoRefused`."""
    now = await repository.entries()
    puts: list[Put] = []
    for path, before, after in await repository.deltas(commit.id):
        present = now.get(path)
        if present == before:
            continue
        try:
            merged = await _merged(repository, before, after, present)
        except _Collides:
            raise await _refusal(repository, commit, path) from None
        if not reachable(repository.workspace, path):
            raise await _refusal(repository, commit, path)
        puts.append(Put(path, merged))
    return puts


async def _merged(
    repository: Repository, before: Entry | None, after: Entry | None, present: Entry | None
) -> Entry | None:
    """The file as it should be; None is no file. Raises `_Collides`."""
    if present == after:
        return before
    if before is None or after is None or present is None:
        raise _Collides
    if not all(each.mode in REGULAR for each in (before, after, present)):
        raise _Collides
    mode = before.mode if present.mode == after.mode else present.mode
    if present.id == after.id:
        return Entry(mode, before.id)
    if before.id in (present.id, after.id):
        return Entry(mode, present.id)
    return Entry(mode, await _merged_content(repository, present.id, after.id, before.id))


async def _merged_content(repository: Repository, now: str, after: str, before: str) -> str:
    """The id of `now` with the way from `after` to `before` done to it. Binary files collide."""
    git = repository.git
    contents = await git.blobs([now, after, before])
    with tempfile.TemporaryDirectory(dir=git.folder, prefix="merge-") as folder:
        paths = [Path(folder, name) for name in ("now", "after", "before")]
        for path, content in zip(paths, contents, strict=True):
            await asyncio.to_thread(path.write_bytes, content)
        try:
            merged = await git.run("merge-file", "-p", "-q", *map(str, paths))
        except GitFailed as error:
            raise _Collides from error
    output = await git.run("hash-object", "-w", "--no-filters", "--stdin", data=merged)
    return output.decode().strip()


async def _refusal(repository: Repository, commit: Commit, path: str) -> UndoRefused:
    later = await repository.touching(path, commit.id)
    if not later:
        return UndoRefused(
            f"{commit.label} cannot be undone: {path} cannot be written",
            hint="a folder or a link is in its place",
        )
    return UndoRefused(
        f"{commit.label} cannot be undone: {path} was changed again by {later[0].label}",
        hint=f"undo {later[0].short} first, or change the file by hand",
    )
