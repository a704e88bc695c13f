"""The parts of scheduled work, put together for a home."""

import logging
import sys
from collections.abc import Callable
from datetime import tzinfo
from importlib import import_module
from typing import Any

from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings.agent import CronSettings
from hermes.core.ports import Clock, Outbox
from hermes.cron.book import JobBook, SharedBook
from hermes.cron.crew import OnRun, TickerOptions, unseen
from hermes.cron.delivery import Deliverer
from hermes.cron.desk import CheckTarget, JobDesk
from hermes.cron.jobs_file import JobsFile
from hermes.cron.moving import MovedBook, Tell
from hermes.cron.running import JobRunner, Workers
from hermes.cron.ticker import Ticker
from hermes.cron.zone import zone_of
from hermes.store.claims import Claims

log = logging.getLogger(__name__)

DEFAULT_TIMEOUT = CronSettings().script_timeout_seconds


def book_of(
    home: Home,
    loaded: Loaded,
    claims: Claims | None,
    zone: tzinfo,
    tell: Tell = log.warning,
) -> JobBook:
    """jobs.json; with a shared store, the jobs are in that, also those that were in the file."""
    file = JobsFile(home.cron, zone)
    if loaded.settings.store.url and claims is not None:
        return MovedBook(SharedBook(claims, zone), file, tell)
    return file


def desk_of(
    home: Home,
    loaded: Loaded,
    claims: Claims | None,
    clock: Clock,
    *,
    check_target: CheckTarget | None = None,
    changed: Callable[[], None] | None = None,
    tell: Tell = log.warning,
) -> JobDesk:
    """The `Scheduler` of a home; `claims` is its store, None when nothing was stored yet. `changed`
    may be `Ticker.wake`; `tell` hears of jobs that were moved."""
    zone = zone_of(loaded.settings.timezone)
    desk = JobDesk(
        book_of(home, loaded, claims, zone, tell),
        claims,
        zone,
        home.scripts,
        now=lambda: clock.now().timestamp(),
    )
    desk.check_target = check_target or desk.check_target
    desk.changed = changed or desk.changed
    desk.check_names = {
        "skills": lambda names: _abilities().check_skills(home, loaded, names),
        "enabled_toolsets": lambda names: _abilities().check_toolsets(loaded, names),
    }
    return desk


def _abilities() -> Any:
    """What it loads is needed only by who names a skill or a toolset."""
    return import_module("hermes.cron.abilities")


def runner_of(workers: Workers, clock: Clock, outbox: Outbox | None = None) -> JobRunner:
    """`workers` is the `App`."""
    home, loaded = workers.home, workers.loaded
    settings, zone = loaded.settings.cron, zone_of(loaded.settings.timezone)
    deliverer = Deliverer(
        home.cron / "output",
        zone,
        outbox,
        wrap=settings.wrap_response,
        notify=settings.notify_failures,
    )
    book = book_of(home, loaded, workers.store, zone)
    return JobRunner(workers, book, deliverer, clock, lambda: script_timeout(loaded))


def ticker_of(
    workers: Workers,
    clock: Clock,
    *,
    outbox: Outbox | None = None,
    on_run: OnRun = unseen,
) -> Ticker:
    """What runs the jobs of a home; `workers` is the `App`."""
    home, loaded, store = workers.home, workers.loaded, workers.store
    zone = zone_of(loaded.settings.timezone)
    return Ticker(
        book_of(home, loaded, store, zone),
        store,
        runner_of(workers, clock, outbox),
        clock,
        zone,
        home.cron,
        TickerOptions.of(loaded.settings.cron),
        on_run,
    )


def script_timeout(loaded: Loaded) -> float:
    """Seconds a script may take: what code set in `cron.scheduler._SCRIPT_TIMEOUT`, the variable
    HERMES_CRON_SCRIPT_TIMEOUT, the setting."""
    override = getattr(sys.modules.get("cron.scheduler"), "_SCRIPT_TIMEOUT", DEFAULT_TIMEOUT)
    if isinstance(override, int | float) and override != DEFAULT_TIMEOUT:
        return float(override)
    try:
        return max(0.0, float(loaded.variable("HERMES_CRON_SCRIPT_TIMEOUT") or ""))
    except ValueError:
        return loaded.settings.cron.script_timeout_seconds
