"""Topics of forums and of private chats: their names, and those that config.yaml asks for."""

import logging
from collections.abc import Sequence

from telegram import Bot, Message
from telegram.error import TelegramError

from hermes.gateway.platforms.telegram.failures import of_call
from hermes.gateway.platforms.telegram.journal import Journal
from hermes.gateway.platforms.telegram.options import ChatTopics, Options, Topic

log = logging.getLogger(__name__)

Names = dict[tuple[int, int], str]
"""Names of threads, by chat and thread."""


def known_topics(options: Options, journal: Journal) -> Names:
    """Those of config.yaml and those we made."""
    names = {(chat_id, thread): name for (chat_id, name), thread in journal.topics.items()}
    for chat in (*options.group_topics, *options.dm_topics):
        for topic in chat.topics:
            if topic.thread_id is not None:
                names[chat.chat_id, topic.thread_id] = topic.name
    return names


async def make_topics(bot: Bot, journal: Journal, wanted: Sequence[ChatTopics]) -> None:
    """Make the topics of private chats that are not there yet. One that Telegram refuses is told in
    the log and asked for again at the next start."""
    for chat in wanted:
        for topic in chat.topics:
            if topic.thread_id is None and (chat.chat_id, topic.name) not in journal.topics:
                await _make(bot, journal, chat.chat_id, topic)


async def _make(bot: Bot, journal: Journal, chat_id: int, topic: Topic) -> None:
    try:
        made = await bot.create_forum_topic(chat_id, topic.name, icon_color=topic.icon_color)
    except TelegramError as error:
        log.warning("the topic %r cannot be made: %s", topic.name, of_call(error))
        return
    journal.topic(chat_id, topic.name, made.message_thread_id)


def note_topic(message: Message, names: Names) -> None:
    """Remember a name that a message tells: a topic's first message, or one that answers it."""
    thread = message.message_thread_id
    if thread is None:
        return
    first = message if message.forum_topic_created else message.reply_to_message
    if first is not None and first.forum_topic_created:
        names.setdefault((message.chat.id, thread), first.forum_topic_created.name)
    if message.forum_topic_edited and message.forum_topic_edited.name:
        names[message.chat.id, thread] = message.forum_topic_edited.name
