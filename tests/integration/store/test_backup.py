"""A copy of a SQLite store, taken while others write."""

import asyncio
import os
import threading
import time

import apsw
import pytest

from hermes.core.errors import HermesError, StoreError
from hermes.core.messages import User
from hermes.store.records import SearchRequest
from hermes.store.session_store import open_store
from hermes.store.sqlite import repair as backups
from hermes.store.sqlite.repair import DAY, back_up_daily, folder_of
from tests.integration.store.conftest import start, texts
from tests.integration.store.rescue import stores


async def test_a_backup_taken_while_messages_are_logged_is_a_whole_store(tmp_path):
    store = open_store("", tmp_path / "state.db")
    await start(store, "s", *(f"{number} " + "x" * 3000 for number in range(300)))
    reported: list[tuple[int, int]] = []

    async def write() -> None:
        for number in range(300, 400):
            await store.append("s", User.say(f"{number} " + "x" * 3000))

    target = tmp_path / "copy" / "backup.db"
    target.parent.mkdir()
    await asyncio.gather(
        write(), store.backup(target, lambda done, total: reported.append((done, total)))
    )
    assert reported[-1][0] == reported[-1][1] > 0
    assert len(await texts(store)) == 400
    store.close()

    connection = apsw.Connection(str(target))
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    connection.close()
    copy = open_store("", target)
    said = [text.split()[0] for text in await texts(copy)]
    assert len(said) >= 300
    assert said == [str(number) for number in range(len(said))]
    assert len(await copy.search(SearchRequest("299"))) == 1
    copy.close()
    assert target.stat().st_mode & 0o077 == 0, "a backup is as private as the store"


async def test_a_backup_never_overwrites_a_file(tmp_path):
    store = open_store("", tmp_path / "state.db")
    await start(store, "s", "hello")
    for target in (tmp_path / "precious", tmp_path / "state.db"):
        target.touch()
        before = target.stat().st_size
        with pytest.raises(HermesError) as raised:
            await store.backup(target)
        assert "\n" not in str(raised.value)
        assert target.stat().st_size >= before
    assert await texts(store) == ["hello"]
    store.close()


async def test_a_backup_into_a_folder_that_is_not_there_is_a_clear_error(tmp_path):
    store = open_store("", tmp_path / "state.db")
    await start(store, "s", "hello")
    with pytest.raises(HermesError):
        await store.backup(tmp_path / "missing" / "backup.db")
    store.close()


# Daily backups


@pytest.fixture
def path(tmp_path):
    return stores.make(tmp_path / "state.db")


def age(path, days):
    """Make a file `days` older."""
    moment = path.stat().st_mtime - days * DAY
    os.utime(path, (moment, moment))


def say(path, content):
    connection = apsw.Connection(str(path))
    stores.add_message(connection, "s0", content)
    connection.close()


def kept(path):
    return sorted(one.name for one in folder_of(path).iterdir())


def test_a_daily_backup_is_private_complete_and_made_once_a_day(path):
    backup = back_up_daily(path, 3)
    assert backup.parent == path.parent / "backups" / "sessions"
    assert stores.contents(backup) == stores.contents(path)
    assert backup.stat().st_mode & 0o777 == 0o600
    assert backup.parent.stat().st_mode & 0o777 == 0o700
    say(path, "later on the same day")
    assert back_up_daily(path, 3) is None
    assert kept(path) == [backup.name]


def test_the_newest_backups_are_kept(path):
    made = []
    for day in range(5):
        say(path, f"day {day}")
        backup = back_up_daily(path, 3)
        made.append(backup.replace(backup.with_name(f"state-2026010{day + 1}-120000.db")))
        for one in (path, *folder_of(path).iterdir()):
            age(one, 1)
    assert kept(path) == [one.name for one in made[2:]]
    assert len(stores.contents(made[-1])["messages"]) == 125
    say(path, "one more day")
    assert len(kept(path)) == 3
    assert back_up_daily(path, 1) is not None
    assert len(kept(path)) == 1


def test_an_unchanged_store_is_not_copied_again(path):
    age(path, 3)
    age(back_up_daily(path, 3), 2)
    assert back_up_daily(path, 3) is None
    say(path, "a change")
    assert back_up_daily(path, 3) is not None


def test_no_backup_is_made_if_it_is_off_or_the_store_too_large_or_missing(path, tmp_path):
    assert back_up_daily(path, 0) is None
    assert back_up_daily(path, 3, max_bytes=path.stat().st_size - 1) is None
    assert back_up_daily(tmp_path / "missing" / "state.db", 3) is None
    assert not folder_of(path).exists()


def test_without_room_on_the_disk_no_backup_is_made_and_it_is_logged(path, monkeypatch, caplog):
    monkeypatch.setattr(backups, "SPARE_BYTES", 2**60)
    assert back_up_daily(path, 3) is None
    assert "no daily backup" in caplog.text
    assert kept(path) == []


def test_a_damaged_store_does_not_push_out_a_sound_backup(path):
    good = back_up_daily(path, 1)
    age(good, 2)
    say(path, "a change")
    stores.overwrite(path, stores.pages_of(path, "messages")[3])
    with pytest.raises(StoreError, match="damaged"):
        back_up_daily(path, 1)
    assert kept(path) == [good.name]


def test_temporary_file_of_a_killed_process_is_removed(path):
    folder_of(path).mkdir(parents=True)
    (folder_of(path) / ".state-20260101-000000.db.tmp").write_bytes(b"half")
    backup = back_up_daily(path, 3)
    assert kept(path) == [backup.name]


def test_a_backup_under_concurrent_writes_is_sound(path):
    stop, written = threading.Event(), []

    def write():
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(5000)
        while not stop.is_set():
            with connection:
                stores.add_message(connection, "s0", f"{len(written)} " + "x" * 3000)
            written.append(1)
        connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while len(written) < 50:
            time.sleep(0.01)
        made = []
        for _ in range(5):
            made.append(back_up_daily(path, 9))
            made[-1] = made[-1].replace(made[-1].with_name(f"state-{len(made)}-0.db"))
            age(made[-1], 2)
    finally:
        stop.set()
        writer.join()
    counts = []
    for backup in made:
        stores.assert_sound(backup)
        rows = stores.contents(backup)
        counts.append(len(rows["messages"]))
        assert rows["messages"].keys() == set(range(1, counts[-1] + 1))
        assert sum(one["message_count"] for one in rows["sessions"].values()) == counts[-1]
    assert counts == sorted(counts)
    assert 170 <= counts[0] <= counts[-1] <= 120 + len(written)


def test_a_disk_that_times_out_is_not_taken_for_another_backup(path, monkeypatch):
    def back_up(*_: object) -> None:
        raise TimeoutError(110, "Connection timed out")

    monkeypatch.setattr("hermes.store.sqlite.repair._back_up", back_up)
    with pytest.raises(StoreError, match="timed out"):
        back_up_daily(path, 3)
