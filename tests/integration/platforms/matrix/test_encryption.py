"""Encrypted rooms, with a user of another client."""

import logging
from pathlib import Path

import msgspec
import nio
import pytest
from nio.crypto.attachments import decrypt_attachment, encrypt_attachment

from hermes.sdk.platforms import (
    AdapterError,
    ChatTarget,
    DeliveryUnknown,
    Media,
    OutgoingMessage,
    SendRefused,
)
from hermes.sdk.testing.platforms.harness import (
    Inbox,
    attempt,
    connected,
    failure,
    query_of,
)
from tests.integration.platforms.matrix.friend import friend_of
from tests.integration.platforms.matrix.people import PASSWORD


@pytest.fixture
def matrix(matrix):
    matrix.variables["MATRIX_ENCRYPTION"] = "true"
    return matrix


@pytest.fixture
async def friend(matrix, tmp_path):
    async with friend_of(matrix, tmp_path / "friend") as friend:
        yield friend


async def test_both_read_each_other_also_after_a_restart(matrix, friend):
    async with connected(matrix) as (adapter, inbox):
        room_id = await friend.room(matrix.us.user_id)
        await friend.say(room_id, "a secret")
        event = await inbox.take("a secret")
        assert event.source.chat_type == "dm"
        target = event.source.target
        sent = await adapter.send(target, OutgoingMessage("<b>kept</b>", plain="kept"), "one")
        heard = await friend.hears(room_id, "kept")
        assert heard["formatted_body"] == "<b>kept</b>"
        await adapter.edit(target, sent, OutgoingMessage("kept well"))
        await friend.hears(room_id, "kept well")
    async with connected(matrix) as (adapter, inbox):
        await adapter.send(
            target, OutgoingMessage("at once"), "zero"
        )  # as what was left in the outbox
        await friend.hears(room_id, "at once")
        await friend.say(room_id, "another", **_answer(sent))
        event = await inbox.take("another")
        assert (event.reply_to_id, event.reply_to_text) == (sent, "kept well")
        await adapter.send(target, OutgoingMessage("that too"), "two")
        await friend.hears(room_id, "that too")
    kinds = {event["type"] for event in await friend.account.events(room_id)}
    assert "m.room.encrypted" in kinds
    assert "m.room.message" not in kinds


def _answer(event_id: str) -> dict[str, object]:
    return {"m.relates_to": {"m.in_reply_to": {"event_id": event_id}}}


async def test_keys_are_readable_only_by_their_owner(matrix):
    async with connected(matrix):
        folder = matrix.folder / "state" / "keys"
        assert not folder.stat().st_mode & 0o077
        assert [file.stat().st_mode & 0o777 for file in folder.iterdir()] == [0o600]


async def test_message_with_a_late_key_is_reported_once_and_delivered_later(matrix, friend, caplog):
    async with connected(matrix) as (_, inbox):
        room_id = await friend.room(matrix.us.user_id)
        keys = await friend.say_before_the_key(room_id, "what is this")
        await friend.account.say(room_id, "in the clear")
        await inbox.take("in the clear")
        assert inbox.texts() == ["in the clear"]
    async with connected(matrix) as (_, inbox):
        await friend.account.say(room_id, "still waiting")
        await inbox.take("still waiting")
        await friend.hand_over(keys)
        event = await inbox.take("what is this")
        assert event.source.user_id == friend.account.user_id
    ours = [each for each in caplog.records if each.name.startswith(("hermes.", "hermes_plugins."))]
    told = [each for each in ours if each.levelno >= logging.WARNING]
    assert len(told) == 1
    assert "cannot be decrypted until its key arrives" in told[0].getMessage()
    async with connected(matrix) as (_, inbox):
        await friend.account.say(room_id, "the end")
        await inbox.take("the end")
        assert inbox.texts() == ["the end"]


