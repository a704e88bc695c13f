"""Discord for the contract suite."""

import asyncio
from pathlib import Path
from typing import Any

from hermes.config.settings.platforms import Platform
from hermes.sdk.platforms import ChatType
from hermes.sdk.testing.platforms.harness import TROUBLES, File, Harness, Saying, Shown, Trouble
from hermes_plugins.platforms.discord.adapter import DiscordAdapter
from hermes_plugins.platforms.discord.manifest import MANIFEST, DiscordSettings
from tests.fakes.discord import FakeDiscord
from tests.fakes.discord.world import REPLY, THREAD, VOICE_MESSAGE, Json, public

SOMEBODY, PRIVATE, GROUP = "somebody", "private", "lobby"
OPEN = DiscordSettings(require_mention=False, auto_thread=False)


class DiscordHarness(Harness):
    manifest = MANIFEST
    features = frozenset({"groups", "replies", "bots", "keeps"})
    troubles = TROUBLES - {"format_refused"}
    connection = Platform()

    def __init__(self, folder: Path, settings: DiscordSettings = OPEN, **variables: str) -> None:
        super().__init__(folder)
        self.fake, self.settings = FakeDiscord(), settings
        self.secrets = (self.fake.token,)
        self.variables = {
            "DISCORD_BOT_TOKEN": self.fake.token,
            "DISCORD_ALLOW_BOTS": "all",
            "HERMES_DISCORD_TEXT_BATCH_DELAY_SECONDS": "0",
            **variables,
        }
        self.server = self.fake.world.server("home")
        self._users: dict[str, Json] = {}
        self._chats: dict[tuple[str, str], int] = {}
        self._threads: dict[str, int] = {}
        self._channel(GROUP, "group")

    @classmethod
    async def start(cls, folder: Path, *more: Any, **variables: str) -> "DiscordHarness":
        harness = cls(folder, *more, **variables)
        await harness.fake.start()
        harness.extra = {"base_url": harness.fake.base_url, "identify_pause": 0.05}
        return harness

    async def close(self) -> None:
        await self.fake.stop()

    def adapter(self) -> DiscordAdapter:
        return DiscordAdapter(self.context())

    def chat_id(self, chat: str = "", chat_type: ChatType = "dm") -> str:
        return str(self._channel(chat, chat_type))

    def user_id(self, user: str = "") -> str:
        return str(self.user(user)["id"])

    def user(self, name: str = "", *, bot: bool = False) -> Json:
        name = name or SOMEBODY
        for user in self._users.values():
            if user["id"] == name:
                return user
        if name not in self._users:
            self._users[name] = self.fake.world.user(name, bot=bot)
        return self._users[name]

    async def says(self, text: str, **how: Any) -> str:
        said = Saying(**how)
        if not text.strip() and not said.files:
            return ""
        channel = self._channel(said.chat, said.chat_type)
        author = self.user(said.user, bot=said.bot)
        if said.thread:
            channel = await self._thread(channel, said.thread, author)
        me, more = self.fake.world.me, self._files(said.files) | self._reply(channel, said.reply_to)
        mentions = (*more.pop("mentions", ()), *((me,) if said.mention else ()))
        text = f"<@{me['id']}> {text}" if said.mention else text
        message = await self.fake.says(channel, author, text, mentions=mentions, **more)
        return str(message["id"])

    async def again(self, message_id: str) -> None:
        message = self.fake.world.anywhere(message_id)
        assert message
        await self.fake.deliver(message)

    async def presses(self, message_id: str, data: str, *, chat: str = "", user: str = "") -> None:
        message = self.fake.world.anywhere(message_id)
        assert message
        number = await self.fake.presses(message, data, self.user(user))
        await self.fake.until(lambda: number in self.fake.rest.acknowledged)

    async def shown(self, chat: str = "") -> list[Shown]:
        channel = self._channel(chat, "dm")
        places = [channel, *(c for c, v in self._places() if v.get("parent_id") == str(channel))]
        found = [message for place in places for message in self.fake.ours(place)]
        return [self._seen(message) for message in sorted(found, key=lambda each: int(each["id"]))]

    def trouble(self, kind: Trouble, times: int = 1) -> None:
        self.fake.rest.troubles += [kind] * times

    async def drop(self) -> None:
        self.fake.gateway.wires.cut()
        await asyncio.sleep(0)

    async def gone(self) -> None:
        await self.fake.stop()

    async def refuse_credentials(self) -> None:
        self.fake.gateway.token = "another"
        await self.fake.gateway.close(4004)

    async def typing(self, chat: str = "") -> int:
        return self.fake.rest.typings.count(self._channel(chat, "dm"))

    async def reactions(self, message_id: str, chat: str = "") -> list[str]:
        return self.fake.rest.reactions.get(message_id, [])

    def _places(self) -> list[tuple[int, Json]]:
        return list(self.fake.world.channels.items())

    def _channel(self, chat: str, chat_type: str) -> int:
        """By id or name; only channels that are there at the start are made here."""
        if chat.isdecimal():
            return int(chat)
        kind = "dm" if chat_type == "dm" else "group"
        name = chat or (PRIVATE if kind == "dm" else GROUP)
        if (name, kind) not in self._chats:
            if kind == "dm":
                made = self.fake.private(self.user(chat))
            else:
                made = self.fake.text_channel(self.server, name)
            self._chats[name, kind] = made
        return self._chats[name, kind]

    async def _thread(self, parent: int, thread: str, owner: Json) -> int:
        if thread.isdecimal():
            return int(thread)
        if thread not in self._threads:
            self._threads[thread] = await self.fake.opens_thread(parent, thread, owner)
        return self._threads[thread]

    def _files(self, files: tuple[File, ...]) -> Json:
        attachment = self.fake.world.attachment
        voice = any(file.kind == "voice" for file in files)
        made = [
            attachment(file.name, file.data, file.mime, voice=file.kind == "voice")
            for file in files
        ]
        return {"attachments": made, "flags": VOICE_MESSAGE if voice else 0}

    def _reply(self, channel: int, reply_to: str) -> Json:
        answered = self.fake.world.find(channel, reply_to) if reply_to else None
        if answered is None:
            return {}
        return {
            "type": REPLY,
            "message_reference": {"message_id": reply_to, "channel_id": str(channel)},
            "referenced_message": public(answered, old=True),
            "mentions": (answered["author"],),
        }

    def _seen(self, message: Json) -> Shown:
        place = self.fake.world.channels[int(message["channel_id"])]
        rows = message.get("components") or []
        return Shown(
            id=message["id"],
            text=message["content"],
            raw=message["content"],
            thread=place["id"] if place["type"] == THREAD else "",
            reply_to=message.get("message_reference", {}).get("message_id", ""),
            media=tuple(file["filename"] for file in message["attachments"]),
            buttons=tuple(button["custom_id"] for row in rows for button in row["components"]),
            edits=message.get("_edits", 0),
        )
