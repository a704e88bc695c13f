"""A copy of a whole home, taken while it is in use."""

import asyncio
import shutil
import tempfile
from datetime import datetime
from pathlib import Path

import msgspec

from hermes import __version__
from hermes.app.backups.archive import Progress, write_archive
from hermes.app.backups.contents import FULL, Contents, Item, Kind, contents
from hermes.app.backups.manifest import Manifest
from hermes.app.transcripts.output import unwritable
from hermes.config.home import Home
from hermes.core.errors import UsageError
from hermes.store.session_store import open_store


class Copied(msgspec.Struct, frozen=True):
    path: Path
    bytes: int
    manifest: Manifest
    passed_over: tuple[str, ...]


async def copy_home(
    home: Home,
    target: Path,
    now: datetime,
    *,
    kind: Kind = FULL,
    label: str = "",
    profiles: bool = True,
    progress: Progress | None = None,
) -> Copied:
    """Write an archive of `home` to `target`, which must not exist."""
    found = contents(home, kind, profiles=profiles)
    if not found.items:
        raise UsageError(f"there is nothing in {home.display()} to back up")
    if target.exists():
        raise UsageError(f"{target} exists already", hint="choose another name with -o")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}")
    try:
        room = Path(tempfile.mkdtemp(prefix=".hermes-backup-", suffix=".tmp", dir=target.parent))
    except OSError as error:
        raise unwritable(target, error) from error
    try:
        items = [await _still(item, room, number) for number, item in enumerate(found.items)]
        facts = facts_of(home, kind, label, now)
        written = await asyncio.to_thread(write_archive, target, items, facts, progress)
    finally:
        await asyncio.to_thread(shutil.rmtree, room, ignore_errors=True)
    return _outcome(target, written, found)


def facts_of(home: Home, kind: Kind, label: str, now: datetime) -> Manifest:
    return Manifest(
        hermes=__version__,
        created=now.isoformat(timespec="seconds"),
        kind=kind,
        profile=home.profile,
        label=label,
    )


async def _still(item: Item, room: Path, number: int) -> Item:
    """A session store is copied by the store, which knows how to while others write."""
    if not item.is_store:
        return item
    store = open_store("", item.path)
    try:
        copy = room / f"{number}.copy"
        await store.backup(copy)
    finally:
        store.close()
    return Item(item.name, copy, is_database=False)


def _outcome(target: Path, written: Manifest, found: Contents) -> Copied:
    return Copied(target, target.stat().st_size, written, found.passed_over)
