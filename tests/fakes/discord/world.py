"""Servers, channels, people and messages, in Discord's own JSON."""

import copy
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

EPOCH_MS = 1_420_070_400_000
TEXT, DM, NEWS, THREAD, FORUM = 0, 1, 5, 11, 15
PIN, REPLY = 6, 19
VOICE_MESSAGE = 1 << 13
PERMISSIONS = sum(1 << bit for bit in (6, 10, 11, 15, 16, 35, 38))
"""React, see, write, attach, read the history, open threads, write in threads."""
OPEN_THREADS = 1 << 35

Json = dict[str, Any]
_SHAPES = json.loads(Path(__file__).with_name("shapes.json").read_text())


def shape(kind: str, /, **more: Any) -> Json:
    """An object as Discord sends it, with the usual values of the fields that `more` leaves out."""
    return copy.deepcopy(_SHAPES[kind]) | more


class World:
    def __init__(self) -> None:
        self._last = 0
        self.application = self.id()
        self.me = self.user("hermes", bot=True)
        self.servers: dict[int, Json] = {}
        self.channels: dict[int, Json] = {}
        self.messages: dict[int, list[Json]] = {}
        """By channel, oldest first. Keys with `_` are never sent."""
        self.files: dict[str, bytes] = {}
        self.cdn = ""

    def id(self) -> int:
        now = (int(time.time() * 1000) - EPOCH_MS) << 22
        self._last = max(self._last + 1, now)
        return self._last

    def user(self, name: str, *, bot: bool = False) -> Json:
        names = {"username": name, "global_name": name.title()}
        return shape("user", id=str(self.id()), bot=bot, **names)

    def server(self, name: str, permissions: int = PERMISSIONS) -> int:
        number = self.id()
        role = shape("role", id=str(number), permissions=str(permissions))
        ours = {**role, "id": str(self.id()), "name": "hermes", "managed": True}
        ours["tags"] = {"bot_id": self.me["id"]}
        self.servers[number] = {"id": str(number), "name": name, "roles": [role, ours]}
        return number

    def role(self, server: int, name: str) -> str:
        roles = self.servers[server]["roles"]
        roles.append({**roles[0], "id": str(self.id()), "name": name})
        return str(roles[-1]["id"])

    def channel(self, kind: int, name: str = "", server: int = 0, **more: Any) -> int:
        number = int(more.pop("id", 0)) or self.id()
        channel: Json = {"id": str(number), "type": kind, "last_message_id": None, **more}
        if server:
            channel |= {"guild_id": str(server), "name": name, "position": 0}
            channel |= {"permission_overwrites": [], "nsfw": False, "parent_id": None} | more
        if kind == THREAD:
            metadata = shape("thread_metadata", archive_timestamp=stamp())
            channel |= shape("thread", thread_metadata=metadata)
        self.channels[number] = channel
        self.messages[number] = []
        return number

    def message(self, channel: int, author: Json, content: str, **more: Any) -> Json:
        place = self.channels[channel]
        message = shape("message", author=author, content=content, timestamp=stamp())
        message |= {"id": str(self.id()), "channel_id": str(channel), **more}
        self.messages[channel].append(message)
        place["last_message_id"] = message["id"]
        return message

    def find(self, channel: int, number: str | int) -> Json | None:
        there = self.messages.get(channel, [])
        return next((each for each in there if each["id"] == str(number)), None)

    def anywhere(self, number: str) -> Json | None:
        return next((found for each in self.messages if (found := self.find(each, number))), None)

    def attachment(self, name: str, data: bytes, mime: str, *, voice: bool = False) -> Json:
        number = str(self.id())
        self.files[number] = data
        url = f"{self.cdn}/attachments/1/{number}/{quote(name, safe='')}?ex=1&hm=old"
        attachment: Json = {"id": number, "filename": name, "size": len(data), "url": url}
        attachment |= {"proxy_url": url, "content_type": mime}
        return attachment | ({"duration_secs": 1.0, "waveform": "AAAA"} if voice else {})

    def member(self, server: int, user: Json, roles: tuple[str, ...] = ()) -> Json:
        whose = {"user": user} if user else {}
        return shape("member", roles=[*roles], joined_at=stamp(), **whose)

    def guild_create(self, server: int) -> Json:
        channels = [each for each in self.channels.values() if each.get("guild_id") == str(server)]
        ours = [role["id"] for role in self.servers[server]["roles"][1:2]]
        return shape(
            "guild",
            channels=[each for each in channels if each["type"] != THREAD],
            threads=[each for each in channels if each["type"] == THREAD],
            members=[self.member(server, self.me, (*ours,))],
            joined_at=stamp(),
            **self.servers[server],
        )


def stamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000+00:00", time.gmtime())


def public(message: Json, *, old: bool = False) -> Json:
    """As it is sent; an `old` message has no nonce any more."""
    hidden = {"nonce"} if old else set()
    return {
        key: value
        for key, value in message.items()
        if key not in hidden and not key.startswith("_")
    }
