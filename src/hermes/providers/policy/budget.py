"""Hard caps on money: nothing is spent that was not set aside first."""

import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime, tzinfo

import msgspec

from hermes.core.errors import BudgetSpent
from hermes.core.model import (
    Model,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolSpec,
)
from hermes.core.ports import Clock, Ledger
from hermes.core.tokens import (
    REQUEST_TOKENS,
    message_tokens,
    messages_tokens,
    text_tokens,
    tools_tokens,
)
from hermes.core.usage import Price
from hermes.providers.endpoints import ModelProfile
from hermes.providers.policy import ModelWrapper

# What counts against one cap: what is spent, and what calls under way may still spend.
#
# The ledger and this process know different things. The ledger has what all processes recorded,
# but
# a call of ours enters it only some time after it was settled here. With `first` the ledger's sum
# when it was read first, `own` what we settled since, and `total` the sum read now:
#
#     the total is first + others + the recorded part of own, so others >= total - first - own
#
# The bound is exact whenever all of ours is recorded, which is the rule, and since money once
# spent
# stays spent, the greatest bound seen so far holds. Hence
#
#     what is spent is first + others + own + unrecorded, which
#
# loses nothing of ours, counts nothing twice, and knows what others spent up to the last time that
# we had no call between settling and recording. `unrecorded` is what never enters the ledger: the
# part of a broken reply that was probably paid for.


class SpendCounter:
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


class SessionSpend(SpendCounter):
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


class DailySpend(SpendCounter):
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
        return start_of_day(self._clock.now(), self._zone)


def start_of_day(now: datetime, zone: tzinfo | None) -> datetime:
    """When the day began; `zone` None is that of `now`."""
    local = now.astimezone(zone) if zone else now
    return local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


ROUNDING = 1e-9
"""Sums of floats may be off by this much."""


class BudgetLimits(msgspec.Struct, frozen=True):
    """US dollars; None is no limit. The settings are `budget.turn_usd` and so on."""

    turn: float | None = None
    session: float | None = None
    job: float | None = None
    day: float | None = None


class Reservation:
    """Money set aside for one call. It ends once: settled or released."""

    def __init__(self, usd: float, tallies: tuple[SpendCounter, ...]) -> None:
        self.usd = usd
        self.tallies = tallies
        self.open = True


class Budget:
    """What a session may spend: its turns, auxiliary calls and subagents share one.

    A reservation counts against the caps from the moment it is granted, so calls made at the same
    time cannot overshoot together. The session of a `job` is under `limits.job` too.
    `day` is the tally shared by the purses of a process; without it this purse has its own.
    `user` is that of the user whose session it is, if users have a cap.
    """

    def __init__(
        self,
        limits: BudgetLimits,
        ledger: Ledger,
        session_id: str,
        clock: Clock,
        *,
        job: bool = False,
        zone: tzinfo | None = None,
        day: DailySpend | None = None,
        user: DailySpend | None = None,
    ) -> None:
        self._turn_cap = limits.turn
        self._session = _session_counters(limits, ledger, session_id, job=job)
        self._day, self._user = day, user
        if limits.day is not None and day is None:
            self._day = DailySpend(limits.day, ledger, clock, zone)
        self._tallies: tuple[SpendCounter, ...] = ()
        self.begin_turn()

    @property
    def limited(self) -> bool:
        """Whether there is any cap."""
        return bool(self._tallies)

    def begin_turn(self) -> None:
        """From here on the cap of a turn counts anew.

        What was set aside before counts against the turn that it was set aside in.
        """
        turn = self._turn_cap
        fresh = None if turn is None else SpendCounter(turn, "one turn", "budget.turn_usd")
        for tally in self._session:
            tally.stale = True
        every = (fresh, *self._session, self._day, self._user)
        self._tallies = tuple([tally for tally in every if tally is not None])

    async def reserve(self, usd: float, *, least: float | None = None) -> Reservation:
        """Set aside `usd`, or what there is down to `least`.

        Raises `BudgetSpent` when a cap does not allow it.
        """
        tallies = self._tallies
        for tally in tallies:
            await tally.refresh()
        # From here to the end nothing else runs, so that two callers never get the same money.
        needed = usd if least is None else least
        for tally in tallies:
            if needed > tally.left + ROUNDING:
                raise _budget_spent_error(tally, needed)
        granted = max(min([usd, *(tally.left for tally in tallies)]), needed)
        for tally in tallies:
            tally.reserved += granted
        return Reservation(granted, tallies)

    def settle(self, reservation: Reservation, usd: float, *, recorded: bool = True) -> None:
        """The call cost `usd`. Not `recorded` is what the ledger will never hear of."""
        if not reservation.open:
            raise ValueError("this reservation has ended already")
        reservation.open = False
        for tally in reservation.tallies:
            tally.reserved -= reservation.usd
            tally.add(usd, recorded=recorded)

    def release(self, reservation: Reservation) -> None:
        """The call cost nothing."""
        self.settle(reservation, 0.0)


def _session_counters(
    limits: BudgetLimits, ledger: Ledger, session_id: str, *, job: bool
) -> tuple[SessionSpend, ...]:
    tallies: list[SessionSpend] = []
    if job and limits.job is not None:
        name = ("one run of a job", "budget.job_usd")
        tallies.append(SessionSpend(limits.job, *name, ledger, session_id))
    if limits.session is not None:
        name = ("one session", "budget.session_usd")
        tallies.append(SessionSpend(limits.session, *name, ledger, session_id))
    return tuple(tallies)


