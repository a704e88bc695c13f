"""`gateway.channel_directory` and `gateway.mirror`: names of chats, and notes of what was sent."""

import logging
from typing import Any

import msgspec

from hermes.app.compat.runtime import shared_process
from hermes.core.errors import HermesError, UsageError
from hermes.gateway.chat_session import MirrorToChat
from hermes.gateway.directory import FILE, ChatDirectory
from hermes.gateway.documented.sessions import with_store
from hermes.gateway.platforms.kit.contract import ChatTarget

log = logging.getLogger(__name__)


def load_directory() -> dict[str, Any]:
    """`{"platforms": {"telegram": [{"id": …, "name": …, "type": …}]}}`, as far as it is known."""
    found = _directory()
    chats = {name: msgspec.to_builtins(found.chats(name)) for name in found.platforms()}
    return {"platforms": chats}


def resolve_channel_name(platform: str, name: str) -> str | None:
    """The id of the chat with this name, with its thread as `id:thread`; None when there is none,
    or more than one."""
    try:
        chat = _directory().find(platform, name)
    except UsageError:
        return None
    return f"{chat.id}:{chat.thread_id}" if chat.thread_id else chat.id


def lookup_channel_name(platform: str, chat_id: str, thread_id: str = "") -> str | None:
    """The name of a chat; None when it is not known."""
    return _directory().name_of(platform, str(chat_id), str(thread_id)) or None


def format_directory_for_display() -> str:
    """A line for each chat, with its target."""
    platforms = load_directory()["platforms"]
    lines = [
        f"{platform}:{chat['id']}{':' + thread if (thread := chat.get('thread_id')) else ''}"
        f" ({chat.get('type', 'dm')}: {chat['name']})"
        for platform, chats in platforms.items()
        for chat in chats
    ]
    return "\n".join(lines) or "No chats are known yet."


def mirror_to_session(platform: str, chat_id: str, text: str, thread_id: str = "") -> bool:
    """Note in the conversation of a chat what was sent there by other means; False when the chat
    is in none. A gateway that has the conversation open sees it when it opens it again."""
    target = ChatTarget(str(platform), str(chat_id), str(thread_id))
    try:
        return with_store(lambda store: MirrorToChat(store)(target, text))
    except HermesError as error:
        log.warning("a sent message is not in the history of its chat: %s", error)
        return False


def _directory() -> ChatDirectory:
    return ChatDirectory(shared_process().home.root / FILE)
