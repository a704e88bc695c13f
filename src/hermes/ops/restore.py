"""Restoring an archive completely or not at all.

Everything is unpacked and checked in `.import/new` first. Then a journal is written that names the
entries to exchange. From then on the import will be completed, also after a kill: the next process
that starts finds the journal and continues. An entry is exchanged by two renames (the old one moves
to `.import/old`), a session store by the store itself, because other processes may have it open. If
an exchange fails, the direction of the journal is reversed and everything is moved back. Without a
journal, `.import` can be deleted.
"""

import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Literal

import apsw
import msgspec

from hermes.config.home import PROFILES, Home, ensure_hermes_home, tilde, unusable
from hermes.config.own_files import record_tree, rejected_place, sign, verify
from hermes.core.errors import HermesError, UsageError
from hermes.ops.backup import (
    QUICK,
    SECRET,
    Archive,
    ArchiveRefused,
    Kind,
    contents,
    copy_database,
    facts_of,
    is_database,
    is_store,
    open_archive,
    write_archive,
)
from hermes.ops.output_files import check_output, report_unusable, report_unwritable
from hermes.store import Progress, SessionStore, as_store_error, ignore_progress
from hermes.store.sqlite.repair import opened_backup, repair
from hermes.store.sqlite.repair import remove as remove_store
from hermes.store.sqlite.repair import restore as restore_sqlite_store
from hermes.util import files
from hermes.util.text import human_size

log = logging.getLogger(__name__)

STAGE, LOCK = ".import", ".import.lock"
MARGIN = 64 * 2**20  #: Bytes of the disk that must stay free.
SIDE_FILES = ("-wal", "-shm", "-journal")


class Journal(msgspec.Struct, frozen=True):
    units: tuple[str, ...]
    existed: tuple[str, ...]  #: Entries that existed before.
    direction: Literal["forward", "back"] = "forward"


def conflicts(home: Home, archive: Archive) -> list[str]:
    """Return the entries of the home that the archive would replace."""
    return [unit for unit in archive.units if _is_there(home.root / unit)]


def check_fits(home: Home, archive: Archive) -> None:
    """Raise `UsageError` if the archive contains entries that this home cannot have."""
    if not home.is_default and any(unit.startswith(f"{PROFILES}/") for unit in archive.units):
        raise UsageError(
            f"{archive.where} holds profiles, and {home.profile} is one itself",
            hint=f"hermes -p default import {archive.where}",
        )


def restore_archive(home: Home, path: Path) -> Archive:
    """Replace the entries of the home by those of the archive.

    Raises `HermesError`, and then the home is unchanged. The caller has copied what is replaced.
    """
    ensure_hermes_home(home)
    with _alone(home), open_archive(path) as archive:
        check_fits(home, archive)
        exchange = RestoreTransaction(home)
        exchange.recover()
        with report_unusable(home.root, inside=True):
            exchange.stage(archive)
            exchange.commit(archive.units)
        return archive


def has_unfinished_restore(home: Home) -> bool:
    """Return whether an import was interrupted, with one access to the disk."""
    return (home.root / STAGE).exists()


def finish_restore(home: Home, report: Callable[[str], None] = log.warning) -> bool:
    """Complete an interrupted import; return whether there was one. Raises `HermesError` while
    another process does this. `report` is called with a message about a forged one."""
    with _alone(home), report_unusable(home.root, inside=True):
        return RestoreTransaction(home).recover(report)


