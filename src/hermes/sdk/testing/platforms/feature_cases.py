"""Cases of what some platforms can do and others cannot."""

import asyncio

from hermes.sdk.platforms import Button, ChatTarget, OutgoingMessage, SendLater, SendUnsure
from hermes.sdk.testing.platforms.driving import (
    PATIENCE,
    Inbox,
    connected,
    failure,
    talking,
    target_of,
)
from hermes.sdk.testing.platforms.harness import Harness


class EditsContract:
    sdk_retries: frozenset[str] = frozenset()

    async def test_an_edit_changes_the_message_where_it_is(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target = target_of(event.source)
            message_id = await adapter.send(target, OutgoingMessage("a beginning"), "edit-1")
            await adapter.edit(target, message_id, OutgoingMessage("a beginning and an end"))
            (shown,) = await harness.shown(target.chat_id)
            assert (shown.id, shown.text.strip()) == (message_id, "a beginning and an end")
            assert shown.edits == 1

    async def test_an_edit_that_changes_nothing_is_no_error(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target = target_of(event.source)
            message_id = await adapter.send(target, OutgoingMessage("as it is"), "same-1")
            await adapter.edit(target, message_id, OutgoingMessage("as it is"))
            (shown,) = await harness.shown(target.chat_id)
            assert shown.text.strip() == "as it is"

    async def test_a_restarted_gateway_goes_on_editing(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target = target_of(event.source)
            message_id = await adapter.send(target, OutgoingMessage("before"), "restart-1")
        async with connected(harness) as (adapter, _):
            await adapter.edit(target, message_id, OutgoingMessage("after"))
            (shown,) = await harness.shown(target.chat_id)
            assert (shown.id, shown.text.strip()) == (message_id, "after")

    async def test_a_failed_edit_says_so_and_works_later(self, harness: Harness) -> None:
        passing = sorted(harness.troubles & {"rate_limited", "server_error"} - self.sdk_retries)
        async with talking(harness) as (adapter, _, event):
            target = target_of(event.source)
            message_id = await adapter.send(target, OutgoingMessage("old"), "fail-1")
            for kind in passing:
                harness.trouble(kind)  # type: ignore[arg-type]
                error = await failure(adapter.edit(target, message_id, OutgoingMessage("new")))
                assert isinstance(error, SendLater | SendUnsure)
                if kind == "rate_limited":
                    await asyncio.sleep(min(getattr(error, "seconds", 0.0), 1.0))
            await adapter.edit(target, message_id, OutgoingMessage("new"))
            (shown,) = await harness.shown(target.chat_id)
            assert shown.text.strip() == "new"


class TypingContract:
    async def test_people_see_that_we_write(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            assert await harness.typing(event.source.chat_id) == 0
            await adapter.typing(target_of(event.source))
            assert await harness.typing(event.source.chat_id) >= 1
            assert await harness.shown(event.source.chat_id) == []


class ReactionsContract:
    async def test_a_reaction_comes_and_goes(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            chat, target = event.source.chat_id, target_of(event.source)
            await adapter.react(target, event.message_id, "👀")
            assert await harness.reactions(event.message_id, chat) == ["👀"]
            await adapter.react(target, event.message_id, "👀", on=False)
            assert await harness.reactions(event.message_id, chat) == []

    async def test_the_same_reaction_twice_is_no_error(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            for _ in range(2):
                await adapter.react(target_of(event.source), event.message_id, "👍")
            assert await harness.reactions(event.message_id, event.source.chat_id) == ["👍"]


class ThreadsContract:
    async def test_an_answer_stays_in_the_thread(self, harness: Harness) -> None:
        async with connected(harness) as (adapter, inbox):
            await harness.says("in a thread", chat_type="group", thread="garden", mention=True)
            await inbox.until(lambda box: bool(box.kept), "the message")
            source = inbox.kept[0].source
            assert source.thread_id
            await adapter.send(target_of(source), OutgoingMessage("there too"), "thread-1")
            (shown,) = await harness.shown(source.chat_id)
            assert (shown.text.strip(), shown.thread) == ("there too", source.thread_id)

    async def test_threads_are_told_apart(self, harness: Harness) -> None:
        async with connected(harness) as (_, inbox):
            for thread in ("garden", "kitchen", "garden"):
                await harness.says("hi", chat_type="group", thread=thread, mention=True)
            await inbox.until(lambda box: len({e.message_id for e in box.kept}) == 3, "all three")
            garden, kitchen, again = (event.source for event in inbox.kept)
            assert garden.thread_id == again.thread_id != kitchen.thread_id
            assert garden.chat_id == kitchen.chat_id


class ButtonsContract:
    CHOICES = (Button("Yes", "approve:42:once"), Button("No", "approve:42:deny"))

    async def test_a_pressed_button_says_which_and_by_whom(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, inbox, event):
            target = target_of(event.source)
            message = OutgoingMessage("May I?", plain="May I?", buttons=self.CHOICES)
            message_id = await adapter.send(target, message, "buttons-1")
            (shown,) = await harness.shown(target.chat_id)
            assert shown.buttons == ("approve:42:once", "approve:42:deny")
            await harness.presses(message_id, "approve:42:deny", chat=target.chat_id)
            press = await inbox.press("approve:42:deny")
            assert press.source.user_id == harness.user_id()
            assert press.source.chat_id == target.chat_id
            assert press.message_id not in {"", message_id, event.message_id}

    async def test_the_presser_is_who_presses_not_who_was_asked(self, harness: Harness) -> None:
        async with talking(harness, group=True) as (adapter, inbox, event):
            target = target_of(event.source)
            message = OutgoingMessage("May I?", plain="May I?", buttons=self.CHOICES)
            message_id = await adapter.send(target, message, "presser-1")
            await harness.presses(message_id, "approve:42:once", chat=target.chat_id, user="eve")
            press = await inbox.press("approve:42:once")
            assert press.source.user_id == harness.user_id("eve") != event.source.user_id
            assert press.source.chat_type == "group"

    async def test_each_press_is_an_event_of_its_own(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, inbox, event):
            target = target_of(event.source)
            message = OutgoingMessage("Which?", plain="Which?", buttons=self.CHOICES)
            message_id = await adapter.send(target, message, "twice-1")
            for data in ("approve:42:once", "approve:42:deny"):
                await harness.presses(message_id, data, chat=target.chat_id)
                await inbox.press(data)
            presses = {e.message_id for e in inbox.kept if e.button}
            assert len(presses) == 2


class GroupsContract:
    async def test_a_group_is_a_group(self, harness: Harness) -> None:
        async with talking(harness, group=True) as (_, _, event):
            assert event.source.chat_type in {"group", "channel"}
            assert event.source.chat_id == harness.chat_id("", "group")
            assert event.source.user_id == harness.user_id()

    async def test_a_mention_is_addressed_to_us(self, harness: Harness) -> None:
        async with connected(harness) as (_, inbox):
            await harness.says("the weather?", chat_type="group", mention=True)
            await inbox.until(lambda box: bool(box.kept), "the message")
            assert inbox.kept[0].addressed
            assert "the weather?" in inbox.kept[0].text

    async def test_talk_of_others_comes_but_is_not_addressed_to_us(self, harness: Harness) -> None:
        """Whether it is answered is a matter of settings, so of the gateway."""
        async with connected(harness) as (_, inbox):
            await harness.says("among ourselves", chat_type="group", user="ann")
            event = await inbox.take("among ourselves")
            assert not event.addressed
            assert event.source.user_id == harness.user_id("ann")

    async def test_people_of_a_group_are_told_apart(self, harness: Harness) -> None:
        async with connected(harness) as (_, inbox):
            for name in ("ann", "bob"):
                await harness.says(f"by {name}", chat_type="group", user=name)
            ann, bob = await inbox.take("by ann"), await inbox.take("by bob")
            assert ann.source.chat_id == bob.source.chat_id
            assert ann.source.user_id != bob.source.user_id

    async def test_an_answer_goes_to_the_group(self, harness: Harness) -> None:
        async with talking(harness, group=True) as (adapter, _, event):
            await adapter.send(target_of(event.source), OutgoingMessage("to you all"), "group-1")
            (shown,) = await harness.shown(event.source.chat_id)
            assert shown.text.strip() == "to you all"
            assert await harness.shown() == []


class RepliesContract:
    async def test_a_reply_says_what_it_answers(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, inbox, event):
            target = target_of(event.source)
            ours = await adapter.send(target, OutgoingMessage("the question"), "reply-1")
            await harness.says("the answer", chat=target.chat_id, reply_to=ours)
            reply = await inbox.take("the answer")
            assert reply.reply_to_id == ours
            assert "the question" in reply.reply_to_text

    async def test_our_answer_points_to_the_message(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            message = OutgoingMessage("because", reply_to=event.message_id)
            await adapter.send(target_of(event.source), message, "reply-2")
            (shown,) = await harness.shown(event.source.chat_id)
            assert shown.reply_to == event.message_id


class GroupRepliesContract:
    """For platforms that have groups and replies."""

    async def test_a_reply_to_us_in_a_group_is_addressed_to_us(self, harness: Harness) -> None:
        async with talking(harness, group=True) as (adapter, inbox, event):
            chat = event.source.chat_id
            ours = await adapter.send(target_of(event.source), OutgoingMessage("ask me"), "reply-3")
            await harness.says("I do", chat=chat, chat_type="group", reply_to=ours)
            await harness.says("you do", chat=chat, chat_type="group", reply_to=event.message_id)
            assert (await inbox.take("I do")).addressed
            assert not (await inbox.take("you do")).addressed


class BotsContract:
    async def test_another_program_is_known_as_one(self, harness: Harness) -> None:
        async with connected(harness) as (_, inbox):
            await harness.says("beep", chat_type="group", user="robot", bot=True)
            await harness.says("hello", chat_type="group", user="ann")
            assert (await inbox.take("beep")).source.is_bot
            assert not (await inbox.take("hello")).source.is_bot


class KeepsContract:
    async def test_what_was_written_while_we_were_away_comes(self, harness: Harness) -> None:
        async with connected(harness) as (_, inbox):
            await harness.says("before")
            await inbox.take("before")
        for number in range(3):
            await harness.says(f"meanwhile {number}")
        async with connected(harness) as (_, inbox):
            await inbox.take("meanwhile 2")
            missed = [text for text in inbox.once() if text.startswith("meanwhile")]
            assert missed == ["meanwhile 0", "meanwhile 1", "meanwhile 2"]

    async def test_what_was_not_kept_comes_after_a_restart(self, harness: Harness) -> None:
        inbox = Inbox()
        inbox.refusals = 1_000_000
        async with connected(harness, inbox):
            await harness.says("keep me")
            await inbox.until(lambda box: bool(box.offered), "the offer")
        async with connected(harness) as (_, after):
            await after.take("keep me")
            assert {e.message_id for e in after.kept} == {e.message_id for e in inbox.offered}

    async def test_what_was_written_during_a_break_comes(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, inbox, _):
            await harness.drop()
            await harness.says("in between")
            async with asyncio.timeout(PATIENCE):
                while "in between" not in inbox.texts():
                    try:
                        await adapter.probe()
                    except Exception:  # noqa: BLE001 - whatever it is, a new connection is due
                        await adapter.disconnect()
                        await adapter.connect(inbox.receive)
                    await asyncio.sleep(0.05)


class NoThreadsContract:
    """For platforms without threads."""

    async def test_a_thread_that_cannot_be_is_ignored(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            source = event.source
            target = ChatTarget(source.platform, source.chat_id, "no-such-thread", source.account)
            await adapter.send(target, OutgoingMessage("anyway"), "no-thread-1")
            assert [m.text.strip() for m in await harness.shown(source.chat_id)] == ["anyway"]
