"""Where a write runs, and that no caller waits for an unrelated one."""

import asyncio
import threading

import apsw
import pytest

from hermes.core.errors import SessionNotFound, StoreError
from hermes.core.messages import User
from hermes.store.engine import MAX_INLINE_WRITES
from hermes.store.session_store import SessionStore, open_engine


class Watched:
    """A store and the threads its writes ran in."""

    def __init__(self, path):
        self.engine = open_engine("", path)
        self.store = SessionStore(self.engine)
        self.threads = []

    async def write(self, *, is_small=True, fails=False):
        def work(database):
            self.threads.append(threading.current_thread().name)
            if fails:
                raise SessionNotFound("there is no session x")
            return len(database.rows("SELECT 1 FROM sessions"))

        return await self.store.run_write(work, small=is_small)

    async def thread_is_idle(self):
        """Return once the thread has no job and does no maintenance."""
        writer = self.engine._writer
        while writer._queued or writer._writing.locked():
            await asyncio.sleep(0.001)


@pytest.fixture
async def watched(tmp_path):
    watched = Watched(tmp_path / "state.db")
    await watched.store.create("s", source="cli", model="m", system_prompt="")
    yield watched
    watched.store.close()


HERE = threading.main_thread().name
THREAD = "store-write"


async def test_a_small_write_alone_is_done_at_once_and_others_by_the_thread(watched):
    await watched.thread_is_idle()
    for _ in range(10):
        assert await watched.write() == 1
    assert watched.threads == [HERE] * 10
    watched.threads.clear()
    await watched.write(is_small=False)
    await asyncio.gather(watched.write(), watched.write())
    assert watched.threads == [THREAD, THREAD, THREAD]


async def test_the_thread_gets_its_turn_now_and_then(watched):
    for _ in range(5 * MAX_INLINE_WRITES):
        await watched.write()
    # On a busy machine the thread is slow to finish, and gets what is asked for meanwhile too.
    assert 4 <= watched.threads.count(THREAD) < 5 * MAX_INLINE_WRITES


async def test_a_lock_held_elsewhere_does_not_hold_up_the_loop(watched, tmp_path):
    other = apsw.Connection(str(tmp_path / "state.db"))
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(watched.store.append("s", User.say("patience")))
    for _ in range(1000):
        await asyncio.sleep(0)
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    await waiting
    assert [message.text for message in await watched.store.messages("s")] == ["patience"]


async def test_an_inline_failure_is_raised_and_changes_nothing(watched):
    with pytest.raises(SessionNotFound):
        await watched.write(fails=True)
    with pytest.raises(SessionNotFound):
        await watched.store.append("x", User.say("to nobody"))
    await watched.store.append("s", User.say("fine"))
    assert len(await watched.store.messages("s")) == 1


async def test_writes_keep_the_order_they_were_asked_for_in(watched):
    texts = [str(n) * (9000 if n % 3 == 0 else 1) for n in range(30)]
    await asyncio.gather(*(watched.store.append("s", User.say(text)) for text in texts))
    for text in texts:
        await watched.store.append("s", User.say(text))
    assert [message.text for message in await watched.store.messages("s")] == texts * 2


async def test_pending_writes_finish_before_close(watched):
    pending = [asyncio.ensure_future(watched.store.append("s", User.say(str(n)))) for n in "abc"]
    await asyncio.sleep(0)
    watched.store.close()
    assert len(await asyncio.gather(*pending)) == 3
    with pytest.raises(StoreError, match="closed"):
        await watched.write()


def test_several_loops_may_share_a_store(tmp_path):
    watched = Watched(tmp_path / "state.db")

    async def fill(name):
        await watched.store.create(name, source="cli", model="m", system_prompt="")
        for number in range(60):
            await watched.store.append(name, User.say(str(number)))

    threads = [threading.Thread(target=asyncio.run, args=(fill(name),)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def counts():
        return [len(await watched.store.messages(name)) for name in "abc"]

    assert asyncio.run(counts()) == [60, 60, 60]
    watched.store.close()


async def test_a_write_at_once_overtakes_none_that_the_thread_has(watched):
    order = []

    def mark(name):
        return lambda _database: order.append(name)

    large = asyncio.ensure_future(watched.store.run_write(mark("large")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await watched.store.run_write(mark("small"), small=True)
    await large
    assert order == ["large", "small"]


def test_a_caller_without_a_loop_may_give_up(tmp_path):
    engine = open_engine("", tmp_path / "state.db")
    engine.write(lambda _database: None).result()
    holds = threading.Event()
    busy = engine.write(lambda _database: holds.wait(30))
    given_up = engine.write(lambda _database: 1)
    assert given_up.cancel()
    holds.set()
    assert busy.result()
    assert engine.write(lambda _database: 2).result() == 2
    engine.close()
