"""Spending caps: the highest possible cost of a call is reserved before the call is made."""

import math
from datetime import datetime, tzinfo

import msgspec

from hermes.core.errors import BudgetSpent
from hermes.core.model import (
    REQUEST_TOKENS,
    EmitModelEvent,
    Model,
    ModelEvent,
    ModelRequest,
    Price,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolSpec,
    message_tokens,
    messages_tokens,
    text_tokens,
    tools_tokens,
)
from hermes.core.ports import Clock, Ledger
from hermes.providers.endpoints import ModelProfile
from hermes.providers.policy import ModelWrapper

# How spending is counted against one cap.
# The ledger holds what all processes recorded, but a call of this process enters it only some time
# after the call was settled here. Let `first` be the ledger's total at the first read, `own` what
# this process settled since then, and `total` the sum read now. The total contains `first`, the
# spending of other processes, and the recorded part of `own`. So other processes spent at least
# total - first - own. The bound is exact when all own calls are recorded, and spent money stays
# spent, so the highest bound seen so far is kept as `others`.
# The sum of first, others, own and unrecorded therefore misses nothing of this process and counts
# nothing twice. `unrecorded` never enters the ledger: the part of a broken reply that the provider
# probably charged for.


class SpendCounter:
    """Spending against one cap. This class counts one turn: only this process spends in it."""

    def __init__(self, cap: float, period: str, setting: str) -> None:
        self.cap = cap
        self.period = period  #: What the cap covers, for messages.
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
        """Read what other processes spent."""

    def update_total(self, total: float) -> None:
        """Take in a total of the ledger. What was settled during the query is already in `own`."""
        if self._first is None:
            self._first = total
        else:
            self._others = max(self._others, total - self._first - self._own)

    def reset(self) -> None:
        """Start counting from zero; open reservations stay."""
        self._first = None
        self._others = self._own = self._unrecorded = 0.0


class SessionSpend(SpendCounter):
    """Spending of one session or one run of a job. Queries the ledger once per turn."""

    def __init__(
        self, cap: float, period: str, setting: str, ledger: Ledger, session_id: str
    ) -> None:
        super().__init__(cap, period, setting)
        self._ledger, self._session_id = ledger, session_id
        self.stale = True

    async def refresh(self) -> None:
        if self.stale:
            total = await self._ledger.spent_usd(self._session_id)
            self.stale = False
            self.update_total(total)


class DailySpend(SpendCounter):
    """Spending of one calendar day. Queries the ledger for every call, since others spend too.

    `zone` None means the zone of the clock, `user` "" means all users. Budgets of one process share
    one instance, so that its sessions cannot exceed the cap together.
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
        self._date = self._day_start().date()

    async def refresh(self) -> None:
        start = self._day_start()
        total = await self._ledger.spent_usd(since=start.timestamp(), user_id=self._user)
        if start.date() != self._date:
            self._date = start.date()
            self.reset()
        self.update_total(total)

    def _day_start(self) -> datetime:
        return start_of_day(self._clock.now(), self._zone)


def start_of_day(now: datetime, zone: tzinfo | None) -> datetime:
    """Return the start of the day; `zone` None means the zone of `now`."""
    local = now.astimezone(zone) if zone else now
    return local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


ROUNDING = 1e-9  #: Tolerance for sums of floats.


class BudgetLimits(msgspec.Struct, frozen=True):
    """Caps in US dollars; None means no cap. The settings are `budget.turn_usd` and so on."""

    turn: float | None = None
    session: float | None = None
    job: float | None = None
    day: float | None = None


class Reservation:
    """Money set aside for one call. It is settled or released exactly once."""

    def __init__(self, usd: float, counters: tuple[SpendCounter, ...]) -> None:
        self.usd = usd
        self.counters = counters
        self.open = True


class Budget:
    """What one session may spend. Its turns, auxiliary calls and subagents share one budget.

    A reservation counts against the caps as soon as it is granted, so concurrent calls cannot
    exceed them together. The session of a `job` is also limited by `limits.job`. `day` is the
    counter that all budgets of a process share; without it this budget makes its own. `user` counts
    the spending of the session's user, if users have a cap.
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
        self._counters: tuple[SpendCounter, ...] = ()
        self.begin_turn()

    @property
    def is_limited(self) -> bool:
        """Whether there is any cap."""
        return bool(self._counters)

    def begin_turn(self) -> None:
        """Start a new turn with a full turn cap.

        Open reservations still count against the turn in which they were made.
        """
        turn = self._turn_cap
        turn_counter = None if turn is None else SpendCounter(turn, "one turn", "budget.turn_usd")
        for counter in self._session:
            counter.stale = True
        every = (turn_counter, *self._session, self._day, self._user)
        self._counters = tuple([counter for counter in every if counter is not None])

    async def reserve(self, usd: float, *, least: float | None = None) -> Reservation:
        """Reserve `usd`, or what is left down to `least`.

        Raises `BudgetSpent` when a cap does not allow it.
        """
        counters = self._counters
        for counter in counters:
            await counter.refresh()
        # No await from here on: two callers must not be granted the same money.
        needed = usd if least is None else least
        for counter in counters:
            if needed > counter.left + ROUNDING:
                raise _budget_spent_error(counter, needed)
        granted = max(min([usd, *(counter.left for counter in counters)]), needed)
        for counter in counters:
            counter.reserved += granted
        return Reservation(granted, counters)

    def settle(self, reservation: Reservation, usd: float, *, recorded: bool = True) -> None:
        """End a reservation with the cost of its call.

        With `recorded=False` the cost never enters the ledger.
        """
        if not reservation.open:
            raise ValueError("this reservation has ended already")
        reservation.open = False
        for counter in reservation.counters:
            counter.reserved -= reservation.usd
            counter.add(usd, recorded=recorded)

    def release(self, reservation: Reservation) -> None:
        """End a reservation whose call cost nothing."""
        self.settle(reservation, 0.0)


