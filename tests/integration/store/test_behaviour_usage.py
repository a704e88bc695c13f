"""What model calls used and cost, by session and kind; and numbers about the whole store."""

import pytest

from hermes.core.messages import Assistant, ToolCall
from hermes.core.model import ModelCall, Usage
from tests.integration.store.conftest import start

TOKENS = Usage(input=10, output=5, cache_read=3, cache_write=2, reasoning=1)


async def test_calls_add_up_by_task_model_and_tool(store):
    await start(store)
    await store.record_call("s", ModelCall(TOKENS, "big", "p", 0.5))
    await store.record_call("s", ModelCall(TOKENS, "big", "p", 0.25, seconds=2.0))
    await store.record_call("s", ModelCall(TOKENS, "small", "p", 0.01, task="title"))
    await store.record_call("s", ModelCall(TOKENS, "eye", "q", None, task="vision", tool="look"))
    main, title, vision = await store.usage("s")
    assert (main.task, main.model, main.provider, main.tool) == ("main", "big", "p", "")
    assert (main.calls, main.usage, main.cost_usd) == (2, TOKENS + TOKENS, 0.75)
    assert (title.task, title.calls, title.unpriced_calls) == ("title", 1, 0)
    assert (vision.tool, vision.cost_usd, vision.unpriced_calls) == ("look", 0, 1)
    assert not any(line.is_subagent for line in (main, title, vision))
    info = await store.info("s")
    assert info.usage == Usage(40, 20, 12, 8, 4)
    assert info.cost_usd == pytest.approx(0.76)


async def test_a_session_without_a_known_price_has_no_cost(store):
    await start(store)
    assert (await store.info("s")).cost_usd is None
    await store.record_call("s", ModelCall(TOKENS, "m", "p", None))
    assert (await store.info("s")).cost_usd is None
    assert await store.usage("s") != ()


async def test_usage_counts_what_a_session_caused(store):
    """Subagents and what went on after a compaction belong to it; a branch does not."""
    await start(store, "s", "a", "b")
    await store.record_call("s", ModelCall(TOKENS, "m", "p", 1.0))
    await start(store, "worker", parent_id="s")
    await store.record_call("worker", ModelCall(TOKENS, "m", "p", 2.0))
    await store.compact("s", "next", await store.log("s"))
    await store.record_call("next", ModelCall(TOKENS, "m", "p", 4.0))
    await start(store, "later worker", parent_id="next")
    await store.record_call("later worker", ModelCall(TOKENS, "m", "p", 8.0))
    await store.branch("next", "branch")
    await store.record_call("branch", ModelCall(TOKENS, "m", "p", 16.0))

    def costs(lines):
        return {line.is_subagent: line.cost_usd for line in lines}

    assert costs(await store.usage("s")) == {False: 5.0, True: 10.0}
    assert costs(await store.usage("branch")) == {False: 16.0}
    assert costs(await store.usage()) == {False: 21.0, True: 10.0}
    await store.rewrite("worker", await store.log("worker"))  # shortened: still a subagent
    assert costs(await store.usage()) == {False: 21.0, True: 10.0}
    spent = [await store.spent_usd(who) for who in ("s", "branch", "", "nobody")]
    assert spent == [15.0, 16.0, 31.0, 0.0]


async def test_a_call_without_a_session_counts_to_the_whole(store):
    await start(store)
    await store.record_call("", ModelCall(TOKENS, "m", "p", 0.5, task="session_search"))
    assert [line.task for line in await store.usage()] == ["session_search"]
    assert (await store.spent_usd(), await store.spent_usd("s")) == (0.5, 0.0)


async def test_usage_since_a_moment(store):
    await start(store)
    await store.record_call("s", ModelCall(TOKENS, "m", "p", 1.0))
    await start(store, "t", "x")
    moment = (await store.log("t"))[0].timestamp
    await store.record_call("s", ModelCall(TOKENS, "m", "p", 2.0))
    (line,) = await store.usage("s", since=moment)
    assert await store.spent_usd(since=moment) == line.cost_usd
    assert (line.calls, line.cost_usd) == (1, 2.0)
    (line,) = await store.usage(since=moment)
    assert line.cost_usd == 2.0
    assert await store.usage("t") == ()


async def test_usage_is_retained_when_a_session_is_deleted(store):
    await start(store)
    await store.record_call("s", ModelCall(TOKENS, "m", "p", 1.0))
    await store.delete("s")
    (line,) = await store.usage()
    assert line.cost_usd == 1.0


async def test_numbers_about_the_store(store):
    empty = await store.stats()
    assert (empty.sessions, empty.messages, empty.oldest, empty.newest) == (0, 0, None, None)
    await start(store, "a", "one", "two", source="cli")
    await start(store, "b", "three", source="telegram")
    await start(store, "c", source="cli")
    await store.append("b", Assistant((ToolCall("x", "t", "{}"),)))
    await store.set_archived("c", True)
    await store.record_call("a", ModelCall(TOKENS, "m", "p", 1.5))
    stats = await store.stats()
    assert (stats.sessions, stats.archived, stats.messages, stats.tool_calls) == (3, 1, 4, 1)
    assert (stats.usage, stats.cost_usd) == (TOKENS, 1.5)
    assert list(stats.by_source.items()) == [("cli", 2), ("telegram", 1)]
    assert stats.by_role == {"user": 2, "assistant": 2}
    assert stats.oldest == (await store.info("a")).started_at
    assert stats.newest == (await store.info("c")).started_at
    assert stats.sizes.total > stats.sizes.search > 0
    assert stats.where
