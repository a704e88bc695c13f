"""What the `hermes cron` actions share: access to the jobs, and how they are shown."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import tzinfo
from math import ceil

import msgspec

from hermes.app.session_store import opened_store, store_exists
from hermes.cli.actions import Act
from hermes.cli.context import Cli
from hermes.cli.kept_mail import reachable
from hermes.config.loader import Loaded
from hermes.core.ports import Clock
from hermes.cron import (
    Heartbeat,
    HeartbeatFile,
    JobService,
    Record,
    parse_timestamp,
    resolve_timezone,
)
from hermes.store.records import Run
from hermes.store.session_store import RunClaims
from hermes.util.clock import SystemClock
from hermes.util.plain import plain_line
from hermes.util.text import human_duration


class CronCommandContext(msgspec.Struct, frozen=True):
    """What an action works with."""

    service: JobService
    claims: RunClaims | None
    """None if nothing was stored yet."""
    loaded: Loaded
    clock: Clock
    zone: tzinfo

    @property
    def now(self) -> float:
        return self.clock.now().timestamp()

    async def runs(self, job_id: str = "", limit: int = 20) -> tuple[Run, ...]:
        return await self.claims.history(job_id, limit) if self.claims else ()


def current_heartbeat(cli: Cli, now: float) -> Heartbeat | None:
    """Return the heartbeat of the process that runs the jobs; None if there is none."""
    heartbeat = HeartbeatFile(cli.home.cron, "chat").read()
    return heartbeat if heartbeat is not None and heartbeat.is_alive(now) else None


Work = Callable[[argparse.Namespace, Cli, CronCommandContext], Awaitable[int]]


def acting(work: Work) -> Act:
    """Return the action that calls `work` with the jobs. It does not create a store."""

    async def run(args: argparse.Namespace, cli: Cli) -> int:
        loaded, clock = cli.load(), SystemClock()
        url = loaded.settings.store.url
        async with AsyncExitStack() as stack:
            claims: RunClaims | None = None
            if store_exists(cli.home, url):
                store = await stack.enter_async_context(opened_store(cli.home, url, cli.note))
                claims = store.runs
            service = JobService.for_home(
                cli.home,
                loaded,
                claims,
                clock,
                check_target=reachable(cli.home, loaded),
                notify=cli.note,
            )
            zone = resolve_timezone(loaded.settings.timezone)
            return await work(args, cli, CronCommandContext(service, claims, loaded, clock, zone))

    def act(args: argparse.Namespace, cli: Cli) -> int:
        return asyncio.run(run(args, cli))

    return act


def not_running_message(context: CronCommandContext) -> str:
    where = " on this machine" if context.loaded.settings.store.url else ""
    return (
        f"no process{where} runs the jobs: start the gateway or a chat, or run due jobs now with"
        " `hermes cron tick`"
    )


def label(job: Record) -> str:
    return f"{plain_line(str(job['name']))} ({plain_line(str(job['id']))})"


def when(timestamp: object, now: float) -> str:
    """Return `in 5m 3s`, `now` or `2h ago`; "" without a timestamp."""
    instant = parse_timestamp(timestamp)
    if instant is None:
        return ""
    if instant > now:
        return f"in {human_duration(ceil(instant - now))}"
    return "now" if now - instant < 1 else f"{human_duration(now - instant)} ago"
