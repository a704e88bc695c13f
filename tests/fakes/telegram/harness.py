"""The fake with a few people in it, as the contract suite wants it."""

import zlib
from pathlib import Path
from typing import Any, Self

from hermes.core.ports import Clock
from hermes.sdk.platforms import ChatType
from hermes.sdk.testing.platforms.harness import (
    TROUBLES,
    File,
    Harness,
    HastyClock,
    Saying,
    Shown,
    Trouble,
)
from hermes_plugins.platforms.telegram.adapter import TelegramAdapter
from hermes_plugins.platforms.telegram.client import format_message_id, message_number
from hermes_plugins.platforms.telegram.manifest import MANIFEST, TelegramPlatform, TelegramSettings
from tests.fakes.telegram.server import TOKEN, FakeTelegram
from tests.fakes.telegram.world import BOT, Chat, Json, entities

SOMEBODY = "pat"
GROUP = "friends"
KINDS = {"image": "photo", "voice": "voice", "audio": "audio", "video": "video"}
COMMANDS = (("stop", "Stop the turn"), ("reload-mcp", "Connect to MCP servers again"))


class TelegramHarness(Harness):
    manifest = MANIFEST
    troubles = TROUBLES
    features = frozenset({"groups", "replies", "bots", "keeps"})
    secrets = (TOKEN,)
    settings = TelegramSettings(reactions=True)
    connection = TelegramPlatform()
    commands = COMMANDS

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fake = FakeTelegram()

    @classmethod
    async def start(cls, folder: Path) -> Self:
        harness = cls(folder)
        await harness.fake.start()
        url = harness.fake.url
        harness.variables = {"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_API_BASE_URL": url}
        return harness

    def adapter(self, clock: Clock | None = None, *, album: float = 0.1) -> TelegramAdapter:
        return TelegramAdapter(self.context(), clock=clock or HastyClock(), album_wait=album)

    def chat_id(self, chat: str = "", chat_type: ChatType = "dm") -> str:
        if chat.lstrip("-").isdecimal():
            return chat
        if chat_type == "dm":
            return self.user_id(chat)
        return str(-1_000_000_000_000 - _number(f"{chat_type}/{chat or GROUP}"))

    def user_id(self, user: str = "") -> str:
        return str(_number(user or SOMEBODY))

    def chat(self, chat: str = "", chat_type: ChatType = "dm") -> Chat:
        """It is made when it is not there."""
        kind = {"dm": "private", "group": "supergroup", "channel": "channel"}[chat_type]
        return self.fake.world.chat(int(self.chat_id(chat, chat_type)), kind, chat or SOMEBODY)

    async def says(self, text: str, **how: Any) -> str:
        said = Saying(**how)
        if not text.strip() and not said.files:
            return ""
        place = self.chat(said.chat, said.chat_type)
        name = said.user or SOMEBODY
        sender = self.fake.world.person(int(self.user_id(name)), name, bot=said.bot)
        if said.mention:
            text = f"@{BOT['username']} {text}"
        content: Json = self._thread(place, said.thread)
        if said.reply_to:
            content["reply_to_message"] = place.messages[message_number(said.reply_to)]
        album = {"media_group_id": self.fake.world.album()} if len(said.files) > 1 else {}
        bodies = [album | self._file(file) for file in said.files]
        bodies = bodies or [{"text": text, **entities(text)}]
        if said.files:
            bodies[0] |= {"caption": text, "caption_entities": entities(text).get("entities", [])}
        names = []
        for body in bodies:
            message = self.fake.world.post(place, content | body, sender)
            kind = "channel_post" if said.chat_type == "channel" else "message"
            await self.fake.push(kind, message)
            names.append(format_message_id(place.id, message["message_id"]))
        return names[0]

    async def again(self, message_id: str) -> None:
        chat_id = int(message_id.partition(":")[0])
        message = self.fake.world.chats[chat_id].messages[message_number(message_id)]
        await self.fake.push("message", message)

    async def presses(self, message_id: str, data: str, *, chat: str = "", user: str = "") -> None:
        chat_id = int(message_id.partition(":")[0])
        message = self.fake.world.chats[chat_id].messages[message_number(message_id)]
        rows = message["reply_markup"]["inline_keyboard"]
        assert data in [key["callback_data"] for row in rows for key in row]
        presser = self.fake.world.person(int(self.user_id(user)), user or SOMEBODY)
        press = {"id": f"{chat_id}{data}", "from": presser, "message": message, "data": data}
        await self.fake.push("callback_query", {**press, "chat_instance": "1"})

    async def shown(self, chat: str = "") -> list[Shown]:
        place = self.fake.world.chats.get(int(self.chat_id(chat)))
        if place is None:
            return []
        return [_shown(place, m) for m in place.ours() if "forum_topic_created" not in m]

    def trouble(self, kind: Trouble, times: int = 1) -> None:
        self.fake.troubles.extend([kind] * times)

    async def drop(self) -> None:
        self.fake.drop()

    async def gone(self) -> None:
        await self.fake.stop()

    async def refuse_credentials(self) -> None:
        self.fake.token = "7000001:AANewNewNewNewNewNewNewNewNewNewNew_00"

    async def typing(self, chat: str = "") -> int:
        return len(self.chat(chat).typing)

    async def reactions(self, message_id: str, chat: str = "") -> list[str]:
        return self.chat(chat).reactions.get(message_number(message_id), [])

    async def close(self) -> None:
        await self.fake.stop()

    def _thread(self, place: Chat, thread: str) -> Json:
        if not thread:
            return {}
        if thread not in place.topics and not thread.isdecimal():
            made = self.fake.world.post(place, {"forum_topic_created": {"name": thread}}, BOT)
            place.topics[thread] = made["message_id"]
        number = place.topics.get(thread) or int(thread)
        return {"message_thread_id": number, "is_topic_message": True}

    def _file(self, file: File) -> Json:
        described = self.fake.world.keep_file(KINDS.get(file.kind, "file"), file.name, file.data)
        described |= {"width": 1, "height": 1, "duration": 1, "mime_type": file.mime}
        if file.kind == "image":
            return {"photo": [described]}
        return {KINDS.get(file.kind, "document"): {**described, "file_name": file.name}}


def _shown(place: Chat, message: Json) -> Shown:
    number = message["message_id"]
    rows = message.get("reply_markup", {}).get("inline_keyboard", [])
    kinds = ("photo", "document", "voice", "audio", "video", "animation")
    files = [message[kind] for kind in kinds if kind in message]
    reply = message.get("reply_to_message")
    return Shown(
        id=format_message_id(place.id, number),
        text=message.get("text", message.get("caption", "")),
        raw=place.plain.get(number, ""),
        thread=str(message.get("message_thread_id", "")),
        reply_to=format_message_id(place.id, reply["message_id"]) if reply else "",
        media=tuple((f[0] if isinstance(f, list) else f)["file_name"] for f in files),
        buttons=tuple(key["callback_data"] for row in rows for key in row),
        edits=place.edits.get(number, 0),
    )


def _number(name: str) -> int:
    """An id for a name, the same each time."""
    return 10_000 + zlib.crc32(name.encode()) % 1_000_000_000