async def test_files_are_encrypted_both_ways(matrix, friend, tmp_path):
    async with connected(matrix) as (adapter, inbox):
        room_id = await friend.room(matrix.us.user_id)
        sealed, keys = encrypt_attachment(b"%PDF-1.4 plans")
        url = await friend.account.upload(sealed, "application/octet-stream")
        file = {
            "msgtype": "m.file",
            "filename": "plans.pdf",
            "file": {**keys, "url": url},
            "info": {"size": len(sealed), "mimetype": "application/pdf"},
        }
        await friend.say(room_id, "our plans", **file)
        event = await inbox.take("our plans")
        fetched = await adapter.fetch(event.media[0], 1000)
        assert Path(fetched.path).read_bytes() == b"%PDF-1.4 plans"

        forged = event.media[0].ref.replace(keys["hashes"]["sha256"], "A" * 43)
        other = Media("document", "plans.pdf", ref=forged)
        assert "cannot be decrypted" in str(await failure(adapter.fetch(other, 1000)))

        path = tmp_path / "note.txt"
        path.write_bytes(b"for you")
        media = Media("document", "note.txt", "text/plain", path=str(path))
        out = OutgoingMessage("see there", plain="see there", media=(media,))
        await adapter.send(event.source.target, out, "file")
        heard = await friend.hears(room_id, "see there")
        answer = await friend.client.download(heard["file"]["url"])
        assert isinstance(answer, nio.MemoryDownloadResponse)
        assert answer.body != b"for you"
        keys = heard["file"]
        opened = decrypt_attachment(
            answer.body, keys["key"]["k"], keys["hashes"]["sha256"], keys["iv"]
        )
        assert opened == b"for you"


async def test_a_broken_connection_neither_doubles_nor_loses_a_message(matrix, friend):
    async with connected(matrix) as (adapter, inbox):
        room_id = await friend.room(matrix.us.user_id)
        await friend.say(room_id, "hello")
        target = (await inbox.take("hello")).source.target
        matrix.trouble("cut_after", times=9)
        assert isinstance(
            await attempt(adapter, target, OutgoingMessage("once"), "one"), AdapterError
        )
        matrix.proxy.troubles.clear()
        await adapter.send(target, OutgoingMessage("once"), "one")
        await friend.hears(room_id, "once")
    events = await friend.account.events(room_id)
    ours = [each for each in events if each["sender"] == matrix.us.user_id]
    assert [each["type"] for each in ours] == ["m.room.member", "m.room.encrypted"]


async def test_message_of_a_lost_device_is_neither_found_nor_sent_again(matrix, friend):
    async with connected(matrix) as (adapter, _):
        room_id = await friend.room(matrix.us.user_id)
        target, message = ChatTarget("matrix", room_id), OutgoingMessage("there", plain="there")
        query = query_of("key")
        sent = await adapter.send(target, message, "key")
        old = msgspec.structs.replace(query, created_at=query.created_at - 86400.0)
        assert await adapter.was_delivered(query, target, message) is None
        assert await adapter.was_delivered(old, target, message) == sent
    matrix.variables.pop("MATRIX_ACCESS_TOKEN")
    matrix.variables |= {"MATRIX_USER_ID": matrix.us.user_id, "MATRIX_PASSWORD": PASSWORD}
    async with connected(matrix) as (adapter, _):
        assert isinstance(
            await failure(adapter.was_delivered(query, target, message)), DeliveryUnknown
        )


async def test_without_encryption_nothing_is_sent_in_the_clear(matrix, friend, caplog):
    matrix.variables["MATRIX_ENCRYPTION"] = "false"
    async with connected(matrix, Inbox()) as (adapter, inbox):
        room_id = await friend.room(matrix.us.user_id)
        await friend.say(room_id, "sealed")
        await friend.account.say(room_id, "in the clear")
        await inbox.take("in the clear")
        assert inbox.texts() == ["in the clear"]
        outcome = await attempt(
            adapter, ChatTarget("matrix", room_id), OutgoingMessage("no"), "one"
        )
        assert isinstance(outcome, SendRefused)
        assert "MATRIX_ENCRYPTION" in outcome.hint
    assert "MATRIX_ENCRYPTION" in caplog.text
