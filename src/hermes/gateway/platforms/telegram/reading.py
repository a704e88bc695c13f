"""From an update of Telegram to a message of the gateway. Pure: it asks nobody."""

import re
from collections.abc import Mapping, Sequence

import msgspec
from telegram import CallbackQuery, Chat, Message, Update
from telegram.constants import ChatType as TelegramChatType
from telegram.constants import MessageEntityType

from hermes.gateway.events import ChatType, MessageEvent, SessionSource
from hermes.gateway.platforms.kit.mentions import without_mention
from hermes.gateway.platforms.telegram.content import media_of, words_of
from hermes.gateway.platforms.telegram.menu import real_command
from hermes.gateway.platforms.telegram.naming import GENERAL, message_name

CHAT_TYPES: Mapping[str, ChatType] = {
    TelegramChatType.PRIVATE: "dm",
    TelegramChatType.GROUP: "group",
    TelegramChatType.SUPERGROUP: "group",
    TelegramChatType.CHANNEL: "channel",
}
_COMMAND = re.compile(r"(/[\w-]{1,64})(?:@(\w{3,64}))?(?=\s|\Z)", re.ASCII)


class Me(msgspec.Struct, frozen=True):
    id: int
    username: str


class Reader:
    def __init__(
        self,
        me: Me,
        commands: Mapping[str, str],
        topics: Mapping[tuple[int, int], str],
        origins: Mapping[int, int],
    ) -> None:
        """`commands` are our names by those of the menu; `topics` names of threads, by chat;
        `origins` what supergroups were before, under which their conversations go on."""
        self._me, self._commands, self._topics, self._origins = me, commands, topics, origins

    def event(self, update: Update) -> MessageEvent | None:
        """None for what is nothing to the gateway."""
        if update.callback_query:
            return self._press(update.callback_query)
        message = update.message or update.channel_post
        return self.message([message]) if message else None

    def message(self, messages: Sequence[Message]) -> MessageEvent | None:
        """One message, or all of an album, which is one message with several files."""
        messages = sorted(messages, key=lambda each: each.message_id)
        first = messages[0]
        if first.from_user and first.from_user.id == self._me.id:
            return None
        media = tuple(file for each in messages for file in media_of(each))
        spoken = next((each for each in messages if words_of(each)), first)
        text = self._for_us(spoken)
        if text is None or not (text or media):
            return None
        source = self._source(first)
        reply = _answered(first)
        return MessageEvent(
            source=source,
            message_id=message_name(first.chat.id, first.message_id),
            text=text,
            media=media,
            reply_to_id=message_name(first.chat.id, reply.message_id) if reply else "",
            reply_to_text=_quoted(first, reply),
            addressed=source.chat_type == "dm" or self._addressed(spoken, reply),
            sent_at=first.date.timestamp(),
        )

    def _press(self, press: CallbackQuery) -> MessageEvent | None:
        """A button. Who pressed it is not who the message was for."""
        message = press.message
        if message is None or press.data is None:
            return None
        chat = message.chat
        thread = _thread(message) if isinstance(message, Message) else ""
        user = press.from_user
        return MessageEvent(
            source=self._in(
                chat, thread, user_id=user.id, user_name=user.full_name, is_bot=user.is_bot
            ),
            message_id=f"press:{press.id}",
            reply_to_id=message_name(chat.id, message.message_id),
            addressed=True,
            button=press.data,
        )

    def _source(self, message: Message) -> SessionSource:
        """A message in the name of a chat (an anonymous admin, a channel) is that chat's: the user
        Telegram puts there stands for everybody who writes like that."""
        user, sender, chat = message.from_user, message.sender_chat, message.chat
        thread = _thread(message)
        name = (sender.title or "") if sender else user.full_name if user else ""
        return self._in(
            chat,
            thread,
            user_id=sender.id if sender else user.id if user else "",
            user_name=name,
            is_bot=bool(message.is_automatic_forward or (user and user.is_bot and not sender)),
        )

    def _in(
        self, chat: Chat, thread: str, *, user_id: int | str, user_name: str, is_bot: bool
    ) -> SessionSource:
        origin = self._origins.get(chat.id)
        return SessionSource(
            platform="telegram",
            chat_id=str(origin or chat.id),
            chat_type=CHAT_TYPES.get(chat.type, "group"),
            user_id=str(user_id),
            user_name=user_name,
            chat_name=self._chat_name(chat, thread),
            thread_id=thread,
            is_bot=is_bot,
            chat_now=str(chat.id) if origin else "",
        )

    def _chat_name(self, chat: Chat, thread: str) -> str:
        name = chat.title or chat.full_name or str(chat.id)
        topic = self._topics.get((chat.id, int(thread))) if thread else None
        return f"{name} / {topic}" if topic else name

    def _for_us(self, message: Message) -> str | None:
        """Its words without our address; None for a command of another bot."""
        text = words_of(message)
        if command := _COMMAND.match(text):
            name, bot = command.groups()
            if bot and bot.lower() != self._me.username.lower():
                return None
            return real_command(name, self._commands) + text[command.end() :]
        if message.chat.type == TelegramChatType.PRIVATE:
            return text
        return without_mention(text, (self._me.username,))

    def _addressed(self, message: Message, reply: Message | None) -> bool:
        if reply and reply.from_user and reply.from_user.id == self._me.id:
            return True
        if command := _COMMAND.match(words_of(message)):
            name, bot = command.groups()
            return bool(bot) or name[1:].lower().replace("-", "_") in self._commands
        mention, named = MessageEntityType.MENTION, MessageEntityType.TEXT_MENTION
        parsed = message.parse_entities([mention, named]) if message.text else {}
        parsed |= message.parse_caption_entities([mention, named]) if message.caption else {}
        return any(
            (entity.user is not None and entity.user.id == self._me.id)
            or words.lower() == f"@{self._me.username}".lower()
            for entity, words in parsed.items()
        )


def _thread(message: Message) -> str:
    """The topic. Elsewhere Telegram numbers threads of answers too, which are no topics."""
    if message.is_topic_message and message.message_thread_id:
        return str(message.message_thread_id)
    return str(GENERAL) if message.chat.is_forum else ""


def _answered(message: Message) -> Message | None:
    """The message it answers; the first message of a topic does not count."""
    reply = message.reply_to_message
    return None if reply is None or reply.forum_topic_created else reply


def _quoted(message: Message, reply: Message | None) -> str:
    if message.quote:
        return message.quote.text
    return words_of(reply) if reply else ""
