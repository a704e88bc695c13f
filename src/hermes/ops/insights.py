"""Usage figures from the session store."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta, tzinfo

import msgspec

from hermes.core.errors import UsageError
from hermes.core.model import Usage
from hermes.ops.transcripts import cost
from hermes.store import Activity, CallSum, QuarterHour, SessionStore, ToolSum
from hermes.util.text import human_duration, many

SUBAGENT = "subagent"
MOST_DAYS = 3660
BUSIEST = 3
HOURS, WEEKDAYS = 24, 7


class Day(msgspec.Struct, frozen=True):
    date: date
    messages: int = 0
    tokens: int = 0
    cost_usd: float = 0.0


class ModelFigures(msgspec.Struct, frozen=True):
    model: str
    calls: int
    usage: Usage
    cost_usd: float
    unpriced_calls: int


class SourceFigures(msgspec.Struct, frozen=True):
    source: str
    sessions: int
    messages: int
    cost_usd: float


class Insights(msgspec.Struct, frozen=True, kw_only=True):
    source: str  #: Empty: all sources.
    days: tuple[Day, ...]  #: Every day of the period, including days without activity.
    sessions: int  #: Without subagents, unless they are requested.
    subagents: int
    messages: int
    tool_calls: int
    model_calls: int
    usage: Usage
    cost_usd: float
    unpriced_calls: int  #: Calls without a known price; their cost is not in `cost_usd`.
    average_seconds: float  #: From the first to the last message of a session.
    average_messages: float
    by_model: tuple[ModelFigures, ...]
    by_source: tuple[SourceFigures, ...]
    by_tool: tuple[ToolSum, ...]
    by_hour: tuple[tuple[int, ...], ...]  #: Messages per hour, for each weekday from Monday on.
    end_reasons: dict[str, int]
    busiest: tuple[Day, ...]
    streak: int  #: Consecutive days until today, or until yesterday if there is no activity today.
    longest_streak: int

    @property
    def is_empty(self) -> bool:
        return not self.messages and not self.model_calls

    @property
    def cache_hit_rate(self) -> float:
        """The share of input tokens that came from a cache."""
        return self.usage.cache_read / self.usage.prompt if self.usage.prompt else 0.0

    @property
    def active_days(self) -> int:
        return sum(day.messages > 0 for day in self.days)

    def hours(self) -> list[int]:
        return [sum(hours[hour] for hours in self.by_hour) for hour in range(HOURS)]


async def insights_of(
    store: SessionStore, days: int, now: datetime, source: str = "", zone: tzinfo | None = None
) -> Insights:
    """Return the figures of the last `days` days including today. Raises `UsageError`."""
    if not 1 <= days <= MOST_DAYS:
        raise UsageError(f"days must be 1 to {MOST_DAYS}, not {days}")
    today = now.astimezone(zone).date()
    first = today - timedelta(days=days - 1)
    since = datetime.combine(first, time(), zone).astimezone(zone).timestamp()
    found = await store.activity(since=since, sources=(source,) if source else ())
    return _insights(found, [first + timedelta(days=n) for n in range(days)], source, zone)


def _insights(found: Activity, dates: list[date], source: str, zone: tzinfo | None) -> Insights:
    counted = [each for each in found.sessions if source or each.source != SUBAGENT]
    days = _days(found.quarter_hours, dates, zone)
    count = len(counted) or 1
    streaks = _streaks(days)
    going = streaks[-1] or (streaks[-2] if len(streaks) > 1 else 0)
    return Insights(
        source=source,
        days=tuple(days),
        sessions=len(counted),
        subagents=len(found.sessions) - len(counted),
        messages=sum(each.messages for each in found.sessions),
        tool_calls=sum(each.calls for each in found.tools),
        model_calls=sum(each.calls for each in found.calls),
        usage=_usage(found.calls),
        cost_usd=sum(each.cost_usd for each in found.calls),
        unpriced_calls=sum(each.unpriced_calls for each in found.calls),
        average_seconds=sum(each.last - each.first for each in counted) / count,
        average_messages=sum(each.messages for each in counted) / count,
        by_model=tuple(_by_model(found.calls)),
        by_source=tuple(_by_source(found)),
        by_tool=found.tools,
        by_hour=_by_hour(found.quarter_hours, zone),
        end_reasons=dict(Counter(each.end_reason for each in counted if each.end_reason)
                         .most_common()),
        busiest=tuple(sorted((day for day in days if day.messages),
                             key=lambda day: (-day.messages, day.date))[:BUSIEST]),
        streak=going,
        longest_streak=max(streaks, default=0),
    )  # fmt: skip


def _days(moments: Iterable[QuarterHour], dates: list[date], zone: tzinfo | None) -> list[Day]:
    by_date: dict[date, list[QuarterHour]] = {}
    for moment in moments:
        by_date.setdefault(_local(moment, zone).date(), []).append(moment)
    return [
        Day(
            each,
            sum(moment.messages for moment in by_date.get(each, ())),
            sum(moment.tokens for moment in by_date.get(each, ())),
            sum(moment.cost_usd for moment in by_date.get(each, ())),
        )
        for each in dates
    ]


def _by_hour(moments: Iterable[QuarterHour], zone: tzinfo | None) -> tuple[tuple[int, ...], ...]:
    table = [[0] * HOURS for _ in range(WEEKDAYS)]
    for moment in moments:
        when = _local(moment, zone)
        table[when.weekday()][when.hour] += moment.messages
    return tuple(tuple(row) for row in table)


def _local(moment: QuarterHour, zone: tzinfo | None) -> datetime:
    return datetime.fromtimestamp(moment.start).astimezone(zone)


def _by_model(calls: Iterable[CallSum]) -> list[ModelFigures]:
    groups: dict[str, list[CallSum]] = {}
    for call in calls:
        groups.setdefault(call.model, []).append(call)
    figures = [
        ModelFigures(
            model,
            sum(each.calls for each in members),
            _usage(members),
            sum(each.cost_usd for each in members),
            sum(each.unpriced_calls for each in members),
        )
        for model, members in groups.items()
    ]
    return sorted(figures, key=lambda each: (-each.usage.total, each.model))


def _by_source(found: Activity) -> list[SourceFigures]:
    names = {each.source for each in found.sessions}
    figures = [
        SourceFigures(
            name,
            sum(each.source == name for each in found.sessions),
            sum(each.messages for each in found.sessions if each.source == name),
            sum(each.cost_usd for each in found.calls if each.source == name),
        )
        for name in names
    ]
    return sorted(figures, key=lambda each: (-each.messages, each.source))


def _usage(calls: Iterable[CallSum]) -> Usage:
    return sum((each.usage for each in calls), Usage())


def _streaks(days: list[Day]) -> list[int]:
    """Return, for each day, the number of consecutive active days until then."""
    streaks: list[int] = []
    for day in days:
        before = streaks[-1] if streaks else 0
        streaks.append(before + 1 if day.messages else 0)
    return streaks


# The figures as a few lines of Markdown, for `/insights`.

SHOWN = 5


async def insights_markdown(
    store: SessionStore,
    days: int = 30,
    zone: tzinfo | None = None,
    *,
    now: datetime | None = None,
) -> str:
    """Return a text short enough for a chat. `zone` defaults to that of the machine.

    Raises `UsageError` for an invalid number of days.
    """
    found = await insights_of(store, days, now or datetime.now(UTC), zone=zone)
    period = "Today" if days == 1 else f"The last {days} days"
    if found.is_empty:
        return f"{period}: no messages."
    subagents = f" and {many(found.subagents, 'subagent')}" if found.subagents else ""
    length = human_duration(found.average_seconds)
    facts = {
        "Sessions": f"{found.sessions:,}{subagents}, {length} long on average",
        "Messages": f"{found.messages:,}, tool calls {found.tool_calls:,}",
        "Tokens": f"{found.usage.prompt:,} in ({found.cache_hit_rate:.0%} cached),"
        f" {found.usage.output:,} out",
        "Cost": money(found),
        "Models": _few(f"`{each.model or '?'}` {each.usage.total:,}" for each in found.by_model),
        "Tools": _few(f"`{each.name or '?'}` {each.calls:,}" for each in found.by_tool),
        "Sources": _few(f"{each.source} {each.sessions:,}" for each in found.by_source),
        "Busiest": ", ".join(f"{day.date} ({day.messages:,})" for day in found.busiest),
        "Active": f"{found.active_days} of {many(len(found.days), 'day')},"
        f" {found.streak} in a row, {found.longest_streak} at most",
        "Ended": ", ".join(f"{reason} {count:,}" for reason, count in found.end_reasons.items()),
    }
    lines = (f"- {name}: {text}" for name, text in facts.items() if text)
    return "\n".join([f"**{period}**", "", *lines])


def money(found: Insights) -> str:
    if not found.unpriced_calls:
        return cost(found.cost_usd)
    return f"{cost(found.cost_usd)}, and {many(found.unpriced_calls, 'call')} of unknown price"


def _few(names: Iterable[str]) -> str:
    shown = list(names)
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return ", ".join(shown[:SHOWN]) + more
