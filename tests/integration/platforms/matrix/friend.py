"""A user whose client encrypts."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nio
from nio.api import Api

from tests.integration.platforms.matrix.harness import MatrixHarness
from tests.integration.platforms.matrix.people import Account, Json

ENCRYPTED = {
    "type": "m.room.encryption",
    "state_key": "",
    "content": {"algorithm": "m.megolm.v1.aes-sha2"},
}


class Friend:
    def __init__(self, client: nio.AsyncClient, account: Account) -> None:
        self.client, self.account = client, account

    async def room(self, us: str) -> str:
        """An encrypted one, and we are in it."""
        room_id = await self.account.create(
            invite=[us], is_direct=True, preset="trusted_private_chat", initial_state=[ENCRYPTED]
        )
        while us not in await self.account.members(room_id):
            pass
        await self.sync()
        return room_id

    async def sync(self) -> nio.SyncResponse:
        answer = await self.client.sync(timeout=2000)
        assert isinstance(answer, nio.SyncResponse), answer
        for needed, call in (
            (self.client.should_upload_keys, self.client.keys_upload),
            (self.client.should_query_keys, self.client.keys_query),
        ):
            if needed:
                await call()
        return answer

    async def say(self, room_id: str, text: str, **more: Any) -> str:
        content = {"msgtype": "m.text", "body": text, **more}
        answer = await self.client.room_send(
            room_id, "m.room.message", content, ignore_unverified_devices=True
        )
        assert isinstance(answer, nio.RoomSendResponse), answer
        return str(answer.event_id)

    async def say_before_the_key(self, room_id: str, text: str) -> list[Json]:
        """The message goes out; what brings its key comes back, to be sent by `hand_over`."""
        client = self.client
        await client.joined_members(room_id)
        if client.should_query_keys:
            await client.keys_query()
        await client.keys_claim(client.get_missing_sessions(room_id))
        members = list(client.rooms[room_id].users)
        sharing = client.olm.share_group_session_parallel(
            room_id, members, ignore_unverified_devices=True
        )
        keys = [messages for _, messages in sharing]
        client.olm.outbound_group_sessions[room_id].shared = True
        await self.say(room_id, text)
        return keys

    async def hand_over(self, keys: list[Json]) -> None:
        for number, each in enumerate(keys):
            method, where, data = Api.to_device(
                self.client.access_token, "m.room.encrypted", each, f"keys{number}"
            )
            await self.client._send(nio.ToDeviceResponse, method, where, data, (None,))

    async def hears(self, room_id: str, text: str) -> Json:
        """The content of the message with this text, decrypted."""
        for _ in range(50):
            answer = await self.sync()
            joined = answer.rooms.join.get(room_id)
            for event in joined.timeline.events if joined else ():
                content: Json = event.source["content"]
                new = content.get("m.new_content", content)
                if event.decrypted and new.get("body") == text:
                    return content
        raise AssertionError(f"{text!r} did not come")


@contextlib.asynccontextmanager
async def friend_of(harness: MatrixHarness, folder: Path) -> AsyncIterator[Friend]:
    folder.mkdir()
    account = await Account.register(harness.session, harness.address, "friend")
    config = nio.AsyncClientConfig(store=nio.store.SqliteStore)
    client = nio.AsyncClient(
        harness.address, account.user_id, account.device_id, str(folder), config
    )
    client.restore_login(account.user_id, account.device_id, account.token)
    friend = Friend(client, account)
    await friend.sync()
    try:
        yield friend
    finally:
        await client.close()
        client.store.database.close()
