"""What went on since a moment, by session, tool, model, source and time."""

from hermes.core.messages import ToolResult, User
from hermes.core.model import ModelCall, Usage
from hermes.store.records import Activity
from tests.integration.store.conftest import start

TOKENS = Usage(input=10, output=5, cache_read=3, cache_write=2, reasoning=1)


async def test_an_empty_store_has_nothing_to_tell(store):
    assert await store.activity(since=0) == Activity()


async def test_messages_tools_and_calls_are_counted(store):
    await start(store, "s", "hello", "hi")
    await store.append("s", ToolResult("1", "look", "x", failed=True))
    await store.append("s", ToolResult("2", "look", "x"))
    await store.append("s", ToolResult("3", "read", "x"))
    await store.record_call("s", ModelCall(TOKENS, "big", "p", 0.5))
    await store.record_call("s", ModelCall(TOKENS, "big", "p", None))
    await store.finish("s", "completed")
    found = await store.activity(since=0)
    (session,) = found.sessions
    assert (session.source, session.messages, session.end_reason) == ("cli", 5, "completed")
    assert session.first <= session.last
    assert [(t.name, t.calls, t.failed) for t in found.tools] == [("look", 2, 1), ("read", 1, 0)]
    (calls,) = found.calls
    assert (calls.model, calls.task, calls.source, calls.calls) == ("big", "main", "cli", 2)
    assert (calls.usage, calls.cost_usd, calls.unpriced_calls) == (TOKENS + TOKENS, 0.5, 1)
    assert sum(moment.messages for moment in found.quarter_hours) == 5
    assert sum(moment.tokens for moment in found.quarter_hours) == 2 * TOKENS.total
    assert all(moment.start % 900 == 0 for moment in found.quarter_hours)


async def test_only_what_came_since_and_only_of_the_sources_asked_for(store, place):
    await start(store, "old", "hello", source="cli")
    await start(store, "chat", "hello", source="telegram")
    await store.append("chat", ToolResult("1", "look", "x"))
    await store.record_call("old", ModelCall(TOKENS, "big", "p", 0.5))
    await store.record_call("chat", ModelCall(TOKENS, "small", "p", 0.1))
    store.close()
    place.change("UPDATE messages SET timestamp = 1000 WHERE session_id = ?", "old")
    again = place.open()
    recent = await again.activity(since=2000)
    chat = await again.activity(since=0, sources=("telegram",))
    none = await again.activity(since=0, sources=("discord",))
    again.close()
    assert [each.source for each in recent.sessions] == ["telegram"]
    assert {each.model for each in recent.calls} == {"big", "small"}
    assert [each.model for each in chat.calls] == ["small"]
    assert sum(moment.messages for moment in chat.quarter_hours) == 2
    assert none == Activity()


async def test_cost_of_a_deleted_session_is_retained_without_a_source(store):
    await start(store, "s", "hello")
    await store.record_call("s", ModelCall(TOKENS, "big", "p", 0.5))
    await store.append("s", User.say("more"))
    await store.delete("s")
    found = await store.activity(since=0)
    assert found.sessions == ()
    assert [(each.source, each.cost_usd) for each in found.calls] == [("", 0.5)]
