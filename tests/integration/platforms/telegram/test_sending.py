"""What people see of what is sent."""

from pathlib import Path

import msgspec
import pytest

from hermes.sdk.platforms import (
    Button,
    ChatTarget,
    Media,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.sdk.testing.platforms.harness import Inbox, attempt, connected, talking
from hermes_plugins.platforms.telegram.manifest import (
    TelegramExtra,
    TelegramPlatform,
    TelegramSettings,
)


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG")
    return Media("image", "a.png", "image/png", path=str(path))


async def test_html_is_shown_as_formatting(telegram):
    async with talking(telegram) as (adapter, _, event):
        await adapter.send(
            event.source.target, OutgoingMessage("<b>a</b> &lt; b", plain="a < b"), "k"
        )
        (shown,) = await telegram.shown()
        assert (shown.text, shown.raw) == ("a < b", "<b>a</b> &lt; b")


async def test_broken_html_is_sent_plain_and_edited_plain(telegram):
    async with talking(telegram) as (adapter, _, event):
        target = event.source.target
        sent = await adapter.send(target, OutgoingMessage("<b>a", plain="a"), "k")
        assert (await telegram.shown())[0].text == "a"
        await adapter.edit(target, sent, OutgoingMessage("<x>b", plain="b"))
        assert (await telegram.shown())[0].text == "b"


async def test_long_caption_is_sent_before_the_picture(telegram, picture):
    async with talking(telegram) as (adapter, _, event):
        target = event.source.target
        words, answered = "long " * 300, event.message_id
        out = OutgoingMessage(words, plain=words, media=(picture,), reply_to=answered)
        sent = await adapter.send(target, out, "k")
        first, second = await telegram.shown()
        assert (first.id, first.text, first.reply_to) == (sent, words.strip(), answered)
        assert (second.media, second.text, second.reply_to) == (("a.png",), "", "")


async def test_caption_of_a_picture_can_be_edited(telegram, picture):
    async with talking(telegram) as (adapter, _, event):
        target = event.source.target
        sent = await adapter.send(target, OutgoingMessage("one", media=(picture,)), "k")
        await adapter.edit(target, sent, OutgoingMessage("two"))
        (shown,) = await telegram.shown()
        assert (shown.text, shown.media) == ("two", ("a.png",))


async def test_a_button_that_does_not_fit_is_refused_before_anything_is_sent(telegram):
    async with talking(telegram) as (adapter, _, event):
        out = OutgoingMessage("May I?", buttons=(Button("Yes", "x" * 65),))
        outcome = await attempt(adapter, event.source.target, out, "k")
        assert isinstance(outcome, SendRefused)
        assert await telegram.shown() == []


async def test_a_press_is_answered_at_once_even_when_it_cannot_be_kept(telegram):
    async with talking(telegram) as (adapter, inbox, event):
        out = OutgoingMessage("May I?", buttons=(Button("Yes", "yes"),))
        sent = await adapter.send(event.source.target, out, "k")
        inbox.refusals = 2
        await telegram.presses(sent, "yes")
        press = await inbox.press("yes")
        assert len(telegram.fake.world.answered) == 1
        assert press.reply_to_id == sent


async def test_reply_to_a_deleted_message_is_still_sent(telegram):
    async with talking(telegram) as (adapter, _, event):
        telegram.chat().messages.clear()
        out = OutgoingMessage("anyway", reply_to=event.message_id)
        await adapter.send(event.source.target, out, "k")
        assert (await telegram.shown())[0].reply_to == ""


async def test_a_group_that_became_a_supergroup_is_written_to_where_it_is(telegram):
    world = telegram.fake.world
    old, new = world.chat(-55, "group", "old"), world.chat(-1_000_000_000_055, "supergroup", "new")
    old.moved_to = new.id
    async with connected(telegram) as (adapter, _):
        sent = await adapter.send(ChatTarget("telegram", "-55"), OutgoingMessage("moved"), "k")
        assert sent.startswith("-1000000000055:")
        await adapter.edit(ChatTarget("telegram", "-55"), sent, OutgoingMessage("changed"))
    async with connected(telegram) as (adapter, _):
        await adapter.send(ChatTarget("telegram", "-55"), OutgoingMessage("and again"), "k2")
    assert [shown.text for shown in await telegram.shown(str(new.id))] == ["changed", "and again"]


async def test_numbers_of_the_old_group_mean_nothing_in_the_supergroup(telegram):
    """Its messages are numbered anew: an old number names another message there."""
    world = telegram.fake.world
    old, new = world.chat(-55, "group", "old"), world.chat(-1_000_000_000_055, "supergroup", "new")
    target = ChatTarget("telegram", "-55")
    async with connected(telegram) as (adapter, _):
        before = await adapter.send(target, OutgoingMessage("in the group"), "k1")
        old.moved_to = new.id
        await adapter.send(target, OutgoingMessage("in the supergroup"), "k2")
        place, number = world.chats[new.id], int(before.partition(":")[2])
        place.messages[number] = {**next(iter(place.messages.values())), "message_id": number}
        outcome = await attempt(adapter, target, OutgoingMessage("quoting", reply_to=before), "k3")
        assert isinstance(outcome, str)
        with pytest.raises(SendRefused):
            await adapter.edit(target, before, OutgoingMessage("wrong one"))
        shown = {each.text: each.reply_to for each in await telegram.shown(str(new.id))}
        assert shown == {"in the supergroup": "", "quoting": ""}


async def test_a_public_chat_is_found_by_its_name(telegram):
    channel = telegram.fake.world.chat(-1_000_000_000_077, "channel", "News")
    channel.username = "@DailyNews"
    target = ChatTarget("telegram", "@dailynews")
    async with connected(telegram) as (adapter, _):
        sent = await adapter.send(target, OutgoingMessage("extra"), "k1")
        assert sent == f"{channel.id}:{next(iter(channel.messages))}"
        await adapter.send(target, OutgoingMessage("more"), "k2")
        await adapter.edit(target, sent, OutgoingMessage("extra!"))
        await adapter.typing(target)
        assert [each["text"] for each in channel.ours()] == ["extra!", "more"]
        asked = [method for method, _ in telegram.fake.api.calls].count("getChat")
        assert asked == 1
        assert "@dailynews" in [chat.name for chat in await adapter.chats()]


async def test_forbidden_voice_message_is_sent_as_audio(telegram, tmp_path):
    path = tmp_path / "a.ogg"
    path.write_bytes(b"OggS")
    voice = Media("voice", "a.ogg", "audio/ogg", path=str(path))
    async with talking(telegram) as (adapter, _, event):
        telegram.fake.troubles.append("voice_forbidden")
        await adapter.send(event.source.target, OutgoingMessage(media=(voice,)), "k")
        (message,) = telegram.chat().ours()
        assert "audio" in message


async def test_a_picture_refused_twice_is_sent_all_the_same(telegram, picture):
    """First as a picture, then for its words."""
    async with talking(telegram) as (adapter, _, event):
        telegram.fake.troubles.append("no_picture")
        out = OutgoingMessage("<b>broken", plain="broken", media=(picture,))
        await adapter.send(event.source.target, out, "k")
        (message,) = telegram.chat().ours()
        assert ("document" in message, message["caption"]) == (True, "broken")


@pytest.mark.parametrize("page", ["forbidden_page", "not_found_page"])
async def test_a_page_of_a_server_before_telegram_refuses_nothing_for_good(telegram, page):
    async with talking(telegram) as (adapter, _, event):
        target, message = event.source.target, OutgoingMessage("precious")
        telegram.fake.troubles.append(page)
        assert isinstance(await attempt(adapter, target, message, "k"), SendUnsure)
        await adapter.send(target, message, "k")
        assert [shown.text for shown in await telegram.shown()] == ["precious"]


async def test_the_general_topic_of_a_forum_is_answered_in_it(telegram):
    async with connected(telegram) as (adapter, inbox):
        await telegram.says("in a topic", chat_type="group", thread="garden")
        await telegram.says("in general", chat_type="group")
        topic, general = await inbox.take("in a topic"), await inbox.take("in general")
        assert general.source.thread_id == "1" != topic.source.thread_id
        await adapter.send(general.source.target, OutgoingMessage("here"), "k")
        await adapter.typing(general.source.target)
        await adapter.typing(topic.source.target)
        place = telegram.chat("", "group")
        assert place.typing == [1, int(topic.source.thread_id)]
        assert [shown.thread for shown in await telegram.shown(str(place.id))] == [""]


async def test_a_topic_that_is_gone_is_refused(telegram):
    async with talking(telegram, group=True) as (adapter, _, event):
        target = msgspec.structs.replace(event.source.target, thread_id="99")
        outcome = await attempt(adapter, target, OutgoingMessage("anybody?"), "k")
        assert isinstance(outcome, SendRefused)


async def test_topics_of_private_chats_are_made_once(telegram):
    chat = telegram.chat()
    topics = ({"chat_id": chat.id, "topics": [{"name": "Cooking"}, {"name": "Work"}]},)
    telegram.connection = TelegramPlatform(extra=TelegramExtra(dm_topics=topics))
    for _ in range(2):
        async with connected(telegram) as (_, inbox):
            await telegram.says("what is for dinner?", thread="Cooking")
            event = await inbox.take("what is for dinner?")
            assert event.source.thread_id == str(chat.topics["Cooking"])
            assert event.source.chat_name.endswith("/ Cooking")
    assert [method for method, _ in telegram.fake.api.calls].count("createForumTopic") == 2


async def test_a_topic_telegram_refuses_does_not_stop_the_gateway(telegram):
    topics = ({"chat_id": 4711, "topics": [{"name": "Nowhere"}]},)
    telegram.connection = TelegramPlatform(extra=TelegramExtra(dm_topics=topics))
    async with connected(telegram) as (adapter, _):
        await adapter.probe()


async def test_reactions_that_telegram_lacks_are_replaced_or_left_out(telegram):
    async with talking(telegram) as (adapter, _, event):
        target = event.source.target
        await adapter.react(target, event.message_id, "✅")
        assert await telegram.reactions(event.message_id) == ["👍"]
        await adapter.react(target, event.message_id, "🧯")
        assert await telegram.reactions(event.message_id) == ["👍"]


async def test_without_the_setting_there_are_no_reactions(telegram):
    telegram.settings = TelegramSettings()
    async with talking(telegram) as (adapter, _, event):
        await adapter.react(event.source.target, event.message_id, "👍")
        assert await telegram.reactions(event.message_id) == []


async def test_a_revoked_token_keeps_messages_for_later(telegram):
    async with talking(telegram) as (adapter, _, event):
        await telegram.refuse_credentials()
        outcome = await attempt(adapter, event.source.target, OutgoingMessage("later"), "k")
        assert isinstance(outcome, SendLater)


async def test_a_server_that_is_away_means_surely_not_sent(telegram):
    inbox = Inbox()
    async with connected(telegram, inbox) as (adapter, _):
        await telegram.says("hello")
        event = await inbox.take("hello")
        await telegram.gone()
        outcome = await attempt(adapter, event.source.target, OutgoingMessage("later"), "k")
        assert isinstance(outcome, SendLater)


@pytest.mark.parametrize("chat", ["", "somebody", "@nobody", "1;2"])
async def test_invalid_chat_is_refused(telegram, chat):
    async with connected(telegram) as (adapter, _):
        outcome = await attempt(
            adapter, ChatTarget("telegram", chat), OutgoingMessage("hello"), "k"
        )
        assert isinstance(outcome, SendRefused)


async def test_after_a_rate_limit_only_the_missing_parts_are_sent(telegram, tmp_path):
    message = three_files(tmp_path)
    async with talking(telegram) as (adapter, _, event):
        target = event.source.target
        telegram.fake.troubles.extend(["", "rate_limited"])
        assert isinstance(await attempt(adapter, target, message, "k"), SendLater)
        first = await adapter.send(target, message, "k")
        shown = await telegram.shown()
        assert [each.media for each in shown] == [("0.txt",), ("1.txt",), ("2.txt",)]
        assert shown[0].id == first


async def test_an_uncertain_message_of_several_parts_is_sent_again_as_a_whole(telegram, tmp_path):
    message = three_files(tmp_path)
    async with talking(telegram) as (adapter, _, event):
        target = event.source.target
        telegram.fake.troubles.extend(["", "cut_before"])
        assert isinstance(await attempt(adapter, target, message, "k"), SendUnsure)
        await adapter.send(target, message, "k")
        names = [each.media[0] for each in await telegram.shown()]
        assert names == ["0.txt", "0.txt", "1.txt", "2.txt"]


def three_files(folder: Path) -> OutgoingMessage:
    files = [folder / f"{number}.txt" for number in range(3)]
    for path in files:
        path.write_text(path.name)
    media = [Media("document", path.name, "text/plain", path=str(path)) for path in files]
    return OutgoingMessage("three files", media=tuple(media))
