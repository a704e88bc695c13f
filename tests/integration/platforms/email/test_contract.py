"""Mail passes the contract of all adapters, with a real IMAP server and SMTP."""

import pytest

from hermes.sdk.testing.platforms.harness import talking
from hermes.sdk.testing.platforms.suite import (
    AdapterContract,
    DeliveryCheckContract,
    KeepsContract,
    MediaInContract,
    MediaOutContract,
    RepliesContract,
    ThreadsContract,
)
from tests.integration.platforms.email.post_office import PostOffice


class TestEmail(
    ThreadsContract,
    RepliesContract,
    KeepsContract,
    MediaInContract,
    MediaOutContract,
    DeliveryCheckContract,
    AdapterContract,
):
    @pytest.fixture
    async def harness(self, dovecot, tmp_path):
        office = await PostOffice.start(dovecot, tmp_path, saves_sent=True, idle=False)
        yield office
        await office.close()

    async def test_the_source_says_exactly_who_wrote_where(self, harness):
        """As for all, except that every mail is in a thread: that of its first mail."""
        async with talking(harness) as (adapter, _, event):
            source = event.source
            assert (source.platform, source.chat_type) == ("email", "dm")
            assert source.chat_id == harness.chat_id()
            assert source.user_id == harness.user_id()
            assert (source.thread_id, source.is_bot) == (event.message_id, False)
            assert source.account == adapter.account
            assert event.sent_at > 1_000_000_000
            assert (event.button, event.media, event.reply_to_id) == ("", (), "")
