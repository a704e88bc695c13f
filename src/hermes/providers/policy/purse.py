"""Hard caps on money: nothing is spent that was not set aside first."""

from datetime import tzinfo

import msgspec

from hermes.core.errors import BudgetSpent
from hermes.core.ports import Clock, Ledger
from hermes.providers.policy.tally import DayTally, SessionTally, Tally

ROUNDING = 1e-9
"""Sums of floats may be off by this much."""


class Limits(msgspec.Struct, frozen=True):
    """US dollars; None is no limit. The settings are `budget.turn_usd` and so on."""

    turn: float | None = None
    session: float | None = None
    job: float | None = None
    day: float | None = None


class Reservation:
    """Money set aside for one call. It ends once: settled or released."""

    def __init__(self, usd: float, tallies: tuple[Tally, ...]) -> None:
        self.usd = usd
        self.tallies = tallies
        self.open = True


class Purse:
    """What a session may spend: its turns, auxiliary calls and subagents share one.

    A reservation counts against the caps from the moment it is granted, so calls made at the same
    time cannot overshoot together. The session of a `job` is under `limits.job` too.
    `day` is the tally shared by the purses of a process; without it this purse has its own.
    `user` is that of the user whose session it is, if users have a cap.
    """

    def __init__(
        self,
        limits: Limits,
        ledger: Ledger,
        session_id: str,
        clock: Clock,
        *,
        job: bool = False,
        zone: tzinfo | None = None,
        day: DayTally | None = None,
        user: DayTally | None = None,
    ) -> None:
        self._turn_cap = limits.turn
        self._session = _session_tallies(limits, ledger, session_id, job=job)
        self._day, self._user = day, user
        if limits.day is not None and day is None:
            self._day = DayTally(limits.day, ledger, clock, zone)
        self._tallies: tuple[Tally, ...] = ()
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
        fresh = None if turn is None else Tally(turn, "one turn", "budget.turn_usd")
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
                raise _spent(tally, needed)
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


def _session_tallies(
    limits: Limits, ledger: Ledger, session_id: str, *, job: bool
) -> tuple[SessionTally, ...]:
    tallies: list[SessionTally] = []
    if job and limits.job is not None:
        name = ("one run of a job", "budget.job_usd")
        tallies.append(SessionTally(limits.job, *name, ledger, session_id))
    if limits.session is not None:
        name = ("one session", "budget.session_usd")
        tallies.append(SessionTally(limits.session, *name, ledger, session_id))
    return tuple(tallies)


def _spent(tally: Tally, needed: float) -> BudgetSpent:
    waiting = f", {dollars(tally.reserved)} is set aside for calls under way" * (
        tally.reserved > ROUNDING
    )
    return BudgetSpent(
        f"{tally.setting} allows {dollars(tally.cap)} for {tally.span}: {dollars(tally.spent)} is "
        f"spent{waiting} and the next call may cost {dollars(needed)}",
        hint=f"`hermes config set {tally.setting} N` changes the cap",
    )


def dollars(usd: float) -> str:
    """`$1.50`, or with more places where two would hide something."""
    if 0 < usd < 0.0001:
        return "less than $0.0001"
    return f"${usd:.2f}" if abs(usd - round(usd, 2)) < 0.00005 else f"${usd:.4f}"
