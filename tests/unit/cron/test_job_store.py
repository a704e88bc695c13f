"""Job stores: no update and no foreign content is lost."""

import asyncio
import json
import threading
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from hermes.core.errors import ConfigError, StoreConflict, StoreError
from hermes.cron.job import Job, JobLimits, PendingRun, parse_origin
from hermes.cron.job_store import FileJobStore, JobStore, SharedJobStore, try_lock
from hermes.cron.schedule import parse_schedule
from hermes.store.session_store import SessionStore

UTC = ZoneInfo("UTC")
T0 = 1_800_000_000.0
FULL = Job(
    id="0123456789ab",
    name="mail",
    prompt="look",
    schedule=parse_schedule("every 2h", T0, UTC),
    skills=("a", "b"),
    deliver=("telegram:1:2", "local"),
    times=5,
    completed=2,
    next_run_at=T0 + 7200,
    last_run_at=T0,
    last_status="error",
    last_error="no",
    created_at=T0,
    model="m",
    provider="p",
    base_url="http://x",
    script="s.py",
    origin="telegram:1",
    workdir="/tmp",
    context_from=("other",),
    enabled_toolsets=("web",),
    budget_usd=0.5,
    limits=JobLimits(user="telegram:7", backend="sandbox", toolsets=("safe",)),
    pending=PendingRun(T0, 3, T0 - 60),
    triggered_at=T0 + 0.25,
)


@pytest.fixture(params=["file", "store"])
def jobs(request: pytest.FixtureRequest, tmp_path: Path, store: SessionStore) -> JobStore:
    return (
        FileJobStore(tmp_path / "cron", UTC)
        if request.param == "file"
        else SharedJobStore(store.runs, UTC)
    )


async def test_jobs_are_added_updated_and_removed(jobs: JobStore) -> None:
    assert await jobs.all() == ()
    other = replace(FULL, id="ffffffffffff", created_at=T0 + 1)
    await jobs.add(FULL)
    await jobs.add(other)
    kept = [replace(job, extra={}) for job in await jobs.all()]
    assert kept == [FULL, other]
    changed = await jobs.update(FULL.id, lambda job: replace(job, name="new"))
    assert changed is not None and changed.name == "new"
    assert (await jobs.all())[0].name == "new"
    assert await jobs.update("gone", lambda job: job) is None
    assert await jobs.remove(FULL.id)
    assert not await jobs.remove(FULL.id)
    await jobs.replace_all([FULL])
    assert [job.id for job in await jobs.all()] == [FULL.id]


async def test_concurrent_updates_of_a_shared_job_are_both_kept(store: SessionStore) -> None:
    jobs = SharedJobStore(store.runs, UTC)
    await jobs.add(FULL)
    tries = 0

    def slow(job: Job) -> Job:
        nonlocal tries
        tries += 1
        return replace(job, completed=job.completed + 1)

    class Interfering:
        """Another process is quicker, once."""

        def __getattr__(self, name: str):
            return getattr(store.runs, name)

        async def save_job(self, job_id: str, record: bytes, version: int | None) -> int:
            if tries == 1:
                await jobs.update(job_id, lambda job: replace(job, completed=job.completed + 10))
            return await store.runs.save_job(job_id, record, version)

    await SharedJobStore(Interfering(), UTC).update(FULL.id, slow)
    assert (await jobs.all())[0].completed == FULL.completed + 11
    with pytest.raises(StoreConflict):
        await jobs.add(FULL)


def test_older_record_is_read_and_unknown_fields_are_kept() -> None:
    record = {
        "id": "abc",
        "prompt": "p",
        "skill": "old",
        "schedule": {"kind": "interval", "minutes": 30, "display": "every 30m", "colour": "red"},
        "enabled": False,
        "state": "scheduled",
        "repeat": {"times": None, "completed": 4},
        "deliver": "origin",
        "origin": {"platform": "telegram", "chat_id": -100, "thread_id": 7, "chat_name": "us"},
        "created_at": "2026-01-01T00:00:00Z",
        "mood": {"deep": [1]},
        "paused_reason": "holiday",
    }
    job = Job.from_record(record, UTC)
    assert (job.skills, job.state, job.completed) == (("old",), "paused", 4)
    assert job.targets == ("telegram:-100:7",)
    written = job.to_record()
    assert written["mood"] == {"deep": [1]}
    assert written["paused_reason"] == "holiday"
    assert written["schedule"]["colour"] == "red"
    assert written["origin"] == record["origin"]
    assert Job.from_record(written, UTC) == replace(job, extra=Job.from_record(written, UTC).extra)


