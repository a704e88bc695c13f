"""The page of `hermes insights`, line by line."""

from collections.abc import Iterable, Iterator, Sequence

from hermes.cli.commands.insights.charts import Bar, Charts
from hermes.cli.style import Style
from hermes.ops.insights import HOURS, Insights, money
from hermes.ops.transcripts import cost
from hermes.tui.text import cut, one_line, wrapped
from hermes.util.text import human_duration, many

MOST_ROWS = 8
"""Models, tools or sources that are shown."""
LABEL = 10
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def page(found: Insights, charts: Charts, style: Style) -> Iterator[str]:
    """At most `charts.columns` wide."""
    yield style.bold(cut(_title(found), charts.columns))
    if found.is_empty:
        yield "nothing was said in this time"
        return
    yield from _facts(found, charts.columns)
    yield from _section("Messages a day", style, _daily(found, charts))
    yield from _section("Models (tokens)", style, _models(found, charts))
    yield from _section("Sources (messages)", style, _sources(found, charts))
    yield from _section("Tools (calls)", style, _tools(found, charts))
    yield from _section("Messages by weekday, hour", style, _times(found, charts))


def _title(found: Insights) -> str:
    first, last = found.days[0].date, found.days[-1].date
    source = f", {one_line(found.source, 30)}" if found.source else ""
    return f"{first} to {last} ({many(len(found.days), 'day')}{source})"


def _facts(found: Insights, columns: int) -> Iterator[str]:
    usage = found.usage
    subagents = f", {many(found.subagents, 'subagent')}" if found.subagents else ""
    averages = f"{human_duration(found.average_seconds)}, {found.average_messages:.0f} messages"
    facts = {
        "sessions": f"{found.sessions:,}{subagents}",
        "average": averages if found.sessions else "",
        "messages": f"{found.messages:,}",
        "tool calls": f"{found.tool_calls:,}",
        "calls": f"{found.model_calls:,} of models",
        "tokens": f"{usage.prompt:,} in, {usage.cache_read:,} of them cached; {usage.output:,} out",
        "cache hits": f"{found.cache_hit_rate:.0%} of what was read" if usage.prompt else "",
        "cost": money(found),
        "active": f"{found.active_days} of {many(len(found.days), 'day')}",
        "streak": f"{many(found.streak, 'day')} now, {found.longest_streak} at most",
        "busiest": ", ".join(f"{day.date} ({day.messages:,})" for day in found.busiest),
        "ended": ", ".join(f"{one_line(why, 24)} {n:,}" for why, n in found.end_reasons.items()),
    }
    for name, text in facts.items():
        for number, line in enumerate(wrapped(text, columns - LABEL - 1) if text else ()):
            yield f"{'' if number else name:<{LABEL}} {line}"


def _section(title: str, style: Style, lines: Iterable[str]) -> Iterator[str]:
    shown = list(lines)
    if shown:
        yield ""
        yield style.bold(title)
        yield from shown


def _daily(found: Insights, charts: Charts) -> list[str]:
    if len(found.days) < 2:
        return []
    most = max(day.messages for day in found.days)
    lines = [f"  {charts.spark([day.messages for day in found.days])}"]
    spent = [day.cost_usd for day in found.days]
    lines += [f"  {charts.spark(spent)}"] if any(spent) else []
    words = f"above: messages, {most:,} at most"
    words += f"; below: cost, {cost(max(spent))} at most" if any(spent) else ""
    return [*lines, *(f"  {line}" for line in wrapped(words, charts.columns - 2))]


def _models(found: Insights, charts: Charts) -> list[str]:
    rows = [
        Bar(
            each.model or "?", each.usage.total, f"{_short(each.usage.total)} {cost(each.cost_usd)}"
        )
        for each in found.by_model
    ]
    return _bars(rows, charts)


def _sources(found: Insights, charts: Charts) -> list[str]:
    rows = [Bar(each.source, each.messages, f"{each.messages:,}") for each in found.by_source]
    return _bars(rows, charts)


def _tools(found: Insights, charts: Charts) -> list[str]:
    rows = [Bar(each.name or "?", each.calls, _calls(each.calls, each.failed))
            for each in found.by_tool]  # fmt: skip
    return _bars(rows, charts)


def _calls(calls: int, failed: int) -> str:
    return f"{calls:,} ({failed:,} failed)" if failed else f"{calls:,}"


def _bars(rows: Sequence[Bar], charts: Charts) -> list[str]:
    more = [f"  and {len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else []
    return [*charts.bars(rows[:MOST_ROWS]), *more]


def _times(found: Insights, charts: Charts) -> Iterator[str]:
    most = max(max(hours) for hours in found.by_hour)
    for day, hours in zip(WEEKDAYS, found.by_hour, strict=True):
        yield f"  {day} {charts.heat(hours, most)}".rstrip()
    yield f"      {''.join(f'{hour:<6}' for hour in range(0, HOURS, 6))}".rstrip()


def _short(count: int) -> str:
    """`1.2M` tokens."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)
