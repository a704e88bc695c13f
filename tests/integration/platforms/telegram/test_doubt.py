"""Messages in doubt: found, surely not there, or nobody knows; never shown twice."""

import asyncio
from pathlib import Path

import pytest

from hermes.gateway.platforms.kit.contract import (
    Button,
    ChatTarget,
    DeliveryUnknown,
    Media,
    NotConnected,
    OutgoingMessage,
    SendLater,
    SendUnsure,
)
from hermes.gateway.platforms.telegram.adapter import TelegramAdapter
from hermes.util.clock import SystemClock
from tests.contracts.adapters.driving import (
    attempt,
    connected,
    failure,
    row_of,
    shown_with,
    talking,
    target_of,
)
from tests.fakes.telegram.harness import TelegramHarness
from tests.fakes.telegram.server import LATE
from tests.fakes.telegram.world import BOT

MESSAGE = OutgoingMessage("in doubt", plain="in doubt")


async def doubtful(
    telegram: TelegramHarness,
    adapter: TelegramAdapter,
    target: ChatTarget,
    trouble: str,
    key: str = "d",
) -> None:
    telegram.trouble(trouble)  # type: ignore[arg-type]
    assert isinstance(await attempt(adapter, target, MESSAGE, key), SendUnsure)


async def find(
    adapter: TelegramAdapter, target: ChatTarget, key: str = "d", after: str = ""
) -> str | None:
    return await adapter.was_delivered(
        row_of(key, target, MESSAGE, after_id=after), target, MESSAGE
    )


@pytest.mark.parametrize("group", [False, True], ids=["private", "group"])
async def test_it_is_found_among_what_others_wrote(telegram: TelegramHarness, group: bool) -> None:
    kind = "group" if group else "dm"
    async with talking(telegram, group=group) as (adapter, inbox, event):
        target = target_of(event.source)
        await adapter.disconnect()
        await adapter.connect(inbox.receive)
        for number in range(3):  # not yet seen when it is sent
            place = telegram.chat("", kind)
            telegram.fake.world.post(
                place, {"text": f"before {number}"}, {"id": 5, "is_bot": False}
            )
        await doubtful(telegram, adapter, target, "cut_after")
        for number in range(5):
            await telegram.says(f"after {number}", chat_type=kind)
            await telegram.says(f"elsewhere {number}", chat="bob", user="bob")
        found = await find(adapter, target)
        (shown,) = await telegram.shown(target.chat_id)
        assert (found, shown.edits) == (shown.id, 0)


@pytest.mark.parametrize("group", [False, True], ids=["private", "group"])
@pytest.mark.parametrize("trouble", ["cut_before", "bad_gateway"])
async def test_it_is_surely_not_there_among_what_others_wrote(
    telegram: TelegramHarness, group: bool, trouble: str
) -> None:
    kind = "group" if group else "dm"
    async with talking(telegram, group=group) as (adapter, _, event):
        target = target_of(event.source)
        await doubtful(telegram, adapter, target, trouble)
        for number in range(5):
            await telegram.says(f"after {number}", chat_type=kind)
        assert await find(adapter, target) is None
        await adapter.send(target, MESSAGE, "d")
        assert len(await shown_with(telegram, "in doubt", target.chat_id)) == 1


async def test_a_crash_after_telegrams_answer_needs_no_question(telegram: TelegramHarness) -> None:
    async with talking(telegram) as (adapter, _, event):
        target = target_of(event.source)
        sent = await adapter.send(target, MESSAGE, "d")
    async with connected(telegram) as (adapter, _):
        calls = len(telegram.fake.api.calls)
        assert await find(adapter, target) == sent
        assert len(telegram.fake.api.calls) == calls


async def test_messages_of_ours_sent_meanwhile_are_not_mistaken_for_it(
    telegram: TelegramHarness,
) -> None:
    async with talking(telegram) as (adapter, _, event):
        target = target_of(event.source)
        await doubtful(telegram, adapter, target, "cut_before")
        for number in range(3):
            await adapter.send(target, MESSAGE, f"other-{number}")
        assert await find(adapter, target) is None


