"""How many tokens a request has, before anybody counted them: rather too many than too few."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hermes.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, User
from hermes.core.model import ToolSpec

BYTES_PER_TOKEN = 3
"""Of UTF-8. Prose has four or more, program text about three."""
IMAGE_TOKENS = 2000
MESSAGE_TOKENS = 8
"""For the role and the marks around a message."""
REQUEST_TOKENS = 500
"""For what providers put in front themselves, such as how to call tools."""


def messages_tokens(messages: Iterable[Message]) -> int:
    # The number is kept with each message like a wire form, so a long history costs little.
    return sum([int(bytes(message.wire(message_tokens))) for message in messages])


def message_tokens(message: Message) -> int:
    if isinstance(message, User | Assistant):
        return MESSAGE_TOKENS + sum([_part_tokens(part) for part in message.parts])
    return MESSAGE_TOKENS + text_tokens(message.text)


def tools_tokens(tools: Sequence[ToolSpec]) -> int:
    return -(-len(msgspec.json.encode(tools)) // BYTES_PER_TOKEN) if tools else 0


def text_tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def _part_tokens(part: Text | Image | Thinking | ToolCall) -> int:
    match part:
        case Text():
            return text_tokens(part.text)
        case Image():
            return IMAGE_TOKENS
        case Thinking():
            # Either the text goes back or what holds it in the provider's own form.
            return max(text_tokens(part.text), _json_tokens([part.details, part.items]))
        case ToolCall():
            return _json_tokens([part.id, part.name, part.arguments, part.extra])


def _json_tokens(value: Any) -> int:
    return text_tokens(json.dumps(value, ensure_ascii=False))
