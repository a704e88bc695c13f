"""The caps of `budget` as the purses of this process keep them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from zoneinfo import ZoneInfo

from hermes.app.sessions import opened_store
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings import Settings
from hermes.config.settings.agent import BudgetSettings
from hermes.core.ports import Clock, Ledger
from hermes.providers.policy.purse import Limits, Purse
from hermes.providers.policy.tally import DayTally, midnight


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
    limits = Limits(day=settings.budget.day_usd)
    async with opened_store(home, settings.store.url, _unheard) as store:
        yield Purse(limits, store, "", clock, zone=_zone(settings))


def _unheard(_text: str) -> None:
    """What the store has to say is said where it matters."""


def _zone(settings: Settings) -> ZoneInfo | None:
    return ZoneInfo(settings.timezone) if settings.timezone else None
