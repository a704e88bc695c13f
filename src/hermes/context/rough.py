"""Token estimates of OpenAI-format dicts, for engines."""

import json
from collections.abc import Iterable
from typing import Any

from hermes.core.openai_format import from_dict
from hermes.core.tokens import message_tokens, text_tokens


def dict_tokens(message: dict[str, Any]) -> int:
    """Tokens of one message, rather too many than too few."""
    return message_tokens(from_dict(message))


def estimate_messages_tokens_rough(messages: Iterable[dict[str, Any]]) -> int:
    return sum(dict_tokens(message) for message in messages)


def estimate_request_tokens_rough(
    messages: Iterable[dict[str, Any]], tools: Iterable[dict[str, Any]] = ()
) -> int:
    """Tokens of a whole request, tool schemas included."""
    schemas = sum(text_tokens(json.dumps(tool, ensure_ascii=False)) for tool in tools)
    return estimate_messages_tokens_rough(messages) + schemas