async def test_buttons_of_ours_survive_the_questions(telegram: TelegramHarness) -> None:
    asked = OutgoingMessage("May I?", buttons=(Button("Yes", "approve:1:once"),))
    async with talking(telegram) as (adapter, _, event):
        target = target_of(event.source)
        await doubtful(telegram, adapter, target, "cut_after")
        await adapter.send(target, asked, "asked")
        assert await find(adapter, target)
        assert [shown.buttons for shown in await telegram.shown()] == [(), ("approve:1:once",)]


async def test_a_question_with_buttons_is_found_with_them(telegram: TelegramHarness) -> None:
    asked = OutgoingMessage("May I?", buttons=(Button("Yes", "a:1"), Button("No", "a:2")))
    async with talking(telegram) as (adapter, _, event):
        target = target_of(event.source)
        telegram.trouble("cut_after")
        await attempt(adapter, target, asked, "d")
        found = await adapter.was_delivered(row_of("d", target, asked), target, asked)
        (shown,) = await telegram.shown()
        assert (shown.id, shown.buttons, shown.edits) == (found, ("a:1", "a:2"), 0)


async def test_two_in_doubt_and_both_there_are_both_found(telegram: TelegramHarness) -> None:
    async with talking(telegram) as (adapter, _, event):
        target = target_of(event.source)
        await doubtful(telegram, adapter, target, "cut_after", "first")
        await doubtful(telegram, adapter, target, "cut_after", "second")
    async with connected(telegram) as (adapter, _):
        found = [await find(adapter, target, key) for key in ("first", "second")]
        assert found == [shown.id for shown in await telegram.shown()]


async def test_two_in_doubt_and_none_there_are_both_sent_again(telegram: TelegramHarness) -> None:
    async with talking(telegram) as (adapter, _, event):
        target = target_of(event.source)
        await doubtful(telegram, adapter, target, "cut_before", "first")
        await doubtful(telegram, adapter, target, "cut_before", "second")
        assert [await find(adapter, target, key) for key in ("first", "second")] == [None, None]


async def test_two_in_doubt_and_one_there_is_beyond_knowing(telegram: TelegramHarness) -> None:
    async with talking(telegram) as (adapter, _, event):
        target = target_of(event.source)
        await doubtful(telegram, adapter, target, "cut_after", "first")
        await doubtful(telegram, adapter, target, "cut_before", "second")
        for key in ("first", "second"):
            with pytest.raises(DeliveryUnknown):
                await find(adapter, target, key)


async def test_another_program_with_our_token_is_beyond_knowing(telegram: TelegramHarness) -> None:
    async with talking(telegram) as (adapter, _, event):
        target = target_of(event.source)
        await doubtful(telegram, adapter, target, "cut_after")
        telegram.fake.world.post(telegram.chat(), {"text": "by a script"}, BOT)
        with pytest.raises(DeliveryUnknown):
            await find(adapter, target)


async def test_a_lost_journal_with_messages_of_ours_is_beyond_knowing(
    telegram: TelegramHarness,
) -> None:
    async with talking(telegram) as (adapter, _, event):
        target = target_of(event.source)
        await doubtful(telegram, adapter, target, "cut_after")
    (telegram.folder / "state" / "telegram.jsonl").unlink()
    async with connected(telegram) as (adapter, _):
        with pytest.raises(DeliveryUnknown):
            await find(adapter, target, after=event.message_id)
        with pytest.raises(DeliveryUnknown):  # not even where to begin
            await find(adapter, target)


