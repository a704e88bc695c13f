"""The folder `.hub`: installed skills, lock file, audit log and quarantine, safe against crashes.

A change is written to `pending.json` before any folder is moved. The next process that opens the
store finishes an interrupted change, so there is always the old skill or the new one:

    staged  --rename-->  skills/<category>/<name>      (the old one is moved to trash/ first)
"""

import contextlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from hermes.config.home import change_lock
from hermes.core.errors import ConfigError
from hermes.skills.hub.contents import (
    DECODE_ERRORS,
    InstallRefused,
    InvalidContent,
    SkillFiles,
    check_file_name,
    make_private_folder,
    read_folder,
    write_folder,
)
from hermes.skills.hub.sources import SkillPlace
from hermes.skills.scanner.report import ScanFinding
from hermes.util import files

# `lock.json`: installed skills, their origins and file hashes

LOCK_VERSION = 1


class InstalledSkill(SkillPlace, frozen=True, kw_only=True):
    """One installed skill in the lock file."""

    category: str = ""
    files: dict[str, str]  #: SHA-256 by file name.
    sha256: str  #: See `combined_hash`.
    installed_at: str  #: ISO 8601, in UTC.
    updated_at: str = ""

    def folder(self, skills: Path, name: str) -> Path:
        return skills / self.category / name if self.category else skills / name


class LockFile(msgspec.Struct, frozen=True):
    """The content of lock.json."""

    skills: dict[str, InstalledSkill] = {}
    version: int = LOCK_VERSION


def read_lock(file: Path) -> LockFile:
    """Read lock.json.

    Raises `ConfigError` for a file that cannot be decoded: it is never overwritten.
    """
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return LockFile()
    except OSError as error:
        raise _lock_error(file, error.strerror or str(error)) from error
    try:
        version = msgspec.json.decode(data, type=dict[str, Any]).get("version")
        if isinstance(version, int) and version > LOCK_VERSION:
            raise ConfigError(
                "a later version of Hermes wrote this file", where=str(file), hint="update Hermes"
            )
        lock = msgspec.json.decode(data, type=LockFile)
        for name, entry in lock.skills.items():
            check_entry(name, entry)
    except (*DECODE_ERRORS, InvalidContent) as error:
        raise _lock_error(file, str(error)) from error
    return lock


def check_entry(name: str, entry: InstalledSkill) -> None:
    """Check that the folder of a skill is inside the hub. Raises `InvalidContent`."""
    check_file_name(name)
    if "/" in name or "/" in entry.category:
        raise InvalidContent(f"{name} has no folder of its own in the hub")
    if entry.category:
        check_file_name(entry.category)


def _lock_error(file: Path, what: str) -> ConfigError:
    return ConfigError(
        f"the list of installed skills is damaged: {what}",
        where=str(file),
        hint="put back a copy of it, or delete it and install the skills again",
    )


def write_lock(file: Path, lock: LockFile) -> None:
    data = msgspec.json.format(msgspec.json.encode(lock, order="deterministic"), indent=2)
    files.write_bytes(file, data + b"\n")


