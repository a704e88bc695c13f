"""What each method of the Bot API does. Parameters come as text or JSON, files as `Upload`."""

import json
from typing import Any

import msgspec

from tests.fakes.telegram.markup import readable
from tests.fakes.telegram.world import BOT, Chat, Json, Refused, World, bad, units

MAX_DOWNLOAD = 20_000_000
MAX_UPLOAD = 50_000_000
MAX_MENU = 7_800  #: Bytes; found by trying, as Telegram does not say.
NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same "
    "as a current content and reply markup of the message"
)
REACTIONS = frozenset(("👍", "👎", "❤", "🔥", "👏", "🤔", "🎉", "🙏", "👌", "👀", "💯"))
MEDIA = {
    "sendPhoto": "photo", "sendDocument": "document", "sendVoice": "voice", "sendAudio": "audio",
    "sendVideo": "video", "sendAnimation": "animation",
}  # fmt: skip


class Upload(msgspec.Struct, frozen=True):
    name: str
    data: bytes


class Api:
    """`call` is one request that was read whole."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls: list[tuple[str, Json]] = []

    def call(self, method: str, given: Json) -> Any:
        self.calls.append((method, given))
        if method in MEDIA:
            return self._send(given, MEDIA[method])
        work = getattr(self, method, None)
        if method.startswith("_") or method in {"call", "calls"} or work is None:
            raise Refused(404, "Not Found")
        return work(given)

    def getMe(self, given: Json) -> Json:  # noqa: N802 - the name on the wire
        return {**BOT, "can_join_groups": True, "can_read_all_group_messages": True}

    def getChat(self, given: Json) -> Json:  # noqa: N802
        gifts = ("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription")
        kinds = dict.fromkeys((*gifts, "gifts_from_channels"), False)
        more = {"accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": kinds}
        return self.world.known(given["chat_id"]).json() | more

    def setMyCommands(self, given: Json) -> bool:  # noqa: N802
        commands = json.loads(given["commands"])
        if len(commands) > 100 or len(given["commands"]) > MAX_MENU:
            raise bad("BOT_COMMANDS_TOO_MUCH")
        for command in commands:
            name = command["command"]
            if not (
                0 < len(name) <= 32 and all(c.islower() or c.isdigit() or c == "_" for c in name)
            ):
                raise bad("BOT_COMMAND_INVALID")
            if not 0 < len(command["description"]) <= 256:
                raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
        self.world.commands = commands
        return True

    def sendMessage(self, given: Json) -> Json:  # noqa: N802
        return self._send(given, None)

    def sendChatAction(self, given: Json) -> bool:  # noqa: N802
        chat = self.world.known(given["chat_id"])
        chat.typing.append(self._thread(chat, given, general=True))
        return True

    def editMessageText(self, given: Json) -> Json:  # noqa: N802
        chat, message = self._ours(given)
        if "text" not in message:
            raise bad("there is no text in the message to edit")
        text = self._text(given, "text", 4096)
        if not text:
            raise bad("message text is empty")
        return self._edited(chat, message, {"text": text}, given)

    def editMessageCaption(self, given: Json) -> Json:  # noqa: N802
        chat, message = self._ours(given)
        return self._edited(chat, message, {"caption": self._text(given, "caption", 1024)}, given)

    def setMessageReaction(self, given: Json) -> bool:  # noqa: N802
        chat = self.world.known(given["chat_id"])
        number = int(given["message_id"])
        if number not in chat.messages:
            raise bad("message to react not found")
        emoji = [one["emoji"] for one in json.loads(given.get("reaction") or "[]")]
        if not REACTIONS.issuperset(emoji):
            raise bad("REACTION_INVALID")
        chat.reactions[number] = emoji
        return True

    def answerCallbackQuery(self, given: Json) -> bool:  # noqa: N802
        if given["callback_query_id"] in self.world.answered:
            raise bad("query is too old and response timeout expired or query ID is invalid")
        self.world.answered.append(given["callback_query_id"])
        return True

    def createForumTopic(self, given: Json) -> Json:  # noqa: N802
        chat = self.world.known(given["chat_id"])
        if chat.kind in {"group", "channel"}:
            raise bad("the chat is not a forum")
        service = self.world.post(chat, {"forum_topic_created": {"name": given["name"]}}, BOT)
        chat.topics[given["name"]] = service["message_id"]
        return {"message_thread_id": service["message_id"], "name": given["name"], "icon_color": 1}

    def getFile(self, given: Json) -> Json:  # noqa: N802
        if given["file_id"] not in self.world.files:
            raise bad("invalid file_id")
        path, data = self.world.files[given["file_id"]]
        if len(data) > MAX_DOWNLOAD:
            raise bad("file is too big")
        described = {"file_id": given["file_id"], "file_unique_id": "U", "file_size": len(data)}
        return {**described, "file_path": path}

    def _send(self, given: Json, kind: str | None) -> Json:
        chat = self.world.known(given["chat_id"])
        thread = self._thread(chat, given)
        content: Json = {"message_thread_id": thread, "is_topic_message": True} if thread else {}
        if kind is None:
            content["text"] = self._text(given, "text", 4096)
            if not content["text"]:
                raise bad("message text is empty")
        else:
            content |= self._uploaded(given, kind)
        reply = json.loads(given.get("reply_parameters") or "{}")
        if reply:
            original = chat.messages.get(reply["message_id"])
            if original is not None:
                content["reply_to_message"] = original
            elif not reply.get("allow_sending_without_reply"):
                raise bad("message to be replied not found")
        if markup := _markup(given):
            content["reply_markup"] = markup
        message = self.world.post(chat, content, BOT)
        chat.plain[message["message_id"]] = given.get("text", given.get("caption", ""))
        return message

    def _uploaded(self, given: Json, kind: str) -> Json:
        upload = given.get(str(given.get(kind, "")).removeprefix("attach://"), given.get(kind))
        if not isinstance(upload, Upload):
            raise bad("invalid file HTTP URL specified")
        if len(upload.data) > MAX_UPLOAD:
            raise Refused(413, "Request Entity Too Large")
        if not upload.data:
            raise bad("file must be non-empty")
        file = {**self.world.keep_file(kind, upload.name, upload.data), "file_name": upload.name}
        sized = {"width": 1, "height": 1, "duration": 1}
        caption = self._text(given, "caption", 1024)
        described = {**file, **sized}
        return {
            kind: [described] if kind == "photo" else described,
            **({"caption": caption} if caption else {}),
        }

    def _text(self, given: Json, name: str, most: int) -> str:
        text = readable(given.get(name, ""), given.get("parse_mode"))
        if units(text) > most:
            raise bad("message is too long" if name == "text" else "message caption is too long")
        return text

    def _thread(self, chat: Chat, given: Json, *, general: bool = False) -> int | None:
        thread = int(given["message_thread_id"]) if given.get("message_thread_id") else None
        if thread == 1 and general and chat.topics:
            return thread
        if thread is not None and thread not in chat.topics.values():
            raise bad("message thread not found")
        return thread

    def _ours(self, given: Json) -> tuple[Chat, Json]:
        chat = self.world.known(given["chat_id"])
        message = chat.messages.get(int(given["message_id"]))
        if message is None:
            raise bad("message to edit not found")
        editable = message.get("from") == BOT or chat.kind == "channel"
        if not editable or "forum_topic_created" in message:
            raise bad("message can't be edited")
        return chat, message

    def _edited(self, chat: Chat, message: Json, changed: Json, given: Json) -> Json:
        markup = _markup(given)
        if markup == message.get("reply_markup") and changed.items() <= message.items():
            raise bad(NOT_MODIFIED)
        message.update(changed)
        message.pop("reply_markup", None)
        if markup:
            message["reply_markup"] = markup
        number = message["message_id"]
        chat.edits[number] = chat.edits.get(number, 0) + 1
        if changed:
            chat.plain[number] = given.get("text", given.get("caption", ""))
        return message


def _markup(given: Json) -> Json | None:
    markup = json.loads(given.get("reply_markup") or "{}")
    rows = markup.get("inline_keyboard") or []
    for button in (button for row in rows for button in row):
        if not 0 < len(button.get("callback_data", "").encode()) <= 64:
            raise bad("BUTTON_DATA_INVALID")
    return markup if rows else None
