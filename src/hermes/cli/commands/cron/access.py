"""The jobs of a home for an action, and how they are shown."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import tzinfo
from math import ceil

import msgspec

from hermes.app.sessions import opened_store, store_exists
from hermes.cli.actions import Act
from hermes.cli.context import Cli
from hermes.cli.kept_mail import reachable
from hermes.config.loader import Loaded
from hermes.core.ports import Clock
from hermes.cron.desk import JobDesk
from hermes.cron.job import Record
from hermes.cron.opening import desk_of
from hermes.cron.presence import Presence, Seen
from hermes.cron.schedule import instant_of
from hermes.cron.zone import zone_of
from hermes.store.claims import Claims, Run
from hermes.util.clock import SystemClock
from hermes.util.plain import plain_line
from hermes.util.text import human_duration


class Office(msgspec.Struct, frozen=True):
    """What an action works with."""

    desk: JobDesk
    claims: Claims | None
    """None: nothing was stored yet."""
    loaded: Loaded
    clock: Clock
    zone: tzinfo

    @property
    def now(self) -> float:
        return self.clock.now().timestamp()

    async def runs(self, job_id: str = "", limit: int = 20) -> tuple[Run, ...]:
        return await self.claims.runs(job_id, limit) if self.claims else ()


def looked_after(cli: Cli, now: float) -> Seen | None:
    """Who runs the jobs at present."""
    seen = Presence(cli.home.cron, "chat").seen()
    return seen if seen is not None and seen.present(now) else None


Work = Callable[[argparse.Namespace, Cli, Office], Awaitable[int]]


def acting(work: Work) -> Act:
    """An action on jobs. Looking creates nothing."""

    async def run(args: argparse.Namespace, cli: Cli) -> int:
        loaded, clock = cli.load(), SystemClock()
        url = loaded.settings.store.url
        async with AsyncExitStack() as stack:
            claims: Claims | None = None
            if store_exists(cli.home, url):
                claims = await stack.enter_async_context(opened_store(cli.home, url, cli.note))
            target = reachable(cli.home, loaded)
            desk = desk_of(cli.home, loaded, claims, clock, check_target=target, tell=cli.note)
            zone = zone_of(loaded.settings.timezone)
            return await work(args, cli, Office(desk, claims, loaded, clock, zone))

    def act(args: argparse.Namespace, cli: Cli) -> int:
        return asyncio.run(run(args, cli))

    return act


def nobody(office: Office) -> str:
    where = " on this machine" if office.loaded.settings.store.url else ""
    return (
        f"nobody{where} runs the jobs now: start the gateway or a chat, or call `hermes cron tick`"
    )


def label(job: Record) -> str:
    return f"{plain_line(str(job['name']))} ({plain_line(str(job['id']))})"


def when(timestamp: object, now: float) -> str:
    """`in 5m 3s`, `2h ago`; "" when never."""
    instant = instant_of(timestamp)
    if instant is None:
        return ""
    return f"in {human_duration(ceil(instant - now))}" if instant > now else _ago(instant, now)


def _ago(instant: float, now: float) -> str:
    return "now" if now - instant < 1 else f"{human_duration(now - instant)} ago"
