"""Where jobs are stored: jobs.json in the home, or the database that several machines share."""

import contextlib
import hashlib
import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from hermes.config.home import Home, tilde
from hermes.config.loader import Loaded
from hermes.config.own_files import record_change, write_own
from hermes.core.errors import ConfigError, HermesError, StoreConflict, StoreError
from hermes.cron.job import Job, Record
from hermes.cron.schedule import format_timestamp
from hermes.store import RunClaims, StoredJob
from hermes.util import files
from hermes.util.concurrency import in_thread
from hermes.util.text import many

log = logging.getLogger(__name__)

T = TypeVar("T")
JobUpdate = Callable[[Job], Job]
Notify = Callable[[str], None]

LOCK_NAME = ".tick.lock"
LOCK_TIMEOUT = 20.0  #: Seconds to wait for another writer; a write takes milliseconds.
MAX_RECOVERABLE = 2_000_000
"""Characters of an invalid file that are searched for jobs; hand-edited files are smaller."""

_USER_FIELDS = (
    "name", "prompt", "skills", "model", "provider", "base_url", "script", "origin", "workdir",
    "context_from", "enabled_toolsets", "budget_usd",
)  # fmt: skip
_JOB_FIELD = re.compile(r'"(id|prompt|schedule)"')
_DECODER = json.JSONDecoder()


class JobStore(Protocol):
    """A change is durable when the call returns, and concurrent changes are not lost."""

    async def all(self) -> tuple[Job, ...]:
        """Return the jobs, oldest first."""
        ...

    async def invalid_records(self) -> tuple[str, ...]:
        """Describe the records that are not jobs: broken ones, and those without a unique id."""
        ...

    async def add(self, job: Job) -> None: ...

    async def update(self, job_id: str, change: JobUpdate) -> Job | None:
        """Store `change(job)` and return it; None if the job does not exist.

        `change` may be called more than once, so it must be quick and have no side effects.
        """
        ...

    async def remove(self, job_id: str) -> bool: ...

    async def replace_all(self, jobs: Sequence[Job]) -> None: ...

    def change_token(self) -> object:
        """Return a value that differs after a change by any process.

        A store that cannot tell without a query always returns the same value.
        """
        ...


def open_job_store(
    home: Home, loaded: Loaded, claims: RunClaims | None, zone: tzinfo, notify: Notify = log.warning
) -> JobStore:
    """Return the store of a home. `notify` gets a message when jobs move to a database."""
    file = FileJobStore(home.cron, zone)
    if loaded.settings.store.url and claims is not None:
        return SharedJobStore(claims, zone, migrate_from=file, notify=notify)
    return file


class SharedJobStore:
    """Jobs in a shared database, with optimistic locking by version.

    The jobs of `migrate_from` are imported before the first access, and that file is renamed.
    """

    def __init__(
        self,
        claims: RunClaims,
        zone: tzinfo,
        migrate_from: "FileJobStore | None" = None,
        notify: Notify = log.warning,
    ) -> None:
        self._claims, self._zone = claims, zone
        self._migrate_from, self._notify = migrate_from, notify

    async def all(self) -> tuple[Job, ...]:
        jobs = [self._decode(stored) for stored in await self._stored()]
        return tuple(sorted(jobs, key=lambda job: (job.created_at, job.id)))

    async def invalid_records(self) -> tuple[str, ...]:
        return ()

    async def add(self, job: Job) -> None:
        await self._migrate()
        await self._save(job, None)

    async def update(self, job_id: str, change: JobUpdate) -> Job | None:
        while True:
            stored = next((each for each in await self._stored() if each.id == job_id), None)
            if stored is None:
                return None
            before = self._decode(stored)
            after = change(before)
            if after != before:
                try:
                    await self._save(after, stored.version)
                except StoreConflict:
                    continue
            return after

    async def remove(self, job_id: str) -> bool:
        await self._migrate()
        return await self._claims.delete_job(job_id)

    async def replace_all(self, jobs: Sequence[Job]) -> None:
        versions = {stored.id: stored.version for stored in await self._stored()}
        for job in jobs:
            await self._save(job, versions.pop(job.id, None))
        for removed in versions:
            await self._claims.delete_job(removed)

    def change_token(self) -> object:
        return None

    async def _stored(self) -> tuple[StoredJob, ...]:
        await self._migrate()
        return await self._claims.jobs()

    async def _save(self, job: Job, version: int | None) -> None:
        await self._claims.save_job(job.id, msgspec.json.encode(job.to_record()), version)

    def _decode(self, stored: StoredJob) -> Job:
        return Job.from_record(msgspec.json.decode(stored.record), self._zone)

    async def _migrate(self) -> None:
        """Import the jobs of the file, once per process.

        The file is renamed last, so a process that dies on the way leaves it to the next one.
        """
        file, self._migrate_from = self._migrate_from, None
        if file is None:
            return
        try:
            while file.path.is_file():
                jobs, imported = await file.all(), 0
                for job in jobs:
                    # The job may be there: from another machine, or from an interrupted import.
                    with contextlib.suppress(StoreConflict):
                        await self._save(job, None)
                        imported += 1
                if (archived := await file.archive(jobs)) is not None:
                    self._notify(
                        f"moved {many(imported, 'job')} from {tilde(file.path)} to the shared"
                        f" store; the file is now {archived.name}"
                    )
        except HermesError as error:  # the jobs that are already shared must run all the same
            self._notify(f"could not move the jobs of {tilde(file.path)}: {error}")


