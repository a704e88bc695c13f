"""Several processes and one file."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from hermes.core.errors import StoreError
from hermes.core.messages import User
from hermes.store.session_store import SessionStore, open_store
from tests.integration.store.actors import acting

WRITERS = 4
APPENDS = 500


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def integrity(path: Path) -> str:
    connection = apsw.Connection(str(path))
    try:
        return str(connection.execute("PRAGMA integrity_check").get)
    finally:
        connection.close()


async def texts(store: SessionStore, session: str) -> list[str]:
    return [message.text for message in await store.messages(session) if isinstance(message, User)]


async def test_four_processes_write_at_once_without_an_error(path):
    sessions = [f"s{number}" for number in range(WRITERS)]
    with ExitStack() as stack:
        actors = [
            stack.enter_context(acting("append", path, session, str(APPENDS)))
            for session in sessions
        ]
        ids = [actor.hear() for actor in actors]
        assert [actor.end() for actor in actors] == [0] * WRITERS
    store = open_store("", path)
    for session, mine in zip(sessions, ids, strict=True):
        log = await store.log(session)
        assert [entry.id for entry in log] == mine
        assert await texts(store, session) == [f"{n} of {session}" for n in range(APPENDS)]
        assert (await store.info(session)).message_count == APPENDS
    store.close()
    assert len({one for mine in ids for one in mine}) == WRITERS * APPENDS
    assert integrity(path) == "ok"


async def test_readers_see_a_history_that_grows_and_is_never_broken(path):
    store = open_store("", path)
    sizes: dict[str, list[int]] = {"s0": [0], "s1": [0]}

    def seen_enough() -> bool:
        return all(len(set(seen)) > 10 for seen in sizes.values())

    async def write(session: str) -> None:
        """Another process writes until the reader has seen enough."""
        with acting("serve", path) as other:
            number = 0
            while not seen_enough():
                logged = await asyncio.to_thread(other.ask, f"append {session} {number}")
                assert isinstance(logged, int), logged
                number += 1
            assert other.end() == 0

    for session in sizes:
        await store.create(session, source="cli", model="m", system_prompt="")
    writers = [asyncio.create_task(write(session)) for session in sizes]
    while not seen_enough():
        for session, seen in sizes.items():
            now = await texts(store, session)
            assert now == [str(number) for number in range(len(now))]
            seen.append(len(now))
        for writer in writers:
            if writer.done():
                writer.result()
    await asyncio.gather(*writers)
    store.close()
    assert all(seen == sorted(seen) for seen in sizes.values())


async def test_a_lock_that_is_never_let_go_is_a_clear_error_and_loses_nothing(path):
    store = open_store("", path)
    await store.create("s", source="cli", model="m", system_prompt="")
    await store.append("s", User.say("before"))
    with acting("hold", path) as holder:
        assert holder.hear() == "held"
        with pytest.raises(StoreError, match="in use by another process") as raised:
            await store.append("s", User.say("in vain"))
        assert raised.value.hint
        assert await texts(store, "s") == ["before"], "a reader is not held up"
        holder.say("let go")
        assert holder.hear() == "released"
    await store.append("s", User.say("after"))
    assert await texts(store, "s") == ["before", "after"]
    store.close()


async def a_store_with_a_backup(path: Path, backup: Path) -> SessionStore:
    """Session `s` says `old` in both; `lost` was said after the backup."""
    store = open_store("", path)
    await store.create("s", source="cli", model="m", system_prompt="")
    await store.append("s", User.say("old"))
    await store.backup(backup)
    await store.append("s", User.say("lost"))
    assert await texts(store, "s") == ["old", "lost"]
    return store


async def test_a_process_notices_that_a_backup_was_put_in_place_of_its_file(path, tmp_path):
    backup = tmp_path / "backup.db"
    store = await a_store_with_a_backup(path, backup)
    backup.replace(path)
    await store.append("s", User.say("new"))
    assert await texts(store, "s") == ["old", "new"]
    store.close()
    assert integrity(path) == "ok"
    again = open_store("", path)
    assert await texts(again, "s") == ["old", "new"]
    again.close()


async def test_two_processes_notice_that_a_backup_was_put_in_place_of_their_file(path, tmp_path):
    backup = tmp_path / "backup.db"
    store = await a_store_with_a_backup(path, backup)
    with acting("serve", path) as other:
        assert other.ask("texts s") == ["old", "lost"]
        backup.replace(path)
        assert isinstance(other.ask("append s theirs"), int)
        await store.append("s", User.say("ours"))
        assert await texts(store, "s") == ["old", "theirs", "ours"]
        assert other.ask("texts s") == ["old", "theirs", "ours"]
        assert other.end() == 0
    store.close()
    assert integrity(path) == "ok"


async def test_a_process_that_notices_late_does_no_harm_to_the_new_file(path, tmp_path):
    """The log of the old file was removed with it; another process has made a new one."""
    backup = tmp_path / "backup.db"
    store = await a_store_with_a_backup(path, backup)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()
    backup.replace(path)
    with acting("serve", path) as other:
        assert isinstance(other.ask("append s theirs"), int)
        assert await texts(store, "s") == ["old", "theirs"]
        await store.append("s", User.say("ours"))
        store.close()
        assert isinstance(other.ask("append s last"), int)
        assert other.ask("texts s") == ["old", "theirs", "ours", "last"]
        again = open_store("", path)
        assert await texts(again, "s") == ["old", "theirs", "ours", "last"]
        again.close()
        assert other.end() == 0
    assert integrity(path) == "ok"
