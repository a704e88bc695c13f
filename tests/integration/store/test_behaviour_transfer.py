"""Out of the store, into another one; what is deleted, put aside, tidied up, copied."""

import json
import os
import time

import pytest

from hermes.core.errors import SessionNotFound, StoreError, UsageError
from hermes.core.messages import User
from hermes.core.model import ModelCall, Usage
from hermes.store.records import SearchRequest, SessionFilter
from tests.integration.store.conftest import logged, reply, say, start, texts
from tests.integration.store.test_behaviour_sessions import EVERY_KIND


async def full_session(store, session: str = "s") -> None:
    await start(store, session, user_id="u")
    for message in EVERY_KIND:
        await store.append(session, message)
    await store.set_title(session, "plan")
    await store.record_call(session, ModelCall(Usage(10, 5, 3, 2, 1), "m", "p", 0.5, "main"))
    await store.record_call(session, ModelCall(Usage(1), "n", "q", None, "vision", "look", 1.5))
    await store.finish(session, "user_exit")


def without_numbers(record):
    """A record as it looks in any store: message numbers and parents are a store's own."""
    messages = [{**message, "id": None} for message in record["messages"]]
    return {**record, "messages": messages, "projection": None}


async def test_an_exported_session_comes_back_equal(store):
    await full_session(store)
    record = json.loads(json.dumps(await store.export("s")))
    before = await store.info("s"), await store.messages("s"), await store.usage("s")
    await store.delete("s")
    assert await store.restore(record) == "s"
    assert (await store.info("s"), await store.messages("s"), await store.usage("s")) == before
    assert without_numbers(await store.export("s")) == without_numbers(record)
    log = await store.log("s")
    assert [entry.message for entry in log] == list(EVERY_KIND)
    assert [entry.timestamp for entry in log] == [said["timestamp"] for said in record["messages"]]
    (hit,) = await store.search(SearchRequest("hello"))
    assert hit.session_id == "s"


async def test_an_undone_session_comes_back_with_its_conversation_and_its_log(store):
    await start(store, "other", "x", "y", "z")
    await start(store, "s", "1", "r1", "2", "r2")
    await store.undo("s")
    await say(store, "other", "between")
    await say(store, "s", "3", "r3")
    record = json.loads(json.dumps(await store.export("s")))
    await store.delete("s")
    await store.restore(record)
    await say(store, "s", "4")
    assert await texts(store) == ["1", "r1", "3", "r3", "4"]
    assert await logged(store) == ["1", "r1", "2", "r2", "3", "r3", "4"]


async def test_an_exported_branch_needs_no_other_session(store):
    await start(store, "s", "1", "r1")
    await store.branch("s", "t")
    await say(store, "t", "2")
    record = json.loads(json.dumps(await store.export("t")))
    await store.delete("t")
    await store.delete("s")
    await store.restore(record)
    assert await texts(store, "t") == ["1", "r1", "2"]
    assert (await store.info("t")).parent_id == ""


async def test_an_exported_compaction_keeps_its_summary(store):
    await start(store, "s", "1", "r1", "2", "r2")
    log = await store.log("s")
    await store.compact("s", "t", [User.say("summary"), reply("ok"), *log[2:]])
    await say(store, "t", "3")
    record = json.loads(json.dumps(await store.export("t")))
    await store.delete("t")
    await store.restore(record)
    assert await texts(store, "t") == ["summary", "ok", "2", "r2", "3"]
    assert (await store.info("t")).parent_id == "s"


async def test_a_restored_session_meets_a_title_that_is_taken(store):
    await full_session(store)
    record = await store.export("s")
    await store.delete("s")
    await start(store, "t")
    await store.set_title("t", "plan")
    await store.restore(record)
    assert (await store.info("s")).title == "plan #2"