def _budget_spent_error(tally: SpendCounter, needed: float) -> BudgetSpent:
    waiting = f", {format_usd(tally.reserved)} is set aside for calls under way" * (
        tally.reserved > ROUNDING
    )
    return BudgetSpent(
        f"{tally.setting} allows {format_usd(tally.cap)} for {tally.span}: "
        f"{format_usd(tally.spent)} is spent{waiting} and the next call may cost "
        f"{format_usd(needed)}",
        hint=f"`hermes config set {tally.setting} N` changes the cap",
    )


def format_usd(usd: float) -> str:
    """`$1.50`, or with more places where two would hide something."""
    if 0 < usd < 0.0001:
        return "less than $0.0001"
    return f"${usd:.2f}" if abs(usd - round(usd, 2)) < 0.00005 else f"${usd:.4f}"


# No call goes out that a cap on money does not allow.
#
# Before a call the most it may cost is set aside in the `Purse`: an estimate of the tokens read
# (`policy.estimate`) at the dearest input price, and the longest reply at the output price. When
# that
# does not fit but a useful reply does, the request goes out with a shorter `max_tokens`. What the
# call really cost replaces the sum when the reply is there. So a cap stops a call before it
# begins,
# and never in the middle of a reply.

DEFAULT_MAX_OUTPUT = 8192
"""Longest reply of a model of which nobody knows it; it is then asked for no more."""
MIN_USEFUL_OUTPUT = 256
"""A reply that must be shorter than this is not worth its input."""
MILLION = 1_000_000


class MeteredModel(ModelWrapper):
    """Calls `inner` as far as `purse` allows. Without a cap, or for a free model, it costs nothing.

    Raises `BudgetSpent` before the call. When a call fails or is cancelled, what was received of
    it counts as spent, since it was probably paid for.
    """

    def __init__(self, inner: Model, purse: Budget, profile: ModelProfile) -> None:
        super().__init__(inner)
        self._purse, self._profile = purse, profile
        self._tools: tuple[tuple[ToolSpec, ...], int] = ((), 0)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        price = self._profile.price
        if not self._purse.limited or (price is not None and not _highest_price(price)):
            return self._inner.stream(request)
        return self._metered(request, price)

    async def _metered(
        self, request: ModelRequest, price: Price | None
    ) -> AsyncGenerator[ModelEvent, None]:
        if price is None:
            raise self._price_unknown()
        tokens = self._input_tokens(request)
        bill = _CallEstimate(price.for_prompt(tokens), tokens)
        reservation, request = await self._reserve(request, bill)
        try:
            async with aclosing(self._inner.stream(request)) as events:
                async for event in events:
                    if isinstance(event, TextDelta | ReasoningDelta):
                        bill.received += text_tokens(event.text)
                    elif isinstance(event, Reply):
                        self._settle(reservation, event, price, bill)
                    yield event
        finally:
            if reservation.open and bill.received:
                partial = min(bill.cost(bill.received), reservation.usd)
                self._purse.settle(reservation, partial, recorded=False)
            elif reservation.open:
                self._purse.release(reservation)

    async def _reserve(
        self, request: ModelRequest, bill: "_CallEstimate"
    ) -> tuple[Reservation, ModelRequest]:
        """The money, and the request as it may go out."""
        known = [n for n in (request.max_tokens, self._profile.max_output) if n is not None]
        longest = min(known, default=DEFAULT_MAX_OUTPUT)
        full, least = bill.cost(longest), bill.cost(min(longest, MIN_USEFUL_OUTPUT))
        reservation = await self._purse.reserve(full, least=least)
        if reservation.usd < full:
            longest = bill.affordable(reservation.usd)
        elif known:
            return reservation, request
        return reservation, msgspec.structs.replace(request, max_tokens=longest)

    def _settle(
        self, reservation: Reservation, reply: Reply, price: Price, bill: "_CallEstimate"
    ) -> None:
        cost = reply.cost_usd or price.cost(reply.usage)
        if cost:
            self._purse.settle(reservation, cost)
        else:  # The endpoint did not count, so the estimate has to do.
            cost = bill.cost(message_tokens(reply.message))
            self._purse.settle(reservation, cost, recorded=False)

    def _input_tokens(self, request: ModelRequest) -> int:
        if self._tools[0] is not request.tools:
            self._tools = (request.tools, tools_tokens(request.tools))
        return REQUEST_TOKENS + messages_tokens(request.messages) + self._tools[1]

    def _price_unknown(self) -> BudgetSpent:
        key = f'providers.{self.provider}.models."{self.name}".price'
        return BudgetSpent(
            f"the price of {self.name} at {self.provider} is not known, so the caps on spending "
            "(budget.*) cannot be kept",
            hint=f"give its price for a million tokens: `hermes config set '{key}' "
            "'{input: 3, output: 15}'`",
        )


class _CallEstimate(msgspec.Struct):
    """What one call may cost."""

    price: Price
    input_tokens: int
    received: int = 0
    """Tokens that have come so far."""

    @property
    def input_usd(self) -> float:
        price = self.price
        dearest = max(price.input, price.cache_read, price.cache_write)
        return self.input_tokens * dearest / MILLION

    def cost(self, output_tokens: int) -> float:
        return self.input_usd + output_tokens * self.price.output / MILLION

    def affordable(self, usd: float) -> int:
        """How many tokens of output `usd` pays for beside the input."""
        return math.floor((usd - self.input_usd) * MILLION / self.price.output)


def _highest_price(price: Price) -> float:
    return max(price.input, price.output, price.cache_read, price.cache_write)
