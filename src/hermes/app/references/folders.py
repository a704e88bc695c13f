"""Attaching a folder: a list of what is in it."""

import os
import threading
from collections import deque
from itertools import islice

from hermes.app.references.blocks import fenced_text, one_line
from hermes.app.references.desk import Attached, Desk, NotAttached
from hermes.app.references.ignoring import Ignoring
from hermes.app.references.places import holds_secrets
from hermes.app.references.written import Reference
from hermes.util.text import human_size
from hermes.util.threads import in_thread

MOST_ENTRIES = 200
MOST_LOOKED_AT = 20_000
"""Entries of one folder."""


async def attach_folder(reference: Reference, real: str, desk: Desk) -> Attached:
    """Raises `NotAttached` and `OSError`."""
    stop = threading.Event()
    try:
        entries, more = await in_thread(listing, real, stop)
    finally:
        stop.set()
    detail = f"the first {len(entries)} entries" if more else _count(len(entries))
    text = desk.redact("\n".join(entries))
    return Attached(
        key=f"folder {real}",
        written=reference.written,
        detail=detail,
        text=fenced_text(text) if entries else "[empty]",
    )


def _count(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries} entries"


def listing(root: str, stop: threading.Event, most: int = MOST_ENTRIES) -> tuple[list[str], bool]:
    """What is below `root` in the order of the paths, and whether there is more.

    Level by level, so that what is left out is deep down. Without what git ignores, the insides of
    .git and what must not be shown; links are named, not followed. Raises `OSError` when `root`
    cannot be read.
    """
    ignoring = Ignoring(root)
    found: list[tuple[str, str]] = []
    waiting = deque([""])
    while waiting:
        if stop.is_set():
            raise NotAttached("stopped")
        inside = waiting.popleft()
        try:
            entries = _entries(os.path.join(root, inside))  # noqa: PTH118 - thousands of them
        except OSError:
            if not inside:
                raise
            continue  # not ours to read: its name is all there is to show
        for entry in entries:
            path = inside + entry.name
            folder = entry.is_dir(follow_symlinks=False)
            if _hidden(entry.name) or ignoring.ignores(entry.path, is_folder=folder):
                continue
            if len(found) == most:
                return sorted_lines(found), True
            found.append((path, _line(path, entry, folder)))
            if folder:
                waiting.append(f"{path}/")
    return sorted_lines(found), False


def sorted_lines(found: list[tuple[str, str]]) -> list[str]:
    return [line for _path, line in sorted(found, key=lambda item: item[0].split("/"))]


def _entries(folder: str) -> list["os.DirEntry[str]"]:
    with os.scandir(folder) as found:
        return sorted(islice(found, MOST_LOOKED_AT), key=lambda entry: entry.name)


def _hidden(name: str) -> bool:
    return name == ".git" or holds_secrets((name.casefold(),))


def _line(path: str, entry: "os.DirEntry[str]", folder: bool) -> str:
    if folder:
        return f"{one_line(path)}/"
    if entry.is_symlink():
        return f"{one_line(path)} (link)"
    try:
        size = human_size(entry.stat(follow_symlinks=False).st_size)
    except OSError:
        return one_line(path)
    return f"{one_line(path)}  {size}"