async def test_a_session_that_is_there_is_not_overwritten(store):
    await start(store, "s", "kept")
    record = await store.export("s")
    record["messages"] = []
    with pytest.raises(StoreError, match="already a session s"):
        await store.restore(record)
    assert await texts(store) == ["kept"]


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"id": 5},
        {"id": " "},
        {"id": "s", "messages": "none"},
        {"id": "s", "messages": [{"content": "no role"}]},
        {"id": "s", "messages": ["text"]},
        {"id": "s", "messages": [{"role": "user", "timestamp": "today"}]},
        {"id": "s", "started_at": "yesterday"},
        {"id": "s", "projection": {"basis": 1}},
        {"id": "s", "projection": {"after_id": 0, "basis": [["other", 1, 2]]}},
        {"id": "s", "model_calls": [{"task": "main"}]},
        {"id": "s", "model_calls": "many"},
        {
            "id": "s",
            "messages": [{"role": "user", "id": "x"}],
            "projection": {"after_id": 1, "basis": []},
        },
        {"id": "s", "messages": [{"role": "user", "content": {"a": 1}}], "projection": 7},
    ],
    ids=str,
)
async def test_data_that_is_not_a_session_is_refused_and_leaves_nothing(store, record):
    with pytest.raises((UsageError, StoreError)) as raised:
        await store.restore(record)
    assert "\n" not in str(raised.value)
    assert await store.sessions(SessionFilter(archived=None)) == ()
    assert (await store.stats()).messages == 0


async def test_data_of_the_described_system_is_taken(store):
    """Its exports know neither calls nor projections."""
    call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    record = {
        "id": "s",
        "source": "cli",
        "started_at": 1.0,
        "parent_session_id": "gone",
        "messages": [
            {"id": 7, "role": "user", "content": "hello", "timestamp": 2.0},
            {"id": 9, "role": "assistant", "content": None, "tool_calls": [call]},
            {"id": 12, "role": "tool", "content": "done", "tool_call_id": "c", "tool_name": "t"},
        ],
    }
    await store.restore(record)
    assert await texts(store) == ["hello", "", "done"]
    info = await store.info("s")
    assert (info.message_count, info.tool_call_count, info.parent_id) == (3, 1, "")


async def test_a_deleted_session_is_gone(store):
    await full_session(store)
    await store.delete("s")
    with pytest.raises(SessionNotFound):
        await store.messages("s")
    assert (await store.stats()).messages == 0


async def test_prune_takes_ended_sessions_that_are_not_archived(store):
    for session in ("open", "ended", "put aside", "of cron", "young"):
        await start(store, session, "hi", source="cron" if session == "of cron" else "cli")
    for session in ("ended", "put aside", "of cron", "young"):
        await store.finish(session, "done")
    await store.set_archived("put aside", True)
    before = (await store.info("young")).started_at
    old = SessionFilter(started_before=before, sources=("cli",))
    assert await store.prune(old) == ("ended",)
    everything = SessionFilter(started_before=time.time() + 60)
    assert await store.prune(everything) == ("of cron", "young")
    left = await store.sessions(SessionFilter(archived=None))
    assert {info.id for info in left} == {"open", "put aside"}


async def test_prune_does_not_stop_at_a_page(store):
    for number in range(30):
        await start(store, f"s{number}")
        await store.finish(f"s{number}", "done")
    assert len(await store.prune(SessionFilter(limit=20))) == 30


async def test_an_archived_session_is_out_of_sight_and_can_come_back(store):
    await start(store, "s", "needle")
    await store.set_archived("s", True)
    assert await store.sessions(SessionFilter()) == ()
    assert (await store.info("s")).archived_at is not None
    assert await texts(store) == ["needle"]
    await store.set_archived("s", False)
    assert [info.id for info in await store.sessions(SessionFilter())] == ["s"]


async def test_vacuum_gives_room_back_and_keeps_everything(store, place):
    await start(store, "s", "kept 服务器部署")
    await start(store, "t", *(os.urandom(25_000).hex() for _ in range(40)))
    await store.delete("t")
    before = (await store.stats()).sizes.total
    await store.vacuum()
    assert (await store.stats()).sizes.total < before
    assert await texts(store) == ["kept 服务器部署"]
    for query in ("kept", "服务器部署"):
        assert len(await store.search(SearchRequest(query))) == 1