async def test_a_flood_of_messages_since_is_beyond_knowing(
    telegram: TelegramHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.gateway.platforms.telegram.outbound.MAX_NUMBERS", 50)
    async with talking(telegram) as (adapter, inbox, event):
        target = target_of(event.source)
        await doubtful(telegram, adapter, target, "cut_before")
        for _ in range(60):
            next(telegram.chat().numbers)
        await telegram.says("much later")
        await inbox.take("much later")
        with pytest.raises(DeliveryUnknown):
            await find(adapter, target)


async def test_the_middle_of_a_message_of_several_parts_goes_on(
    telegram: TelegramHarness, tmp_path: Path
) -> None:
    files = []
    for number in range(3):
        path = tmp_path / f"{number}.txt"
        path.write_text(f"file {number}")
        files.append(Media("document", path.name, "text/plain", path=str(path)))
    message = OutgoingMessage("three files", media=tuple(files))
    async with talking(telegram) as (adapter, _, event):
        target = target_of(event.source)
        telegram.fake.troubles.extend(["", "cut_after"])
        assert isinstance(await attempt(adapter, target, message, "d"), SendUnsure)
    async with connected(telegram) as (adapter, _):
        row = row_of("d", target, message)
        assert await adapter.was_delivered(row, target, message) is None
        first = await adapter.send(target, message, "d")
        shown = await telegram.shown()
        assert [each.media for each in shown] == [("0.txt",), ("1.txt",), ("2.txt",)]
        assert shown[0].id == first
        assert await adapter.was_delivered(row, target, message) == first


async def test_the_newest_number_is_known_after_a_restart(telegram: TelegramHarness) -> None:
    async with talking(telegram) as (adapter, _, event):
        target = target_of(event.source)
        sent = await adapter.send(target, MESSAGE, "d")
        assert adapter.newest(target) == sent.partition(":")[2]
        assert adapter.newest(ChatTarget("telegram", "-1000000000005")) == ""
    async with connected(telegram) as (adapter, _):
        assert adapter.newest(target) == sent.partition(":")[2]


async def test_trouble_while_asking_is_not_an_answer(telegram: TelegramHarness) -> None:
    async with talking(telegram) as (adapter, _, event):
        target = target_of(event.source)
        await doubtful(telegram, adapter, target, "cut_after")
        await telegram.gone()
        error = await failure(find(adapter, target))
        assert isinstance(error, NotConnected | SendLater)
        assert not isinstance(error, DeliveryUnknown)


async def test_a_message_that_telegram_is_slow_to_take_is_waited_for(
    telegram: TelegramHarness,
) -> None:
    async with talking(telegram) as (adapter, inbox, event):
        target = target_of(event.source)
        await adapter.disconnect()
        patient = telegram.adapter(settle=3 * LATE, clock=SystemClock())
        await patient.connect(inbox.receive)
        await doubtful(telegram, patient, target, "cut_late")
        assert await telegram.shown() == []
        found = await find(patient, target)
        assert [shown.id for shown in await telegram.shown()] == [found]
        await patient.disconnect()


async def test_posts_of_others_in_a_channel_are_not_taken_for_ours(
    telegram: TelegramHarness,
) -> None:
    """A bot that may edit them gets the same answers for them as for its own."""
    async with connected(telegram) as (adapter, inbox):
        await telegram.says("first post", chat_type="channel")
        target = target_of((await inbox.take("first post")).source)
        sent = await adapter.send(target, MESSAGE, "known")
        await doubtful(telegram, adapter, target, "cut_before")
        await telegram.says("second post", chat_type="channel")
        with pytest.raises(DeliveryUnknown):
            await find(adapter, target)
        assert await find(adapter, target, "known") == sent
        asked = [method for method, _ in telegram.fake.api.calls]
        assert "editMessageReplyMarkup" not in asked


async def test_a_send_waits_while_the_chat_is_searched(telegram: TelegramHarness) -> None:
    async with talking(telegram) as (adapter, _, event):
        target = target_of(event.source)
        await doubtful(telegram, adapter, target, "cut_after")
        found, sent = await asyncio.gather(
            find(adapter, target), adapter.send(target, OutgoingMessage("next"), "next")
        )
        assert [shown.id for shown in await telegram.shown()] == [found, sent]
