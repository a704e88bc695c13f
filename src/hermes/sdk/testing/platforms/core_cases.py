"""Cases that hold for every platform."""

import asyncio
import logging
import os
import time
from typing import Any

import pytest

from hermes.sdk.platforms import (
    Adapter,
    AdapterError,
    CredentialsRefused,
    NotConnected,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
    compose,
)
from hermes.sdk.testing.platforms.harness import (
    PATIENCE,
    Harness,
    Inbox,
    attempt,
    connected,
    describe_error,
    failure,
    shown_with,
    talking,
)

WORDS = {
    "accents": "Grüße aus Düsseldorf, naïve café",
    "emoji": "👍 fine 🎉",
    "joined emoji": "👩‍👩‍👧‍👦 and 🇩🇪 and 👋🏽",
    "outside the basic plane": "𝒳 𠜎 𝄞",
    "right to left": "שלום עולם مرحبا",
    "signs of markup": 'if a < b & c > d: "x" * 2',
    "several lines": "one\n\ntwo\n  three",
    "a command": "/stop now",
}
OUTCOMES: dict[str, Any] = {
    "rate_limited": SendLater,
    "server_error": SendLater | SendUnsure,
    "chat_gone": SendRefused,
    "cut_before": SendLater | SendUnsure | NotConnected,
    "cut_after": SendUnsure,  # `SendLater` would have the gateway send it again: shown twice
    "format_refused": str,  # sent without formatting
}
"""What a send must come to in each trouble."""


class ConnectionCases:
    async def test_connects_again_after_a_disconnect(self, harness: Harness) -> None:
        adapter, inbox = harness.adapter(), Inbox()
        for word in ("first", "second"):
            await adapter.connect(inbox.receive)
            await harness.says(word)
            await inbox.take(word)
            await adapter.disconnect()

    async def test_disconnects_twice_without_complaint(self, harness: Harness) -> None:
        adapter = harness.adapter()
        await adapter.disconnect()
        await adapter.connect(Inbox().receive)
        await adapter.disconnect()
        await adapter.disconnect()

    async def test_a_restarted_gateway_takes_over(self, harness: Harness) -> None:
        async with connected(harness) as (_, inbox):
            await harness.says("to the old one")
            await inbox.take("to the old one")
        async with connected(harness) as (_, inbox):
            await harness.says("to the new one")
            await inbox.take("to the new one")
            assert inbox.once().count("to the old one") == 0

    async def test_refused_credentials_are_said_at_once_and_not_tried_again(
        self, harness: Harness
    ) -> None:
        await harness.refuse_credentials()
        adapter = harness.adapter()
        error = await failure(adapter.connect(Inbox().receive))
        assert isinstance(error, CredentialsRefused)
        assert harness.manifest.label.lower() in str(error).lower()
        await adapter.disconnect()

    async def test_a_platform_that_is_away_is_no_matter_of_credentials(
        self, harness: Harness
    ) -> None:
        await harness.gone()
        adapter = harness.adapter()
        assert isinstance(await failure(adapter.connect(Inbox().receive)), NotConnected)
        await adapter.disconnect()

    async def test_a_failed_connect_holds_nothing(self, harness: Harness) -> None:
        """The lock of the token and all tasks are free again."""
        before = asyncio.all_tasks()
        await harness.gone()
        for _ in range(2):  # the second would meet the lock of the first
            adapter = harness.adapter()
            error = await failure(adapter.connect(Inbox().receive))
            assert str(os.getpid()) not in str(error)
        for _ in range(200):
            if asyncio.all_tasks() <= before:
                break
            await asyncio.sleep(0.01)
        assert asyncio.all_tasks() <= before

    async def test_a_second_gateway_with_the_same_token_is_told_who_has_it(
        self, harness: Harness
    ) -> None:
        async with connected(harness) as (_, inbox):
            second = harness.adapter()
            error = await failure(second.connect(Inbox().receive))
            assert str(os.getpid()) in str(error)
            await second.disconnect()
            await harness.says("still here")
            await inbox.take("still here")
        async with connected(harness):
            pass

    async def test_the_probe_is_content_while_connected(self, harness: Harness) -> None:
        async with connected(harness) as (adapter, _):
            await adapter.probe()

    async def test_the_probe_fails_without_a_connection(self, harness: Harness) -> None:
        await failure(harness.adapter().probe())

    async def test_the_probe_fails_when_the_platform_is_gone(self, harness: Harness) -> None:
        async with connected(harness) as (adapter, _):
            await harness.gone()
            await failure(adapter.probe())

    async def test_the_probe_fails_once_the_credentials_are_refused(self, harness: Harness) -> None:
        async with connected(harness) as (adapter, _):
            await harness.refuse_credentials()
            await failure(adapter.probe())

    async def test_messages_flow_again_after_a_broken_connection(self, harness: Harness) -> None:
        async with connected(harness) as (adapter, inbox):
            await harness.drop()
            number, deadline = 0, time.monotonic() + PATIENCE
            while not inbox.kept and time.monotonic() < deadline:
                await harness.says(f"after the break {number}")
                number += 1
                await self._as_the_supervisor_does(adapter, inbox)
            assert inbox.kept
            assert await adapter.send(
                inbox.kept[0].source.target, OutgoingMessage("back"), "back-1"
            )

    async def _as_the_supervisor_does(self, adapter: Adapter, inbox: Inbox) -> None:
        try:
            await adapter.probe()
        except AdapterError:
            await adapter.disconnect()
            await adapter.connect(inbox.receive)
        for _ in range(10):
            if inbox.kept:
                return
            await asyncio.sleep(0.05)