class RestoreTransaction:
    """Exchanges entries of one home, with a journal that survives a kill."""

    def __init__(self, home: Home) -> None:
        self._root = home.root
        self._stage = home.root / STAGE
        self._new, self._old = self._stage / "new", self._stage / "old"
        self._journal = self._stage / "journal.json"

    def recover(self, report: Callable[[str], None] = log.warning) -> bool:
        """Complete the work of an earlier process; return whether there was any.

        `report` is called with a message about a journal that Hermes did not write.
        """
        try:
            signed = self._journal.read_bytes()
        except FileNotFoundError:
            shutil.rmtree(self._stage, ignore_errors=True)
            return False
        if (data := verify(self._root, signed)) is None:
            kept = rejected_place(self._root, self._stage)
            self._stage.rename(kept)
            report(f"an import that Hermes did not begin was not completed; it is in {tilde(kept)}")
            return False
        self._run(msgspec.json.decode(data, type=Journal))
        self.discard()
        return True

    def stage(self, archive: Archive) -> None:
        """Unpack and check everything without changing the home."""
        free = shutil.disk_usage(self._root).free
        if archive.size + MARGIN > free:
            sizes = f"{human_size(archive.size)} needed, {human_size(free)} free"
            hint = "free some space; nothing was changed"
            raise UsageError(f"the disk is too full: {sizes}", hint=hint)
        with ExitStack() as undo:
            undo.callback(self.discard)
            self._new.mkdir(parents=True, mode=0o700)
            for name in archive.manifest.files:
                self._unpack(archive, name)
            os.sync()
            undo.pop_all()

    def _unpack(self, archive: Archive, name: str) -> None:
        target, mode = self._new / name, archive.manifest.files[name].mode
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
            archive.copy(name, file)
        target.chmod(mode & 0o700 if target.name in SECRET else mode)
        if is_store(name):
            with opened_backup(target):  # raises a `StoreError` for another file
                pass

    def commit(self, units: list[str]) -> None:
        """Exchange all entries; if one fails, move all back. The journal is kept if that fails."""
        # The stores first, because they are the most likely to fail.
        order = sorted(units, key=lambda unit: not is_store(unit))
        existed = tuple(unit for unit in order if _is_there(self._root / unit))
        journal = Journal(tuple(order), existed)
        self._write(journal)
        try:
            self._run(journal)
        except (OSError, HermesError, KeyboardInterrupt):
            journal = msgspec.structs.replace(journal, direction="back")
            self._write(journal)
            self._run(journal)
            self.discard()
            raise
        os.sync()
        self.discard()

    def discard(self) -> None:
        """Delete the journal first: the rest is not used without it. If it cannot be deleted, all
        is kept, and the next start tries again."""
        with suppress(OSError):
            self._journal.unlink(missing_ok=True)
            shutil.rmtree(self._stage, ignore_errors=True)

    def _write(self, journal: Journal) -> None:
        signed = sign(self._root, msgspec.json.encode(journal))
        files.write_bytes(self._journal, signed, mode=0o600)

    def _run(self, journal: Journal) -> None:
        if journal.direction == "forward":
            for unit in journal.units:
                (self._store_forward if is_store(unit) else self._forward)(unit)
            return
        for unit in reversed(journal.units):
            back = self._store_back if is_store(unit) else self._back
            back(unit, existed=unit in journal.existed)

    def _forward(self, unit: str) -> None:
        """Exchange one entry. This and the next three methods can be repeated after a kill."""
        new, live, old = self._places(unit)
        if not _is_there(new):
            return
        for name in (live.name, *_side_files(live)):
            there = live.with_name(name)
            if _is_there(there):
                there.rename(_unused(old.with_name(name)))  # old may exist after a kill
        record_tree(self._root, unit, new)
        new.rename(live)

    def _back(self, unit: str, *, existed: bool) -> None:
        new, live, old = self._places(unit)
        if existed and not _is_there(old):
            return  # it was not exchanged
        if not _is_there(new) and _is_there(live):
            live.rename(new)
        record_tree(self._root, unit, old)
        for name in (live.name, *_side_files(live)):
            if _is_there(old.with_name(name)):
                old.with_name(name).rename(live.with_name(name))

    def _store_forward(self, unit: str) -> None:
        new, live, old = self._places(unit)
        if not new.exists():
            return
        if live.exists() and not old.exists():
            part = old.with_name(f"{old.name}.part")
            remove_store(part)
            try:
                copy_database(live, part)
            except apsw.Error as error:
                raise as_store_error(error, live) from error
            part.rename(old)
        self._put_store(new, live)
        new.unlink()

    def _store_back(self, unit: str, *, existed: bool) -> None:
        _new, live, old = self._places(unit)
        if old.exists():
            self._put_store(old, live)
        elif not existed:
            remove_store(live)

    def _put_store(self, source: Path, live: Path) -> None:
        """Replace a store, and delete the copy that the store keeps: `old` has one already."""
        if (kept := restore_sqlite_store(live, source)) is not None:
            remove_store(kept)

    def _places(self, unit: str) -> tuple[Path, Path, Path]:
        new, live, old = self._new / unit, self._root / unit, self._old / unit
        for folder in (new.parent, live.parent, old.parent):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return new, live, old


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(files.file_lock(home.root / LOCK, 0))
        except TimeoutError:
            raise HermesError(
                f"something is being imported into {tilde(home.root)}", hint="wait until it ends"
            ) from None
        except OSError as error:
            raise unusable(home.root / LOCK, error) from error
        yield


def _side_files(path: Path) -> list[str]:
    """Return the names of SQLite's side files, which would corrupt a new database."""
    return [f"{path.name}{end}" for end in SIDE_FILES] if is_database(path.name) else []


def _unused(path: Path) -> Path:
    """Return the path with a number if it exists already: `x.zip`, `x-2.zip`, …"""
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return path if not _is_there(path) else next(each for each in numbered if not _is_there(each))


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()


# Snapshots: small backups inside the home, with settings, keys, memories and skills.

FOLDER = "snapshots"
KEPT_SNAPSHOTS = 20
LONGEST_LABEL = 60


class Snapshot(msgspec.Struct, frozen=True):
    id: str  #: The file name without its suffix.
    created: str
    label: str
    kind: Kind
    files: int
    bytes: int
    path: Path
    problem: str = ""  #: Why it cannot be used; empty if it can.


