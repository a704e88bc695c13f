"""Model requests of a context engine in its thread, also after its work was cancelled."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from hermes.app.context_engine import ContextEngineRunner
from hermes.config.home import Home
from hermes.context import ContextCompressor
from hermes.core.errors import HermesError, Interrupted
from hermes.core.messages import Assistant, Text

ASKED = [{"role": "user", "content": "what was it about?"}]


class Models:
    """Answer when they are let."""

    main = SimpleNamespace(
        provider="lab", model="m", base_url="", profile=SimpleNamespace(context_length=9_000)
    )

    def __init__(self) -> None:
        self.asked, self.stopped = 0, 0
        self.answers = asyncio.Event()

    def is_auto(self, _task: str) -> bool:
        return True

    def targets(self, _task: str) -> tuple[SimpleNamespace]:
        return (self.main,)

    async def ask_one_of(self, *_what: object) -> SimpleNamespace:
        self.asked += 1
        try:
            await self.answers.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        return SimpleNamespace(message=Assistant((Text("about it"),)), model="m")


class Engine:
    """Asks a model for each permission it gets, and tells how that ended."""

    def __init__(self, room: ContextEngineRunner) -> None:
        self._summariser = room.summarisers()[0]
        self.may = threading.Semaphore(0)
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def work(self, questions: int) -> None:
        for _ in range(questions):
            self.may.acquire()
            try:
                end = self._summariser.ask(ASKED, 100).text
            except Interrupted:
                end = "interrupted"
            self._loop.call_soon_threadsafe(self.ended.put_nowait, end)

    def work_elsewhere(self, questions: int) -> None:
        thread = threading.Thread(target=self.work, args=(questions,), daemon=True)
        thread.start()
        thread.join()


@pytest.fixture
async def models():
    return Models()


@pytest.fixture
async def room(models):
    return ContextEngineRunner(None, models, None)


async def until(true) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.005)


async def leave(working) -> None:
    working.cancel()
    await asyncio.wait({working})


@pytest.mark.parametrize("where", ["work", "work_elsewhere"])
async def test_a_question_under_way_ends(room, models, where):
    engine = Engine(room)
    working = asyncio.ensure_future(room.run(getattr(engine, where), 1))
    engine.may.release()
    await until(lambda: models.asked)
    await leave(working)
    assert await asyncio.wait_for(engine.ended.get(), 10) == "interrupted"
    assert models.stopped == 1


async def test_an_engine_that_hangs_is_left_and_not_called_again(models):
    engine, release, calls = SimpleNamespace(name="slow"), threading.Event(), []

    def compress() -> None:
        calls.append(1)
        assert release.wait(30)

    room = ContextEngineRunner(engine, models, None, timeout=0.05)
    for _ in range(2):
        with pytest.raises(HermesError, match=r"slow did not end within 0.05 seconds"):
            await room.run(compress)
    assert calls == [1]
    release.set()


async def test_a_question_of_one_who_was_left_is_not_asked(room, models):
    engine = Engine(room)
    working = asyncio.ensure_future(room.run(engine.work, 2))
    await asyncio.sleep(0)
    await leave(working)
    engine.may.release(2)
    for _ in range(2):
        assert await asyncio.wait_for(engine.ended.get(), 10) == "interrupted"
    assert models.asked == 0


async def test_a_question_that_was_just_on_its_way_is_not_asked(room, models):
    """The thread has given it to the event loop, which has not come to it."""
    engine, given = Engine(room), threading.Event()
    hand_over = room._loop.call_soon_threadsafe

    def noticed(callback, *args, **more):
        handle = hand_over(callback, *args, **more)
        given.set()
        return handle

    working = asyncio.ensure_future(room.run(engine.work, 1))
    await asyncio.sleep(0)
    room._loop.call_soon_threadsafe = noticed
    engine.may.release()
    given.wait(10)  # the event loop stands still
    del room._loop.call_soon_threadsafe
    await leave(working)
    assert await asyncio.wait_for(engine.ended.get(), 10) == "interrupted"
    assert models.asked == models.stopped


async def test_the_next_work_may_ask(room, models):
    left = Engine(room)
    working = asyncio.ensure_future(room.run(left.work, 1))
    await asyncio.sleep(0)
    await leave(working)
    models.answers.set()
    engine = Engine(room)
    engine.may.release()
    await room.run(engine.work, 1)
    left.may.release()
    assert await asyncio.wait_for(engine.ended.get(), 10) == "about it"
    assert await asyncio.wait_for(left.ended.get(), 10) == "interrupted"


class ListeningCompressor(ContextCompressor):
    """Keeps the thread in which it learned of its conversation."""

    thread = None

    def _measure(self) -> None:
        super()._measure()
        self.thread = threading.current_thread()


class CuriousCompressor(ListeningCompressor):
    """A plugin's engine that may read the history when it starts."""

    def on_session_start(self, session_id, **kw):
        super().on_session_start(session_id, **kw)


@pytest.mark.parametrize(
    ("kind", "in_loop"), [(ListeningCompressor, True), (CuriousCompressor, False)]
)
async def test_only_engines_of_plugins_start_in_a_thread(models, tmp_path, kind, in_loop):
    engine = kind(9_000)
    await ContextEngineRunner(engine, models, None).begin("s", Home(tmp_path), "cli")
    assert (engine.thread is threading.current_thread()) is in_loop
