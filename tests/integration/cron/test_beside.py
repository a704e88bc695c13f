"""Jobs beside a conversation: also the first one, which the conversation itself makes."""

import asyncio
from pathlib import Path

import pytest

from hermes.cli.scheduling import GatewayJobs, LateScheduler, jobs_beside
from hermes.core.errors import UsageError
from hermes.core.testing import ModelServer
from hermes.cron.presence import Presence
from tests.integration.cron.test_runs import Letters, home_of
from tests.integration.storms.scene import started


async def test_the_first_job_of_a_home_runs_in_the_chat_that_made_it(hermes_home: Path) -> None:
    with ModelServer(["Stretch!"], models=("lab-model", "other-model")) as server:
        async with started(home_of(hermes_home, server)) as app:
            jobs = app.services.scheduler = LateScheduler(app)
            async with jobs_beside(app):
                await asyncio.sleep(0)
                assert Presence(app.home.cron, "chat").seen() is None, "nothing to look after yet"
                job = await jobs.create({"schedule": "1s", "prompt": "remind me"})
                async with asyncio.timeout(30):
                    while not [run for run in await app.store.runs(job["id"]) if run.state == "ok"]:
                        await asyncio.sleep(0.02)
                seen = Presence(app.home.cron, "chat").seen()
                assert seen is not None and seen.role == "chat"
            assert not seen.present(app.clock.now().timestamp())


async def test_a_chat_that_ends_before_there_are_jobs_leaves_nothing(hermes_home: Path) -> None:
    with ModelServer([], models=("lab-model", "other-model")) as server:
        async with started(home_of(hermes_home, server)) as app, jobs_beside(app):
            await asyncio.sleep(0)
        assert not (hermes_home / "cron").exists()


async def test_a_gateway_can_say_how_its_jobs_fare(hermes_home: Path) -> None:
    with ModelServer([], models=("lab-model", "other-model")) as server:
        async with started(home_of(hermes_home, server)) as app:
            jobs, stop = GatewayJobs(), asyncio.Event()
            assert (jobs.told(), await jobs.is_needed(app)) == ("", False)
            await jobs.scheduler(app, Letters()).create({"schedule": "every 1d", "prompt": "x"})
            assert await jobs.is_needed(app)
            looking = asyncio.create_task(jobs.run(app, Letters(), stop))
            async with asyncio.timeout(20):
                while not jobs.told():
                    await asyncio.sleep(0.02)
            assert jobs.told().startswith("next 2")
            stop.set()
            await looking


@pytest.mark.parametrize("where", ["chat", "gateway"])
async def test_a_job_is_not_made_for_a_platform_that_is_not_set_up(
    hermes_home: Path, where: str
) -> None:
    with ModelServer([], models=("lab-model", "other-model")) as server:
        async with started(home_of(hermes_home, server)) as app:

            class Lost(Letters):
                async def find(self, target: str) -> None:
                    raise UsageError(f"there is no platform for {target}")

            jobs = LateScheduler(app) if where == "chat" else GatewayJobs().scheduler(app, Lost())
            with pytest.raises(UsageError, match="telegram is not set up") as caught:
                await jobs.create({"schedule": "1h", "prompt": "x", "deliver": "telegram:1"})
            assert "hermes gateway setup telegram" in caught.value.hint
            assert await jobs.list() == []
