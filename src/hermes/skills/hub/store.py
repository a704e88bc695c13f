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
    UNREADABLE,
    Files,
    Refused,
    Unfit,
    private_folder,
    read_folder,
    safe_name,
    write_folder,
)
from hermes.skills.hub.sources import Origin
from hermes.skills.scanner import Finding
from hermes.util import atomic

# `lock.json`: what is installed, where it came from, and the hash of every file.

VERSION = 1


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One installed skill."""

    identifier: str
    source: str
    trust: str
    origin: Origin
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


class Lock(msgspec.Struct, frozen=True):
    skills: dict[str, Entry] = {}
    version: int = VERSION


def read_lock(file: Path) -> Lock:
    """Raises `ConfigError` for one that cannot be understood: nothing is guessed over it."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return Lock()
    except OSError as error:
        raise _damaged(file, error.strerror or str(error)) from error
    try:
        version = msgspec.json.decode(data, type=dict[str, Any]).get("version")
        if isinstance(version, int) and version > VERSION:
            raise ConfigError(
                "a later version of Hermes wrote this file", where=str(file), hint="update Hermes"
            )
        lock = msgspec.json.decode(data, type=Lock)
        for name, entry in lock.skills.items():
            check_entry(name, entry)
    except (*UNREADABLE, Unfit) as error:
        raise _damaged(file, str(error)) from error
    return lock


def check_entry(name: str, entry: Entry) -> None:
    """Whether its folder can only be one of the hub's. Raises `Unfit`."""
    safe_name(name)
    if "/" in name or "/" in entry.category:
        raise Unfit(f"{name} has no folder of its own in the hub")
    if entry.category:
        safe_name(entry.category)


def _damaged(file: Path, what: str) -> ConfigError:
    return ConfigError(
        f"the list of installed skills is damaged: {what}",
        where=str(file),
        hint="put back a copy of it, or delete it and install the skills again",
    )


def write_lock(file: Path, lock: Lock) -> None:
    data = msgspec.json.format(msgspec.json.encode(lock, order="deterministic"), indent=2)
    atomic.write_bytes(file, data + b"\n")


# `audit.log`: one JSON object a line for everything the hub did or refused to do.


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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


def append(file: Path, event: Event) -> None:
    """In one write, so that two processes do not mix their lines."""
    line = msgspec.json.encode(event) + b"\n"
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read(file: Path) -> list[Event]:
    """A line that was cut off by a crash is left out."""
    try:
        lines = file.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    events: list[Event] = []
    for line in lines:
        try:
            events.append(msgspec.json.decode(line, type=Event))
        except UNREADABLE:
            continue
    return events


LOCK_SECONDS = 30


class Pending(msgspec.Struct, frozen=True):
    """A change that has been decided on."""

    name: str
    entry: Entry | None
    """What the lock will say; None removes the skill."""
    staged: str
    """The folder with the new files, below the shelf; "" for none."""
    trash: str
    """Where the old folder goes, below the shelf."""
    old: str = ""
    """The old folder, below the shelf; "" for none."""
    event: Event | None = None


