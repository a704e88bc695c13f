"""The folder `.hub`: installed skills and their lock, changed so that a crash does no harm.

A change is written down in `pending.json` before the first folder moves. Whoever opens the shelf
next finishes what is written there, so that there is always the old skill or the new one:

    staged  --rename-->  skills/<category>/<name>      (the old one goes to trash/ first)
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
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

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
from hermes.skills.hub.sources import SkillOrigin
from hermes.skills.scanner.report import ScanFinding
from hermes.util import atomic

# `lock.json`: what is installed, where it came from, and the hash of every file.

LOCK_VERSION = 1


class InstalledSkill(msgspec.Struct, frozen=True, kw_only=True):
    """One installed skill."""

    identifier: str
    source: str
    trust: str
    origin: SkillOrigin
    category: str = ""
    files: dict[str, str]
    """SHA-256 by name."""
    sha256: str
    """Of all together; see `whole_hash`."""
    verdict: str = ""
    """What the scan said when it was installed."""
    installed_at: str
    """ISO 8601, in UTC."""
    updated_at: str = ""

    def folder(self, skills: Path, name: str) -> Path:
        return skills / self.category / name if self.category else skills / name


class LockFile(msgspec.Struct, frozen=True):
    skills: dict[str, InstalledSkill] = {}
    version: int = LOCK_VERSION


def read_lock(file: Path) -> LockFile:
    """Raises `ConfigError` for one that cannot be understood: nothing is guessed over it."""
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
    """Whether its folder can only be one of the hub's. Raises `Unfit`."""
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
    atomic.write_bytes(file, data + b"\n")


# `audit.log`: one JSON object a line for everything the hub did or refused to do.


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    at: str
    """ISO 8601, in UTC."""
    what: str
    """installed, updated, removed, refused, restored, imported, published, tampered."""
    skill: str
    source: str = ""
    identifier: str = ""
    version: str = ""
    sha256: str = ""
    verdict: str = ""
    reason: str = ""


def append_event(file: Path, event: AuditEvent) -> None:
    """In one write, so that two processes do not mix their lines."""
    line = msgspec.json.encode(event) + b"\n"
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read_events(file: Path) -> list[AuditEvent]:
    """A line that was cut off by a crash is left out."""
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
    """A change that has been decided on."""

    name: str
    entry: InstalledSkill | None
    """What the lock will say; None removes the skill."""
    staged: str
    """The folder with the new files, below the shelf; "" for none."""
    trash: str
    """Where the old folder goes, below the shelf."""
    old: str = ""
    """The old folder, below the shelf; "" for none."""
    event: AuditEvent | None = None


