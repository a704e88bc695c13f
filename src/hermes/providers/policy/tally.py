"""What counts against one cap: what is spent, and what calls under way may still spend.

The ledger and this process know different things. The ledger has what all processes recorded, but
a call of ours enters it only some time after it was settled here. With `first` the ledger's sum
when it was read first, `own` what we settled since, and `total` the sum read now:

    total = first + others + (the recorded part of own)    so    others >= total - first - own

The bound is exact whenever all of ours is recorded, which is the rule, and since money once spent
stays spent, the greatest bound seen so far holds. Hence

    spent = first + others + own + unrecorded

loses nothing of ours, counts nothing twice, and knows what others spent up to the last time that
we had no call between settling and recording. `unrecorded` is what never enters the ledger: the
part of a broken reply that was probably paid for.
"""

from datetime import datetime, tzinfo

from hermes.core.ports import Clock, Ledger


class Tally:
    """Of one turn: only this process spends in it."""

    def __init__(self, cap: float, span: str, setting: str) -> None:
        self.cap = cap
        self.span = span
        """What the cap is for, in words."""
        self.setting = setting
        self.reserved = 0.0
        self._first: float | None = None
        self._others = self._own = self._unrecorded = 0.0

    @property
    def spent(self) -> float:
        return (self._first or 0.0) + self._others + self._own + self._unrecorded

    @property
    def left(self) -> float:
        return self.cap - self.spent - self.reserved

    def add(self, usd: float, *, recorded: bool) -> None:
        if recorded:
            self._own += usd
        else:
            self._unrecorded += usd

    async def refresh(self) -> None:
        """Look at what others spent."""

    def saw(self, total: float) -> None:
        """The ledger said so. What was settled while it was asked is in `own` by now."""
        if self._first is None:
            self._first = total
        else:
            self._others = max(self._others, total - self._first - self._own)

    def forget(self) -> None:
        """Begin again; reservations stay."""
        self._first = None
        self._others = self._own = self._unrecorded = 0.0


class SessionTally(Tally):
    """Of a session or a job's run. The ledger is asked once for each turn."""

    def __init__(
        self, cap: float, span: str, setting: str, ledger: Ledger, session_id: str
    ) -> None:
        super().__init__(cap, span, setting)
        self._ledger, self._session_id = ledger, session_id
        self.stale = True

    async def refresh(self) -> None:
        if self.stale:
            total = await self._ledger.spent_usd(self._session_id)
            self.stale = False
            self.saw(total)


class DayTally(Tally):
    """Of the user's calendar day. The ledger is asked each time, since others spend too.

    `zone` None is the zone of the clock, `user` "" is everybody. Share one among all purses of a
    process, so that its sessions cannot overshoot together.
    """

    def __init__(
        self,
        cap: float,
        ledger: Ledger,
        clock: Clock,
        zone: tzinfo | None = None,
        *,
        user: str = "",
    ) -> None:
        if user:
            super().__init__(cap, "one day of one user", "gateway.user_day_usd")
        else:
            super().__init__(cap, "one day", "budget.day_usd")
        self._ledger, self._clock, self._zone, self._user = ledger, clock, zone, user
        self._date = self._began().date()

    async def refresh(self) -> None:
        began = self._began()
        total = await self._ledger.spent_usd(since=began.timestamp(), user_id=self._user)
        if began.date() != self._date:
            self._date = began.date()
            self.forget()
        self.saw(total)

    def _began(self) -> datetime:
        return midnight(self._clock.now(), self._zone)


def midnight(now: datetime, zone: tzinfo | None) -> datetime:
    """When the day began; `zone` None is that of `now`."""
    local = now.astimezone(zone) if zone else now
    return local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
