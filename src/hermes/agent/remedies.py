"""What is said to a model whose reply cannot be the end of a turn."""

from collections.abc import Callable

import msgspec

from hermes.core.marks import REMEDY
from hermes.core.messages import Assistant, User


class Remedy(msgspec.Struct, frozen=True):
    applies: Callable[[Assistant], bool]
    most: int
    """Times in a turn."""
    says: User
    """Stored like any other message, so that the prefix stays what it was."""


def _cut_off(reply: Assistant) -> bool:
    return reply.finish_reason == "length" and bool(reply.text.strip())


def _says_nothing(reply: Assistant) -> bool:
    return not reply.text.strip()


REMEDIES = (
    Remedy(
        _cut_off,
        3,
        User.say(
            f"{REMEDY}was cut off at the length limit. Go on exactly where it stopped, without "
            "repeating anything.]"
        ),
    ),
    Remedy(
        _says_nothing,
        2,
        User.say(
            f"{REMEDY}had no text and no tool call. Answer the user, or call the tool you need.]"
        ),
    ),
)
"""For replies without tool calls, the first that applies."""
