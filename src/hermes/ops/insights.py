"""Usage figures from the session store."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta, tzinfo

import msgspec

from hermes.core.errors import UsageError
from hermes.core.model import Usage
from hermes.ops.transcripts import cost
from hermes.store import Activity, CallSum, SessionStore, ToolSum
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
    def active_days(self) -> int:
        return sum(day.messages > 0 for day in self.days)


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
    days, by_hour = {each: Day(each) for each in dates}, [[0] * HOURS for _ in range(WEEKDAYS)]
    for moment in found.quarter_hours:
        when = datetime.fromtimestamp(moment.start).astimezone(zone)
        by_hour[when.weekday()][when.hour] += moment.messages
        if day := days.get(when.date()):
            tokens, dollars = day.tokens + moment.tokens, day.cost_usd + moment.cost_usd
            days[day.date] = Day(day.date, day.messages + moment.messages, tokens, dollars)
    streaks = [0]  # for each day, the number of consecutive active days until then
    for day in days.values():
        streaks.append(streaks[-1] + 1 if day.messages else 0)
    active = sorted(
        (day for day in days.values() if day.messages), key=lambda day: (-day.messages, day.date)
    )
    return Insights(
        source=source,
        days=tuple(days.values()),
        sessions=len(counted),
        subagents=len(found.sessions) - len(counted),
        messages=sum(each.messages for each in found.sessions),
        tool_calls=sum(each.calls for each in found.tools),
        model_calls=sum(each.calls for each in found.calls),
        usage=sum((each.usage for each in found.calls), Usage()),
        cost_usd=sum(each.cost_usd for each in found.calls),
        unpriced_calls=sum(each.unpriced_calls for each in found.calls),
        average_seconds=sum(each.last - each.first for each in counted) / (len(counted) or 1),
        average_messages=sum(each.messages for each in counted) / (len(counted) or 1),
        by_model=tuple(_by_model(found.calls)),
        by_source=tuple(_by_source(found)),
        by_tool=found.tools,
        by_hour=tuple(tuple(row) for row in by_hour),
        end_reasons=dict(Counter(each.end_reason for each in counted if each.end_reason)
                         .most_common()),
        busiest=tuple(active[:BUSIEST]),
        streak=streaks[-1] or streaks[-2],
        longest_streak=max(streaks),
    )  # fmt: skip


def _by_model(calls: Iterable[CallSum]) -> list[ModelFigures]:
    figures: dict[str, ModelFigures] = {}
    for call in calls:
        so_far = figures.get(call.model) or ModelFigures(call.model, 0, Usage(), 0.0, 0)
        figures[call.model] = ModelFigures(
            call.model,
            so_far.calls + call.calls,
            so_far.usage + call.usage,
            so_far.cost_usd + call.cost_usd,
            so_far.unpriced_calls + call.unpriced_calls,
        )
    return sorted(figures.values(), key=lambda each: (-each.usage.total, each.model))


def _by_source(found: Activity) -> list[SourceFigures]:
    figures = [
        SourceFigures(
            name,
            sum(each.source == name for each in found.sessions),
            sum(each.messages for each in found.sessions if each.source == name),
            sum(each.cost_usd for each in found.calls if each.source == name),
        )
        for name in {each.source for each in found.sessions}
    ]
    return sorted(figures, key=lambda each: (-each.messages, each.source))


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
        "Tokens": f"{found.usage.prompt:,} in ({found.usage.hits:.0%} cached),"
        f" {found.usage.output:,} out",
        "Cost": money(found.cost_usd, found.model_calls, found.unpriced_calls),
        "Models": _few(f"`{each.model or '?'}` {each.usage.total:,}" for each in found.by_model),
        "Tools": _few(f"`{each.name or '?'}` {each.calls:,}" for each in found.by_tool),
        "Sources": _few(f"{each.source} {each.sessions:,}" for each in found.by_source),
        "Busiest": ", ".join(f"{day.date} ({day.messages:,})" for day in found.busiest),
        "Active": f"{found.active_days} of {many(len(found.days), 'day')},"
        f" current streak {found.streak}, longest {found.longest_streak}",
        "Ended": ", ".join(f"{reason} {count:,}" for reason, count in found.end_reasons.items()),
    }
    lines = (f"- {name}: {text}" for name, text in facts.items() if text)
    return "\n".join([f"**{period}**", "", *lines])


def money(dollars: float, calls: int, unpriced: int) -> str:
    """Return the cost of model calls. Calls without a known price are not counted as free."""
    if not unpriced:
        return cost(dollars)
    if unpriced == calls:
        return "price unknown"
    return f"{cost(dollars)}, and {many(unpriced, 'call')} of unknown price"


def _few(names: Iterable[str]) -> str:
    shown = list(names)
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return ", ".join(shown[:SHOWN]) + more
