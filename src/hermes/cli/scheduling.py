"""Scheduled jobs, put together with whatever runs them: a gateway, or a chat that is open."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from importlib import import_module
from typing import Any

from hermes.app.app import App
from hermes.cli.kept_mail import kept_mail, reachable
from hermes.core.errors import UsageError
from hermes.core.ports import Outbox, Scheduler

log = logging.getLogger(__name__)

Record = dict[str, Any]
GLANCE = 5.0
"""Seconds between two looks for a first job."""


class LateScheduler:
    """`core.ports.Scheduler` that is loaded when it is first used: most conversations never do."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.wake: Callable[[], None] = lambda: None
        """Hears that something may be due sooner."""

    @cached_property
    def _desk(self) -> Scheduler:
        app = self._app
        opening = import_module("hermes.cron.opening")
        desk: Scheduler = opening.desk_of(
            app.home,
            app.loaded,
            app.store,
            app.clock,
            check_target=reachable(app.home, app.loaded),
            changed=lambda: self.wake(),
        )
        return desk

    async def create(self, wanted: Record) -> Record:
        return await self._desk.create(wanted)

    async def list(self) -> list[Record]:
        return await self._desk.list()

    async def get(self, job: str) -> Record:
        return await self._desk.get(job)

    async def update(self, job: str, changes: Record) -> Record:
        return await self._desk.update(job, changes)

    async def pause(self, job: str) -> Record:
        return await self._desk.pause(job)

    async def resume(self, job: str) -> Record:
        return await self._desk.resume(job)

    async def remove(self, job: str) -> Record:
        return await self._desk.remove(job)

    async def run(self, job: str) -> Record:
        return await self._desk.run(job)


@asynccontextmanager
async def jobs_beside(app: App) -> AsyncIterator[None]:
    """Within it scheduled jobs run beside a conversation, unless a gateway looks after them."""
    stop = asyncio.Event()
    task = asyncio.create_task(_look_after(app, stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait([task])
        if (error := task.exception()) is not None:
            log.error("scheduled jobs: %s", error, exc_info=error)


async def _look_after(app: App, stop: asyncio.Event) -> None:
    if not await _are_jobs(app, stop):
        return
    opening, presence = import_module("hermes.cron.opening"), import_module("hermes.cron.presence")
    ticker = opening.ticker_of(app, app.clock, outbox=kept_mail(app))
    _on_change(app, ticker.wake)
    await ticker.run_forever(stop, presence.Presence(app.home.cron, "chat"))


async def _are_jobs(app: App, stop: asyncio.Event) -> bool:
    """Until somebody makes the first, here or elsewhere, a conversation pays next to nothing; False
    when it ends before."""
    file, made = app.home.cron / "jobs.json", asyncio.Event()
    _on_change(app, made.set)
    while not app.loaded.settings.store.url and not file.is_file():
        waits = [asyncio.ensure_future(each.wait()) for each in (stop, made)]
        await asyncio.wait(waits, timeout=GLANCE, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        if stop.is_set():
            return False
    return True


def _on_change(app: App, wake: Callable[[], None]) -> None:
    if isinstance(app.services.scheduler, LateScheduler):
        app.services.scheduler.wake = wake


class GatewayJobs:
    """`gateway.runner.Scheduling`."""

    def __init__(self) -> None:
        self._ticker: Any = None
        self._zone: Any = None

    async def is_needed(self, app: App) -> bool:
        opening = import_module("hermes.cron.opening")
        jobs = await opening.desk_of(app.home, app.loaded, app.store, app.clock).list()
        return any(job["state"] != "completed" for job in jobs)

    def told(self) -> str:
        if self._ticker is None:
            return ""
        running, following = self._ticker.running, self._ticker.wakes_at
        parts = [f"{running} running"] if running else []
        if following is not None:
            local = import_module("hermes.cron.schedule").local
            parts.append(f"next {local(following, self._zone)}")
        return ", ".join(parts)

    def scheduler(self, app: App, outbox: Outbox) -> Scheduler:
        opening = import_module("hermes.cron.opening")

        async def known(target: str) -> None:
            """Raises `UsageError` for a target nobody can send to."""
            find = getattr(outbox, "find", None)
            try:
                if find is not None:
                    await find(target)
            except UsageError:
                await reachable(app.home, app.loaded)(target)  # says how to set it up
                raise

        desk: Scheduler = opening.desk_of(
            app.home,
            app.loaded,
            app.store,
            app.clock,
            check_target=known,
            changed=lambda: self._ticker.wake() if self._ticker else None,
        )
        return desk

    async def run(self, app: App, outbox: Outbox, stop: asyncio.Event) -> None:
        opening = import_module("hermes.cron.opening")
        presence = import_module("hermes.cron.presence")
        ticker = opening.ticker_of(app, app.clock, outbox=outbox)
        zone_of = import_module("hermes.cron.zone").zone_of
        self._ticker, self._zone = ticker, zone_of(app.loaded.settings.timezone)
        await ticker.run_forever(stop, presence.Presence(app.home.cron, "gateway"))
