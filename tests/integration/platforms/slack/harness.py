"""Slack for the contract suite."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.ports import Clock
from hermes.sdk.platforms import ChatType
from hermes.sdk.testing.platforms.harness import TROUBLES, Harness, Saying, Shown, Trouble
from hermes.util.concurrency import SystemClock
from hermes_plugins.platforms.slack.adapter import SlackAdapter
from hermes_plugins.platforms.slack.client import message_id, split_chat, timestamp_of
from hermes_plugins.platforms.slack.manifest import MANIFEST, SlackPlatform, SlackSettings
from tests.fakes.slack import FakeSlack
from tests.fakes.slack.web_api import EMOJI, visible
from tests.fakes.slack.world import Json

SOMEBODY, PRIVATE, GROUP = "somebody", "private", "lobby"
OPEN = SlackSettings(require_mention=False)


class SlackHarness(Harness):
    manifest = MANIFEST
    features = frozenset({"groups", "bots", "keeps"})
    troubles = TROUBLES
    settings, connection = OPEN, SlackPlatform()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fake = FakeSlack()
        self.secrets = (self.fake.token, self.fake.app_token)
        self.variables = {
            "SLACK_BOT_TOKEN": self.fake.token,
            "SLACK_APP_TOKEN": self.fake.app_token,
        }
        self.clock: Clock = SystemClock()
        self._users: dict[str, Json] = {}
        self._chats: dict[tuple[str, str], str] = {}
        self._threads: dict[str, str] = {}

    @classmethod
    async def start(cls, folder: Path) -> "SlackHarness":
        harness = cls(folder)
        await harness.fake.start()
        harness.extra = {"base_url": harness.fake.base_url}
        return harness

    async def close(self) -> None:
        await self.fake.stop()

    def adapter(self) -> SlackAdapter:
        return SlackAdapter(self.context(), clock=self.clock, settle=0.02)

    def set_extra(self, **extra: bool) -> None:
        own = msgspec.structs.replace(self.connection.extra, **extra)
        self.connection = msgspec.structs.replace(self.connection, extra=own)

    def chat_id(self, chat: str = "", chat_type: ChatType = "dm") -> str:
        return self.channel(chat, chat_type)

    def user_id(self, user: str = "") -> str:
        return str(self.user(user)["id"])

    def user(self, name: str = "", *, bot: bool = False) -> Json:
        name = name or SOMEBODY
        if name in self.fake.world.users:
            return self.fake.world.users[name]
        if name not in self._users:
            self._users[name] = self.fake.world.user(name, self.fake.team.id, bot=bot)
        return self._users[name]

    async def says(self, text: str, **how: Any) -> str:
        said = Saying(**how)
        if not text.strip() and not said.files:
            return ""
        assert not said.reply_to, "Slack has threads, but no replies outside them"
        channel = self.channel(said.chat, said.chat_type)
        author = self.user(said.user, bot=said.bot)
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        text = f"<@{self.fake.team.me}> {text}" if said.mention else text
        more: Json = {"thread_ts": self._thread(channel, said.thread)} if said.thread else {}
        if said.files:
            more["files"] = [
                self.fake.world.file(
                    self.fake.team.id, each.name, each.data, each.mime, voice=each.kind == "voice"
                )
                for each in said.files
            ]
        message = await self.fake.says(channel, author, text, **more)
        return message_id(channel, message["ts"])

    async def again(self, message_id: str) -> None:
        channel, message = self._found(message_id)
        await self.fake.deliver(channel, message)

    async def presses(self, message_id: str, data: str, *, chat: str = "", user: str = "") -> None:
        channel, message = self._found(message_id)
        envelope = await self.fake.presses(channel, message, data, self.user(user))
        await self.fake.until(lambda: envelope in self.fake.sockets.acknowledged)

    async def shown(self, chat: str = "") -> list[Shown]:
        channel = self.channel(chat, "dm")
        return [self._seen(channel, message) for message in self.fake.ours(channel)]

    def trouble(self, kind: Trouble, times: int = 1) -> None:
        self.fake.api.troubles += [kind] * times

    async def drop(self) -> None:
        self.fake.sockets.wires.cut()
        await asyncio.sleep(0)

    async def gone(self) -> None:
        await self.fake.stop()

    async def refuse_credentials(self) -> None:
        self.fake.team.token = "another"

    async def typing(self, chat: str = "") -> int:
        channel = self.channel(chat, "dm")
        return len([each for each in self.fake.api.statuses if each[0] == channel and each[2]])

    async def reactions(self, message_id: str, chat: str = "") -> list[str]:
        channel, message = self._found(message_id)
        there = self.fake.world.reactions.get((channel, message["ts"]), [])
        return [EMOJI[name] for name in there]

    def channel(self, chat: str = "", chat_type: str = "group") -> str:
        """By id or name."""
        _, number = split_chat(chat)
        if number in self.fake.world.channels:
            return number
        kind = "dm" if chat_type == "dm" else "group"
        name = chat or (PRIVATE if kind == "dm" else GROUP)
        if (name, kind) not in self._chats:
            team = self.fake.team.id
            if kind == "dm":
                made = self.fake.api.private(team, self.user(chat)["id"])
            else:
                made = self.fake.world.channel(team, name)
            self._chats[name, kind] = made["id"]
        return self._chats[name, kind]

    def _thread(self, channel: str, thread: str) -> str:
        if timestamp_of(thread):
            return thread
        if thread not in self._threads:
            first = self.fake.world.message(channel, self.user("ann")["id"], f"about {thread}")
            self._threads[thread] = first["ts"]
        return self._threads[thread]

    def _found(self, name: str) -> tuple[str, Json]:
        channel = split_chat(name.rpartition(":")[0])[1]
        message = self.fake.world.find(channel, timestamp_of(name))
        assert message
        return channel, message

    def _seen(self, channel: str, message: Json) -> Shown:
        blocks = message.get("blocks") or []
        buttons = [button for block in blocks for button in block.get("elements", ())]
        thread = message.get("thread_ts", "")
        return Shown(
            id=message_id(channel, message["ts"]),
            text=visible(message),
            raw=message["text"],
            thread=thread if thread != message["ts"] else "",
            media=tuple(file["name"] for file in message.get("files", ())),
            buttons=tuple(button["value"] for button in buttons),
            edits=message.get("_edits", 0),
        )
