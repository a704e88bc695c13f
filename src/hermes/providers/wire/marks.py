"""Prompt-cache marks: `cache_control` on the system prompt and on the last messages.

A mark says that everything before it is worth keeping. An endpoint takes four.
"""

from collections.abc import Sequence

from hermes.core.messages import Assistant, Image, Message, System, ToolResult, User
from hermes.providers.target import Target

MOST_MARKS = 4


def mark_of(target: Target) -> str:
    """How long marked prefixes are kept, or empty when nothing is to be marked."""
    return target.cache_ttl if target.profile.cache_marks else ""


def cache_control(mark: str) -> dict[str, str]:
    return {"type": "ephemeral", "ttl": "1h"} if mark == "1h" else {"type": "ephemeral"}


def has_content(message: Message) -> bool:
    """Whether there is a block that can carry a mark; a thought cannot."""
    match message:
        case System():
            return bool(message.text.strip())
        case User():
            return any(isinstance(part, Image) or part.text.strip() for part in message.parts)
        case Assistant():
            return bool(message.text.strip() or message.calls)
        case ToolResult():
            return True


def last_marked(can_carry: Sequence[bool], slots: int) -> set[int]:
    """The positions of the last `slots` places that can carry a mark."""
    places = [position for position, can in enumerate(can_carry) if can]
    return set(places[-slots:]) if slots else set()