class FileJobStore:
    """Jobs in `<folder>/jobs.json`, replaced atomically by one process at a time.

    Records that are not jobs stay in the file as they are. Before damaged content is overwritten, a
    copy of the file is saved next to it.
    """

    def __init__(self, folder: Path, zone: tzinfo) -> None:
        self._folder, self._zone = folder, zone
        self.path = folder / "jobs.json"
        self._reported: set[Path] = set()  #: Copies of invalid files that were logged.

    async def all(self) -> tuple[Job, ...]:
        return await in_thread(self._load)

    async def invalid_records(self) -> tuple[str, ...]:
        _, records = await in_thread(self._read)
        return tuple(problem for problem, _ in _classify(records)[1])

    async def add(self, job: Job) -> None:
        await in_thread(self._modify, lambda records: records.append(job.to_record()))

    async def update(self, job_id: str, change: JobUpdate) -> Job | None:
        def work(records: list[Any]) -> Job | None:
            for index, record in enumerate(records):
                if _id(record) == job_id:
                    before = Job.from_record(record, self._zone)
                    after = change(before)
                    if after != before:
                        written = before.to_record()
                        if any(record.get(name) and not written[name] for name in _USER_FIELDS):
                            self._back_up_damage([record])
                        records[index] = after.to_record()
                    return after
            return None

        return await in_thread(self._modify, work)

    async def remove(self, job_id: str) -> bool:
        def work(records: list[Any]) -> bool:
            count = len(records)
            records[:] = [record for record in records if _id(record) != job_id]
            return len(records) < count

        return await in_thread(self._modify, work)

    async def replace_all(self, jobs: Sequence[Job]) -> None:
        def work(records: list[Any]) -> None:
            records[:] = [job.to_record() for job in jobs]

        await in_thread(self._modify, work)

    def change_token(self) -> object:
        try:
            stat = self.path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_ino, stat.st_size

    async def archive(self, jobs: Sequence[Job]) -> Path | None:
        """Rename the file if it holds exactly `jobs`; return its new path, or None."""

        def work() -> Path | None:
            with self._locked():
                if self._load() != tuple(jobs):
                    return None
                # Some file systems do not allow colons.
                stamp = format_timestamp(time.time()).replace(":", "-")
                try:
                    record_change(self._folder.parent, self.path, None)
                    return self.path.rename(self.path.with_name(f"jobs.json.moved-{stamp}"))
                except FileNotFoundError:  # another process was faster
                    return None
                except OSError as error:
                    raise _failed("rename", self.path, error) from error

        return await in_thread(work)

    def _load(self) -> tuple[Job, ...]:
        _, records = self._read()
        return tuple(Job.from_record(record, self._zone) for record in _classify(records)[0])

    def _modify(self, work: Callable[[list[Any]], T]) -> T:
        """Call `work` with the records, write what it changed, and return its result."""
        with self._locked():
            head, records = self._read()
            before = list(records)
            result = work(records)
            if records != before:
                self._back_up_damage([record for _, record in _classify(before)[1]])
                now = format_timestamp(time.time())
                content = msgspec.json.encode({**head, "jobs": records, "updated_at": now})
                data = msgspec.json.format(content, indent=2) + b"\n"
                try:
                    write_own(self._folder.parent, self.path, data, mode=0o600)
                except OSError as error:
                    raise _failed("write", self.path, error) from error
        return result

    def _read(self) -> tuple[Record, list[Any]]:
        """Return the fields next to `jobs`, and the records."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}, []
        except OSError as error:
            raise _failed("read", self.path, error) from error
        if not data.strip():
            return {}, []
        try:
            content = msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            return {}, self._recover(data, str(error))
        if isinstance(content, list):
            return {}, content
        if isinstance(content, dict) and isinstance(content.get("jobs", []), list):
            return content, content.get("jobs", [])
        raise self._invalid(data, "it does not contain a list of jobs")

    def _recover(self, data: bytes, reason: str) -> list[Any]:
        """Return the intact records of an invalid file, and the broken parts as text."""
        found, broken = _find_records(data.decode("utf-8", "replace"))
        if not found:
            raise self._invalid(data, reason)
        records = [*found, *({"unreadable": part} for part in broken)]
        copy = self._back_up(data, [record for _, record in _classify(records)[1]])
        if copy not in self._reported:
            self._reported.add(copy)
            log.error(
                "%s is invalid (%s): %d jobs could be read and will run, %d could not;"
                " a copy was saved as %s",
                *(tilde(self.path), reason, len(found), len(broken), tilde(copy)),
            )
        return records

    def _invalid(self, data: bytes, reason: str) -> ConfigError:
        copy = tilde(self._back_up(data))
        return ConfigError(
            f"no job can run: {reason}",
            where=tilde(self.path),
            hint=f"fix the file, or move it away to start over; a copy was saved as {copy}",
        )

    def _back_up_damage(self, damaged: list[Any]) -> None:
        if damaged:
            with contextlib.suppress(FileNotFoundError):
                self._back_up(self.path.read_bytes(), damaged)

    def _back_up(self, data: bytes, damaged: Sequence[Any] = ()) -> Path:
        """Save a copy of the file, once for the same damage."""
        key = msgspec.json.encode(damaged) if damaged else data
        copy = self.path.with_name(f"{self.path.name}.{hashlib.sha256(key).hexdigest()[:8]}.bak")
        try:
            if not copy.exists():
                files.write_bytes(copy, data, mode=0o600)
        except OSError as error:
            raise _failed("write", copy, error) from error
        return copy

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        path = self._folder / LOCK_NAME
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(files.file_lock(path, LOCK_TIMEOUT))
            except TimeoutError as error:
                holds = f"another process holds {tilde(path)}"
                raise StoreError(holds, hint="try again later") from error
            except OSError as error:
                raise _failed("use", self._folder, error) from error
            yield


def try_lock(path: Path) -> contextlib.ExitStack | None:
    """Lock a file until the stack is closed or the process ends; None if another holds it."""
    lock = contextlib.ExitStack()
    try:
        lock.enter_context(files.file_lock(path, 0))
    except TimeoutError:
        return None
    return lock


def _failed(action: str, path: Path, error: OSError) -> StoreError:
    return StoreError(f"cannot {action} {tilde(path)}: {error.strerror}")


def _id(record: Any) -> str:
    value = record.get("id") if isinstance(record, dict) else None
    return value if isinstance(value, str) else ""


def _classify(records: list[Any]) -> tuple[list[Record], list[tuple[str, Any]]]:
    """Split records into jobs and invalid ones, each of those with a description."""
    jobs: dict[str, Record] = {}
    invalid: list[tuple[str, Any]] = []
    for number, record in enumerate(records, 1):
        job_id, fields = _id(record), record if isinstance(record, dict) else {}
        broken = fields.get("unreadable")
        if job_id and job_id not in jobs:
            jobs[job_id] = record
            continue
        if job_id:
            problem = f"has the same id as another job ({job_id})"
        elif not isinstance(record, dict):
            problem = "is not an object"
        else:
            problem = f"is broken: {broken[:40]} …" if isinstance(broken, str) else "has no id"
        title = str(fields.get("name") or fields.get("prompt") or "")
        invalid.append((f"record {number}{title and f' ({title[:40]})'} {problem}", record))
    return list(jobs.values()), invalid


def _find_records(text: str) -> tuple[list[Record], list[str]]:
    """Find intact jobs in invalid JSON, and the parts between them that hold a broken job."""
    found: list[Record] = []
    between: list[str] = []
    start = position = 0
    while len(text) <= MAX_RECOVERABLE and (position := text.find("{", position)) >= 0:
        try:
            record, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            record, end = None, position
        if not isinstance(record, dict) or not record.get("id") or "schedule" not in record:
            position += 1  # not a job, but the next brace may open one
            continue
        found.append(record)
        between.append(text[start:position])
        start = position = end
    between.append(text[start:])
    return found, [part.strip(" \t\r\n,") for part in between if _JOB_FIELD.search(part)]
