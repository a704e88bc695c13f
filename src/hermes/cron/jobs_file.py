"""jobs.json: written to a temporary file and renamed, by one process at a time."""

import contextlib
import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.config.home import tilde
from hermes.core.errors import ConfigError, StoreError
from hermes.cron.book import Change
from hermes.cron.job import Job, Record, from_dict, to_dict, unread
from hermes.cron.salvage import salvaged
from hermes.cron.schedule import iso
from hermes.util import atomic
from hermes.util.threads import in_thread

log = logging.getLogger(__name__)

T = TypeVar("T")
LOCK = ".tick.lock"
PATIENCE = 20.0
"""Seconds to wait for somebody who writes; a write takes milliseconds."""
PAUSE = 0.005


class JobsFile:
    """A `JobBook` in `<home>/cron`. Records that are no jobs stay in the file as they are."""

    def __init__(self, folder: Path, zone: tzinfo) -> None:
        self._folder, self._zone = folder, zone
        self.file = folder / "jobs.json"
        self._told: set[Path] = set()
        """Copies of files that were broken."""

    async def all(self) -> tuple[Job, ...]:
        return await in_thread(self._all)

    async def add(self, job: Job) -> None:
        await in_thread(self._changed, lambda records: records.append(to_dict(job)))

    async def change(self, job_id: str, how: Change) -> Job | None:
        return await in_thread(self._changed, lambda records: self._change(records, job_id, how))

    async def drop(self, job_id: str) -> bool:
        def work(records: list[Any]) -> bool:
            kept = [each for each in records if _id(each) != job_id]
            found = len(kept) < len(records)
            records[:] = kept
            return found

        return await in_thread(self._changed, work)

    async def replace(self, jobs: Sequence[Job]) -> None:
        def work(records: list[Any]) -> None:
            records[:] = [to_dict(job) for job in jobs]

        await in_thread(self._changed, work)

    def token(self) -> object:
        try:
            found = self.file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    async def left_out(self) -> tuple[str, ...]:
        _, records = await in_thread(self._read)
        return tuple(told for told, _ in _no_jobs(records))

    async def put_away(self, jobs: Sequence[Job]) -> Path | None:
        """Give the file another name, if these are its jobs; None when they are not any more."""
        return await in_thread(self._put_away, tuple(jobs))

    def _all(self) -> tuple[Job, ...]:
        _, records = self._read()
        return tuple(from_dict(each, self._zone) for each in _jobs(records))

    def _put_away(self, jobs: tuple[Job, ...]) -> Path | None:
        with self._locked():
            if self._all() != jobs:
                return None
            away = self.file.with_name(f"jobs.json.moved-{stamp(time.time())}")
            try:
                self.file.rename(away)
            except FileNotFoundError:  # another process did
                return None
            except OSError as error:
                raise StoreError(f"cannot rename {tilde(self.file)}: {error.strerror}") from error
        return away

    def _change(self, records: list[Any], job_id: str, how: Change) -> Job | None:
        for place, record in enumerate(records):
            if _id(record) == job_id:
                before = from_dict(record, self._zone)
                after = how(before)
                if after != before:
                    self._keep([record] if unread(record, self._zone) else [])
                    records[place] = to_dict(after)
                return after
        return None

    def _changed(self, work: Callable[[list[Any]], T]) -> T:
        """The result of `work`, once what it made of the records is on disk."""
        with self._locked():
            head, records = self._read()
            before = list(records)
            result = work(records)
            if records != before:
                self._keep([record for _, record in _no_jobs(before)])
                self._write({**head, "jobs": records, "updated_at": iso(time.time())})
        return result

    def _read(self) -> tuple[Record, list[Any]]:
        """What stands beside the jobs, and their records."""
        try:
            data = self.file.read_bytes()
        except FileNotFoundError:
            return {}, []
        except OSError as error:
            raise StoreError(f"cannot read {tilde(self.file)}: {error.strerror}") from error
        if not data.strip():
            return {}, []
        try:
            content = msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            return {}, self._salvaged(data, str(error))
        if isinstance(content, list):
            return {}, content
        if isinstance(content, dict) and isinstance(content.get("jobs", []), list):
            return content, content.get("jobs", [])
        raise self._unreadable(data, "it holds no list of jobs")

    def _write(self, content: Record) -> None:
        encoded = msgspec.json.format(msgspec.json.encode(content), indent=2)
        try:
            atomic.write_bytes(self.file, encoded + b"\n", mode=0o600)
        except OSError as error:
            raise StoreError(f"cannot write {tilde(self.file)}: {error.strerror}") from error

    def _salvaged(self, data: bytes, why: str) -> list[Any]:
        """The jobs that are whole go on. What is broken stays in the file, as text."""
        found, broken = salvaged(data.decode("utf-8", "replace"))
        if not found:
            raise self._unreadable(data, why)
        records = [*found, *({"unreadable": part} for part in broken)]
        copy = _copy(self.file, data, [record for _, record in _no_jobs(records)])
        if copy not in self._told:
            self._told.add(copy)
            log.error(
                "%s is broken (%s): %d jobs can be read and go on, %d cannot; a copy is in %s",
                *(tilde(self.file), why, len(found), len(broken), tilde(copy)),
            )
        return records

    def _unreadable(self, data: bytes, why: str) -> ConfigError:
        copy = _copy(self.file, data)
        return ConfigError(
            f"no job can run: {why}",
            where=tilde(self.file),
            hint=f"mend the file, or move it away to begin anew; a copy is in {tilde(copy)}",
        )

    def _keep(self, damaged: list[Any]) -> None:
        """The file as it is, before it is written anew."""
        if damaged:
            with contextlib.suppress(FileNotFoundError):
                _copy(self.file, self.file.read_bytes(), damaged)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        deadline = time.monotonic() + PATIENCE
        while (held := self._try_lock()) is None:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"another process holds {tilde(self._folder / LOCK)}", hint="try again later"
                )
            time.sleep(PAUSE)
        with held:
            yield

    def _try_lock(self) -> contextlib.ExitStack | None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return held_lock(self._folder / LOCK)
        except OSError as error:
            raise StoreError(f"cannot use {tilde(self._folder)}: {error.strerror}") from error


