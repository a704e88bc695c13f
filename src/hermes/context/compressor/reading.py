"""Looking into OpenAI-format dicts."""

from collections.abc import Sequence
from typing import Any

import msgspec

from hermes.context.engine import Dict, Dicts
from hermes.core.messages import ToolCall
from hermes.core.openai_format import call_from_dict
from hermes.core.tokens import text_tokens
from hermes.util.text import cut_middle

IMAGE = "[image]"


def content_text(content: Any) -> str:
    """The text of a content in any of its forms, an image as a mark."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return msgspec.json.encode(content).decode()
    return "\n".join(filter(None, map(_block_text, content)))


def _block_text(block: Any) -> str:
    if not isinstance(block, dict):
        return str(block)
    if "image" in str(block.get("type")):
        return IMAGE
    return str(block.get("text") or "")


def text_of(message: Dict) -> str:
    return content_text(message.get("content"))


def calls_of(message: Dict) -> list[ToolCall]:
    if message.get("role") != "assistant":
        return []
    calls = message.get("tool_calls") or ()
    return [call_from_dict(call, position) for position, call in enumerate(calls)]


def arguments_of(call: ToolCall) -> Dict:
    """Its arguments; empty when they are not an object."""
    try:
        value = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def is_result(message: Dict) -> bool:
    return message.get("role") == "tool"


def group_start(messages: Sequence[Dict], index: int) -> int:
    """Where the tool-call group that `index` lies in begins; `index` itself outside of one."""
    while index > 0 and index < len(messages) and is_result(messages[index]):
        index -= 1
    return index


def group_end(messages: Sequence[Dict], index: int) -> int:
    """The first index from `index` on that is no tool result."""
    while index < len(messages) and is_result(messages[index]):
        index += 1
    return index


def answered_calls(messages: Dicts) -> dict[int, ToolCall]:
    """For the index of each tool result the call it answers. Ids may be used again in later
    groups, so only the group itself counts."""
    found: dict[int, ToolCall] = {}
    open_calls: dict[str, ToolCall] = {}
    for index, message in enumerate(messages):
        if not is_result(message):
            open_calls = {call.id: call for call in calls_of(message)}
        elif call := open_calls.get(str(message.get("tool_call_id") or "")):
            found[index] = call
    return found


def one_line(text: str, chars: int) -> str:
    """`text` as one line of at most `chars` characters."""
    line = " ".join(text[: 4 * chars].split())
    return line if len(line) <= chars else line[: chars - 1] + "…"


def cut_to(text: str, tokens: int) -> str:
    """Head and tail of `text` within about so many tokens."""
    size = text_tokens(text)
    if size <= tokens:
        return text
    return cut_middle(text, max(40, len(text) * tokens // size - 40))