class Shelf:
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

    def lock(self) -> Lock:
        """What is installed. Nothing is created by looking, but an interrupted change is ended."""
        self.finish_interrupted()
        return self.lock_now()

    def lock_now(self) -> Lock:
        """The same, for who holds the shelf already."""
        return read_lock(self.lock_file)

    def finish_interrupted(self) -> None:
        """Ends a change during which the process was killed. Costs one look when there is none."""
        if self._pending.exists():
            with self.held():
                pass

    @contextmanager
    def held(self) -> Iterator[None]:
        """Alone: no other process changes the shelf meanwhile. Not to be entered twice."""
        filelock = import_module("filelock")  # slow to load, and rarely needed
        private_folder(self.root)
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

    def put(self, name: str, entry: Entry, staged: Path, event: Event) -> None:
        """Makes the folder `staged`, which lies on the shelf, the skill. Needs `held`.

        Raises `Refused` when it would lie around another skill, or inside one.
        """
        skills = read_lock(self.lock_file).skills
        self._check_room(name, entry, skills)
        old = skills.get(name)
        self._change(
            Pending(
                name,
                entry,
                staged=self._inside(staged),
                trash=self._new_trash(),
                old=self._inside(old.folder(self.skills, name)) if old else "",
                event=event,
            )
        )

    def _check_room(self, name: str, entry: Entry, skills: Mapping[str, Entry]) -> None:
        """A skill may be called what others are filed under, and the other way round."""
        wanted = entry.folder(self.skills, name)
        for other, held in skills.items():
            folder = held.folder(self.skills, other)
            if other != name and (wanted in folder.parents or folder in wanted.parents):
                raise Refused(
                    f"{name} cannot lie in {self._inside(wanted)}: {other} is installed in "
                    f"{self._inside(folder)}",
                    hint="--category NAME files it elsewhere",
                )

    def drop(self, name: str, entry: Entry, event: Event) -> None:
        """Removes a skill. Needs `held`."""
        folder = self._inside(entry.folder(self.skills, name))
        self._change(Pending(name, None, "", self._new_trash(), folder, event))

    def note(self, event: Event) -> None:
        private_folder(self.root)
        append(self.log_file, event)

    def _change(self, pending: Pending) -> None:
        atomic.write_bytes(self._pending, msgspec.json.encode(pending))
        self._finish(pending)

    def _recover(self) -> None:
        try:
            data = self._pending.read_bytes()
        except FileNotFoundError:
            data = b""
        if data:
            self._finish(self._decided(data))
        if self._trash.exists():
            shutil.rmtree(self._trash, ignore_errors=True)

    def _decided(self, data: bytes) -> Pending:
        """Raises `ConfigError` for what was not written here, or leads out of the shelf."""
        try:
            pending = msgspec.json.decode(data, type=Pending)
            for folder in filter(None, (pending.staged, pending.trash, pending.old)):
                safe_name(folder)
            if pending.entry is not None:
                check_entry(pending.name, pending.entry)
        except (*UNREADABLE, Unfit) as error:
            raise ConfigError(
                f"the note of an interrupted change is damaged: {error}",
                where=str(self._pending),
                hint="delete it; `hermes skills audit` then says what is wrong with which skill",
            ) from error
        return pending

    def _finish(self, pending: Pending) -> None:
        """Every step may have been done already."""
        self._trash.mkdir(exist_ok=True)
        old = self.root / pending.old if pending.old else None
        away = self.root / pending.trash
        staged = self.root / pending.staged
        if pending.entry is None:
            _move(old, away)
        elif staged.exists():
            target = pending.entry.folder(self.skills, pending.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if target != old:  # what lies there without being in the lock is nobody's
                _move(target, self.root / f"{pending.trash}-unknown")
            # Right after each other: between them, who only looks sees no skill.
            _move(old, away)
            staged.rename(target)
        self._write(pending)
        self._pending.unlink()
        shutil.rmtree(self._trash, ignore_errors=True)
        self._drop_empty_category(pending.old)

    def _write(self, pending: Pending) -> None:
        lock = read_lock(self.lock_file)
        skills = {name: entry for name, entry in lock.skills.items() if name != pending.name}
        if pending.entry is not None:
            skills[pending.name] = pending.entry
        if skills != lock.skills:
            write_lock(self.lock_file, Lock(skills))
        if pending.event is not None and read(self.log_file)[-1:] != [pending.event]:
            append(self.log_file, pending.event)

    def _drop_empty_category(self, old: str) -> None:
        folder = (self.root / old).parent
        if old and folder != self.skills:
            with contextlib.suppress(OSError):  # others are in it, or it is gone
                folder.rmdir()

    def _new_trash(self) -> str:
        return self._inside(self._trash / uuid.uuid4().hex)

    def _inside(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def _move(folder: Path | None, away: Path) -> None:
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

FILES = "skill"
REPORT = "report.json"
UNFINISHED_SECONDS = 3600
"""A folder without a report that is older was left by a process that was killed."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A refused skill."""

    name: str
    source: str
    identifier: str
    trust: str
    origin: Origin
    verdict: str
    reason: str
    at: str
    findings: tuple[Finding, ...] = ()


class Quarantine:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stage(self, name: str, files: Files) -> Path:
        """The new folder with the files, on the same disk as the installed skills."""
        private_folder(self._folder)
        self._sweep()
        folder = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=self._folder)) / FILES
        try:
            write_folder(folder, files)
        except OSError:  # a half of it is of no use, and may fill the disk
            shutil.rmtree(folder.parent, ignore_errors=True)
            raise
        return folder

    def files(self, staged: Path) -> dict[str, bytes]:
        """What lies there now."""
        return read_folder(staged)

    def keep(self, staged: Path, held: Held) -> None:
        """A refused skill stays; an earlier one from the same place goes."""
        self.forget(held.source, held.identifier)
        data = msgspec.json.format(msgspec.json.encode(held), indent=2)
        (staged.parent / REPORT).write_bytes(data + b"\n")

    def forget(self, source: str, identifier: str) -> None:
        """What was refused from this place before."""
        for folder, held in self._reports():
            if (held.source, held.identifier) == (source, identifier):
                shutil.rmtree(folder, ignore_errors=True)

    def discard(self, staged: Path) -> None:
        """Unless it was refused: then it stays to be looked at."""
        if not (staged.parent / REPORT).exists():
            shutil.rmtree(staged.parent, ignore_errors=True)

    def refused(self) -> list[Held]:
        return [held for _, held in self._reports()]

    def find(self, name: str) -> tuple[Held, dict[str, bytes]] | None:
        """A refused skill by its name, with its files; what is there now, its identifier tells."""
        for folder, held in self._reports():
            if name == held.name:
                return held, read_folder(folder / FILES)
        return None

    def clean(self, name: str = "") -> list[str]:
        """Deletes the refused skill of this name or identifier, or all; their names."""
        gone: list[str] = []
        for folder, held in self._reports():
            if not name or name in (held.name, held.identifier):
                shutil.rmtree(folder)
                gone.append(held.name)
        return gone

    def _reports(self) -> Iterator[tuple[Path, Held]]:
        for file in sorted(self._folder.glob(f"*/{REPORT}")):
            try:
                yield file.parent, msgspec.json.decode(file.read_bytes(), type=Held)
            except (OSError, *UNREADABLE):
                continue

    def _sweep(self) -> None:
        for folder in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process is done with it
                old = time.time() - folder.stat().st_mtime > UNFINISHED_SECONDS
                if old and not (folder / REPORT).exists():
                    shutil.rmtree(folder, ignore_errors=True)
