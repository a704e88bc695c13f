"""Messages on their way out: what goes wrong with one holds up no other."""

import asyncio
from typing import Any

import msgspec
import pytest

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import Stall, Step
from hermes.gateway import outbox, turn_view
from hermes.gateway.hooks import TurnEvents
from hermes.gateway.outbox import (
    REPEAT_MARK,
    OutgoingMeta,
    compose_items,
    decode_message,
    mark_repeated,
)
from hermes.gateway.runner import GatewayRunner
from hermes.gateway.turn_view import DisplayOptions
from hermes.sdk.platforms import (
    Capabilities,
    ChatTarget,
    DeliveryUnknown,
    NotConnected,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.store.records import OutboxItem

ANSWER = "one two three four five six seven eight nine ten"
HERE = (("local", ""),)
GROWS = Step((Text(ANSWER),), faults=(Stall(3, seconds=0.3),))
STREAMING: dict[str, Any] = {
    "streaming__enabled": True, "streaming__edit_interval": 0.01, "streaming__buffer_threshold": 3,
}  # fmt: skip


class Fickle:
    """An adapter that does something else at first. `faults` are raised, one by one."""

    def __init__(self, adapter: Any, name: str, *faults: Exception | None) -> None:
        self.faults, self._do = list(faults), getattr(adapter, name)
        self.calls = 0

    async def __call__(self, *given: Any) -> Any:
        self.calls += 1
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault
        return await self._do(*given)


@pytest.fixture
def fickle(monkeypatch):
    def make(runner: GatewayRunner, name: str, *faults: Exception | None) -> Fickle:
        adapter = runner.gateway.supervisors[0].adapter
        made = Fickle(adapter, name, *faults)
        monkeypatch.setattr(adapter, name, made)
        return made

    return make


async def in_doubt(runner: GatewayRunner, chat: str, *, by: str = "", now: float = 0.0) -> None:
    """A message whose sending process ended before it got the response."""
    while not runner.gateway.ready:
        await asyncio.sleep(0.01)
    can = runner.gateway.manifests["local"].capabilities
    made = compose_items("in doubt", OutgoingMeta(chat, ChatTarget("local", chat)), can)
    (row,) = await runner.gateway.store.outbox.enqueue(made, 4e9)
    await runner.gateway.store.outbox.mark_sending(row, by=by, now=now or runner.gateway.now())
    runner.gateway.outbox.wake()


async def test_failing_verification_does_not_block_sending(harness, fickle):
    runner = await harness.open()
    fickle(runner, "was_delivered", ValueError("a fault of the library"))
    await in_doubt(runner, "x")
    await harness.ask("hello", "hello")


async def test_a_connection_that_a_message_finds_broken_is_made_anew_at_once(harness):
    runner = await harness.open()
    await harness.ask("hello", "hello")
    await harness.platform.drop()
    await runner.gateway.outbox.send("local:anna", "news")
    await harness.wait_for("news")


async def test_damaged_uncertain_message_does_not_block_its_chat(harness):
    runner = await harness.open()
    damaged = OutboxItem("damaged", "local", "", b"{", '["local","","anna",""]', b"{}")
    await runner.gateway.store.outbox.enqueue_sending(damaged, "", by="", now=runner.gateway.now())
    await harness.close()
    await harness.open()
    await harness.ask("hello", "hello")
    await harness.wait_idle()


async def test_hanging_reaction_does_not_delay_answers(harness, monkeypatch):
    monkeypatch.setattr(turn_view, "REACTION_SECONDS", 0.05)
    on = DisplayOptions(reactions=True)
    monkeypatch.setattr(turn_view, "display_options", lambda _settings, _platform: on)
    runner = await harness.open()

    async def never(*_given: Any, **_more: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(runner.gateway.supervisors[0].adapter, "react", never)
    await harness.ask("hello", "hello")
    await harness.ask("again", "again")


async def test_refused_verification_does_not_block_later_messages(harness, fickle):
    runner = await harness.open()
    fickle(runner, "was_delivered", *[SendRefused("we were removed from the chat")] * 9)
    await in_doubt(runner, "x")
    await runner.gateway.outbox.send("local:x", "here again")
    await harness.wait_for("here again", chat="x")
    row = await runner.gateway.store.outbox.get("x:0")
    assert row is not None and row.state == "uncertain"


async def test_an_uncertain_message_is_sent_again_with_a_mark_where_delivery_cannot_be_checked(
    harness, fickle, monkeypatch
):
    runner = await harness.open()
    adapter = runner.gateway.supervisors[0].adapter
    able = msgspec.structs.replace(adapter.manifest.capabilities, checks_delivery=False)
    manifest = msgspec.structs.replace(adapter.manifest, capabilities=able)
    monkeypatch.setattr(adapter, "manifest", manifest)
    unknown = DeliveryUnknown("it keeps no history")
    fickle(runner, "was_delivered", unknown, unknown)
    fickle(runner, "send", SendUnsure("cut off"))
    await in_doubt(runner, "x")  # uncertain twice, and marked once
    await harness.wait_for(f"{REPEAT_MARK}\nin doubt", chat="x")
    row = await runner.gateway.store.outbox.get("x:0")
    assert row is not None and row.attempts == 3


def test_a_message_too_long_for_the_mark_is_sent_again_without_it():
    long = OutgoingMessage("x" * 100)
    assert decode_message(mark_repeated(long, Capabilities(max_chars=100))) == long


async def test_hanging_verification_does_not_block_other_chats(harness, monkeypatch):
    runner = await harness.open()
    gate = asyncio.Event()

    async def hangs(*_given: object) -> str:
        await gate.wait()
        raise NotConnected("too late")

    monkeypatch.setattr(runner.gateway.supervisors[0].adapter, "was_delivered", hangs)
    await in_doubt(runner, "x")
    await harness.ask("hello", "hello")
    gate.set()


async def test_a_message_that_another_process_sends_is_left_to_it(harness):
    runner = await harness.open()
    await in_doubt(runner, "x", by="another machine:1:2")
    await in_doubt(runner, "y", by="another machine:1:2", now=runner.gateway.now() - 10_000)
    await harness.wait_for("in doubt", chat="y")
    await harness.ask("hello", "hello")
    assert harness.texts("x") == []


async def test_many_chats_that_wait_do_not_hold_up_the_rest(harness, monkeypatch):
    runner = await harness.open()
    gate = asyncio.Event()
    line = runner.gateway.connections.get("local")
    assert line is not None
    acquire = line.buckets.acquire

    async def slow(chat: str) -> None:
        if chat.startswith("slow"):
            await gate.wait()
        await acquire(chat)

    monkeypatch.setattr(line.buckets, "acquire", slow)
    for number in range(120):
        await runner.gateway.outbox.send(f"local:slow{number}", "late")
    await harness.ask("hello", "hello")
    gate.set()


async def test_outbox_continues_after_a_failure(harness, monkeypatch):
    runner = await harness.open()
    due, faults = runner.gateway.outbox.queue.due, [KeyError("x")]

    async def broken(*given: Any, **more: Any) -> Any:
        if faults:
            raise faults.pop()
        return await due(*given, **more)

    monkeypatch.setattr(runner.gateway.outbox.queue, "due", broken)
    await harness.ask("hello", "hello")


async def test_an_answer_comes_also_when_its_beginning_could_not_be_shown(harness, fickle):
    runner = await harness.open([GROWS], **STREAMING)
    fickle(runner, "send", NotConnected("gone"))
    await harness.ask("count", ANSWER)
    await harness.wait_idle()
    assert harness.texts() == [ANSWER]


async def test_an_answer_comes_also_when_the_platform_was_away_as_it_began(harness, monkeypatch):
    runner = await harness.open([GROWS], **STREAMING)
    lines, show = runner.gateway.connections, runner.gateway.outbox.open_stream

    async def away(draft: Any) -> Any:
        line = lines._up.pop(("local", ""))
        try:
            return await show(draft)
        finally:
            lines._up["local", ""] = line

    monkeypatch.setattr(runner.gateway.outbox, "open_stream", away)
    await harness.ask("count", ANSWER)
    await harness.wait_idle()


async def test_an_answer_whose_beginning_was_in_doubt_is_one_message(harness, fickle):
    """The platform cannot be asked at first; then it has the message, while the turn still runs."""
    step = Step((Text(ANSWER),), faults=(Stall(3, seconds=1.0),))
    runner = await harness.open([step], **STREAMING)
    adapter = runner.gateway.supervisors[0].adapter
    real, lost = adapter.send, []

    async def unsure(*given: Any) -> str:
        found: str = await real(*given)
        if not lost:
            lost.append(found)
            raise SendUnsure("the connection broke")
        return found

    adapter.send = unsure
    fickle(runner, "was_delivered", NotConnected("not now"))
    harness.say("count")
    await harness.until(lambda: lost, "the beginning")
    runner.gateway.outbox.wake()
    await harness.wait_for(ANSWER)
    await harness.wait_idle()
    assert harness.texts() == [ANSWER]


async def test_the_same_words_before_two_tools_hold_up_nothing(harness):
    look = [Step((Text("Let me look."), ToolCall(f"c{at}", "todo", "{}"))) for at in range(2)]
    await harness.open([*look, "done"], **STREAMING)
    await harness.ask("do it", "done")
    await harness.wait_idle()


async def test_failure_of_a_streaming_turn_is_reported(harness, monkeypatch):
    await harness.open([GROWS], **STREAMING)
    see = TurnEvents.see

    async def broken(events: TurnEvents, event: Any) -> None:
        if harness.texts():
            raise KeyError("x")
        await see(events, event)

    monkeypatch.setattr(TurnEvents, "see", broken)
    harness.say("count")
    await harness.wait_for("An unexpected error occurred")
    await harness.wait_idle()
    assert len(harness.texts()) == 1


async def test_stopped_answer_keeps_its_text_without_the_cursor(harness):
    step = Step((Text(ANSWER),), faults=(Stall(4),))
    await harness.open([step], **STREAMING)
    harness.say("count")
    await harness.wait_for("▉")
    await harness.ask("/stop", "Stopped.")
    await harness.wait_idle()
    first, _stopped = harness.texts()
    assert ANSWER.startswith(first) and first


async def test_an_edit_that_may_have_been_lost_is_made_again(harness, fickle):
    runner = await harness.open([GROWS], **{**STREAMING, "streaming__edit_interval": 60})
    fickle(runner, "edit", SendUnsure("the connection broke"))
    asked = fickle(runner, "was_delivered")
    await harness.ask("count", ANSWER)
    await harness.wait_idle()
    assert harness.texts() == [ANSWER]
    assert asked.calls == 0


async def test_an_answer_that_cannot_be_edited_comes_anew_though_the_platform_is_busy(
    harness, fickle
):
    runner = await harness.open([GROWS], **{**STREAMING, "streaming__edit_interval": 60})
    fickle(runner, "edit", SendRefused("too old"))
    fickle(runner, "send", None, SendLater("busy", seconds=0.05))
    await harness.ask("count", ANSWER)
    await harness.wait_idle()
    assert harness.texts()[1:] == [ANSWER]


async def test_tool_lines_of_a_crashed_turn_do_not_block_later_ones(harness):
    calls = [Step((ToolCall(f"c{at}", "todo", "{}"),)) for at in range(2)]
    stalled = Step((Text("never"),), faults=(Stall(0),))
    runner = await harness.open(
        [calls[0], stalled, "the end", calls[1], "done"], display__tool_progress="all"
    )
    harness.say("begin")
    await harness.wait_for("todo")
    await harness.until(lambda: len(harness.server.calls) == 2, "the second call")
    (row,) = await runner.gateway.store.inbox.pending("agent:main:local:dm:anna")
    await harness.close()
    runner = await harness.open(display__tool_progress="all")
    can = runner.gateway.manifests["local"].capabilities
    left = OutgoingMeta("left", ChatTarget("local", "anna"), "progress", row.id, lane_suffix="~")
    (made,) = compose_items("left by a crash", left, can)
    await runner.gateway.store.outbox.enqueue_sending(made, "", by="", now=runner.gateway.now())
    found = await runner.gateway.store.outbox.get("left:0")
    assert found is not None
    await runner.gateway.store.outbox.mark_streaming(found.id, "1")
    await harness.wait_for("the end")
    await harness.ask("again", "done")
    await harness.wait_idle()


@pytest.mark.parametrize("fault", [SendLater("busy", seconds=0.0), NotConnected("away")])
async def test_an_answer_whose_edit_never_succeeds_comes_as_a_message_of_its_own(
    harness, fickle, monkeypatch, fault
):
    monkeypatch.setattr(outbox, "MAX_RETRY_SECONDS", 0.01)
    runner = await harness.open([GROWS, "and on"], **STREAMING)
    edits = fickle(runner, "edit", *[fault] * 500)
    harness.say("count")
    await harness.until(lambda: harness.texts().count(ANSWER) == 1, "the whole answer")
    await harness.wait_idle()
    assert edits.calls <= outbox.MAX_EDITS + len(ANSWER.split()) + 1
    await harness.ask("go on", "and on")
    assert harness.texts().count(ANSWER) == 1


async def test_opening_stream_is_not_verified(harness, monkeypatch):
    """Its row is there a moment before its number is known."""
    runner = await harness.open([GROWS], **STREAMING)
    mail, doubted = runner.gateway.store, []
    put = mail.outbox.enqueue_sending

    async def looked_at(*given: Any, **more: Any) -> bool:
        done = await put(*given, **more)
        doubted.append(await runner.gateway.outbox.abandoned_rows(HERE))
        return done

    monkeypatch.setattr(mail.outbox, "enqueue_sending", looked_at)
    harness.say("count")
    await harness.until(lambda: ANSWER in harness.texts(), "the answer")
    assert doubted == [[]]


async def test_message_that_arrived_meanwhile_is_not_verified(harness, fickle):
    runner = await harness.open()
    asked = fickle(runner, "was_delivered")
    await in_doubt(runner, "x", by="another:1:1")
    mail = runner.gateway.store
    (row,) = await mail.outbox.in_doubt(HERE)
    await mail.outbox.mark_sent(row.id, "there", runner.gateway.now())
    assert await runner.gateway.outbox.verify(row) == "there"
    assert asked.calls == 0