# `audit.log`: one JSON object a line for everything the hub did or refused


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the audit log."""

    at: str = msgspec.field(default_factory=utc_now)  #: ISO 8601, in UTC.
    what: str  #: installed, updated, removed, refused, restored, imported, published, tampered.
    skill: str
    source: str = ""
    identifier: str = ""
    version: str = ""
    sha256: str = ""
    verdict: str = ""
    reason: str = ""


def audit_event(what: str, name: str, one: SkillPlace, **more: str) -> AuditEvent:
    """Return the event for a skill; `more` are further fields of `AuditEvent`."""
    return AuditEvent(
        what=what,
        skill=name,
        source=one.source,
        identifier=one.identifier,
        version=one.origin.version,
        verdict=one.verdict,
        **more,
    )


def append_event(file: Path, event: AuditEvent) -> None:
    """Append with one write, so that two processes do not mix their lines."""
    line = msgspec.json.encode(event) + b"\n"
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read_events(file: Path) -> list[AuditEvent]:
    """Return all events. A line cut off by a crash is skipped."""
    try:
        lines = file.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    events: list[AuditEvent] = []
    for line in lines:
        try:
            events.append(msgspec.json.decode(line, type=AuditEvent))
        except DECODE_ERRORS:
            continue
    return events


LOCK_SECONDS = 30


class PendingInstall(msgspec.Struct, frozen=True):
    """A change that must be completed."""

    name: str
    entry: InstalledSkill | None  #: The new lock entry; None removes the skill.
    staged: str  #: The folder with the new files, relative to the store; "" for none.
    trash: str  #: Where the old folder is moved, relative to the store.
    old: str = ""  #: The old folder, relative to the store; "" for none.
    event: AuditEvent | None = None


class HubStore:
    """The folder `.hub`."""

    def __init__(self, root: Path) -> None:
        """`root` is `<home>/skills/.hub`."""
        self.root = root
        self.skills = root / "skills"
        self.quarantine = root / "quarantine"
        self.lock_file = root / "lock.json"
        self.taps_file = root / "taps.json"
        self.log_file = root / "audit.log"
        self.index = root / "index"  #: Cached catalogs of repositories.
        self._pending = root / "pending.json"
        self._trash = root / "trash"

    def lock(self) -> LockFile:
        """Return the installed skills after finishing an interrupted change. Creates nothing."""
        self.finish_interrupted()
        return self.current_lock()

    def current_lock(self) -> LockFile:
        """Return the installed skills; for callers inside `exclusive`."""
        return read_lock(self.lock_file)

    def finish_interrupted(self) -> None:
        """Finish the change of a process that was killed. Costs one stat when there is none."""
        if self._pending.exists():
            with self.exclusive():
                pass

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock against other processes. Not reentrant."""
        make_private_folder(self.root)
        with change_lock(self.root / ".lock", LOCK_SECONDS, "the installed skills"):
            self._recover()
            yield

    def install(self, name: str, entry: InstalledSkill, staged: Path, event: AuditEvent) -> None:
        """Make the folder `staged`, which is below the store, the skill `name`. Needs `exclusive`.

        Raises `InstallRefused` when it would contain another skill or be inside one.
        """
        skills = read_lock(self.lock_file).skills
        self._check_nesting(name, entry, skills)
        old = skills.get(name)
        self._apply(
            PendingInstall(
                name,
                entry,
                staged=self._relative(staged),
                trash=self._new_trash(),
                old=self._relative(old.folder(self.skills, name)) if old else "",
                event=event,
            )
        )

    def _check_nesting(
        self, name: str, entry: InstalledSkill, skills: Mapping[str, InstalledSkill]
    ) -> None:
        """Refuse a skill named like a category of other skills, and the reverse."""
        wanted = entry.folder(self.skills, name)
        for other, held in skills.items():
            folder = held.folder(self.skills, other)
            if other != name and (wanted in folder.parents or folder in wanted.parents):
                raise InstallRefused(
                    f"{name} cannot lie in {self._relative(wanted)}: {other} is installed in "
                    f"{self._relative(folder)}",
                    hint="--category NAME files it elsewhere",
                )

    def remove(self, name: str, entry: InstalledSkill, event: AuditEvent) -> None:
        """Remove a skill. Needs `exclusive`."""
        folder = self._relative(entry.folder(self.skills, name))
        self._apply(PendingInstall(name, None, "", self._new_trash(), folder, event))

    def log_event(self, event: AuditEvent) -> None:
        make_private_folder(self.root)
        append_event(self.log_file, event)

    def _apply(self, pending: PendingInstall) -> None:
        files.write_bytes(self._pending, msgspec.json.encode(pending))
        self._finish(pending)

    def _recover(self) -> None:
        try:
            data = self._pending.read_bytes()
        except FileNotFoundError:
            data = b""
        if data:
            self._finish(self._parse_pending(data))
        if self._trash.exists():
            shutil.rmtree(self._trash, ignore_errors=True)

    def _parse_pending(self, data: bytes) -> PendingInstall:
        """Decode pending.json.

        Raises `ConfigError` when it is damaged or contains paths outside the store.
        """
        try:
            pending = msgspec.json.decode(data, type=PendingInstall)
            for folder in filter(None, (pending.staged, pending.trash, pending.old)):
                check_file_name(folder)
            if pending.entry is not None:
                check_entry(pending.name, pending.entry)
        except (*DECODE_ERRORS, InvalidContent) as error:
            raise ConfigError(
                f"the record of an interrupted change is damaged: {error}",
                where=str(self._pending),
                hint="delete it; `hermes skills audit` then says what is wrong with which skill",
            ) from error
        return pending

    def _finish(self, pending: PendingInstall) -> None:
        """Carry out a change. Every step may already have been done."""
        self._trash.mkdir(exist_ok=True)
        old = self.root / pending.old if pending.old else None
        away = self.root / pending.trash
        staged = self.root / pending.staged
        if pending.entry is None:
            _move_away(old, away)
        elif staged.exists():
            target = pending.entry.folder(self.skills, pending.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if target != old:  # a folder that is not in the lock file
                _move_away(target, self.root / f"{pending.trash}-unknown")
            # Between these two renames a reader finds no skill, so nothing may come between them.
            _move_away(old, away)
            staged.rename(target)
        self._update_lock(pending)
        self._pending.unlink()
        shutil.rmtree(self._trash, ignore_errors=True)
        category = (self.root / pending.old).parent
        if pending.old and category != self.skills:
            with contextlib.suppress(OSError):  # not empty, or already gone
                category.rmdir()

    def _update_lock(self, pending: PendingInstall) -> None:
        lock = read_lock(self.lock_file)
        skills = {name: entry for name, entry in lock.skills.items() if name != pending.name}
        if pending.entry is not None:
            skills[pending.name] = pending.entry
        if skills != lock.skills:
            write_lock(self.lock_file, LockFile(skills))
        if pending.event is not None and read_events(self.log_file)[-1:] != [pending.event]:
            append_event(self.log_file, pending.event)

    def _new_trash(self) -> str:
        return self._relative(self._trash / uuid.uuid4().hex)

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def _move_away(folder: Path | None, away: Path) -> None:
    if folder is None:
        return
    with contextlib.suppress(FileNotFoundError):
        folder.rename(away)


# `quarantine/`: fetched skills wait here while they are scanned
#
#     quarantine/<name>.<random>/skill/…      the files
#     quarantine/<name>.<random>/report.json  origin and findings of a refused skill
#
# Accepted skills are moved away; refused ones stay for inspection until they are deleted.

FILES_FOLDER = "skill"
REPORT_FILE = "report.json"
ABANDONED_SECONDS = 3600  #: A folder without a report that is older was left by a killed process.


class RefusedSkill(SkillPlace, frozen=True, kw_only=True):
    """The report of a refused skill."""

    name: str
    reason: str
    at: str
    findings: tuple[ScanFinding, ...] = ()


class Quarantine:
    """The folder of fetched and refused skills."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stage(self, name: str, files: SkillFiles) -> Path:
        """Write the files to a new folder on the disk of the installed skills, and return it."""
        make_private_folder(self._folder)
        for left in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # removed by another process
                old = time.time() - left.stat().st_mtime > ABANDONED_SECONDS
                if old and not (left / REPORT_FILE).exists():
                    shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=self._folder)) / FILES_FOLDER
        try:
            write_folder(folder, files)
        except OSError:  # incomplete, and may fill the disk
            shutil.rmtree(folder.parent, ignore_errors=True)
            raise
        return folder

    def keep(self, staged: Path, held: RefusedSkill) -> None:
        """Keep a refused skill; an earlier one from the same place is deleted."""
        self.forget(held.source, held.identifier)
        data = msgspec.json.format(msgspec.json.encode(held), indent=2)
        (staged.parent / REPORT_FILE).write_bytes(data + b"\n")

    def forget(self, source: str, identifier: str) -> None:
        """Delete refused skills from this place."""
        for folder, held in self._reports():
            if (held.source, held.identifier) == (source, identifier):
                shutil.rmtree(folder, ignore_errors=True)

    def discard(self, staged: Path) -> None:
        """Delete a staged skill, unless it was refused."""
        if not (staged.parent / REPORT_FILE).exists():
            shutil.rmtree(staged.parent, ignore_errors=True)

    def refused(self) -> list[RefusedSkill]:
        return [held for _, held in self._reports()]

    def find(self, name: str) -> tuple[RefusedSkill, dict[str, bytes]] | None:
        """Return a refused skill by name, with its files."""
        for folder, held in self._reports():
            if name == held.name:
                return held, read_folder(folder / FILES_FOLDER)
        return None

    def clean(self, name: str = "") -> list[str]:
        """Delete the refused skills with this name or identifier, or all; return their names."""
        gone: list[str] = []
        for folder, held in self._reports():
            if not name or name in (held.name, held.identifier):
                shutil.rmtree(folder)
                gone.append(held.name)
        return gone

    def _reports(self) -> Iterator[tuple[Path, RefusedSkill]]:
        for file in sorted(self._folder.glob(f"*/{REPORT_FILE}")):
            try:
                yield file.parent, msgspec.json.decode(file.read_bytes(), type=RefusedSkill)
            except (OSError, *DECODE_ERRORS):
                continue