def _session_counters(
    limits: BudgetLimits, ledger: Ledger, session_id: str, *, job: bool
) -> tuple[SessionSpend, ...]:
    counters: list[SessionSpend] = []
    if job and limits.job is not None:
        name = ("one run of a job", "budget.job_usd")
        counters.append(SessionSpend(limits.job, *name, ledger, session_id))
    if limits.session is not None:
        name = ("one session", "budget.session_usd")
        counters.append(SessionSpend(limits.session, *name, ledger, session_id))
    return tuple(counters)


def _budget_spent_error(counter: SpendCounter, needed: float) -> BudgetSpent:
    waiting = f", {format_usd(counter.reserved)} is reserved for running calls" * (
        counter.reserved > ROUNDING
    )
    return BudgetSpent(
        f"{counter.setting} allows {format_usd(counter.cap)} for {counter.period}: "
        f"{format_usd(counter.spent)} is spent{waiting} and the next call may cost "
        f"{format_usd(needed)}",
        hint=f"`hermes config set {counter.setting} N` changes the cap",
    )


def format_usd(usd: float) -> str:
    """Format as `$1.50`, with more digits where two would hide the amount."""
    if 0 < usd < 0.0001:
        return "less than $0.0001"
    return f"${usd:.2f}" if abs(usd - round(usd, 2)) < 0.00005 else f"${usd:.4f}"


# Metering.
# Before a call its highest cost is reserved in the `Budget`: the estimated input tokens at the
# highest input price, and the longest reply at the output price. If that does not fit but a useful
# reply does, the request is sent with a lower `max_tokens`. The real cost replaces the reservation
# once the reply is there. So a cap stops a call before it begins, never in the middle of a reply.

DEFAULT_MAX_OUTPUT = 8192
"""Reply limit for a model whose limit is unknown; the request then asks for no more."""
MIN_USEFUL_OUTPUT = 256
"""Output tokens. A reply that would have to be shorter is not worth its input."""
MILLION = 1_000_000


class MeteredModel(ModelWrapper):
    """Calls `inner` within `budget`. Adds nothing without a cap or for a free model.

    Raises `BudgetSpent` before the call. When a call fails or is cancelled, the received part
    counts as spent, since the provider probably charged for it.
    """

    def __init__(self, inner: Model, budget: Budget, profile: ModelProfile) -> None:
        super().__init__(inner)
        self._budget, self._profile = budget, profile
        self._tools: tuple[tuple[ToolSpec, ...], int] = ((), 0)

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        price = self._profile.price
        if not self._budget.is_limited:
            return await self._inner.call(request, emit)
        if price is None:
            raise self._price_unknown()
        if not max(price.input, price.output, price.cache_read, price.cache_write):
            return await self._inner.call(request, emit)
        if self._tools[0] is not request.tools:
            self._tools = (request.tools, tools_tokens(request.tools))
        tokens = REQUEST_TOKENS + messages_tokens(request.messages) + self._tools[1]
        estimate = _CallEstimate(price.for_prompt(tokens), tokens)
        reservation, request = await self._reserve(request, estimate)

        def count(event: ModelEvent) -> None:
            if isinstance(event, TextDelta | ReasoningDelta):
                estimate.received += text_tokens(event.text)
            emit(event)

        try:
            reply = await self._inner.call(request, count)
            if cost := reply.cost_usd or price.cost(reply.usage):
                self._budget.settle(reservation, cost)
            else:  # The endpoint reported no usage, so the estimate counts.
                cost = estimate.cost(message_tokens(reply.message))
                self._budget.settle(reservation, cost, recorded=False)
            return reply
        finally:
            if reservation.open and estimate.received:
                partial = min(estimate.cost(estimate.received), reservation.usd)
                self._budget.settle(reservation, partial, recorded=False)
            elif reservation.open:
                self._budget.release(reservation)

    async def _reserve(
        self, request: ModelRequest, estimate: "_CallEstimate"
    ) -> tuple[Reservation, ModelRequest]:
        """Reserve the cost; return the reservation and the request with its token limit."""
        known = [n for n in (request.max_tokens, self._profile.max_output) if n is not None]
        longest = min(known, default=DEFAULT_MAX_OUTPUT)
        full, least = estimate.cost(longest), estimate.cost(min(longest, MIN_USEFUL_OUTPUT))
        reservation = await self._budget.reserve(full, least=least)
        if reservation.usd < full:
            longest = estimate.affordable(reservation.usd)
        elif known:
            return reservation, request
        return reservation, msgspec.structs.replace(request, max_tokens=longest)

    def _price_unknown(self) -> BudgetSpent:
        key = f'providers.{self.provider}.models."{self.name}".price'
        return BudgetSpent(
            f"the price of {self.name} at {self.provider} is not known, so the caps on spending "
            "(budget.*) cannot be enforced",
            hint=f"set its price per million tokens: `hermes config set '{key}' "
            "'{input: 3, output: 15}'`",
        )


class _CallEstimate(msgspec.Struct):
    """Price and size of one call."""

    price: Price
    input_tokens: int
    received: int = 0  #: Output tokens received so far.

    @property
    def input_usd(self) -> float:
        price = self.price
        dearest = max(price.input, price.cache_read, price.cache_write)
        return self.input_tokens * dearest / MILLION

    def cost(self, output_tokens: int) -> float:
        return self.input_usd + output_tokens * self.price.output / MILLION

    def affordable(self, usd: float) -> int:
        """Return how many output tokens `usd` pays for after the input."""
        return math.floor((usd - self.input_usd) * MILLION / self.price.output)
