"""Jobs on disk: nothing that was written is lost, whoever wrote it."""

import json
import threading
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from hermes.core.errors import ConfigError, StoreConflict, StoreError
from hermes.cron.book import JobBook, SharedBook
from hermes.cron.job import By, Job, Pending, from_dict, target_of, targets, to_dict
from hermes.cron.jobs_file import JobsFile, held_lock, stamp
from hermes.cron.moving import MovedBook
from hermes.cron.schedule import parse_schedule
from hermes.store.port import SessionStore

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
    by=By(user="telegram:7", backend="sandbox", toolsets=("safe",)),
    pending=Pending(T0, 3, T0 - 60),
    asked_at=T0 + 0.25,
)


@pytest.fixture(params=["file", "store"])
def book(request: pytest.FixtureRequest, tmp_path: Path, store: SessionStore) -> JobBook:
    return JobsFile(tmp_path / "cron", UTC) if request.param == "file" else SharedBook(store, UTC)


async def test_jobs_are_kept_changed_and_dropped(book: JobBook) -> None:
    assert await book.all() == ()
    other = replace(FULL, id="ffffffffffff", created_at=T0 + 1)
    await book.add(FULL)
    await book.add(other)
    kept = [replace(job, rest={}) for job in await book.all()]
    assert kept == [FULL, other]
    changed = await book.change(FULL.id, lambda job: replace(job, name="new"))
    assert changed is not None and changed.name == "new"
    assert (await book.all())[0].name == "new"
    assert await book.change("gone", lambda job: job) is None
    assert await book.drop(FULL.id)
    assert not await book.drop(FULL.id)
    await book.replace([FULL])
    assert [job.id for job in await book.all()] == [FULL.id]


async def test_two_who_change_a_shared_job_both_get_their_change(store: SessionStore) -> None:
    book = SharedBook(store, UTC)
    await book.add(FULL)
    tries = 0

    def slow(job: Job) -> Job:
        nonlocal tries
        tries += 1
        return replace(job, completed=job.completed + 1)

    class Interfering:
        """Somebody else is quicker, once."""

        def __getattr__(self, name: str):
            return getattr(store, name)

        async def save_job(self, job_id: str, record: bytes, version: int | None) -> int:
            if tries == 1:
                await book.change(job_id, lambda job: replace(job, completed=job.completed + 10))
            return await store.save_job(job_id, record, version)

    await SharedBook(Interfering(), UTC).change(FULL.id, slow)
    assert (await book.all())[0].completed == FULL.completed + 11
    with pytest.raises(StoreConflict):
        await book.add(FULL)


def test_a_record_of_an_older_version_is_understood_and_nothing_of_it_is_lost() -> None:
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
    job = from_dict(record, UTC)
    assert (job.skills, job.state, job.completed) == (("old",), "paused", 4)
    assert targets(job) == ("telegram:-100:7",)
    written = to_dict(job)
    assert written["mood"] == {"deep": [1]}
    assert written["paused_reason"] == "holiday"
    assert written["schedule"]["colour"] == "red"
    assert written["origin"] == record["origin"]
    assert from_dict(written, UTC) == replace(job, rest=from_dict(written, UTC).rest)


