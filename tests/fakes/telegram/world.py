"""People, chats, messages and updates, numbered as Telegram numbers them.

Private chats and basic groups of a bot share one row of message numbers; each supergroup and each
channel has its own.
"""

import itertools
import time
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

BOT = {"id": 7000001, "is_bot": True, "first_name": "Hermes", "username": "hermes_test_bot"}
ENTITY_OF_SIGN = {"@": "mention", "/": "bot_command"}


class Refused(Exception):
    """An answer that is not ok."""

    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.code, self.description, self.parameters = code, description, parameters


def bad(description: str) -> Refused:
    return Refused(400, f"Bad Request: {description}")


class Chat:
    def __init__(self, chat_id: int, kind: str, name: str, numbers: Iterator[int]) -> None:
        self.id, self.kind, self.name = chat_id, kind, name
        self.numbers = numbers
        self.messages: dict[int, Json] = {}
        self.plain: dict[int, str] = {}  #: Our messages as they were sent, with markup.
        self.edits: dict[int, int] = {}
        self.reactions: dict[int, list[str]] = {}
        self.topics: dict[str, int] = {}  #: Forum topics, by name.
        self.typing: list[int | None] = []  #: Threads we were seen writing in.
        self.blocked = False
        self.username = ""  #: Of a public one, with its @.
        self.moved_to: int | None = None

    def json(self) -> Json:
        named = "first_name" if self.kind == "private" else "title"
        forum = {"is_forum": True} if self.topics else {}
        return {"id": self.id, "type": self.kind, named: self.name, **forum}

    def ours(self) -> list[Json]:
        return [m for _, m in sorted(self.messages.items()) if m.get("from") == BOT]


class World:
    def __init__(self) -> None:
        self.chats: dict[int, Chat] = {}
        self.users: dict[int, Json] = {}
        self.files: dict[str, tuple[str, bytes]] = {}  #: Path and content, by id.
        self.updates: list[Json] = []
        self.commands: list[Json] = []
        self.answered: list[str] = []  #: Button presses that were answered.
        self._private = itertools.count(100)
        self._updates = itertools.count(500_001)
        self._albums = itertools.count(1)

    def chat(self, chat_id: int, kind: str = "private", name: str = "") -> Chat:
        if chat_id not in self.chats:
            shared = kind in {"private", "group"}
            numbers = self._private if shared else itertools.count(2)
            self.chats[chat_id] = Chat(chat_id, kind, name or f"chat {chat_id}", numbers)
        return self.chats[chat_id]

    def person(self, user_id: int, name: str, *, bot: bool = False) -> Json:
        user = {"id": user_id, "is_bot": bot, "first_name": name, "username": name.lower()}
        return self.users.setdefault(user_id, user)

    def known(self, chat_id: Any) -> Chat:
        if str(chat_id).startswith("@"):
            named = (each for each in self.chats.values() if each.username.lower() == chat_id)
            chat = next(named, None)
        else:
            chat = self.chats.get(int(chat_id))
        if chat is None:
            raise bad("chat not found")
        if chat.moved_to is not None:
            raise Refused(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=chat.moved_to,
            )
        if chat.blocked:
            raise Refused(403, "Forbidden: bot was blocked by the user")
        return chat

    def post(self, chat: Chat, content: Json, sender: Json | None) -> Json:
        """A new message of the chat."""
        message = {
            "message_id": next(chat.numbers),
            "date": int(time.time()),
            "chat": chat.json(),
            **({"from": sender} if sender else {}),
            **content,
        }
        chat.messages[message["message_id"]] = message
        return message

    def update(self, kind: str, content: Json) -> Json:
        entry = {"update_id": next(self._updates), kind: content}
        self.updates.append(entry)
        return entry

    def album(self) -> str:
        return str(10_000 + next(self._albums))

    def keep_file(self, kind: str, name: str, data: bytes) -> Json:
        """A file on the platform, as messages describe it."""
        number = len(self.files) + 1
        file_id, ending = f"FILE{number}", name.rpartition(".")[2] if "." in name else "bin"
        self.files[file_id] = (
            f"{kind}s/file_{number}.{ending if ending.isalnum() else 'bin'}",
            data,
        )
        return {"file_id": file_id, "file_unique_id": f"U{number}", "file_size": len(data)}


def entities(text: str) -> Json:
    """Mentions and commands of a text, as Telegram marks them: places in UTF-16 units."""
    found, place = [], 0
    for word in text.replace("\n", " ").split(" "):
        kind = ENTITY_OF_SIGN.get(word[:1])
        if kind and len(word) > 1 and (kind == "mention" or place == 0):
            found.append({"type": kind, "offset": place, "length": units(word)})
        place += units(word) + 1
    return {"entities": found} if found else {}


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
