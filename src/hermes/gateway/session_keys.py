"""The key of the conversation that a message belongs to. Only this module creates keys.

    agent:main:<platform>:dm:<chat>[:<thread>]
    agent:main:<platform>:group|channel:<chat>[:<user>]
    agent:main:<platform>:group|channel:<chat>:<thread>[:<user>]

    background:<time>_<number>:<that of the chat>

The last form is the key of a background task. `:unproven` is added when the platform cannot
confirm who wrote a message. A platform with several accounts is written
`<platform>@<account>`. In ids, `:`, `%`, invisible characters and the `@` of an account are escaped
like `%3A`, so that no id looks like two parts.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from hermes.config.settings import Settings
from hermes.memory import MemoryScope
from hermes.sdk.platforms import SessionSource

PREFIX = ("agent", "main")
BACKGROUND_PREFIX = "background:"
UNPROVEN = "unproven"

_CHAT_TYPES: Mapping[str, str] = {"private": "dm"}  #: Other names of chat types.
_UNSAFE = re.compile(r"[%:\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202f\u2060-\u2064\ufeff]")
_UNSAFE_ACCOUNT = re.compile(f"@|{_UNSAFE.pattern}")


def sharing(settings: Settings) -> dict[str, bool]:
    """Return the settings that decide which chats share one session, as keyword arguments."""
    return {
        "group_sessions_per_user": settings.group_sessions_per_user,
        "thread_sessions_per_user": settings.thread_sessions_per_user,
    }


def build_session_key(
    source: SessionSource,
    *,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
) -> str:
    shared = is_shared(
        source,
        group_sessions_per_user=group_sessions_per_user,
        thread_sessions_per_user=thread_sessions_per_user,
    )
    parts = [*PREFIX, _platform(source), _chat_type(source), _part(source.chat_id)]
    if source.thread_id:
        parts.append(_part(source.thread_id))
    if not shared and _chat_type(source) != "dm":
        parts.append(_part(source.user_id))
    if not source.proven:  # a forged sender must not join the conversation of the real one
        parts.append(UNPROVEN)
    return ":".join(parts)


def background_key(key: str, number: int, came: float) -> str:
    """Return the key of a background task that message `number` started. It is the same in every
    process and time zone, so that the task starts once."""
    return f"{BACKGROUND_PREFIX}{datetime.fromtimestamp(came, UTC):%H%M%S}_{number:06x}:{key}"


def background_name(key: str) -> str:
    return f"bg_{key.removeprefix(BACKGROUND_PREFIX).partition(':')[0]}"


def background_parent(key: str) -> str:
    """Return the chat that a background task belongs to; "" for the key of a chat."""
    return key.split(":", 2)[2] if key.startswith(BACKGROUND_PREFIX) else ""


def is_shared(
    source: SessionSource,
    *,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
) -> bool:
    """Return whether all people in the chat share one session."""
    if _chat_type(source) == "dm":
        return False
    alone = thread_sessions_per_user if source.thread_id else group_sessions_per_user
    return not (alone and source.user_id)


def memory_scope(
    source: SessionSource, *, owner: bool = False, shared: bool = False
) -> MemoryScope:
    """Return whose memory a chat uses.

    The owner's notes are used in private chats only, because in a group everyone would see them. A
    `shared` session uses notes of the chat and none of a person.
    """
    private = _chat_type(source) == "dm"
    chat = "" if private else f"{_platform(source)}:{_part(source.chat_id)}"
    if owner and private:
        return MemoryScope(chat=chat)
    if not source.proven:
        return MemoryScope(
            user=f"{_platform(source)}:{_part(source.user_id)}:{UNPROVEN}", chat=chat
        )
    if shared or not source.user_id:
        return MemoryScope(user=f"{_platform(source)}:chat:{_part(source.chat_id)}", chat=chat)
    return MemoryScope(user=f"{_platform(source)}:{_part(source.user_id)}", chat=chat)


def _platform(source: SessionSource) -> str:
    name = _part(source.platform)
    return f"{name}@{_UNSAFE_ACCOUNT.sub(_quoted, source.account)}" if source.account else name


def _chat_type(source: SessionSource) -> str:
    return _CHAT_TYPES.get(source.chat_type, source.chat_type)


def _part(identity: str) -> str:
    return _UNSAFE.sub(_quoted, identity)


def _quoted(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
