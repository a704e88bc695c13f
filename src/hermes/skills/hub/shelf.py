"""The folder `.hub`: installed skills and their lock, changed so that a crash does no harm.

A change is written down in `pending.json` before the first folder moves. Whoever opens the shelf
next finishes what is written there, so that there is always the old skill or the new one:

    staged  --rename-->  skills/<category>/<name>      (the old one goes to trash/ first)
"""

import contextlib
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import msgspec

from hermes.core.errors import ConfigError
from hermes.skills.hub.audit_log import Event, append, read
from hermes.skills.hub.contents import private_folder, safe_name
from hermes.skills.hub.errors import UNREADABLE, Refused, Unfit
from hermes.skills.hub.lockfile import Entry, Lock, check_entry, read_lock, write_lock
from hermes.util import atomic

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
