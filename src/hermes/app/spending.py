"""The caps of `budget` as the purses of this process keep them."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary
from zoneinfo import ZoneInfo

import msgspec

from hermes.app.request import SessionRequest
from hermes.app.sessions import opened_store
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings import Settings
from hermes.config.settings.agent import BudgetSettings
from hermes.core.ports import Clock, Ledger, SessionInfo
from hermes.providers.policy import Budget, BudgetLimits, DailySpend, start_of_day
from hermes.store.session_store import SessionStore

logger = logging.getLogger(__name__)


def limits_of(budget: BudgetSettings) -> BudgetLimits:
    return BudgetLimits(budget.turn_usd, budget.session_usd, budget.job_usd, budget.day_usd)


def day_tally(settings: Settings, ledger: Ledger, clock: Clock) -> DailySpend | None:
    """What is spent today, shared by all sessions of the process; None without a cap."""
    if settings.budget.day_usd is None:
        return None
    return DailySpend(settings.budget.day_usd, ledger, clock, user_zone(settings))


class Purses:
    """One for each session: its turns and the work beside them share the caps."""

    def __init__(self, settings: Settings, store: SessionStore, clock: Clock) -> None:
        self._settings, self._store, self._clock = settings, store, clock
        # Kept as long as somebody works with it; what a session spent is in the ledger.
        self._purses: WeakValueDictionary[str, Budget] = WeakValueDictionary()
        self._users: dict[str, DailySpend] = {}
        self._day = day_tally(settings, store, clock)

    def of(self, session_id: str, request: SessionRequest | None = None) -> Budget:
        """That of the session; `request` says who it is for and what it may cost."""
        purse = self._purses.get(session_id)
        if purse is None:
            purse = self._purses[session_id] = self._made(session_id, request)
        return purse

    def _made(self, session_id: str, request: SessionRequest | None) -> Budget:
        limits, job = limits_of(self._settings.budget), False
        if request is not None:
            job = request.source == "cron"
            if job and request.budget_usd is not None:
                limits = msgspec.structs.replace(limits, job=request.budget_usd)
        return Budget(
            limits,
            self._store,
            session_id,
            self._clock,
            job=job,
            day=self._day,
            user=self._user(request) if request else None,
        )

    def _user(self, request: SessionRequest) -> DailySpend | None:
        cap, user = request.user_day_usd, request.user_id
        if cap is None or not user:
            return None
        if user not in self._users:
            zone = user_zone(self._settings)
            self._users[user] = DailySpend(cap, self._store, self._clock, zone, user=user)
        return self._users[user]

    async def root(self, session_id: str, past: SessionInfo | None) -> str:
        """The session that caps on money go by: the first of a line of compactions."""
        if past is None or not past.parent_id:
            return session_id
        for info in await self._store.ancestors(session_id):
            if info.end_reason != "compression":
                break
            session_id = info.id
        return session_id


def today_began(settings: Settings, clock: Clock) -> float:
    """Midnight of the user's day, in seconds since the epoch."""
    return start_of_day(clock.now(), user_zone(settings)).timestamp()


@asynccontextmanager
async def trial_purse(home: Home, loaded: Loaded, clock: Clock) -> AsyncIterator[Budget]:
    """For trying a model out: calls of no session, under the cap of the day all the same."""
    settings = loaded.settings
    if settings.budget.day_usd is None:
        yield Budget(BudgetLimits(), NothingSpent(), "", clock)
        return
    limits = BudgetLimits(day=settings.budget.day_usd)
    async with opened_store(home, settings.store.url, logger.warning) as store:
        yield Budget(limits, store, "", clock, zone=user_zone(settings))


class NothingSpent:
    """A `Ledger` for those who have no cap to keep."""

    async def spent_usd(
        self,
        session_id: str = "",  # noqa: ARG002 - the signature is that of Ledger
        *,
        since: float | None = None,  # noqa: ARG002 - likewise
        user_id: str = "",  # noqa: ARG002 - likewise
    ) -> float:
        return 0.0


def user_zone(settings: Settings) -> ZoneInfo | None:
    """The time zone of the setting; None is the machine's."""
    return ZoneInfo(settings.timezone) if settings.timezone else None