async def test_file_of_another_program_is_not_rewritten_by_reading(tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    text = """{"jobs": [
  {"id": "abc", "skill": "old", "enabled": false, "mood": 1, "prompt": "p",
   "schedule": {"kind": "cron", "expr": "0 9 * * *", "display": "0 9 * * *"}},
  {"id": "def", "prompt": "q", "schedule": {"kind": "interval", "minutes": 30}}
], "updated_at": "2026-01-01T00:00:00+00:00"}"""
    file.write_text(text)
    jobs = FileJobStore(tmp_path, UTC)
    first, second = await jobs.all()
    assert (first.state, first.skills, second.state) == ("paused", ("old",), "scheduled")
    await jobs.update("abc", lambda job: job)
    assert await jobs.invalid_records() == ()
    assert file.read_text() == text
    await jobs.update("def", lambda job: replace(job, name="new"))
    kept, changed = json.loads(file.read_text())["jobs"]
    assert kept == json.loads(text)["jobs"][0], "it is unchanged"
    assert changed["name"] == "new"


@pytest.mark.parametrize(
    "record",
    [
        {"id": "x"},
        {"id": "x", "schedule": "every moon", "repeat": 3, "skills": "a, b", "model": {"a": 1}},
        {"id": "x", "schedule": [], "repeat": [], "next_run_at": 5, "last_run_at": "never"},
        {"id": "x", "state": "running", "budget_usd": "much", "pending": {"instant": None}},
    ],
)
def test_invalid_fields_get_defaults(record: dict) -> None:
    job = Job.from_record(record, UTC)
    assert job.state == "scheduled", "found running: it is looked at again"
    assert Job.from_record(job.to_record(), UTC).id == "x"


def test_unreadable_limits_become_strict_limits() -> None:
    job = Job.from_record({"id": "x", "by": {"user": 7}}, UTC)
    assert job.limits is not None
    assert (job.limits.toolsets, job.limits.backend) == (("safe",), "sandbox")


async def test_foreign_records_and_fields_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({"version": 7, "jobs": [{"no": "id"}, {"id": "a"}, "what"]}))
    jobs = FileJobStore(tmp_path, UTC)
    await jobs.add(FULL)
    content = json.loads(file.read_text())
    assert content["version"] == 7
    assert content["jobs"][0] == {"no": "id"}
    assert content["jobs"][2] == "what"
    assert [job.id for job in await jobs.all()] == ["a", FULL.id]
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text('[{"id": "b"}]')
    assert [job.id for job in await jobs.all()] == ["b"]


@pytest.mark.parametrize("text", ['{"jobs": [', '{"jobs": 5}', "5", "\ufffd\0"])
async def test_unreadable_file_is_kept_and_copied(tmp_path: Path, text: str) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(text)
    jobs = FileJobStore(tmp_path, UTC)
    with pytest.raises(ConfigError, match="no job can run") as caught:
        await jobs.all()
    with pytest.raises(ConfigError):
        await jobs.add(FULL)
    assert file.read_text() == text
    (copy,) = tmp_path.glob("jobs.json.*.bak")
    assert copy.read_text() == text
    assert copy.name in caught.value.hint


async def test_concurrent_writers_lose_no_update(tmp_path: Path) -> None:
    jobs = FileJobStore(tmp_path, UTC)
    await jobs.add(replace(FULL, completed=0))

    def count() -> None:
        other = FileJobStore(tmp_path, UTC)
        for _ in range(10):
            change = other.update(FULL.id, lambda job: replace(job, completed=job.completed + 1))
            asyncio.run(change)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (await jobs.all())[0].completed == 40


def test_lock_is_exclusive(tmp_path: Path) -> None:
    held = try_lock(tmp_path / "lock")
    assert held is not None
    assert try_lock(tmp_path / "lock") is None
    held.close()
    again = try_lock(tmp_path / "lock")
    assert again is not None
    again.close()


def test_origin_is_parsed_as_target() -> None:
    assert parse_origin({"platform": "slack", "chat_id": "C1"}) == "slack:C1"
    assert parse_origin({"platform": "slack"}) == ""
    assert parse_origin("discord:#x") == "discord:#x"
    assert Job(id="x", deliver=("origin", "local")).targets == ("local",)


