"""Scheduled jobs, put together with whatever runs them: a gateway, or a chat that is open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from importlib import import_module
from typing import Any

from hermes.app.app import App
from hermes.core.ports import Outbox, Scheduler

Record = dict[str, Any]


class LateScheduler:
    """`core.ports.Scheduler` that is loaded when it is first used: most conversations never do."""

    def __init__(self, app: App) -> None:
        self._app = app

    @cached_property
    def _desk(self) -> Scheduler:
        app = self._app
        opening = import_module("hermes.cron.opening")
        desk: Scheduler = opening.desk_of(app.home, app.loaded, app.store, app.clock)
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
    """Within it scheduled jobs run beside a conversation, unless a gateway looks after them. A home
    without jobs pays nothing for it."""
    if not (app.home.cron / "jobs.json").is_file() and not app.loaded.settings.store.url:
        yield
        return
    opening, presence = import_module("hermes.cron.opening"), import_module("hermes.cron.presence")
    mail = import_module("hermes.cli.kept_mail").kept_mail(app)
    stop, ticker = asyncio.Event(), opening.ticker_of(app, app.clock, outbox=mail)
    here = presence.Presence(app.home.cron, "chat")
    task = asyncio.create_task(ticker.run_forever(stop, here))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait([task])


class GatewayJobs:
    """`gateway.runner.Scheduling`."""

    def __init__(self) -> None:
        self._wake: Any = None

    def scheduler(self, app: App, outbox: Outbox) -> Scheduler:
        opening = import_module("hermes.cron.opening")

        async def known(target: str) -> None:
            """Raises `UsageError` for a target nobody can send to."""
            find = getattr(outbox, "find", None)
            if find is not None and target not in ("origin", "local"):
                find(target)

        desk: Scheduler = opening.desk_of(
            app.home,
            app.loaded,
            app.store,
            app.clock,
            check_target=known,
            changed=lambda: self._wake() if self._wake else None,
        )
        return desk

    async def run(self, app: App, outbox: Outbox, stop: asyncio.Event) -> None:
        opening = import_module("hermes.cron.opening")
        presence = import_module("hermes.cron.presence")
        ticker = opening.ticker_of(app, app.clock, outbox=outbox)
        self._wake = ticker.wake
        await ticker.run_forever(stop, presence.Presence(app.home.cron, "gateway"))
