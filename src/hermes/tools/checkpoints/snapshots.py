"""The state of a workspace as a tree in the store. What has not changed costs nothing."""

import asyncio
import os
import stat
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hermes.core.errors import StoreError
from hermes.store.git import SETTINGS, Git, GitFailed, TooMuch
from hermes.terminal.here.walk import Walk
from hermes.tools.checkpoints.records import MOST_SKIPPED
from hermes.tools.texts import shown
from hermes.util.atomic import write_text

LONGEST_NAME = 256
"""Bytes of a path on average, generously; bounds what is read of a huge workspace."""

OWN_SETTINGS = """\
[core]
	looseCompression = 1
[gc]
	pruneExpire = now
"""
ATTRIBUTES = "* -text !eol -ident !filter !working-tree-encoding\n"
"""Above every .gitattributes of the workspace: files are kept byte for byte."""
EXCLUDED = (
    "node_modules/", ".venv/", "venv/", "__pycache__/", "*.pyc", ".mypy_cache/", ".pytest_cache/",
    ".ruff_cache/", ".tox/", ".nox/", ".gradle/", ".terraform/", ".DS_Store", ".hermes-*.tmp",
)  # fmt: skip
"""Never kept, besides what the workspace's own .gitignore files say."""


class Limits(msgspec.Struct, frozen=True):
    file_bytes: int = 10_000_000
    """Larger files are not kept."""
    files: int = 50_000
    """A workspace with more files is not kept at all."""


class TooManyFiles(StoreError):
    pass


class Snapshot(msgspec.Struct, frozen=True):
    tree: str
    skipped: tuple[str, ...] = ()
    """Files that were there but are not in the tree, as text."""


class Snapshots:
    """Used by one process at a time; the caller holds the lock."""

    def __init__(self, git: Git, workspace: Path, limits: Limits, excluded: Sequence[str]) -> None:
        self._git, self._workspace, self._limits = git, workspace, limits
        self._excluded = "".join(f"{line}\n" for line in (*EXCLUDED, *excluded))

    def prepare(self) -> None:
        """Make the store, or make sure that its settings are ours and nobody else's."""
        folder = self._git.folder
        for name in ("objects", "refs", "info"):
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in {
            "HEAD": "ref: refs/heads/none\n",
            "config": SETTINGS + OWN_SETTINGS,
            "info/exclude": self._excluded,
            "info/attributes": ATTRIBUTES,
        }.items():
            path = folder / name
            if not path.exists() or path.read_text("utf-8", "replace") != text:
                write_text(path, text, mode=0o600)
        (folder / "index.lock").unlink(missing_ok=True)  # left by a git that was killed

    async def take(self) -> Snapshot:
        try:
            return await self._take()
        except GitFailed:
            # Either a file went away under git's hands, or its list of files is damaged. The
            # list can be made anew from the workspace.
            (self._git.folder / "index").unlink(missing_ok=True)
            return await self._take()

    async def _take(self) -> Snapshot:
        names = await self._changed_names()
        keep, drop, skipped = await asyncio.to_thread(self._sort, names)
        if keep:
            await self._update("--add", "--remove", "--replace", names=keep)
        if drop:
            await self._update("--force-remove", names=drop)
        tree = (await self._git.run("write-tree")).decode().strip()
        return Snapshot(tree, tuple(map(shown, skipped[:MOST_SKIPPED])))

    async def _update(self, *options: str, names: Sequence[str]) -> None:
        data = b"".join(os.fsencode(name) + b"\0" for name in names)
        await self._git.run("update-index", "-z", *options, "--stdin", data=data)

    async def _changed_names(self) -> list[str]:
        """Files that are new, changed or gone since the last snapshot."""
        try:
            output = await self._git.run(
                "ls-files", "-z", "--others", "--modified", "--deleted", "--exclude-standard",
                most=self._limits.files * LONGEST_NAME,
            )  # fmt: skip
        except TooMuch as error:
            raise self._too_many() from error
        names = dict.fromkeys(os.fsdecode(name) for name in output.split(b"\0") if name)
        nested = [name for name in names if name.endswith("/")]
        if nested:
            within = await asyncio.to_thread(self._within, nested)
            names = dict.fromkeys([*(name for name in names if not name.endswith("/")), *within])
        if self._known_files() + len(names) > self._limits.files:
            raise self._too_many()
        return list(names)

    def _within(self, folders: Sequence[str]) -> list[str]:
        """Files of repositories inside the workspace, which git takes for one thing each."""
        found: list[str] = []
        for folder in folders:
            walk = Walk(str(self._workspace / folder), threading.Event(), hidden=True)
            for _, relative in walk.files():
                found.append(folder + relative)
                if len(found) > self._limits.files:
                    raise self._too_many()
        return found

    def _known_files(self) -> int:
        """How many files the index holds: it says so in its first bytes."""
        try:
            with (self._git.folder / "index").open("rb") as index:
                return int.from_bytes(index.read(12)[8:], "big")
        except FileNotFoundError:
            return 0

    def _too_many(self) -> TooManyFiles:
        return TooManyFiles(f"{self._workspace} has more than {self._limits.files} files")

    def _sort(self, names: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
        """What goes into the tree, what does not, and which of that are files all the same."""
        keep: list[str] = []
        drop: list[str] = []
        skipped: list[str] = []
        for name in names:
            path = os.path.join(self._workspace, name)  # noqa: PTH118 - fifty thousand of them
            try:
                found = os.lstat(path)
            except OSError:
                keep.append(name)  # gone: git takes it out
                continue
            regular = stat.S_ISREG(found.st_mode)
            small = found.st_size <= self._limits.file_bytes and os.access(path, os.R_OK)
            if stat.S_ISLNK(found.st_mode) or (regular and small):
                keep.append(name)
                continue
            drop.append(name)
            skipped += [name] if regular else []
        return keep, drop, skipped