class InboundCases:
    async def test_the_source_says_exactly_who_wrote_where(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            source = event.source
            assert source.platform == harness.manifest.name
            assert source.chat_id == harness.chat_id()
            assert source.chat_type == "dm"
            assert source.user_id == harness.user_id()
            assert (source.thread_id, source.is_bot) == ("", False)
            assert source.account == adapter.account
            assert event.message_id
            assert event.sent_at > 1_000_000_000
            assert (event.button, event.media, event.reply_to_id) == ("", (), "")

    async def test_two_people_are_told_apart(self, harness: Harness) -> None:
        async with connected(harness) as (_, inbox):
            await harness.says("from ann", chat="ann", user="ann")
            await harness.says("from bob", chat="bob", user="bob")
            ann, bob = await inbox.take("from ann"), await inbox.take("from bob")
            assert ann.source.user_id == harness.user_id("ann") != bob.source.user_id
            assert ann.source.chat_id == harness.chat_id("ann") != bob.source.chat_id

    async def test_a_private_message_is_addressed_to_us(self, harness: Harness) -> None:
        async with talking(harness) as (_, _, event):
            assert event.addressed

    async def test_each_message_has_an_id_of_its_own(self, harness: Harness) -> None:
        async with connected(harness) as (_, inbox):
            for _ in range(3):
                await harness.says("the same")
            await inbox.until(lambda box: box.once().count("the same") == 3, "all three")

    async def test_a_message_delivered_again_keeps_its_id(self, harness: Harness) -> None:
        async with talking(harness) as (_, inbox, event):
            await harness.again(event.message_id)
            await harness.says("after it")
            await inbox.take("after it")
            assert {e.message_id for e in inbox.kept if e.text == event.text} == {event.message_id}

    async def test_a_message_that_was_not_kept_comes_again(self, harness: Harness) -> None:
        inbox = Inbox()
        inbox.refusals = 2
        async with connected(harness, inbox):
            await harness.says("do not lose me")
            await inbox.take("do not lose me")
            ids = {event.message_id for event in inbox.offered}
            assert (len(ids), len(inbox.offered) >= 3) == (1, True)

    async def test_a_fault_of_the_gateway_neither_loses_nor_disconnects(
        self, harness: Harness
    ) -> None:
        inbox = Inbox()
        inbox.faults = 1
        async with connected(harness, inbox) as (adapter, _):
            await harness.says("the first")
            await harness.says("the second")
            await inbox.take("the second")
            await inbox.take("the first")
            await adapter.probe()

    async def test_a_chat_keeps_its_order(self, harness: Harness) -> None:
        async with connected(harness) as (_, inbox):
            for number in range(8):
                await harness.says(f"number {number}")
            await inbox.take("number 7")
            assert inbox.once() == [f"number {number}" for number in range(8)]

    async def test_order_holds_when_the_first_is_refused(self, harness: Harness) -> None:
        inbox = Inbox()
        inbox.refusals = 1
        async with connected(harness, inbox):
            for number in range(3):
                await harness.says(f"number {number}")
            await inbox.until(lambda box: len(box.once()) == 3, "all three")
            assert inbox.once() == [f"number {number}" for number in range(3)]

    @pytest.mark.parametrize("text", WORDS.values(), ids=WORDS)
    async def test_text_comes_as_it_was_written(self, harness: Harness, text: str) -> None:
        async with connected(harness) as (_, inbox):
            await harness.says(text)
            await inbox.take(text)

    async def test_long_text_comes_whole(self, harness: Harness) -> None:
        text = "long " * (min(harness.manifest.capabilities.max_chars, 3500) // 5 - 1) + "end"
        async with connected(harness) as (_, inbox):
            await harness.says(text)
            await inbox.take(text)

    async def test_blanks_harm_nothing(self, harness: Harness) -> None:
        async with connected(harness) as (_, inbox):
            await harness.says(" ")
            await harness.says("\n\n")
            await harness.says("after them")
            await inbox.take("after them")

    async def test_our_own_messages_do_not_come_back(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, inbox, event):
            await adapter.send(event.source.target, OutgoingMessage("ours"), "ours-1")
            await harness.says("theirs")
            await inbox.take("theirs")
            assert "ours" not in inbox.texts()

    async def test_a_chat_that_wrote_is_in_the_directory(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            chats = {chat.chat_id: chat for chat in await adapter.chats()}
            assert chats[event.source.chat_id].chat_type == "dm"
            assert chats[event.source.chat_id].name


class OutboundCases:
    async def test_a_sent_message_is_shown_under_its_id(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            message_id = await adapter.send(event.source.target, OutgoingMessage("answer"), "key-1")
            (shown,) = await harness.shown(event.source.chat_id)
            assert (shown.id, shown.text.strip(), shown.edits) == (message_id, "answer", 0)
            assert (shown.media, shown.buttons) == ((), ())

    async def test_messages_are_shown_in_the_order_they_were_sent(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            for number in range(4):
                out = OutgoingMessage(f"part {number}")
                await adapter.send(event.source.target, out, f"part-{number}")
            shown = [message.text.strip() for message in await harness.shown(event.source.chat_id)]
            assert shown == [f"part {number}" for number in range(4)]

    async def test_a_message_goes_to_its_chat_and_to_no_other(self, harness: Harness) -> None:
        async with connected(harness) as (adapter, inbox):
            for name in ("ann", "bob"):
                await harness.says(f"from {name}", chat=name, user=name)
            ann, bob = await inbox.take("from ann"), await inbox.take("from bob")
            await adapter.send(ann.source.target, OutgoingMessage("for ann only"), "ann-1")
            assert len(await shown_with(harness, "for ann only", ann.source.chat_id)) == 1
            assert await harness.shown(bob.source.chat_id) == []

    async def test_chats_are_served_side_by_side(self, harness: Harness) -> None:
        async with connected(harness) as (adapter, inbox):
            names = ("ann", "bob", "cy")
            for name in names:
                await harness.says(f"from {name}", chat=name, user=name)
            targets = [(await inbox.take(f"from {name}")).source.target for name in names]
            sends = [adapter.send(t, OutgoingMessage("to all"), f"{t.chat_id}-1") for t in targets]
            ids = await asyncio.gather(*sends)
            assert all(ids)
            for target in targets:
                assert len(await shown_with(harness, "to all", target.chat_id)) == 1

    @pytest.mark.parametrize(
        "text", [text for name, text in WORDS.items() if name != "signs of markup"]
    )
    async def test_text_is_shown_as_it_was_sent(self, harness: Harness, text: str) -> None:
        async with talking(harness) as (adapter, _, event):
            await adapter.send(event.source.target, OutgoingMessage(text, plain=text), "words-1")
            assert [m.text.strip() for m in await harness.shown(event.source.chat_id)] == [text]

    async def test_markdown_of_the_agent_is_shown_readable(self, harness: Harness) -> None:
        words = "**bold** & <tag> `code`"
        (message,) = compose(words, harness.manifest.capabilities)
        async with talking(harness) as (adapter, _, event):
            await adapter.send(event.source.target, message, "markdown-1")
            (shown,) = await harness.shown(event.source.chat_id)
            assert [word for word in ("bold", "& <tag>", "code") if word not in shown.text] == []

    async def test_a_message_at_the_limit_is_shown_whole(self, harness: Harness) -> None:
        text = "x" * min(harness.manifest.capabilities.max_chars, 100_000)
        async with talking(harness) as (adapter, _, event):
            await adapter.send(event.source.target, OutgoingMessage(text, plain=text), "long-1")
            (shown,) = await harness.shown(event.source.chat_id)
            assert len(shown.text.replace("\n", "")) == len(text)

    async def test_blanks_are_refused_for_good_or_shown(self, harness: Harness) -> None:
        """Never tried for ever, which would hold up the chat."""
        async with talking(harness) as (adapter, _, event):
            target = event.source.target
            outcome = await attempt(adapter, target, OutgoingMessage(" \n "), "blank-1")
            assert isinstance(outcome, str | SendRefused)
            await adapter.send(target, OutgoingMessage("after it"), "blank-2")
            assert len(await shown_with(harness, "after it", target.chat_id)) == 1

    async def test_nothing_is_sent_without_a_connection(self, harness: Harness) -> None:
        async with talking(harness) as (_, _, event):
            target = event.source.target
        assert isinstance(
            await attempt(harness.adapter(), target, OutgoingMessage("too early"), "early-1"),
            AdapterError,
        )
        assert await harness.shown(target.chat_id) == []

    async def test_nothing_is_sent_after_a_disconnect(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target = event.source.target
        outcome = await attempt(adapter, target, OutgoingMessage("too late"), "late-1")
        assert isinstance(outcome, AdapterError)
        assert not isinstance(outcome, SendRefused)  # it may be sent later
        assert await harness.shown(target.chat_id) == []


class TroubleCases:
    """Platforms that refuse, limit or break."""

    sdk_retries: frozenset[str] = frozenset()
    """Troubles that the platform's client library gets over by itself: the message is there after
    all, once. The test class of such a platform says so here."""

    async def test_each_trouble_of_a_send_has_its_outcome(self, harness: Harness) -> None:
        for kind in sorted(harness.troubles):
            async with talking(harness) as (adapter, _, event):
                target, text = event.source.target, kind.replace("_", " ")
                message = OutgoingMessage(f"*{text}*" if kind == "format_refused" else text, text)
                harness.trouble(kind)  # type: ignore[arg-type]
                outcome = await attempt(adapter, target, message, kind)
                expected = str if kind in self.sdk_retries else OUTCOMES[kind]
                assert isinstance(outcome, expected), (kind, outcome)
                is_shown = isinstance(outcome, str) or kind == "cut_after"
                assert len(await shown_with(harness, text, target.chat_id)) == int(is_shown), kind
                if isinstance(outcome, SendRefused):
                    await adapter.probe()
                if kind in ("rate_limited", "server_error") and not is_shown:
                    seconds = getattr(outcome, "seconds", 0.1)
                    assert 0 < seconds <= 3600
                    await asyncio.sleep(min(seconds, 2.0))
                    await adapter.send(target, message, kind)
                    assert len(await shown_with(harness, text, target.chat_id)) == 1, kind


class HonestyCases:
    async def test_the_manifest_says_what_the_adapter_can_do(self, harness: Harness) -> None:
        able = harness.manifest.capabilities
        declared = {
            "edit": able.edits,
            "typing": able.typing,
            "react": able.reactions,
            "was_delivered": able.checks_delivery,
            "fetch": bool(able.media_in),
        }
        adapter = type(harness.adapter())
        really = {name: getattr(adapter, name) is not getattr(Adapter, name) for name in declared}
        assert really == declared

    async def test_neither_errors_nor_the_log_show_a_secret(
        self, harness: Harness, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The logs of the libraries are on, as when a user looks for a fault."""
        caplog.set_level(logging.DEBUG)
        assert all(harness.secrets)
        errors: list[BaseException] = []
        async with talking(harness) as (adapter, _, event):
            for number, kind in enumerate(sorted(harness.troubles)):
                harness.trouble(kind)  # type: ignore[arg-type]
                out = OutgoingMessage("x", plain="x")
                outcome = await attempt(adapter, event.source.target, out, f"secret-{number}")
                if isinstance(outcome, Exception):
                    errors.append(outcome)
            second = harness.adapter()
            errors.append(await failure(second.connect(Inbox().receive)))
            await second.disconnect()
        await harness.refuse_credentials()
        errors.append(await failure(harness.adapter().connect(Inbox().receive)))
        await harness.gone()
        errors.append(await failure(harness.adapter().connect(Inbox().receive)))
        for error in errors:
            assert not [secret for secret in harness.secrets if secret in describe_error(error)], (
                error
            )
        lines = [_logged(record) for record in caplog.records]
        shown = [line for line in lines if any(each in line for each in harness.secrets)]
        assert shown == []


def _logged(record: logging.LogRecord) -> str:
    try:
        return logging.Formatter().format(record)
    except TypeError:  # imapclient logs a broken connection with arguments that do not fit
        return f"{record.msg} {record.args}"
