"""Scheduled jobs that run in a chat or in the gateway."""

import asyncio
from pathlib import Path

import pytest

from hermes.cli.scheduling import GatewayJobs, LazyScheduler, run_jobs_in_background
from hermes.core.errors import UsageError
from hermes.core.testing import ModelServer
from hermes.cron import HeartbeatFile
from tests.integration.cron.test_runs import FakeOutbox, home_of
from tests.integration.storms.scene import started


async def test_first_job_runs_in_the_chat_that_created_it(hermes_home: Path) -> None:
    with ModelServer(["Stretch!"], models=("lab-model", "other-model")) as server:
        async with started(home_of(hermes_home, server)) as app:
            jobs = app.services.scheduler = LazyScheduler(app)
            async with run_jobs_in_background(app):
                await asyncio.sleep(0)
                assert HeartbeatFile(app.home.cron, "chat").read() is None, (
                    "nothing to look after yet"
                )
                job = await jobs.create({"schedule": "1s", "prompt": "remind me"})
                async with asyncio.timeout(30):
                    while not [
                        run for run in await app.store.runs.history(job["id"]) if run.state == "ok"
                    ]:
                        await asyncio.sleep(0.02)
                seen = HeartbeatFile(app.home.cron, "chat").read()
                assert seen is not None and seen.role == "chat"
            assert not seen.is_alive(app.clock.now().timestamp())


async def test_chat_without_jobs_creates_no_files(hermes_home: Path) -> None:
    with ModelServer([], models=("lab-model", "other-model")) as server:
        async with started(home_of(hermes_home, server)) as app, run_jobs_in_background(app):
            await asyncio.sleep(0)
        assert not (hermes_home / "cron").exists()


async def test_gateway_reports_running_and_next_jobs(hermes_home: Path) -> None:
    with ModelServer([], models=("lab-model", "other-model")) as server:
        async with started(home_of(hermes_home, server)) as app:
            jobs, stop = GatewayJobs(), asyncio.Event()
            assert (jobs.describe(), await jobs.is_needed(app)) == ("", False)
            await jobs.scheduler(app, FakeOutbox()).create({"schedule": "every 1d", "prompt": "x"})
            assert await jobs.is_needed(app)
            looking = asyncio.create_task(jobs.run(app, FakeOutbox(), stop))
            async with asyncio.timeout(20):
                while not jobs.describe():
                    await asyncio.sleep(0.02)
            assert jobs.describe().startswith("next 2")
            stop.set()
            await looking


@pytest.mark.parametrize("where", ["chat", "gateway"])
async def test_job_for_an_unconfigured_platform_is_refused(hermes_home: Path, where: str) -> None:
    with ModelServer([], models=("lab-model", "other-model")) as server:
        async with started(home_of(hermes_home, server)) as app:

            class Lost(FakeOutbox):
                async def find(self, target: str) -> None:
                    raise UsageError(f"there is no platform for {target}")

            jobs = LazyScheduler(app) if where == "chat" else GatewayJobs().scheduler(app, Lost())
            with pytest.raises(UsageError, match="telegram is not set up") as caught:
                await jobs.create({"schedule": "1h", "prompt": "x", "deliver": "telegram:1"})
            assert "hermes gateway setup telegram" in caught.value.hint
            assert await jobs.list() == []