class Snapshots:
    def __init__(self, home: Home) -> None:
        self._home = home
        self.folder = home.root / FOLDER

    def create(self, label: str, now: datetime, spared: Path | None = None) -> Snapshot:
        """Create a snapshot. Of older ones, the newest `KEPT_SNAPSHOTS` and `spared` are kept."""
        found = contents(self._home, QUICK)
        if not found.items:
            raise UsageError(
                "a snapshot holds settings, keys, memories and skills, and there are none yet",
                hint="`hermes backup` also copies the sessions",
            )
        target = self.new_file(label, now)
        write_archive(target, found.items, facts_of(self._home, QUICK, label, now))
        self.prune(KEPT_SNAPSHOTS, spared)
        return self._read(target)

    def new_file(self, label: str, now: datetime) -> Path:
        if len(label) > LONGEST_LABEL or not label.isprintable():
            raise UsageError(f"a label is one line of at most {LONGEST_LABEL} characters")
        ensure_hermes_home(self._home)
        with report_unusable(self.folder):
            self.folder.mkdir(mode=0o700, exist_ok=True)
        words = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
        stem = f"{now:%Y%m%d-%H%M%S}" + (f"-{words}" if words else "")
        return _unused(self.folder / f"{stem}.zip")

    def newest_first(self) -> list[Snapshot]:
        """List all snapshots; an unreadable one has a `problem`."""
        return [self._read(path) for path in self._files()]

    def find(self, which: str) -> Snapshot:
        """Find a snapshot by its number (1 is the newest), id, beginning of the id, or label."""
        known = self.newest_first()
        if which.isdigit() and 1 <= int(which) <= len(known):
            return known[int(which) - 1]
        for fits in (
            [one for one in known if which in (one.id, one.label)],
            [one for one in known if which and one.id.startswith(which)],
        ):
            if len(fits) == 1 or (fits and fits[0].id == which):
                return fits[0]
            if fits:
                raise UsageError(
                    f"{len(fits)} snapshots are called {which!r}",
                    hint=f"say which: {', '.join(one.id for one in fits)}",
                )
        raise UsageError(f"there is no snapshot {which!r}", hint="/snapshot list shows them")

    def restore(self, which: str, now: datetime) -> tuple[Snapshot, Snapshot | None]:
        """Restore a snapshot. Returns it and the snapshot of the state before, if there was any."""
        wanted = self.find(which)
        if wanted.problem:
            raise ArchiveRefused(wanted.problem)
        before = None
        if contents(self._home, QUICK).items:
            before = self.create("before restore", now, wanted.path)
        restore_archive(self._home, wanted.path)
        return wanted, before

    def prune(self, keep: int, spared: Path | None = None) -> list[Snapshot]:
        """Delete all but the newest `keep` and return the deleted ones."""
        gone = [path for path in self._files()[keep:] if path != spared]
        deleted = [self._read(path) for path in gone]
        for path in gone:
            with report_unusable(path):
                path.unlink(missing_ok=True)
        return deleted

    def _files(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        # By the time in the name, so that a copied file keeps its position.
        return sorted(
            self.folder.glob("[0-9]*.zip"),
            key=lambda path: (path.stem[:15], path.stat().st_mtime, path.stem),
            reverse=True,
        )

    def _read(self, path: Path) -> Snapshot:
        size = path.stat().st_size
        try:
            with open_archive(path) as archive:
                facts = archive.manifest
        except ArchiveRefused as error:
            return Snapshot(path.stem, "", "", QUICK, 0, size, path, str(error))
        files = len(facts.files)
        return Snapshot(path.stem, facts.created, facts.label, facts.kind, files, size, path)


# Backup and repair of the session store.


async def back_up_store(
    store: SessionStore,
    url: str,
    target: Path,
    *,
    overwrite: bool,
    progress: Progress = ignore_progress,
) -> None:
    """Copy the whole store to `target`, completely or not at all."""
    check_output(target, overwrite=overwrite)
    if url:
        await store.backup(target, progress)
        return
    copy = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    try:
        with report_unwritable(target):
            await store.backup(copy, progress)
            copy.replace(target)
    finally:
        with suppress(OSError):  # after a success it was renamed
            copy.unlink()


def restore_store(home: Home, url: str, backup: Path) -> Path | None:
    """Replace the store by a backup. Returns the path of the old store, if there was one."""
    _only_for_sqlite("restore", url)
    return restore_sqlite_store(home.state_db, backup)


class RepairResult(msgspec.Struct, frozen=True):
    outcome: str  #: `already_sound`, `reindexed` or `rescued`.
    summary: str  #: The result for a person, including what was lost.
    kept: str = ""  #: The path of the damaged file, if there was one.
    sessions: int = 0
    messages: int = 0


def repair_store(home: Home, url: str, progress: Progress = ignore_progress) -> RepairResult:
    """Check the whole store and replace a damaged one by what can be recovered."""
    _only_for_sqlite("repair", url)
    report = repair(home.state_db, progress)
    found = report.salvaged
    return RepairResult(
        outcome=report.outcome,
        summary=report.summary(),
        kept=str(report.kept or ""),
        sessions=found.sessions if found else 0,
        messages=found.messages if found else 0,
    )


def _only_for_sqlite(action: str, url: str) -> None:
    if url:
        raise UsageError(
            f"{action} is for the SQLite file of a home; store.url names a PostgreSQL server",
            hint="a server repairs itself; its own tools check and restore it",
        )
