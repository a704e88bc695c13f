"""Accounts of a homeserver, and what they do with it."""

import uuid
from typing import Any
from urllib.parse import quote

import aiohttp

Json = dict[str, Any]
Login = tuple[str, str, str]  #: User id, token and device id.
PASSWORD = "correct-horse-battery"


def path(*parts: str) -> str:
    return "/_matrix/client/v3/" + "/".join(quote(part, safe="") for part in parts)


class Account:
    def __init__(self, session: aiohttp.ClientSession, address: str, login: Login) -> None:
        self._session, self._address, self.login = session, address, login
        self.user_id, self.token, self.device_id = login

    @classmethod
    async def register(cls, session: aiohttp.ClientSession, address: str, name: str) -> "Account":
        unique = f"{name}_{uuid.uuid4().hex[:12]}"
        body = {"username": unique, "password": PASSWORD, "auth": {"type": "m.login.dummy"}}
        answer = await cls(session, address, ("", "", "")).call("POST", path("register"), body)
        login = (answer["user_id"], answer["access_token"], answer["device_id"])
        return cls(session, address, login)

    async def call(self, method: str, where: str, body: Any = None, **more: Any) -> Json:
        """Anything but success fails the test."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with self._session.request(
            method, f"{self._address}{where}", json=body, headers=headers, **more
        ) as answer:
            said: Json = await answer.json()
            assert answer.status == 200, (where, said)
            return said

    async def upload(self, data: bytes, mime: str) -> str:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": mime}
        url = f"{self._address}/_matrix/media/v3/upload"
        async with self._session.post(url, data=data, headers=headers) as answer:
            return str((await answer.json())["content_uri"])

    async def create(self, **body: Any) -> str:
        return str((await self.call("POST", path("createRoom"), body))["room_id"])

    async def join(self, room_id: str) -> None:
        await self.call("POST", path("join", room_id), {})

    async def send(self, room_id: str, content: Json, kind: str = "m.room.message") -> str:
        name = uuid.uuid4().hex
        answer = await self.call("PUT", path("rooms", room_id, "send", kind, name), content)
        return str(answer["event_id"])

    async def say(self, room_id: str, text: str, **more: Any) -> str:
        return await self.send(room_id, {"msgtype": "m.text", "body": text, **more})

    async def events(self, room_id: str) -> list[Json]:
        """Of the room, oldest first."""
        query = {"dir": "b", "limit": "200"}
        answer = await self.call("GET", path("rooms", room_id, "messages"), params=query)
        return list(reversed(answer["chunk"]))

    async def members(self, room_id: str) -> set[str]:
        answer = await self.call("GET", path("rooms", room_id, "joined_members"))
        return set(answer["joined"])
