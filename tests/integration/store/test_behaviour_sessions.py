"""Sessions: made, filled, described, named, found again."""

import pytest

from hermes.core.errors import SessionNotFound, StoreError, UsageError
from hermes.core.messages import (
    Assistant,
    Image,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from hermes.core.model import ModelCall, Usage
from hermes.store.records import SessionFilter
from tests.integration.store.conftest import logged, say, start, texts

EVERY_KIND = (
    System("rules"),
    User.say("hello"),
    User((Text("look"), Image("https://example.org/cat.png"))),
    Assistant(
        (
            Thinking("hm", ({"type": "signed", "data": "x"},), ({"id": "i"},)),
            Text("I will."),
            ToolCall("c1", "read_file", '{"path": "a"}', {"signature": "s"}),
            ToolCall("c2", "terminal", "not json"),
        ),
        "tool_calls",
    ),
    ToolResult("c1", "read_file", "content"),
    ToolResult("c2", "terminal", "it broke", failed=True),
    Assistant((Text("Done."),), "length"),
)
WITHOUT_ARGUMENTS = (
    "messages", "log", "info", "reopen", "ancestors", "descendants", "undo", "usage", "export",
    "delete", "resolve",
)  # fmt: skip
NAMING_METHODS = {
    **dict.fromkeys(WITHOUT_ARGUMENTS, ()),
    "append": (User.say("x"),),
    "finish": ("done",),
    "branch": ("new",),
    "compact": ("new", ()),
    "set_title": ("title",),
    "set_archived": (True,),
    "record_call": (ModelCall(Usage(), cost_usd=None),),
}


async def test_every_kind_of_message_comes_back_as_it_was(store, place):
    await start(store)
    for message in EVERY_KIND:
        await store.append("s", message)
    assert await store.messages("s") == EVERY_KIND
    other = place.open()
    assert await other.messages("s") == EVERY_KIND
    other.close()


async def test_numbers_rise_and_the_log_names_them(store):
    numbers = await start(store, "s", "a", "b", "c")
    assert numbers == sorted(set(numbers))
    log = await store.log("s")
    assert [entry.id for entry in log] == numbers
    times = [entry.timestamp for entry in log]
    assert times == sorted(times)
    assert times[0] >= (await store.info("s")).started_at


async def test_a_description_of_a_session(store):
    await start(store, "s", "  what   is\nthis " + "x" * 80, "an answer", user_id="u")
    await store.append("s", Assistant((ToolCall("c", "t", "{}"), ToolCall("d", "t", "{}"))))
    info = await store.info("s")
    assert (info.id, info.source, info.model, info.system_prompt) == ("s", "cli", "m", "Be kind.")
    assert (info.message_count, info.tool_call_count) == (3, 2)
    assert (info.title, info.parent_id, info.user_id) == ("", "", "u")
    assert (info.ended_at, info.end_reason, info.archived_at) == (None, "", None)
    assert info.preview == ("what is this " + "x" * 80)[:63]
    assert info.last_active == (await store.log("s"))[-1].timestamp


async def test_a_session_without_messages(store):
    await start(store)
    info = await store.info("s")
    assert (info.preview, info.message_count, info.last_active) == ("", 0, info.started_at)
    assert await store.messages("s") == ()
    assert await store.log("s") == ()


async def test_an_existing_session_is_not_made_again(store):
    await start(store, "s", "kept")
    with pytest.raises(StoreError, match="already a session s"):
        await start(store, "s")
    assert await texts(store) == ["kept"]


async def test_a_child_of_an_unknown_session_is_refused(store):
    with pytest.raises(SessionNotFound, match="no session nobody"):
        await start(store, "child", parent_id="nobody")
    assert await store.sessions(SessionFilter()) == ()


async def test_an_unknown_session_is_a_clear_error(store):
    await start(store, "s", "hello")
    for method, arguments in NAMING_METHODS.items():
        with pytest.raises(SessionNotFound, match="no session missing") as raised:
            await getattr(store, method)("missing", *arguments)
        assert raised.value.hint, method
    assert [info.id for info in await store.sessions(SessionFilter())] == ["s"]


async def test_a_finished_session_says_why_and_can_be_opened_again(store):
    await start(store, "s", "hello")
    await store.finish("s", "user_exit")
    ended = await store.info("s")
    assert ended.end_reason == "user_exit"
    assert ended.ended_at is not None and ended.ended_at >= ended.started_at
    await store.reopen("s")
    assert ((await store.info("s")).ended_at, (await store.info("s")).end_reason) == (None, "")
    await store.finish("s", "user_exit")
    await say(store, "s", "one more thing")
    assert (await store.info("s")).ended_at is None


async def test_the_latest_session_is_the_most_recently_active(store):
    assert await store.latest() is None
    await start(store, "old", "a", source="cli")
    await start(store, "new", "b", source="telegram")
    await start(store, "silent", source="cron")
    await say(store, "old", "again")
    latest = await store.latest()
    assert latest is not None and latest.id == "old"
    latest = await store.latest("telegram")
    assert latest is not None and latest.id == "new"
    assert await store.latest("signal") is None


async def test_sessions_are_listed_newest_first_and_by_filter(store):
    for number, source in enumerate(("cli", "telegram", "cron", "cli")):
        await start(store, f"s{number}", source=source)
    await store.finish("s1", "done")
    await store.set_archived("s3", True)
    started = (await store.info("s2")).started_at

    async def ids(**which: object) -> list[str]:
        return [info.id for info in await store.sessions(SessionFilter(**which))]

    assert await ids() == ["s2", "s1", "s0"]
    assert await ids(archived=True) == ["s3"]
    assert await ids(archived=None) == ["s3", "s2", "s1", "s0"]
    assert await ids(archived=None, sources=("cli", "cron")) == ["s3", "s2", "s0"]
    assert await ids(exclude_sources=("cli",)) == ["s2", "s1"]
    assert await ids(ended_only=True) == ["s1"]
    assert await ids(started_before=started) == ["s1", "s0"]
    assert await ids(limit=1, offset=1) == ["s1"]
    with pytest.raises(UsageError, match="limit"):
        await ids(limit=0)


async def test_a_session_is_found_by_id_by_the_start_of_one_and_by_title(store):
    for session in ("20260101_aaa", "20260101_bbb", "20270101_ccc"):
        await start(store, session)
    await store.set_title("20260101_bbb", "plan")
    await store.set_title("20270101_ccc", "plan #2")
    assert (await store.resolve("20260101_aaa")).id == "20260101_aaa"
    assert (await store.resolve("2027")).id == "20270101_ccc"
    assert (await store.resolve("plan")).id == "20270101_ccc"
    assert (await store.resolve("plan #2")).id == "20270101_ccc"
    with pytest.raises(UsageError, match="20260101_bbb") as raised:
        await store.resolve("2026")
    assert raised.value.hint
    for unknown in ("2028", "%", "_", "plan #3"):
        with pytest.raises(SessionNotFound):
            await store.resolve(unknown)
    with pytest.raises(UsageError):
        await store.resolve(" ")


async def test_titles_are_cleaned_unique_and_short(store):
    await start(store, "s")
    await start(store, "t")
    assert await store.set_title("s", " a\tplan\n\x07 of \u202emine\u200b ") == "a plan of mine"
    assert (await store.info("s")).title == "a plan of mine"
    assert await store.set_title("s", "a plan of mine") == "a plan of mine", "its own is free"
    with pytest.raises(UsageError, match="already that of session s") as raised:
        await store.set_title("t", "a plan of mine")
    assert "a plan of mine #2" in raised.value.hint
    with pytest.raises(UsageError, match="101 characters"):
        await store.set_title("t", "x" * 101)
    with pytest.raises(UsageError, match="no visible character"):
        await store.set_title("t", "\x00\u200b")
    assert await store.set_title("t", "x" * 100) == "x" * 100
    assert await store.set_title("s", "  ") == ""
    assert (await store.info("s")).title == ""
    assert await store.set_title("t", "a plan of mine") == "a plan of mine", "it was given up"


async def test_the_next_title_of_a_line(store):
    assert await store.next_title("plan") == "plan #2"
    for number, title in enumerate(("plan", "plan #2", "plan #7", "plan #x", "plan B #9")):
        await start(store, f"s{number}")
        await store.set_title(f"s{number}", title)
    assert await store.next_title("plan") == "plan #8"
    assert await store.next_title("plan #2") == "plan #8"
    assert await store.next_title("100%_") == "100%_ #2"
    long = await store.next_title("y" * 100)
    assert len(long) <= 100 and long.endswith(" #2")


async def test_logged_text_stays_when_the_conversation_is_cut(store):
    await start(store, "s", "a", "b")
    await store.undo("s")
    assert await texts(store) == []
    assert await logged(store) == ["a", "b"]


async def test_a_closed_store_says_so(place):
    store = place.open()
    await start(store, "s")
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.append("s", User.say("x"))
    with pytest.raises(StoreError, match="closed"):
        await store.messages("s")
