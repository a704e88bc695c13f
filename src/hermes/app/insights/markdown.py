"""The figures in a few lines of Markdown, for `/insights` in a terminal or a chat."""

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo

from hermes.app.insights.figures import Insights, insights_of
from hermes.app.transcripts.wording import cost
from hermes.store.session_store import SessionStore
from hermes.util.text import human_duration, many

SHOWN = 5


async def insights_markdown(
    store: SessionStore,
    days: int = 30,
    zone: tzinfo | None = None,
    *,
    now: datetime | None = None,
) -> str:
    """Short enough for a chat. `zone` is the user's; without it the machine's. Raises
    `UsageError` for a number of days that makes no sense."""
    found = await insights_of(store, days, now or datetime.now(UTC), zone=zone)
    period = "Today" if days == 1 else f"The last {days} days"
    if found.is_empty:
        return f"{period}: nothing was said."
    return "\n".join([f"**{period}**", "", *_lines(found)])


def _lines(found: Insights) -> list[str]:
    parts = {
        "Sessions": _sessions(found),
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
    return [f"- {name}: {text}" for name, text in parts.items() if text]


def _sessions(found: Insights) -> str:
    text = f"{found.sessions:,}"
    if found.subagents:
        text += f" and {many(found.subagents, 'subagent')}"
    return f"{text}, {human_duration(found.average_seconds)} long on average"


def money(found: Insights) -> str:
    if not found.unpriced_calls:
        return cost(found.cost_usd)
    return f"{cost(found.cost_usd)}, and {many(found.unpriced_calls, 'call')} of unknown price"


def _few(names: Iterable[str]) -> str:
    shown = list(names)
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return ", ".join(shown[:SHOWN]) + more
