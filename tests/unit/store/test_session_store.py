import asyncio
import threading

import apsw
import pytest

from hermes.core.errors import SessionNotFound, StoreError
from hermes.core.messages import Assistant, Text, User
from hermes.core.model import ModelCall, Usage
from hermes.store.session_store import SessionStore, open_engine, open_store


@pytest.fixture
async def log(tmp_path):
    ticks = iter(range(1000, 100_000))
    engine = open_engine("", tmp_path / "state.db")
    log = SessionStore(engine, now=lambda: float(next(ticks)))
    yield log
    log.close()


async def start(log, session_id="s", source="cli"):
    await log.create(session_id, source=source, model="m", system_prompt="be brief")


async def test_nothing_is_on_disk_before_the_first_call(tmp_path):
    log = open_store("", tmp_path / "state.db")
    log.close()
    assert list(tmp_path.iterdir()) == []


async def test_a_reply_and_the_call_it_came_of_are_stored_together_or_not_at_all(log):
    call = ModelCall(Usage(10, 20), "m", "p", 0.25)
    with pytest.raises(SessionNotFound):
        await log.append("s", Assistant((Text("hi"),)), call)
    await start(log)
    assert await log.spent_usd() == 0
    await log.append("s", User.say("hello"))
    await log.append("s", Assistant((Text("hi"),)), call)
    assert await log.spent_usd("s") == 0.25
    assert [message.text for message in await log.messages("s")] == ["hello", "hi"]


async def test_a_write_waits_for_another_process_to_finish(log, tmp_path):
    await start(log)
    other = apsw.Connection(str(tmp_path / "state.db"))
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(log.append("s", User.say("patience")))
    await asyncio.sleep(1.2)  # longer than the timeout of one try
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    await waiting
    assert len(await log.messages("s")) == 1


async def test_readers_do_not_wait_for_a_writer(log, tmp_path):
    await start(log)
    other = apsw.Connection(str(tmp_path / "state.db"))
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE sessions SET title = 'x'")
    assert (await log.info("s")).title == ""
    other.execute("ROLLBACK")
    other.close()


async def test_two_logs_share_one_file(log, tmp_path):
    second = open_store("", tmp_path / "state.db")
    await asyncio.gather(start(log, "a"), start(second, "b"))
    await asyncio.gather(
        *(log.append("a", User.say(str(n))) for n in range(50)),
        *(second.append("b", User.say(str(n))) for n in range(50)),
    )
    assert len(await log.messages("b")) == len(await second.messages("a")) == 50
    second.close()


async def test_close_finishes_what_was_asked_and_ends_the_threads(tmp_path):
    log = open_store("", tmp_path / "state.db")
    await start(log)
    pending = [asyncio.ensure_future(log.append("s", User.say(str(n)))) for n in range(20)]
    await asyncio.sleep(0)
    log.close()
    log.close()
    await asyncio.gather(*pending)
    assert not [t for t in threading.enumerate() if t.name.startswith("store-")]
    with pytest.raises(StoreError, match="closed"):
        await log.append("s", User.say("late"))
    with pytest.raises(StoreError, match="closed"):
        await log.info("s")
    again = open_store("", tmp_path / "state.db")
    assert len(await again.messages("s")) == 20
    again.close()
