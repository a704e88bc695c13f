"""The caps of `budget` as the purses of this process keep them."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hermes.app.sessions import opened_store
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings import Settings
from hermes.config.settings.agent import BudgetSettings
from hermes.core.errors import ConfigError
from hermes.core.ports import Clock, Ledger
from hermes.providers.policy.purse import Limits, Purse
from hermes.providers.policy.tally import DayTally, midnight

logger = logging.getLogger(__name__)


def limits_of(budget: BudgetSettings) -> Limits:
    return Limits(budget.turn_usd, budget.session_usd, budget.job_usd, budget.day_usd)


def day_tally(settings: Settings, ledger: Ledger, clock: Clock) -> DayTally | None:
    """What is spent today, shared by all sessions of the process; None without a cap."""
    if settings.budget.day_usd is None:
        return None
    return DayTally(settings.budget.day_usd, ledger, clock, _zone(settings))


def today_began(settings: Settings, clock: Clock) -> float:
    """Midnight of the user's day, in seconds since the epoch."""
    return midnight(clock.now(), _zone(settings)).timestamp()


@asynccontextmanager
async def trial_purse(home: Home, loaded: Loaded, clock: Clock) -> AsyncIterator[Purse]:
    """For trying a model out: calls of no session, under the cap of the day all the same."""
    settings = loaded.settings
    if settings.budget.day_usd is None:
        yield Purse(Limits(), NothingSpent(), "", clock)
        return
    limits = Limits(day=settings.budget.day_usd)
    async with opened_store(home, settings.store.url, logger.warning) as store:
        yield Purse(limits, store, "", clock, zone=_zone(settings))


class NothingSpent:
    """A `Ledger` for those who have no cap to keep."""

    async def spent_usd(self, session_id: str = "", *, since: float | None = None) -> float:  # noqa: ARG002 - the signature is that of Ledger
        return 0.0


def _zone(settings: Settings) -> ZoneInfo | None:
    if not settings.timezone:
        return None
    try:
        return ZoneInfo(settings.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(
            f"timezone: {settings.timezone!r} is not the name of a time zone",
            hint="names are like Europe/Berlin: hermes config set timezone Europe/Berlin",
        ) from error