class HubStore:
    def __init__(self, root: Path) -> None:
        """`root` is `<home>/skills/.hub`."""
        self.root = root
        self.skills = root / "skills"
        self.quarantine = root / "quarantine"
        self.lock_file = root / "lock.json"
        self.taps_file = root / "taps.json"
        self.log_file = root / "audit.log"
        self.index = root / "index"
        """What repositories held when they were last looked at."""
        self._pending = root / "pending.json"
        self._trash = root / "trash"

    def lock(self) -> LockFile:
        """What is installed. Nothing is created by looking, but an interrupted change is ended."""
        self.finish_interrupted()
        return self.current_lock()

    def current_lock(self) -> LockFile:
        """The same, for who holds the shelf already."""
        return read_lock(self.lock_file)

    def finish_interrupted(self) -> None:
        """Ends a change during which the process was killed. Costs one look when there is none."""
        if self._pending.exists():
            with self.exclusive():
                pass

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Alone: no other process changes the shelf meanwhile. Not to be entered twice."""
        filelock = import_module("filelock")  # slow to load, and rarely needed
        make_private_folder(self.root)
        lock = filelock.FileLock(
            self.root / ".lock", timeout=LOCK_SECONDS, mode=0o600, fallback_to_soft=False
        )
        try:
            lock.acquire()
        except filelock.Timeout as error:
            raise ConfigError(
                "another process is changing the installed skills", hint="try again in a moment"
            ) from error
        try:
            self._recover()
            yield
        finally:
            lock.release()

    def install(self, name: str, entry: InstalledSkill, staged: Path, event: AuditEvent) -> None:
        """Makes the folder `staged`, which lies on the shelf, the skill. Needs `held`.

        Raises `Refused` when it would lie around another skill, or inside one.
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
        """A skill may be called what others are filed under, and the other way round."""
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
        """Removes a skill. Needs `held`."""
        folder = self._relative(entry.folder(self.skills, name))
        self._apply(PendingInstall(name, None, "", self._new_trash(), folder, event))

    def log_event(self, event: AuditEvent) -> None:
        make_private_folder(self.root)
        append_event(self.log_file, event)

    def _apply(self, pending: PendingInstall) -> None:
        atomic.write_bytes(self._pending, msgspec.json.encode(pending))
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
        """Raises `ConfigError` for what was not written here, or leads out of the shelf."""
        try:
            pending = msgspec.json.decode(data, type=PendingInstall)
            for folder in filter(None, (pending.staged, pending.trash, pending.old)):
                check_file_name(folder)
            if pending.entry is not None:
                check_entry(pending.name, pending.entry)
        except (*DECODE_ERRORS, InvalidContent) as error:
            raise ConfigError(
                f"the note of an interrupted change is damaged: {error}",
                where=str(self._pending),
                hint="delete it; `hermes skills audit` then says what is wrong with which skill",
            ) from error
        return pending

    def _finish(self, pending: PendingInstall) -> None:
        """Every step may have been done already."""
        self._trash.mkdir(exist_ok=True)
        old = self.root / pending.old if pending.old else None
        away = self.root / pending.trash
        staged = self.root / pending.staged
        if pending.entry is None:
            _move_away(old, away)
        elif staged.exists():
            target = pending.entry.folder(self.skills, pending.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if target != old:  # what lies there without being in the lock is nobody's
                _move_away(target, self.root / f"{pending.trash}-unknown")
            # Right after each other: between them, who only looks sees no skill.
            _move_away(old, away)
            staged.rename(target)
        self._update_lock(pending)
        self._pending.unlink()
        shutil.rmtree(self._trash, ignore_errors=True)
        self._drop_empty_category(pending.old)

    def _update_lock(self, pending: PendingInstall) -> None:
        lock = read_lock(self.lock_file)
        skills = {name: entry for name, entry in lock.skills.items() if name != pending.name}
        if pending.entry is not None:
            skills[pending.name] = pending.entry
        if skills != lock.skills:
            write_lock(self.lock_file, LockFile(skills))
        if pending.event is not None and read_events(self.log_file)[-1:] != [pending.event]:
            append_event(self.log_file, pending.event)

    def _drop_empty_category(self, old: str) -> None:
        folder = (self.root / old).parent
        if old and folder != self.skills:
            with contextlib.suppress(OSError):  # others are in it, or it is gone
                folder.rmdir()

    def _new_trash(self) -> str:
        return self._relative(self._trash / uuid.uuid4().hex)

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def _move_away(folder: Path | None, away: Path) -> None:
    if folder is None:
        return
    with contextlib.suppress(FileNotFoundError):
        folder.rename(away)


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


# `quarantine/`: what was fetched waits here, and is looked at here, before it may be used.
#
#     quarantine/<name>.<random>/skill/…      the files
#     quarantine/<name>.<random>/report.json  where they came from and what the scan found
#
# What is accepted is moved away; what is refused stays, to be looked at, until it is cleaned.

FILES_FOLDER = "skill"
REPORT_FILE = "report.json"
ABANDONED_SECONDS = 3600
"""A folder without a report that is older was left by a process that was killed."""


class RefusedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A refused skill."""

    name: str
    source: str
    identifier: str
    trust: str
    origin: SkillOrigin
    verdict: str
    reason: str
    at: str
    findings: tuple[ScanFinding, ...] = ()


class Quarantine:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stage(self, name: str, files: SkillFiles) -> Path:
        """The new folder with the files, on the same disk as the installed skills."""
        make_private_folder(self._folder)
        self._sweep()
        folder = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=self._folder)) / FILES_FOLDER
        try:
            write_folder(folder, files)
        except OSError:  # a half of it is of no use, and may fill the disk
            shutil.rmtree(folder.parent, ignore_errors=True)
            raise
        return folder

    def files(self, staged: Path) -> dict[str, bytes]:
        """What lies there now."""
        return read_folder(staged)

    def keep(self, staged: Path, held: RefusedSkill) -> None:
        """A refused skill stays; an earlier one from the same place goes."""
        self.forget(held.source, held.identifier)
        data = msgspec.json.format(msgspec.json.encode(held), indent=2)
        (staged.parent / REPORT_FILE).write_bytes(data + b"\n")

    def forget(self, source: str, identifier: str) -> None:
        """What was refused from this place before."""
        for folder, held in self._reports():
            if (held.source, held.identifier) == (source, identifier):
                shutil.rmtree(folder, ignore_errors=True)

    def discard(self, staged: Path) -> None:
        """Unless it was refused: then it stays to be looked at."""
        if not (staged.parent / REPORT_FILE).exists():
            shutil.rmtree(staged.parent, ignore_errors=True)

    def refused(self) -> list[RefusedSkill]:
        return [held for _, held in self._reports()]

    def find(self, name: str) -> tuple[RefusedSkill, dict[str, bytes]] | None:
        """A refused skill by its name, with its files; what is there now, its identifier tells."""
        for folder, held in self._reports():
            if name == held.name:
                return held, read_folder(folder / FILES_FOLDER)
        return None

    def clean(self, name: str = "") -> list[str]:
        """Deletes the refused skill of this name or identifier, or all; their names."""
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

    def _sweep(self) -> None:
        for folder in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process is done with it
                old = time.time() - folder.stat().st_mtime > ABANDONED_SECONDS
                if old and not (folder / REPORT_FILE).exists():
                    shutil.rmtree(folder, ignore_errors=True)
