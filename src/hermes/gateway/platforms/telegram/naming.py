"""Names of messages, chats and threads.

A message's number is unique in its chat only, so its name is `chat:number`. Private chats and basic
groups of a bot share one row of numbers; each supergroup and channel has its own.
"""

PRIVATE = "private"
"""The row of numbers that private chats and basic groups share."""
GENERAL = 1
"""The topic of a forum that every message without a topic is in."""
_FIRST_SUPERGROUP = -1_000_000_000_000


def message_name(chat_id: int, number: int) -> str:
    return f"{chat_id}:{number}"


def number_of(name: str) -> int:
    """The number of a message name, or of a bare number; 0 when it is neither."""
    digits = name.rpartition(":")[2]
    return int(digits) if digits.isascii() and digits.isdecimal() else 0


def chat_in(name: str) -> int | None:
    """The chat of a message name; None for a bare number."""
    chat = name.rpartition(":")[0]
    return int(chat) if chat.removeprefix("-").isdecimal() and chat.isascii() else None


def row_of(chat_id: int) -> str:
    """Which row of numbers the messages of a chat are in."""
    return str(chat_id) if chat_id < _FIRST_SUPERGROUP else PRIVATE


def send_thread(thread_id: str) -> int | None:
    """The topic as sending needs it: Telegram refuses the number of the general one."""
    number = number_of(thread_id)
    return number if number > GENERAL else None


def typing_thread(thread_id: str) -> int | None:
    """The topic as `sendChatAction` needs it: the general one only with its number."""
    return number_of(thread_id) or None
