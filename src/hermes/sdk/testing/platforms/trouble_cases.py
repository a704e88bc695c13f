"""Cases of platforms that refuse, limit, break, or leave us in doubt."""

import asyncio

from hermes.sdk.platforms import (
    AdapterError,
    NotConnected,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.sdk.testing.platforms.driving import (
    attempt,
    connected,
    query_of,
    shown_with,
    talking,
    target_of,
)
from hermes.sdk.testing.platforms.harness import Harness


class Troubles:
    sdk_retries: frozenset[str] = frozenset()
    """Troubles that the platform's client library gets over by itself: the message is there after
    all, once. The test class of such a platform says so here."""


class RateLimitedContract(Troubles):
    async def test_a_rate_limit_says_when_to_try_again(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target = target_of(event.source)
            harness.trouble("rate_limited")
            outcome = await attempt(adapter, target, OutgoingMessage("soon"), "limit-1")
            if "rate_limited" in self.sdk_retries:
                assert isinstance(outcome, str)
            else:
                assert isinstance(outcome, SendLater)
                assert 0 < outcome.seconds <= 3600
                assert await harness.shown(target.chat_id) == []
                await asyncio.sleep(min(outcome.seconds, 2.0))
                await adapter.send(target, OutgoingMessage("soon"), "limit-1")
            assert len(await shown_with(harness, "soon", target.chat_id)) == 1


class ServerErrorContract(Troubles):
    async def test_a_fault_of_the_platform_is_never_silent(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target = target_of(event.source)
            harness.trouble("server_error")
            outcome = await attempt(adapter, target, OutgoingMessage("once"), "fault-1")
            if "server_error" in self.sdk_retries:
                assert isinstance(outcome, str)
            else:
                assert isinstance(outcome, SendLater | SendUnsure)
                assert await harness.shown(target.chat_id) == []
                await adapter.send(target, OutgoingMessage("once"), "fault-1")
            assert len(await shown_with(harness, "once", target.chat_id)) == 1


class ChatGoneContract:
    async def test_a_chat_that_is_gone_is_refused_for_good(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target = target_of(event.source)
            harness.trouble("chat_gone")
            outcome = await attempt(adapter, target, OutgoingMessage("anybody?"), "gone-1")
            assert isinstance(outcome, SendRefused)
            assert await harness.shown(target.chat_id) == []
            await adapter.probe()


class FormatRefusedContract:
    async def test_refused_formatting_is_shown_plain(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target = target_of(event.source)
            harness.trouble("format_refused")
            message = OutgoingMessage("*formatted*", plain="without formatting")
            message_id = await adapter.send(target, message, "format-1")
            (shown,) = await harness.shown(target.chat_id)
            assert (shown.id, shown.text.strip()) == (message_id, "without formatting")


class CutsContract(Troubles):
    async def test_a_cut_before_leaves_nothing_and_says_so(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target = target_of(event.source)
            harness.trouble("cut_before")
            outcome = await attempt(adapter, target, OutgoingMessage("lost"), "cut-1")
            if "cut_before" in self.sdk_retries:
                assert isinstance(outcome, str)
                assert len(await shown_with(harness, "lost", target.chat_id)) == 1
            else:
                assert isinstance(outcome, SendLater | SendUnsure | NotConnected)
                assert await harness.shown(target.chat_id) == []

    async def test_a_cut_after_is_never_called_not_sent(self, harness: Harness) -> None:
        """`SendLater` would have the gateway send it again, and people would see it twice."""
        async with talking(harness) as (adapter, _, event):
            target = target_of(event.source)
            harness.trouble("cut_after")
            outcome = await attempt(adapter, target, OutgoingMessage("there"), "cut-2")
            if "cut_after" in self.sdk_retries:
                assert isinstance(outcome, str)
            else:
                assert isinstance(outcome, SendUnsure)
            assert len(await shown_with(harness, "there", target.chat_id)) == 1


class DeliveryCheckContract:
    """Both ways are fine: the message is found, or sending it again shows only one."""

    async def test_a_message_that_arrived_unheard_is_shown_once(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target, message = target_of(event.source), OutgoingMessage("in doubt", plain="in doubt")
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
            target, message = (
                target_of(event.source),
                OutgoingMessage("not there", plain="not there"),
            )
            query = query_of("absent-1", after_id=event.message_id)
            assert await adapter.was_delivered(query, target, message) is None
            await adapter.send(target, message, "absent-1")
            assert len(await shown_with(harness, "not there", target.chat_id)) == 1

    async def test_a_message_lost_with_its_connection_is_sent_again(self, harness: Harness) -> None:
        async with talking(harness) as (adapter, _, event):
            target, message = (
                target_of(event.source),
                OutgoingMessage("made good", plain="made good"),
            )
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
            target, message = target_of(event.source), OutgoingMessage("Done.", plain="Done.")
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
            target, message = target_of(event.source), OutgoingMessage("only one", plain="only one")
            query = query_of("one-1", after_id=event.message_id)
            await adapter.send(target, message, "one-1")
            for _ in range(2):
                if await adapter.was_delivered(query, target, message) is None:
                    await adapter.send(target, message, "one-1")
            assert len(await shown_with(harness, "only one", target.chat_id)) == 1
