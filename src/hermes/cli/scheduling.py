"""Scheduled jobs in a chat and in the gateway: which service and ticker they use.

Most conversations never use scheduled jobs, so `hermes.cron` is imported inside the functions that
need it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING

from hermes.app import App
from hermes.cli.session import LazyScheduler
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.errors import UsageError
from hermes.core.ports import Outbox, Scheduler

if TYPE_CHECKING:
    from hermes.cron import Ticker
    from hermes.gateway import TargetResolver
    from hermes.sdk.platforms import PlatformManifest


# Without a gateway, messages of jobs are stored; the next gateway sends them.


def offline_outbox(app: App) -> Outbox | None:
    """Return an outbox that only stores messages; None if no platform is set up."""
    platforms = configured_platforms(app.loaded)
    if not platforms:
        return None
    targets = _target_resolver(app.home, app.loaded, platforms)
    from hermes.gateway import GatewayOutbox  # most conversations send nothing

    return GatewayOutbox(app.store.outbox, targets, app.clock)


def target_check(home: Home, loaded: Loaded) -> Callable[[str], Awaitable[None]]:
    """Return a `TargetCheck` that requires the platform of a target to be set up."""

    async def check(target: str) -> None:
        platforms = configured_platforms(loaded)
        name = target.partition(":")[0].partition("@")[0].strip().lower()
        if name in platforms:
            _target_resolver(home, loaded, platforms).resolve(target)
            return
        from hermes.cron import check_platform  # most commands never check a target

        await check_platform(target)
        hint = f"`hermes gateway setup {name}` does that; `local` is a file"
        raise UsageError(f"{name} is not set up", hint=hint)

    return check


def configured_platforms(loaded: Loaded) -> "dict[str, PlatformManifest]":
    from hermes import gateway  # imports every manifest

    return gateway.configured_platforms(loaded)


def _target_resolver(
    home: Home, loaded: Loaded, platforms: "dict[str, PlatformManifest]"
) -> "TargetResolver":
    from hermes.gateway import ChatDirectory, TargetResolver  # part of the gateway

    directory = ChatDirectory(home.root / "channel_directory.json")
    return TargetResolver(platforms, loaded.variable, directory)


log = logging.getLogger(__name__)

FIRST_JOB_POLL_SECONDS = 5.0  #: Seconds between two checks for a first job.


@asynccontextmanager
async def run_jobs_in_background(app: App) -> AsyncIterator[None]:
    """Run scheduled jobs while the context is open, unless a gateway runs them."""
    stop = asyncio.Event()
    task = asyncio.create_task(_run_ticker(app, stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait([task])
        if (error := task.exception()) is not None:
            log.error("scheduled jobs: %s", error, exc_info=error)


async def _run_ticker(app: App, stop: asyncio.Event) -> None:
    if not await _wait_for_first_job(app, stop):
        return
    from hermes.cron import HeartbeatFile, Ticker

    platforms = configured_platforms(app.loaded)
    ticker = Ticker.for_app(app, app.clock, outbox=offline_outbox(app), platforms=platforms)
    _on_change(app, ticker.wake)
    await ticker.run_forever(stop, HeartbeatFile(app.home.cron, "chat"))


async def _wait_for_first_job(app: App, stop: asyncio.Event) -> bool:
    """Wait until a job exists; return False if `stop` is set first.

    A conversation without jobs never loads `hermes.cron`.
    """
    file, made = app.home.cron / "jobs.json", asyncio.Event()
    _on_change(app, made.set)
    while not app.loaded.settings.store.url and not file.is_file():
        waits = [asyncio.ensure_future(each.wait()) for each in (stop, made)]
        await asyncio.wait(
            waits, timeout=FIRST_JOB_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        for each in waits:
            each.cancel()
        if stop.is_set():
            return False
    return True


def _on_change(app: App, wake: Callable[[], None]) -> None:
    if isinstance(app.services.scheduler, LazyScheduler):
        app.services.scheduler.wake = wake


class GatewayJobs:
    """`gateway.runner.Scheduling`."""

    def __init__(self) -> None:
        self._ticker: Ticker | None = None
        self._zone: tzinfo = UTC

    async def is_needed(self, app: App) -> bool:
        from hermes.cron import JobService

        jobs = await JobService.for_home(app.home, app.loaded, app.store.runs, app.clock).list()
        return any(job["state"] != "completed" for job in jobs)

    def describe(self) -> str:
        if self._ticker is None:
            return ""
        from hermes.cron import format_local

        running, following = self._ticker.running, self._ticker.next_wakeup
        parts = [f"{running} running"] if running else []
        if following is not None:
            parts.append(f"next {format_local(following, self._zone)}")
        return ", ".join(parts)

    def scheduler(self, app: App, outbox: Outbox) -> Scheduler:
        from hermes.cron import JobService

        async def check_target(target: str) -> None:
            """Raise `UsageError` if messages cannot be sent to the target."""
            find = getattr(outbox, "find", None)
            try:
                if find is not None:
                    await find(target)
            except UsageError:
                await target_check(app.home, app.loaded)(target)  # its error says how to set it up
                raise

        return JobService.for_home(
            app.home,
            app.loaded,
            app.store.runs,
            app.clock,
            check_target=check_target,
            on_change=lambda: self._ticker.wake() if self._ticker else None,
        )

    async def run(self, app: App, outbox: Outbox, stop: asyncio.Event) -> None:
        from hermes.cron import HeartbeatFile, Ticker, resolve_timezone

        platforms = configured_platforms(app.loaded)
        self._ticker = ticker = Ticker.for_app(app, app.clock, outbox=outbox, platforms=platforms)
        self._zone = resolve_timezone(app.loaded.settings.timezone)
        await ticker.run_forever(stop, HeartbeatFile(app.home.cron, "gateway"))
