"""What a history says of its last turn."""

from collections.abc import Sequence

from hermes.core.messages import Message, ToolResult, User


def question_of(history: Sequence[Message]) -> str:
    """What the user said last, without asides; also when another process began the turn."""
    asked = next((each for each in reversed(history) if isinstance(each, User)), None)
    return User(asked.said).text if asked else ""


def calls_of(history: Sequence[Message]) -> list[ToolResult]:
    """The results since the user's last message."""
    found: list[ToolResult] = []
    for message in reversed(history):
        if isinstance(message, User):
            break
        if isinstance(message, ToolResult):
            found.append(message)
    return found[::-1]
