"""Workspaces with people, channels, messages and files."""

import itertools
import time
from typing import Any

Json = dict[str, Any]


class Team:
    def __init__(self, number: str, name: str, token: str, me: str, bot_id: str) -> None:
        self.id, self.name, self.token, self.me, self.bot_id = number, name, token, me, bot_id
        self.enterprise = ""
        """Whose workspace it is; "" for one that stands alone."""


class World:
    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._last = 0
        self.app = "A0HERMES"
        self.files_url = ""
        self.teams: dict[str, Team] = {}
        self.users: dict[str, Json] = {}
        self.channels: dict[str, Json] = {}
        self.messages: dict[str, list[Json]] = {}
        self.files: dict[str, Json] = {}
        self.reactions: dict[tuple[str, str], list[str]] = {}

    def number(self, letter: str) -> str:
        return f"{letter}0{next(self._numbers):07X}"

    def ts(self) -> str:
        """Now, and later than ever before."""
        self._last = max(self._last + 1, time.time_ns() // 1000)
        return f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"

    def team(self, name: str, token: str) -> Team:
        number = self.number("T")
        me = self.user("hermes", number, bot=True)
        team = Team(number, name, token, me["id"], self.number("B"))
        self.teams[number] = team
        return team

    def user(self, name: str, team: str, *, bot: bool = False) -> Json:
        number = self.number("U")
        profile = {"display_name": name.title(), "real_name": f"{name.title()} Example"}
        self.users[number] = {
            "id": number,
            "team_id": team,
            "name": name,
            "deleted": False,
            "is_bot": bot,
            "profile": profile,
            **({"_bot_id": self.number("B")} if bot else {}),
        }
        return self.users[number]

    def channel(self, team: str, name: str = "", **more: Any) -> Json:
        """A public channel, unless `is_im`, `is_mpim` or `is_private` say otherwise."""
        letter = "D" if more.get("is_im") else "C"
        number = self.number(letter)
        channel: Json = {
            "id": number,
            "is_channel": not more.get("is_im"),
            "is_im": False,
            "is_mpim": False,
            "is_private": False,
            "is_archived": False,
            "is_member": True,
            "context_team_id": team,
            **({"name": name} if not more.get("is_im") else {}),
            **more,
        }
        self.channels[number], self.messages[number] = channel, []
        return channel

    def message(self, channel: str, user: str, text: str, **more: Any) -> Json:
        given = {key: value for key, value in more.items() if value is not None}
        message: Json = {"type": "message", "user": user, "text": text, "ts": self.ts(), **given}
        self.messages[channel].append(message)
        if thread := message.get("thread_ts"):
            root = self.find(channel, thread)
            if root is not None:
                message["parent_user_id"] = root["user"]
                root |= {"thread_ts": thread, "latest_reply": message["ts"]}
                root["reply_count"] = root.get("reply_count", 0) + 1
        return message

    def find(self, channel: str, ts: str) -> Json | None:
        there = self.messages.get(channel, [])
        return next((message for message in there if message["ts"] == ts), None)

    def file(self, team: str, name: str, data: bytes, mime: str, *, voice: bool = False) -> Json:
        number = self.number("F")
        url = f"{self.files_url}/files-pri/{team}-{number}/download/file"
        file: Json = {
            "id": number,
            "name": name,
            "title": name,
            "mimetype": mime,
            "size": len(data),
            "mode": "hosted",
            "is_external": False,
            "url_private": url,
            "url_private_download": url,
            "_data": data,
            "shares": {},
            **({"subtype": "slack_audio"} if voice else {}),
        }
        self.files[number] = file
        return file

    def kind(self, channel: str) -> str:
        """`channel_type` of events."""
        place = self.channels[channel]
        if place["is_im"]:
            return "im"
        return "mpim" if place["is_mpim"] else "group" if place["is_private"] else "channel"


def public(value: Any, *, metadata: bool = False) -> Any:
    """As it is sent."""
    if isinstance(value, dict):
        return {
            key: public(each)
            for key, each in value.items()
            if not key.startswith("_") and (metadata or key != "metadata")
        } | ({"metadata": value["metadata"]} if metadata and "metadata" in value else {})
    return [public(each) for each in value] if isinstance(value, list) else value
