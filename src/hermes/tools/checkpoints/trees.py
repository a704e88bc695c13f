"""Trees of the store: what is in them, how they differ, and merging files of them."""

import asyncio
import os
import tempfile
from pathlib import Path

from hermes.store.git import Git, GitFailed
from hermes.tools.checkpoints.undoing import Delta, Entry

NOTHING = "000000"
MOST_DIFF = 60_000
"""Bytes of a diff that are shown."""


class Trees:
    def __init__(self, git: Git) -> None:
        self._git = git

    async def entries(self, tree: str) -> dict[str, Entry]:
        output = await self._git.run("ls-tree", "-r", "-z", tree)
        found: dict[str, Entry] = {}
        for line in output.split(b"\0"):
            if line:
                meta, _, name = line.partition(b"\t")
                mode, _, object_id = meta.decode().split()
                found[os.fsdecode(name)] = Entry(mode, object_id)
        return found

    async def deltas(self, before: str, after: str) -> list[Delta]:
        output = await self._git.run(
            "diff-tree", "-r", "-z", "--raw", "--no-renames", before, after
        )
        fields = output.split(b"\0")
        found: list[Delta] = []
        for meta, name in zip(fields[0::2], fields[1::2], strict=False):
            old_mode, new_mode, old, new, _ = meta.decode().lstrip(":").split()
            found.append(Delta(os.fsdecode(name), _entry(old_mode, old), _entry(new_mode, new)))
        return found

    async def diff(self, before: str, after: str, path: str = "") -> str:
        only = ["--", f":(literal){path}"] if path else []
        output = await self._git.run(
            "diff", "--no-color", "--no-ext-diff", "--no-textconv", before, after, *only
        )
        text = output[:MOST_DIFF].decode("utf-8", "replace")
        rest = output[MOST_DIFF:].count(b"\n")
        return f"{text}\n[… {rest} more lines]" if rest else text

    async def merge(self, now: str, after: str, before: str) -> str | None:
        """For `undoing.Merge`. Binary files collide always."""
        contents = await self._git.blobs([now, after, before])
        with tempfile.TemporaryDirectory(dir=self._git.folder, prefix="merge-") as folder:
            paths = [Path(folder, name) for name in ("now", "after", "before")]
            for path, content in zip(paths, contents, strict=True):
                await asyncio.to_thread(path.write_bytes, content)
            try:
                merged = await self._git.run("merge-file", "--quiet", "-p", *map(str, paths))
            except GitFailed:
                return None
        output = await self._git.run("hash-object", "-w", "--no-filters", "--stdin", data=merged)
        return output.decode().strip()


def _entry(mode: str, object_id: str) -> Entry | None:
    return None if mode == NOTHING else Entry(mode, object_id)
