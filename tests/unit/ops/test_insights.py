"""Figures from a store in which every message has its time."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from hermes.core.errors import UsageError
from hermes.core.messages import ToolResult, User
from hermes.core.model import ModelCall, Usage
from hermes.ops.insights import insights_markdown, insights_of
from hermes.store.session_store import SessionStore, open_engine

NOW = datetime(2026, 3, 20, 12, 0, tzinfo=UTC)
"""A Friday."""


class Diary:
    """A store whose clock is set by hand."""

    def __init__(self, path) -> None:
        self.at = NOW
        self.store = SessionStore(open_engine("", path), now=lambda: self.at.timestamp())
        self._count = 0

    async def talk(self, when, *, source="cli", messages=2, minutes=10, reason="completed"):
        self._count += 1
        name, self.at = f"s{self._count}", when
        await self.store.create(name, source=source, model="big", system_prompt="")
        for number in range(messages):
            self.at = when + timedelta(minutes=minutes) * number / max(1, messages - 1)
            await self.store.append(name, User.say("hi"))
        await self.store.finish(name, reason)
        return name


@pytest.fixture
def diary(tmp_path):
    made = Diary(tmp_path / "state.db")
    yield made
    made.store.close()


async def test_sessions_messages_and_their_length(diary):
    await diary.talk(NOW - timedelta(days=1), messages=3, minutes=10)
    await diary.talk(NOW - timedelta(days=2), messages=5, minutes=20, reason="interrupted")
    await diary.talk(NOW - timedelta(days=2), source="subagent", messages=4)
    found = await insights_of(diary.store, 7, NOW, zone=UTC)
    assert (found.sessions, found.subagents, found.messages) == (2, 1, 12)
    assert (found.average_seconds, found.average_messages) == (900, 4)
    assert found.end_reasons == {"completed": 1, "interrupted": 1}
    assert [(each.source, each.sessions) for each in found.by_source] == [
        ("cli", 2),
        ("subagent", 1),
    ]


async def test_days_streaks_and_the_busiest(diary):
    for ago, count in ((1, 2), (2, 6), (3, 4), (5, 1), (6, 1), (7, 1), (8, 1)):
        await diary.talk(NOW - timedelta(days=ago), messages=count)
    found = await insights_of(diary.store, 10, NOW, zone=UTC)
    assert len(found.days) == 10
    assert (found.active_days, found.streak, found.longest_streak) == (7, 3, 4)
    assert [day.messages for day in found.busiest] == [6, 4, 2]
    assert str(found.busiest[0].date) == "2026-03-18"
    week = await insights_of(diary.store, 2, NOW, zone=UTC)
    assert week.messages == 2


async def test_hours_and_days_are_those_of_the_user(diary):
    await diary.talk(datetime(2026, 3, 19, 20, 20, tzinfo=UTC), messages=1)
    here = await insights_of(diary.store, 7, NOW, zone=UTC)
    there = await insights_of(diary.store, 7, NOW, zone=ZoneInfo("Asia/Kathmandu"))  # +05:45
    assert here.by_hour[3][20] == 1
    assert there.by_hour[4][2] == 1
    assert there.by_hour[4][2] == sum(there.by_hour[4]) == 1
    assert [str(day.date) for day in there.days if day.messages] == ["2026-03-20"]


async def test_tokens_money_tools_and_the_cache(diary):
    name = await diary.talk(NOW)
    for tool in ("terminal", "terminal", "read_file"):
        await diary.store.append(name, ToolResult("1", tool, "x", failed=tool == "read_file"))
    used = Usage(input=100, output=50, cache_read=300)
    await diary.store.record_call(name, ModelCall(used, "big", "p", 0.25))
    await diary.store.record_call(name, ModelCall(used, "big", "p", None))
    await diary.store.record_call(name, ModelCall(used + used, "small", "p", 0.5))
    found = await insights_of(diary.store, 1, NOW, zone=UTC)
    assert (found.cost_usd, found.unpriced_calls, found.model_calls) == (0.75, 1, 3)
    assert found.usage.hits == 0.75
    assert [(each.model, each.usage.total) for each in found.by_model] == [
        ("big", 900),
        ("small", 900),
    ]
    assert [(each.name, each.calls) for each in found.by_tool] == [
        ("terminal", 2),
        ("read_file", 1),
    ]
    assert found.days[0].cost_usd == 0.75
    only = await insights_of(diary.store, 1, NOW, "telegram", UTC)
    assert only.is_empty


async def test_the_text_for_a_chat_is_short_and_complete(diary):
    assert await insights_markdown(diary.store, 7, UTC, now=NOW) == (
        "The last 7 days: no messages."
    )
    name = await diary.talk(NOW)
    used = Usage(input=100, output=50, cache_read=300)
    await diary.store.record_call(name, ModelCall(used, "big", "p", 0.25))
    text = await insights_markdown(diary.store, 7, UTC, now=NOW)
    assert text.startswith("**The last 7 days**\n\n- Sessions: 1, 10m long on average")
    assert "- Tokens: 400 in (75% cached), 50 out" in text
    assert "- Cost: $0.2500" in text
    assert len(text.splitlines()) < 15


async def test_cost_is_unknown_if_no_call_has_a_price(diary):
    name = await diary.talk(NOW)
    await diary.store.record_call(name, ModelCall(Usage(input=100), "own", "custom", None))
    text = await insights_markdown(diary.store, 7, UTC, now=NOW)
    assert "- Cost: price unknown\n" in text


async def test_a_time_that_makes_no_sense_is_refused(diary):
    for days in (0, -3, 10**9):
        with pytest.raises(UsageError):
            await insights_of(diary.store, days, NOW)