def _copy(file: Path, data: bytes, damaged: Sequence[Any] = ()) -> Path:
    """Kept, so that whoever mends the file cannot make it worse; once for the same damage."""
    what = msgspec.json.encode(damaged) if damaged else data
    copy = file.with_name(f"{file.name}.{hashlib.sha256(what).hexdigest()[:8]}.bak")
    try:
        if not copy.exists():
            atomic.write_bytes(copy, data, mode=0o600)
    except OSError as error:
        raise StoreError(f"cannot write {tilde(copy)}: {error.strerror}") from error
    return copy


def held_lock(file: Path) -> contextlib.ExitStack | None:
    """The lock of a file, until it is closed or this process ends; None when another has it."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    held = contextlib.ExitStack()
    held.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        return None
    return held


def stamp(instant: float) -> str:
    """For names of files: sortable, and never the same for two instants."""
    moment = datetime.fromtimestamp(round(instant, 3), UTC)
    fraction = f".{moment.microsecond // 1000:03}" if moment.microsecond else ""
    return f"{moment:%Y-%m-%dT%H-%M-%S}{fraction}Z"


def _jobs(records: list[Any]) -> list[Record]:
    """Those that are jobs: with an id that none before it has."""
    found: dict[str, Record] = {}
    for record in records:
        if name := _id(record):
            found.setdefault(name, record)
    return list(found.values())


def _no_jobs(records: list[Any]) -> Iterator[tuple[str, Any]]:
    """The others, each with what is wrong."""
    known: set[str] = set()
    for place, record in enumerate(records, 1):
        name = _id(record)
        if not name or name in known:
            yield f"{_called(place, record)} {_wrong(record, name)}", record
        known.add(name)


def _called(place: int, record: Any) -> str:
    said = record if isinstance(record, dict) else {}
    words = str(said.get("name") or said.get("prompt") or "")
    return f"record {place}{words and f' ({words[:40]})'}"


def _wrong(record: Any, name: str) -> str:
    if name:
        return f"has the id {name} of another"
    if not isinstance(record, dict):
        return "is no object"
    part = record.get("unreadable")
    return f"cannot be read: {part[:40]} …" if isinstance(part, str) else "has no id"


def _id(record: Any) -> str:
    found = record.get("id") if isinstance(record, dict) else None
    return found if isinstance(found, str) else ""
