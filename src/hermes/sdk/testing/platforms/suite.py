"""What every adapter must pass.

A platform's `tests/integration/platforms/<name>/test_contract.py` has one class with the mixins of
what the platform can do, `ChatContract` or `AdapterContract` last, and the fixture `harness`:

    class TestTelegram(RepliesContract, ButtonsContract, ChatContract):
        sdk_retries = frozenset()

        @pytest.fixture
        async def harness(self, tmp_path: Path) -> AsyncIterator[Harness]:
            harness = await TelegramHarness.start(tmp_path)
            yield harness
            await harness.close()

`test_no_case_is_left_out` fails when the mixins and what the platform can do differ. No case is
skipped: what a platform cannot do has no case.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hermes.sdk.platforms import (
    AdapterError,
    Button,
    ChatTarget,
    Media,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.sdk.testing.platforms.core_cases import (
    ConnectionCases,
    HonestyCases,
    InboundCases,
    OutboundCases,
    TroubleCases,
)
from hermes.sdk.testing.platforms.harness import (
    PATIENCE,
    File,
    Harness,
    Inbox,
    attempt,
    connected,
    failure,
    query_of,
    shown_with,
    talking,
)

PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15"
    b"\xc4\x89\x00\x00\x00\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00\x00\x00\x00IEND\xaeB`\x82"
)
SAMPLES = {
    "image": File("image", "picture.png", PNG, "image/png"),
    "voice": File("voice", "voice.ogg", b"OggS" + bytes(200), "audio/ogg"),
    "audio": File("audio", "song.mp3", b"ID3\x03" + bytes(200), "audio/mpeg"),
    "video": File("video", "clip.mp4", b"\x00\x00\x00\x18ftypmp42" + bytes(200), "video/mp4"),
    "document": File("document", "report.pdf", b"%PDF-1.4 " + bytes(200), "application/pdf"),
}


class EditsContract:
    sdk_retries: frozenset[str]

    async def test_an_edit_changes_the_message_where_it_is(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target = event.source.target
            message_id = await adapter.send(target, OutgoingMessage("a beginning"), "edit-1")
            await adapter.edit(target, message_id, OutgoingMessage("a beginning and an end"))
            (shown,) = await harness.shown(target.chat_id)
            assert (shown.id, shown.text.strip()) == (message_id, "a beginning and an end")
            assert shown.edits == 1

    async def test_an_edit_that_changes_nothing_is_no_error(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target = event.source.target
            message_id = await adapter.send(target, OutgoingMessage("as it is"), "same-1")
            await adapter.edit(target, message_id, OutgoingMessage("as it is"))
            (shown,) = await harness.shown(target.chat_id)
            assert shown.text.strip() == "as it is"

    async def test_a_restarted_gateway_goes_on_editing(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target = event.source.target
            message_id = await adapter.send(target, OutgoingMessage("before"), "restart-1")
        async with connected(harness) as (adapter, _):
            await adapter.edit(target, message_id, OutgoingMessage("after"))
            (shown,) = await harness.shown(target.chat_id)
            assert (shown.id, shown.text.strip()) == (message_id, "after")

    async def test_a_failed_edit_says_so_and_works_later(self, harness: Harness) -> None:
        passing = sorted(harness.troubles & {"rate_limited", "server_error"} - self.sdk_retries)
        async with talking(harness) as (adapter, _, event):
            target = event.source.target
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
            await adapter.typing(event.source.target)
            assert await harness.typing(event.source.chat_id) >= 1
            assert await harness.shown(event.source.chat_id) == []


class ReactionsContract:
    async def test_a_reaction_comes_and_goes(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            chat, target = event.source.chat_id, event.source.target
            await adapter.react(target, event.message_id, "👀")
            assert await harness.reactions(event.message_id, chat) == ["👀"]
            await adapter.react(target, event.message_id, "👀", on=False)
            assert await harness.reactions(event.message_id, chat) == []

    async def test_the_same_reaction_twice_is_no_error(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            for _ in range(2):
                await adapter.react(event.source.target, event.message_id, "👍")
            assert await harness.reactions(event.message_id, event.source.chat_id) == ["👍"]


class ThreadsContract:
    async def test_an_answer_stays_in_the_thread(self, harness: Harness) -> None:
        async with connected(harness) as (adapter, inbox):
            await harness.says("in a thread", chat_type="group", thread="garden", mention=True)
            await inbox.until(lambda box: bool(box.kept), "the message")
            source = inbox.kept[0].source
            assert source.thread_id
            await adapter.send(source.target, OutgoingMessage("there too"), "thread-1")
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
            target = event.source.target
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
            target = event.source.target
            message = OutgoingMessage("May I?", plain="May I?", buttons=self.CHOICES)
            message_id = await adapter.send(target, message, "presser-1")
            await harness.presses(message_id, "approve:42:once", chat=target.chat_id, user="eve")
            press = await inbox.press("approve:42:once")
            assert press.source.user_id == harness.user_id("eve") != event.source.user_id
            assert press.source.chat_type == "group"

    async def test_each_press_is_an_event_of_its_own(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, inbox, event):
            target = event.source.target
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
            await adapter.send(event.source.target, OutgoingMessage("to you all"), "group-1")
            (shown,) = await harness.shown(event.source.chat_id)
            assert shown.text.strip() == "to you all"
            assert await harness.shown() == []


class RepliesContract:
    async def test_a_reply_says_what_it_answers(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, inbox, event):
            target = event.source.target
            ours = await adapter.send(target, OutgoingMessage("the question"), "reply-1")
            await harness.says("the answer", chat=target.chat_id, reply_to=ours)
            reply = await inbox.take("the answer")
            assert reply.reply_to_id == ours
            assert "the question" in reply.reply_to_text

    async def test_our_answer_points_to_the_message(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            message = OutgoingMessage("because", reply_to=event.message_id)
            await adapter.send(event.source.target, message, "reply-2")
            (shown,) = await harness.shown(event.source.chat_id)
            assert shown.reply_to == event.message_id


class GroupRepliesContract:
    """For platforms that have groups and replies."""

    async def test_a_reply_to_us_in_a_group_is_addressed_to_us(self, harness: Harness) -> None:
        async with talking(harness, group=True) as (adapter, inbox, event):
            chat = event.source.chat_id
            ours = await adapter.send(event.source.target, OutgoingMessage("ask me"), "reply-3")
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


class DeliveryCheckContract:
    """Both ways are fine: the message is found, or sending it again shows only one."""

    async def test_a_message_that_arrived_unheard_is_shown_once(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target, message = event.source.target, OutgoingMessage("in doubt", plain="in doubt")
            harness.trouble("cut_after")
            await attempt(adapter, target, message, "doubt-1")
        async with connected(harness) as (adapter, _):
            query = query_of("doubt-1", after_id=event.message_id)
            found = await adapter.was_delivered(query, target, message)
            if found is None:
                found = await adapter.send(target, message, "doubt-1")
            (shown,) = await harness.shown(target.chat_id)
            assert (shown.id, shown.text.strip()) == (found, "in doubt")

    async def test_an_absent_message_is_not_found(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target, message = (event.source.target, OutgoingMessage("not there", plain="not there"))
            query = query_of("absent-1", after_id=event.message_id)
            assert await adapter.was_delivered(query, target, message) is None
            await adapter.send(target, message, "absent-1")
            assert len(await shown_with(harness, "not there", target.chat_id)) == 1

    async def test_a_message_lost_with_its_connection_is_sent_again(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target, message = (event.source.target, OutgoingMessage("made good", plain="made good"))
            harness.trouble("cut_before")
            outcome = await attempt(adapter, target, message, "good-1")
        async with connected(harness) as (adapter, _):
            query = query_of("good-1", after_id=event.message_id)
            if isinstance(outcome, AdapterError):
                assert await adapter.was_delivered(query, target, message) is None
                await adapter.send(target, message, "good-1")
            assert len(await shown_with(harness, "made good", target.chat_id)) == 1

    async def test_an_earlier_message_with_the_same_text_is_not_taken_for_it(
        self, harness: Harness
    ) -> None:
        async with talking(harness) as (adapter, inbox, event):
            target, message = event.source.target, OutgoingMessage("Done.", plain="Done.")
            await adapter.send(target, message, "done-1")
            later = await harness.says("and now?")
            await inbox.take("and now?")
            query = query_of("done-2", after_id=later)
            assert await adapter.was_delivered(query, target, message) is None
            await adapter.send(target, message, "done-2")
            assert len(await shown_with(harness, "Done.", target.chat_id)) == 2

    async def test_repeated_checks_lead_to_one_message(self, harness: Harness) -> None:
        """Asked twice, as after two crashes in a row."""
        async with talking(harness) as (adapter, _, event):
            target, message = event.source.target, OutgoingMessage("only one", plain="only one")
            query = query_of("one-1", after_id=event.message_id)
            await adapter.send(target, message, "one-1")
            for _ in range(2):
                if await adapter.was_delivered(query, target, message) is None:
                    await adapter.send(target, message, "one-1")
            assert len(await shown_with(harness, "only one", target.chat_id)) == 1


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []


def _has_more_than(count: int, inbox: Inbox) -> bool:
    return len(inbox.kept) > count


class MediaInContract:
    async def test_each_kind_of_file_comes_as_what_it_is(self, harness: Harness) -> None:
        async with connected(harness) as (adapter, inbox):
            for kind in harness.manifest.capabilities.media_in:
                sample, before = SAMPLES[kind], len(inbox.kept)
                await harness.says(f"my {kind}", files=(sample,))
                await inbox.until(partial(_has_more_than, before), kind)
                (media,) = inbox.kept[before].media
                assert media.kind == kind
                assert media.size in {0, len(sample.data)}
                fetched = await adapter.fetch(media, 1_000_000)
                assert Path(fetched.path).read_bytes() == sample.data
                assert fetched.size == len(sample.data)

    async def test_the_text_of_a_file_come_with_it(self, harness: Harness) -> None:
        sample = SAMPLES[harness.manifest.capabilities.media_in[0]]
        async with connected(harness) as (_, inbox):
            await harness.says("look at this", files=(sample,))
            event = await inbox.take("look at this")
            assert len(event.media) == 1

    async def test_a_fetched_file_is_in_the_cache(self, harness: Harness) -> None:
        sample = SAMPLES[harness.manifest.capabilities.media_in[0]]
        async with connected(harness) as (adapter, inbox):
            await harness.says("keep it", files=(sample,))
            event = await inbox.take("keep it")
            path = Path((await adapter.fetch(event.media[0], 1_000_000)).path)
            assert path.resolve().is_relative_to(harness.cache.resolve())
            assert not path.stat().st_mode & 0o077

    async def test_a_file_that_is_too_large_leaves_nothing_behind(self, harness: Harness) -> None:
        sample = SAMPLES[harness.manifest.capabilities.media_in[0]]
        async with connected(harness) as (adapter, inbox):
            await harness.says("a large one", files=(sample,))
            event = await inbox.take("a large one")
            error = await failure(adapter.fetch(event.media[0], len(sample.data) - 1))
            assert "large" in str(error)
            assert files_below(harness.cache) == []

    async def test_a_hostile_name_stays_in_the_cache(self, harness: Harness) -> None:
        kind = harness.manifest.capabilities.media_in[-1]
        sample = SAMPLES[kind]
        async with connected(harness) as (adapter, inbox):
            for number, name in enumerate(("../../../evil.sh", "/etc/passwd", "..", "a\x01b.txt")):
                file = File(sample.kind, name, sample.data, sample.mime)
                await harness.says(f"innocent {number}", files=(file,))
                event = await inbox.take(f"innocent {number}")
                path = Path((await adapter.fetch(event.media[0], 1_000_000)).path)
                assert path.resolve().is_relative_to(harness.cache.resolve())
                assert path.read_bytes() == sample.data
                assert path.name.isprintable()

    async def test_files_of_one_name_do_not_overwrite_each_other(self, harness: Harness) -> None:
        sample = SAMPLES[harness.manifest.capabilities.media_in[-1]]
        async with connected(harness) as (adapter, inbox):
            paths = []
            for data in (sample.data + b"one", sample.data + b"two"):
                file = File(sample.kind, sample.name, data, sample.mime)
                before = len(inbox.kept)
                await harness.says("twice", files=(file,))
                await inbox.until(partial(_has_more_than, before), "the file")
                media = await adapter.fetch(inbox.kept[before].media[0], 1_000_000)
                paths.append((Path(media.path), data))
            for path, data in paths:
                assert path.read_bytes() == data


class MediaOutContract:
    async def test_each_kind_of_file_is_shown(self, harness: Harness, tmp_path: Path) -> None:
        async with talking(harness) as (adapter, _, event):
            for kind in harness.manifest.capabilities.media_out:
                sample = SAMPLES[kind]
                path = tmp_path / sample.name
                path.write_bytes(sample.data)
                media = Media(sample.kind, sample.name, sample.mime, path=str(path))
                out = OutgoingMessage(f"a {kind}", plain=f"a {kind}", media=(media,))
                assert await adapter.send(event.source.target, out, f"media-{kind}")
            shown = await harness.shown(event.source.chat_id)
            files = [name for message in shown for name in message.media]
            kinds = harness.manifest.capabilities.media_out
            assert files == [SAMPLES[kind].name for kind in kinds]

    async def test_the_text_of_a_file_are_shown(self, harness: Harness, tmp_path: Path) -> None:
        sample = SAMPLES[harness.manifest.capabilities.media_out[0]]
        path = tmp_path / sample.name
        path.write_bytes(sample.data)
        async with talking(harness) as (adapter, _, event):
            media = Media(sample.kind, sample.name, sample.mime, path=str(path))
            out = OutgoingMessage("here it is", plain="here it is", media=(media,))
            await adapter.send(event.source.target, out, "words-1")
            texts = [message.text.strip() for message in await harness.shown(event.source.chat_id)]
            assert "here it is" in texts

    async def test_a_file_that_is_not_there_is_refused(
        self, harness: Harness, tmp_path: Path
    ) -> None:
        sample = SAMPLES[harness.manifest.capabilities.media_out[0]]
        async with talking(harness) as (adapter, _, event):
            media = Media(sample.kind, sample.name, sample.mime, path=str(tmp_path / "missing"))
            sending = adapter.send(
                event.source.target, OutgoingMessage(media=(media,)), "missing-1"
            )
            assert isinstance(await failure(sending), SendRefused)
            assert await harness.shown(event.source.chat_id) == []

    async def test_a_file_beyond_the_limit_is_refused(
        self, harness: Harness, tmp_path: Path
    ) -> None:
        sample = SAMPLES[harness.manifest.capabilities.media_out[0]]
        path = tmp_path / sample.name
        with path.open("wb") as file:
            file.truncate(harness.manifest.capabilities.max_upload_bytes + 1)
        async with talking(harness) as (adapter, _, event):
            media = Media(sample.kind, sample.name, sample.mime, path=str(path))
            sending = adapter.send(event.source.target, OutgoingMessage(media=(media,)), "huge-1")
            assert isinstance(await failure(sending), SendRefused)
            assert await harness.shown(event.source.chat_id) == []


MIXINS: dict[type, Callable[[Harness], object]] = {
    EditsContract: lambda harness: harness.manifest.capabilities.edits,
    TypingContract: lambda harness: harness.manifest.capabilities.typing,
    ReactionsContract: lambda harness: harness.manifest.capabilities.reactions,
    ThreadsContract: lambda harness: harness.manifest.capabilities.threads,
    NoThreadsContract: lambda harness: not harness.manifest.capabilities.threads,
    ButtonsContract: lambda harness: harness.manifest.capabilities.buttons,
    MediaInContract: lambda harness: harness.manifest.capabilities.media_in,
    MediaOutContract: lambda harness: harness.manifest.capabilities.media_out,
    DeliveryCheckContract: lambda harness: harness.manifest.capabilities.checks_delivery,
    GroupsContract: lambda harness: "groups" in harness.features,
    RepliesContract: lambda harness: "replies" in harness.features,
    GroupRepliesContract: lambda harness: {"groups", "replies"} <= harness.features,
    BotsContract: lambda harness: "bots" in harness.features,
    KeepsContract: lambda harness: "keeps" in harness.features,
}
"""The cases of each ability, and whether a platform has it."""


class AdapterContract(ConnectionCases, InboundCases, OutboundCases, TroubleCases, HonestyCases):
    """Cases for all. The subclass gives the fixture `harness`."""

    async def test_no_case_is_left_out(self, harness: Harness) -> None:
        used = {mixin.__name__ for mixin in MIXINS if issubclass(type(self), mixin)}
        able = {mixin.__name__ for mixin, has in MIXINS.items() if has(harness)}
        assert used == able


class ChatContract(
    EditsContract,
    TypingContract,
    ReactionsContract,
    ThreadsContract,
    MediaInContract,
    MediaOutContract,
    GroupsContract,
    BotsContract,
    KeepsContract,
    AdapterContract,
):
    """What every chat service of people has; what only some have comes before it."""
