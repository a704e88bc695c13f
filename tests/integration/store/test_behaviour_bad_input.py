"""Input no database likes: cleaned as documented or kept, never a broken session."""

import asyncio

import pytest

from hermes.core.messages import Assistant, Text, ToolCall, ToolResult, User
from hermes.store.records import SearchRequest
from hermes.store.rows import repair_history
from tests.integration.store.conftest import logged, reply, say, start, texts

BROKEN_CALLS = (
    '[{"id": "c", "function": {"name"',
    '{"id": "c"}',
    "null",
    "7",
    '[1, null, {"no": "function"}]',
    '[{"id": "c", "function": "read_file"}]',
    "\x01",
)


async def test_nul_and_lone_surrogates_are_dropped(store):
    dirty, cleaned = "a\x00b\ud83dc\udfff😀", "abc😀"
    await store.create("s", source="cli", model="m", system_prompt=dirty)
    await store.append("s", User.say(dirty))
    await store.append("s", Assistant((Text(dirty), ToolCall("c", "t", f'{{"x": "{dirty}"}}'))))
    await store.append("s", ToolResult("c", "t", dirty))
    assert await texts(store) == [cleaned] * 3
    (_, assistant, _) = await store.messages("s")
    assert isinstance(assistant, Assistant)
    assert assistant.calls[0].arguments == f'{{"x": "{cleaned}"}}'
    assert (await store.info("s")).system_prompt == cleaned


async def test_a_message_of_ten_megabytes(store):
    text = "0123456789 abcdefg 服务 " * 400_000 + "needle"
    assert len(text.encode()) > 10_000_000
    await start(store, "s", text, "ok")
    assert (await store.messages("s"))[0] == User.say(text)
    assert await texts(store) == [text, "ok"]
    (hit,) = await store.search(SearchRequest("needle"))
    assert ">>>needle<<<" in hit.snippet and len(hit.snippet) < 1000


@pytest.mark.parametrize("calls", BROKEN_CALLS)
async def test_malformed_tool_calls_of_an_old_row_break_nothing(store, place, calls):
    await start(store, "s", "before")
    place.change(
        "INSERT INTO messages (session_id, role, content, tool_calls, timestamp)"
        " VALUES ('s', 'assistant', 'with broken calls', ?, 1.0)",
        calls,
    )
    await say(store, "s", "after")
    assert await texts(store) == ["before", "with broken calls", "after"]
    assert repair_history(await store.messages("s")) == (
        User.say("before"),
        reply("with broken calls"),
        User.say("after"),
    )
    record = await store.export("s")
    await store.delete("s")
    await store.restore(record)
    assert await texts(store) == ["before", "with broken calls", "after"]


async def test_a_row_of_an_unknown_role_is_left_out(store, place):
    await start(store, "s", "before")
    place.change(
        "INSERT INTO messages (session_id, role, content, timestamp)"
        " VALUES ('s', 'session_meta', '{}', 1.0)"
    )
    assert await texts(store) == ["before"]


async def test_a_row_without_content(store, place):
    await start(store, "s")
    for role in ("user", "assistant", "tool"):
        place.change(
            "INSERT INTO messages (session_id, role, timestamp) VALUES ('s', ?, 1.0)", role
        )
    assert await texts(store) == ["", "", ""]
    assert (await store.info("s")).preview == ""
    record = await store.export("s")
    await store.delete("s")
    await store.restore(record)
    assert await texts(store) == ["", "", ""]


async def test_a_history_a_provider_would_refuse_is_repaired_and_the_log_untouched(store):
    await start(store, "s", "go")
    await store.append("s", Assistant((ToolCall("a", "t", "{}"), ToolCall("b", "t", "{}"))))
    await store.append("s", ToolResult("b", "t", "done"))
    await store.append("s", ToolResult("ghost", "t", "nobody asked"))
    fit = repair_history(await store.messages("s"))
    assert [m.call_id for m in fit if isinstance(m, ToolResult)] == ["a", "b"]
    assert len(await logged(store)) == 4


@pytest.mark.parametrize(
    "session", ["../../etc/passwd", "it's", 'a"b', "ünï", "a b", "%", "x" * 500, "服务器"]
)
async def test_any_id_names_a_session(store, session):
    await start(store, session, "hello")
    await start(store, "other", "else")
    assert await texts(store, session) == ["hello"]
    assert (await store.resolve(session)).id == session
    await store.branch(session, f"{session}-2")
    assert await texts(store, f"{session}-2") == ["hello"]


async def test_failing_write_does_not_affect_others(store):
    await start(store, "s")
    results = await asyncio.gather(
        *(store.append("s" if n % 2 else "missing", User.say(str(n))) for n in range(300)),
        return_exceptions=True,
    )
    assert [isinstance(result, int) for result in results] == [n % 2 == 1 for n in range(300)]
    assert await texts(store) == [str(n) for n in range(1, 300, 2)]
    assert (await store.info("s")).message_count == 150


async def test_a_caller_that_is_cancelled_leaves_the_store_in_order(store):
    await start(store, "s", "before")
    tasks = [asyncio.ensure_future(store.append("s", User.say(str(n)))) for n in range(50)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    kept = [str(n) for n, result in enumerate(done) if isinstance(result, int)]
    assert set(kept) >= {str(n) for n in range(1, 50, 2)}
    present = await texts(store)
    assert [text for text in present[1:] if text in kept] == kept
    await say(store, "s", "after")
    assert (await texts(store))[-1] == "after"
    assert (await store.info("s")).message_count == len(present) + 1
