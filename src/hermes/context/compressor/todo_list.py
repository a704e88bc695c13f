"""The todo list as it stands in a conversation."""

from typing import NamedTuple

from hermes.context.compressor.reading import answered_calls, is_result, text_of
from hermes.context.engine import Dict, Dicts
from hermes.core.marks import TODO_LIST

MARKS = ("[x] ", "[>] ", "[ ] ", "[-] ")


class Found(NamedTuple):
    text: str
    """The heading and its lines; "" when there is none."""
    place: int
    """Index of the message it stands in; -1 when there is none."""


def newest_list(messages: Dicts) -> Found:
    calls = answered_calls(messages)
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        call = calls.get(index)
        if may_show_list(message, call.name if call else "") and (text := list_in(message)):
            return Found(text, index)
    return Found("", -1)


def may_show_list(message: Dict, tool: str) -> bool:
    if is_result(message):
        return str(message.get("name") or tool) == "todo"
    return message.get("role") == "user"


def list_in(message: Dict) -> str:
    """Only the first place counts, and only at the start of a line, as for the tool."""
    text = text_of(message)
    start = text.find(TODO_LIST)
    if start < 0 or text[:start].rpartition("\n")[2]:
        return ""
    heading, *lines = text[start:].split("\n")
    kept = [heading]
    for line in lines:
        if not line.startswith(MARKS):
            break
        kept.append(line)
    typed = message.get("role") == "user" and len(kept) == 1
    return "" if typed else "\n".join(kept)
