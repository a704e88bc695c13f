"""A copy of a SQLite store, taken while others write."""

import asyncio

import apsw
import pytest

from hermes.core.errors import HermesError
from hermes.core.messages import User
from hermes.store.records import SearchRequest
from hermes.store.session_store import open_store
from tests.integration.store.conftest import start, texts


async def test_a_backup_taken_while_messages_are_logged_is_a_whole_store(tmp_path):
    store = open_store("", tmp_path / "state.db")
    await start(store, "s", *(f"{number} " + "x" * 3000 for number in range(300)))
    told: list[tuple[int, int]] = []

    async def write() -> None:
        for number in range(300, 400):
            await store.append("s", User.say(f"{number} " + "x" * 3000))

    target = tmp_path / "copy" / "backup.db"
    target.parent.mkdir()
    await asyncio.gather(
        write(), store.backup(target, lambda done, total: told.append((done, total)))
    )
    assert told[-1][0] == told[-1][1] > 0
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
