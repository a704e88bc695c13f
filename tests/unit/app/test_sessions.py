import pytest

from hermes.app.sessions import DAY, HOUR, prune_when_due
from hermes.config.home import Home
from hermes.config.settings import SessionSettings
from hermes.core.errors import SessionNotFound
from hermes.store.session_store import SessionStore, open_engine

ON = SessionSettings(auto_prune=True, retention_days=30, min_interval_hours=24)


class World:
    def __init__(self, folder):
        self.home = Home(folder)
        self.time = 1000 * DAY
        self.store = SessionStore(open_engine("", self.home.state_db), now=lambda: self.time)

    async def session(self, name, *, ended=True):
        await self.store.create(name, source="cli", model="m", system_prompt="")
        if ended:
            await self.store.finish(name, "done")

    async def prune(self, settings=ON):
        return await prune_when_due(self.store, settings, self.home, lambda: self.time)


@pytest.fixture
async def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.store.close()


async def test_only_old_ended_sessions_go(world):
    await world.session("old")
    await world.session("open", ended=False)
    await world.session("kept")
    await world.store.set_archived("kept", True)
    world.time += 31 * DAY
    await world.session("new")
    assert await world.prune() == 1
    with pytest.raises(SessionNotFound):
        await world.store.info("old")
    for name in ("open", "kept", "new"):
        await world.store.info(name)


async def test_pruning_runs_once_per_interval(world):
    assert await world.prune() == 0
    await world.session("old")
    world.time += 23 * HOUR
    assert await world.prune(SessionSettings(auto_prune=True, retention_days=1)) == 0
    world.time += 31 * DAY
    assert await world.prune() == 1


async def test_nothing_goes_unless_asked_for(world):
    await world.session("old")
    world.time += 400 * DAY
    assert await world.prune(SessionSettings()) == 0
