"""Branches, compactions and undone turns: the conversation changes, the log only grows."""

import pytest

from hermes.core.errors import StoreError, UsageError
from hermes.core.messages import Assistant, ToolCall, ToolResult, User
from tests.integration.store.conftest import logged, reply, say, start, texts


async def ids(infos) -> list[str]:
    return [info.id for info in await infos]


async def test_the_line_of_a_session_up_and_down(store):
    await start(store, "a")
    await start(store, "b", parent_id="a")
    await start(store, "c", parent_id="b")
    await start(store, "d", parent_id="a")
    assert await ids(store.ancestors("c")) == ["b", "a"]
    assert await ids(store.ancestors("a")) == []
    assert await ids(store.descendants("a")) == ["b", "c", "d"]
    assert await ids(store.descendants("d")) == []


async def test_a_ring_of_parents_in_a_damaged_store_ends(store, place):
    await start(store, "a")
    await start(store, "b", parent_id="a")
    place.change("UPDATE sessions SET parent_session_id = 'b' WHERE id = 'a'")
    assert await ids(store.ancestors("a")) == ["b"]
    assert await ids(store.descendants("a")) == ["b"]


async def test_a_branch_starts_with_the_conversation_and_both_go_on_apart(store):
    await start(store, "s", "a", "b")
    await store.set_title("s", "plan")
    await store.branch("s", "t")
    await say(store, "s", "of s")
    await say(store, "t", "of t")
    assert await texts(store, "s") == ["a", "b", "of s"]
    assert await texts(store, "t") == ["a", "b", "of t"]
    assert await logged(store, "t") == ["of t"]
    info = await store.info("t")
    assert (info.parent_id, info.source, info.model) == ("s", "cli", "m")
    assert (info.system_prompt, info.title) == ("Be kind.", "plan #2")
    assert (await store.info("s")).title == "plan"


async def test_a_branch_from_an_earlier_message(store):
    numbers = await start(store, "s", "a", "b", "c", "d")
    await store.branch("s", "t", up_to=numbers[1])
    assert await texts(store, "t") == ["a", "b"]
    await store.branch("t", "u", up_to=numbers[0])
    await say(store, "u", "x")
    assert await texts(store, "u") == ["a", "x"]
    with pytest.raises(UsageError, match="no message"):
        await store.branch("t", "v", up_to=numbers[2])
    with pytest.raises(StoreError, match="already a session"):
        await store.branch("s", "t")
    with pytest.raises(StoreError, match="already a session"):
        await store.branch("s", "s")


async def test_compaction_continues_in_a_child_and_keeps_the_log(store):
    await start(store, "s", "a", "b", "c", "d")
    await store.set_title("s", "plan")
    log = await store.log("s")
    await store.compact("s", "t", [log[0], User.say("summary"), reply("I see."), *log[2:]])
    await say(store, "t", "e")
    assert await texts(store, "t") == ["a", "summary", "I see.", "c", "d", "e"]
    assert await logged(store, "s") == ["a", "b", "c", "d"]
    assert await texts(store, "s") == ["a", "b", "c", "d"]
    old, new = await store.info("s"), await store.info("t")
    assert (old.end_reason, new.parent_id, new.ended_at) == ("compression", "s", None)
    assert (old.title, new.title) == ("plan", "plan #2")
    assert (await store.resolve("plan")).id == "t"


async def test_a_kept_message_after_an_undone_one_does_not_bring_it_back(store):
    """Spans must not swallow what lies between them."""
    await start(store, "s", "a", "b", "c", "d", "e", "f")
    await store.undo("s")
    await say(store, "s", "g", "h", "i", "j", "k", "l")
    assert await texts(store) == ["a", "b", "c", "d", "g", "h", "i", "j", "k", "l"]
    entries = {entry.message.text: entry for entry in await store.log("s")}
    await store.compact("s", "t", [entries["d"], entries["k"]])
    assert await texts(store, "t") == ["d", "k"]
    await store.compact("t", "u", [entries["d"], entries["k"]])
    assert await texts(store, "u") == ["d", "k"]


async def test_a_compaction_may_reorder_and_repeat(store):
    await start(store, "s", "a", "b", "c")
    a, b, c = await store.log("s")
    await store.compact("s", "t", [c, a, b, b])
    assert await texts(store, "t") == ["c", "a", "b", "b"]


async def test_undo_takes_the_last_turn_out_of_the_conversation(store):
    await start(store, "s", "a", "b")
    await store.append("s", User.say("read it"))
    await store.append("s", Assistant((ToolCall("c", "read_file", "{}"),), "tool_calls"))
    await store.append("s", ToolResult("c", "read_file", "content"))
    await store.append("s", reply("it says so"))
    assert await store.undo("s") == "read it"
    assert await texts(store) == ["a", "b"]
    assert len(await store.log("s")) == 6
    await say(store, "s", "instead", "ok")
    assert await texts(store) == ["a", "b", "instead", "ok"]


async def test_undo_of_several_turns_and_again_and_of_nothing(store):
    await start(store, "s", "1", "r1", "2", "r2", "3", "r3", "4", "r4")
    assert await store.undo("s", 2) == "3"
    assert await store.undo("s") == "2"
    assert await texts(store) == ["1", "r1"]
    assert await store.undo("s", 9) == "1"
    assert await texts(store) == []
    assert await store.undo("s") == ""
    await say(store, "s", "new")
    assert await texts(store) == ["new"]
    with pytest.raises(UsageError, match="at least 1"):
        await store.undo("s", 0)


async def test_undo_reaches_back_over_a_compaction_and_a_branch(store):
    await start(store, "s", "1", "r1", "2", "r2")
    log = await store.log("s")
    await store.compact("s", "t", [reply("summary"), *log[2:]])
    await say(store, "t", "3", "r3")
    await store.branch("t", "u")
    assert await store.undo("u", 2) == "2"
    assert await texts(store, "u") == ["summary"]
    assert await texts(store, "t") == ["summary", "2", "r2", "3", "r3"]
    await say(store, "u", "other")
    assert await texts(store, "u") == ["summary", "other"]


async def test_children_stay_whole_when_a_session_is_deleted(store):
    await start(store, "a", "1", "r1")
    await store.branch("a", "b")
    await say(store, "b", "2", "r2")
    await store.branch("b", "c")
    await say(store, "c", "3")
    await store.undo("c")
    await store.delete("b")
    assert await ids(store.ancestors("c")) == ["a"]
    assert await texts(store, "c") == ["1", "r1", "2", "r2"]
    await store.delete("a")
    assert await ids(store.ancestors("c")) == []
    assert await texts(store, "c") == ["1", "r1", "2", "r2"]
    await say(store, "c", "still here")
    assert await texts(store, "c") == ["1", "r1", "2", "r2", "still here"]