BROKEN = {
    "a comma too many": ("}\n  ],", "},\n  ],", []),
    "a missing comma": ("},\n    {", "}\n    {", []),
    "a missing quote": ('"prompt": "second"', '"prompt": "second', ["bbb"]),
    "a missing brace": ('    {\n      "id": "bbb"', '    \n      "id": "bbb"', ["bbb"]),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_intact_jobs_of_an_invalid_file_are_recovered(tmp_path: Path, how: str) -> None:
    jobs = FileJobStore(tmp_path, UTC)
    for name, prompt in (("aaa", "first"), ("bbb", "second"), ("ccc", "third")):
        await jobs.add(replace(FULL, id=name, prompt=prompt))
    before, after, lost = BROKEN[how]
    text = jobs.path.read_text()
    assert before in text
    broken = (
        text.replace(before, after, 1) if how != "a missing quote" else text.replace(before, after)
    )
    jobs.path.write_text(broken)
    whole = [name for name in ("aaa", "bbb", "ccc") if name not in lost]
    assert [job.id for job in await jobs.all()] == whole
    assert len(await jobs.invalid_records()) == len(lost)
    await jobs.update("ccc", lambda job: replace(job, completed=9))
    assert [job.id for job in await jobs.all()] == whole
    assert len(await jobs.invalid_records()) == len(lost), "it stays, for who mends it"
    json.loads(jobs.path.read_text())
    for name in lost:
        assert name in jobs.path.read_text()
    (copy,) = tmp_path.glob("jobs.json.*.bak")
    assert copy.read_text() == broken


async def test_record_with_duplicate_id_is_invalid(tmp_path: Path) -> None:
    jobs = FileJobStore(tmp_path, UTC)
    twin = {**FULL.to_record(), "name": "copied"}
    jobs.path.write_text(json.dumps({"jobs": [FULL.to_record(), twin, {"prompt": "no id"}]}))
    assert [job.name for job in await jobs.all()] == ["mail"]
    assert await jobs.invalid_records() == (
        f"record 2 (copied) has the same id as another job ({FULL.id})",
        "record 3 (no id) has no id",
    )


async def test_damaged_file_is_backed_up_once_before_writing(tmp_path: Path) -> None:
    jobs = FileJobStore(tmp_path, UTC)
    odd = {**FULL.to_record(), "prompt": 5, "schedule": "every moon"}
    text = json.dumps({"jobs": [odd, "what", {**FULL.to_record(), "id": "b"}]})
    jobs.path.write_text(text)

    def copies() -> list[str]:
        return [copy.read_text() for copy in tmp_path.glob("jobs.json.*.bak")]

    await jobs.all()
    assert copies() == []
    for number in range(3):
        await jobs.update("b", lambda job, number=number: replace(job, completed=number))
    assert copies() == [text], "the same damage is kept once"
    before = jobs.path.read_text()
    changed = await jobs.update(FULL.id, lambda job: replace(job, name="new"))
    assert changed is not None
    assert sorted(copies()) == sorted([text, before])
    assert json.loads(jobs.path.read_text())["jobs"][0]["schedule"] == "every moon"


async def test_unusable_folder_raises_store_error(tmp_path: Path) -> None:
    (tmp_path / "cron").write_text("a file")
    with pytest.raises(StoreError, match="cannot use"):
        await FileJobStore(tmp_path / "cron", UTC).add(FULL)


@pytest.fixture
def file(tmp_path: Path) -> FileJobStore:
    return FileJobStore(tmp_path / "cron", UTC)


async def test_jobs_of_the_file_move_to_a_shared_store_once(
    file: FileJobStore, store: SessionStore
) -> None:
    messages: list[str] = []
    other = replace(FULL, id="ffffffffffff", created_at=T0 + 1)
    for job in (FULL, other):
        await file.add(job)
    jobs = SharedJobStore(store.runs, UTC, file, messages.append)
    assert [job.id for job in await jobs.all()] == [FULL.id, other.id]
    assert await file.all() == ()
    (line,) = messages
    assert line.startswith("moved 2 jobs from ") and "to the shared store" in line
    (kept,) = file.path.parent.glob("jobs.json.moved-*")
    assert len(json.loads(kept.read_text())["jobs"]) == 2
    await jobs.remove(other.id)
    again = SharedJobStore(store.runs, UTC, file, messages.append)
    assert [job.id for job in await again.all()] == [FULL.id]
    assert len(messages) == 1


async def test_an_interrupted_move_imports_no_job_twice(
    file: FileJobStore, store: SessionStore
) -> None:
    messages: list[str] = []
    await file.add(FULL)
    await SharedJobStore(store.runs, UTC).add(replace(FULL, name="as the store has it"))
    (job,) = await SharedJobStore(store.runs, UTC, file, messages.append).all()
    assert job.name == "as the store has it"
    assert "moved 0 jobs" in messages[0]


async def test_a_file_that_changes_during_the_move_is_read_again(
    file: FileJobStore, store: SessionStore
) -> None:
    await file.add(FULL)
    late = replace(FULL, id="ffffffffffff", created_at=T0 + 1)

    class Slow:
        def __getattr__(self, name: str):
            return getattr(store.runs, name)

        async def save_job(self, job_id: str, record: bytes, version: int | None) -> int:
            saved = await store.runs.save_job(job_id, record, version)
            if job_id == FULL.id:
                await file.add(late)
            return saved

    assert len(await SharedJobStore(Slow(), UTC, file, print).all()) == 2


async def test_a_broken_file_does_not_stop_the_jobs_of_the_shared_store(
    file: FileJobStore, store: SessionStore
) -> None:
    messages: list[str] = []
    await SharedJobStore(store.runs, UTC).add(FULL)
    file.path.parent.mkdir()
    file.path.write_text("{")
    assert len(await SharedJobStore(store.runs, UTC, file, messages.append).all()) == 1
    assert "could not move" in messages[0]
    assert file.path.read_text() == "{"