async def test_a_file_of_another_writer_is_opened_without_a_change(tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    text = """{"jobs": [
  {"id": "abc", "skill": "old", "enabled": false, "mood": 1, "prompt": "p",
   "schedule": {"kind": "cron", "expr": "0 9 * * *", "display": "0 9 * * *"}},
  {"id": "def", "prompt": "q", "schedule": {"kind": "interval", "minutes": 30}}
], "updated_at": "2026-01-01T00:00:00+00:00"}"""
    file.write_text(text)
    book = JobsFile(tmp_path, UTC)
    first, second = await book.all()
    assert (first.state, first.skills, second.state) == ("paused", ("old",), "scheduled")
    await book.change("abc", lambda job: job)
    assert await book.left_out() == ()
    assert file.read_text() == text
    await book.change("def", lambda job: replace(job, name="new"))
    kept, changed = json.loads(file.read_text())["jobs"]
    assert kept == json.loads(text)["jobs"][0], "nobody touched it"
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
def test_fields_that_make_no_sense_are_no_trouble(record: dict) -> None:
    job = from_dict(record, UTC)
    assert job.state == "scheduled", "found running: it is looked at again"
    assert from_dict(to_dict(job), UTC).id == "x"


def test_limits_that_cannot_be_read_do_not_vanish() -> None:
    job = from_dict({"id": "x", "by": {"user": 7}}, UTC)
    assert job.by is not None
    assert (job.by.toolsets, job.by.backend) == (("safe",), "sandbox")


async def test_other_records_and_fields_of_the_file_stay(tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({"version": 7, "jobs": [{"no": "id"}, {"id": "a"}, "what"]}))
    book = JobsFile(tmp_path, UTC)
    await book.add(FULL)
    content = json.loads(file.read_text())
    assert content["version"] == 7
    assert content["jobs"][0] == {"no": "id"}
    assert content["jobs"][2] == "what"
    assert [job.id for job in await book.all()] == ["a", FULL.id]
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text('[{"id": "b"}]')
    assert [job.id for job in await book.all()] == ["b"]


@pytest.mark.parametrize("text", ['{"jobs": [', '{"jobs": 5}', "5", "\ufffd\0"])
async def test_a_file_that_cannot_be_read_is_left_alone_and_copied(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(text)
    book = JobsFile(tmp_path, UTC)
    with pytest.raises(ConfigError, match="no job can run") as caught:
        await book.all()
    with pytest.raises(ConfigError):
        await book.add(FULL)
    assert file.read_text() == text
    (copy,) = tmp_path.glob("jobs.json.*.bak")
    assert copy.read_text() == text
    assert copy.name in caught.value.hint


async def test_many_who_write_lose_nothing(tmp_path: Path) -> None:
    book = JobsFile(tmp_path, UTC)
    await book.add(replace(FULL, completed=0))

    def count() -> None:
        other = JobsFile(tmp_path, UTC)
        for _ in range(10):
            other._changed(
                lambda records: other._change(
                    records, FULL.id, lambda job: replace(job, completed=job.completed + 1)
                )
            )

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (await book.all())[0].completed == 40


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    held = held_lock(tmp_path / "lock")
    assert held is not None
    assert held_lock(tmp_path / "lock") is None
    held.close()
    again = held_lock(tmp_path / "lock")
    assert again is not None
    again.close()


def test_names_of_files_differ_for_different_instants() -> None:
    assert stamp(T0) == "2027-01-15T08-00-00Z"
    assert stamp(T0 + 0.25) == "2027-01-15T08-00-00.250Z"


def test_origins_are_targets() -> None:
    assert target_of({"platform": "slack", "chat_id": "C1"}) == "slack:C1"
    assert target_of({"platform": "slack"}) == ""
    assert target_of("discord:#x") == "discord:#x"
    assert targets(Job(id="x", deliver=("origin", "local"))) == ("local",)


BROKEN = {
    "a comma too many": ("}\n  ],", "},\n  ],", []),
    "a missing comma": ("},\n    {", "}\n    {", []),
    "a missing quote": ('"prompt": "second"', '"prompt": "second', ["bbb"]),
    "a missing brace": ('    {\n      "id": "bbb"', '    \n      "id": "bbb"', ["bbb"]),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_jobs_that_are_whole_go_on_in_a_file_that_is_broken(tmp_path: Path, how: str) -> None:
    book = JobsFile(tmp_path, UTC)
    for name, prompt in (("aaa", "first"), ("bbb", "second"), ("ccc", "third")):
        await book.add(replace(FULL, id=name, prompt=prompt))
    before, after, lost = BROKEN[how]
    text = book.file.read_text()
    assert before in text
    broken = (
        text.replace(before, after, 1) if how != "a missing quote" else text.replace(before, after)
    )
    book.file.write_text(broken)
    whole = [name for name in ("aaa", "bbb", "ccc") if name not in lost]
    assert [job.id for job in await book.all()] == whole
    assert len(await book.left_out()) == len(lost)
    await book.change("ccc", lambda job: replace(job, completed=9))
    assert [job.id for job in await book.all()] == whole
    assert len(await book.left_out()) == len(lost), "it stays, for who mends it"
    json.loads(book.file.read_text())
    for name in lost:
        assert name in book.file.read_text()
    (copy,) = tmp_path.glob("jobs.json.*.bak")
    assert copy.read_text() == broken


async def test_a_record_that_was_copied_by_hand_needs_an_id_of_its_own(tmp_path: Path) -> None:
    book = JobsFile(tmp_path, UTC)
    twin = {**to_dict(FULL), "name": "copied"}
    book.file.write_text(json.dumps({"jobs": [to_dict(FULL), twin, {"prompt": "no id"}]}))
    assert [job.name for job in await book.all()] == ["mail"]
    assert await book.left_out() == (
        f"record 2 (copied) has the id {FULL.id} of another",
        "record 3 (no id) has no id",
    )


async def test_before_a_file_with_damage_is_written_a_copy_is_kept_once(tmp_path: Path) -> None:
    book = JobsFile(tmp_path, UTC)
    odd = {**to_dict(FULL), "prompt": 5, "schedule": "every moon"}
    text = json.dumps({"jobs": [odd, "what", {**to_dict(FULL), "id": "b"}]})
    book.file.write_text(text)

    def copies() -> list[str]:
        return [copy.read_text() for copy in tmp_path.glob("jobs.json.*.bak")]

    await book.all()
    assert copies() == []
    for number in range(3):
        await book.change("b", lambda job, number=number: replace(job, completed=number))
    assert copies() == [text], "the same damage is kept once"
    before = book.file.read_text()
    changed = await book.change(FULL.id, lambda job: replace(job, name="new"))
    assert changed is not None
    assert sorted(copies()) == sorted([text, before])
    assert json.loads(book.file.read_text())["jobs"][0]["schedule"] == "every moon"


async def test_a_folder_that_cannot_be_used_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "cron").write_text("a file")
    with pytest.raises(StoreError, match="cannot use"):
        await JobsFile(tmp_path / "cron", UTC).add(FULL)


@pytest.fixture
def moved(tmp_path: Path, store: SessionStore) -> tuple[JobsFile, SharedBook, list[str]]:
    return JobsFile(tmp_path / "cron", UTC), SharedBook(store, UTC), []


async def test_jobs_of_the_file_are_brought_into_a_shared_store_once(moved) -> None:
    file, shared, told = moved
    other = replace(FULL, id="ffffffffffff", created_at=T0 + 1)
    for job in (FULL, other):
        await file.add(job)
    book = MovedBook(shared, file, told.append)
    assert [job.id for job in await book.all()] == [FULL.id, other.id]
    assert await file.all() == ()
    (line,) = told
    assert line.startswith("2 jobs of ") and "moved to the shared store" in line
    (kept,) = file.file.parent.glob("jobs.json.moved-*")
    assert len(json.loads(kept.read_text())["jobs"]) == 2
    await book.drop(other.id)
    assert [job.id for job in await MovedBook(shared, file, told.append).all()] == [FULL.id]
    assert len(told) == 1


async def test_who_was_killed_while_bringing_jobs_in_brings_none_twice(moved) -> None:
    file, shared, told = moved
    await file.add(FULL)
    await shared.add(replace(FULL, name="as the store has it"))
    (job,) = await MovedBook(shared, file, told.append).all()
    assert job.name == "as the store has it"
    assert "0 jobs" in told[0]


async def test_a_file_that_changes_while_it_is_brought_in_is_read_again(moved) -> None:
    file, shared, told = moved
    await file.add(FULL)
    late = replace(FULL, id="ffffffffffff", created_at=T0 + 1)

    class Slow:
        def __getattr__(self, name: str):
            return getattr(shared, name)

        async def add(self, job: Job) -> None:
            await shared.add(job)
            if job.id == FULL.id:
                await file.add(late)

    assert len(await MovedBook(Slow(), file, told.append).all()) == 2


async def test_a_broken_file_does_not_stop_the_jobs_of_the_shared_store(moved) -> None:
    file, shared, told = moved
    await shared.add(FULL)
    file.file.parent.mkdir()
    file.file.write_text("{")
    assert len(await MovedBook(shared, file, told.append).all()) == 1
    assert "not brought in" in told[0]
    assert file.file.read_text() == "{"
