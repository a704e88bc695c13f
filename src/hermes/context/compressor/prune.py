"""Making a conversation smaller without a model: old results and arguments lose their bulk."""

import hashlib
import json
import re
from typing import Any

import msgspec

from hermes.context.compressor.outcomes import described
from hermes.context.compressor.reading import answered_calls, is_result, text_of
from hermes.context.compressor.todo_list import newest_list
from hermes.context.engine import Dict, Dicts
from hermes.core.messages import ToolCall
from hermes.util.text import cut_middle

RESULT_CHARS = 200
"""Results up to this stay."""
ARGUMENT_CHARS = 500
"""Arguments of a call up to this stay."""
KEPT_CHARS = 200
MARK = "...[truncated]"
MOST_ITEMS = 20
"""Items of a list within long arguments."""
PATH_KEYS = frozenset(
    {
        *("path", "paths", "file", "files", "file_path", "filepath", "filename", "workdir"),
        *("cwd", "folder", "directory", "output_path", "notebook_path", "target_file"),
    }
)
"""Arguments that name files or folders."""

_FILE_LINE = re.compile(r"^(?:\*\*\* (?:Update|Add|Delete|Move)\b.*|(?:---|\+\+\+) \S.*)$", re.M)
"""Lines of a patch that name a file."""


def without_duplicates(messages: Dicts) -> Dicts:
    """Of equal long results only the newest is kept; the others say so."""
    calls, seen = answered_calls(messages), set[bytes]()
    kept: Dicts = []
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        text = text_of(message) if is_result(message) else ""
        if len(text) > RESULT_CHARS:
            key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
            if key in seen:
                message = _with_line(message, calls.get(index), "[same as later: {}]")
            seen.add(key)
        kept.append(message)
    return kept[::-1]


def pruned(messages: Dicts, tail: int) -> Dicts:
    """`messages` with everything before `tail` made smaller. What stays is the same object."""
    calls, todo = answered_calls(messages), newest_list(messages).place
    small: Dicts = []
    for index, message in enumerate(messages[:tail]):
        if is_result(message) and index != todo and len(text_of(message)) > RESULT_CHARS:
            small.append(_with_line(message, calls.get(index), "[{}]"))
        else:
            small.append(with_short_arguments(message))
    return [*small, *messages[tail:]]


def _with_line(message: Dict, call: ToolCall | None, form: str) -> Dict:
    name = str(message.get("name") or (call.name if call else "") or "tool")
    line = form.format(described(call, name, text_of(message)))
    return {**message, "content": line}


def with_short_arguments(message: Dict) -> Dict:
    calls = message.get("tool_calls")
    if not calls:
        return message
    short = [_with_short_call(call) for call in calls]
    if all(new is old for new, old in zip(short, calls, strict=True)):
        return message
    return {**message, "tool_calls": short}


def _with_short_call(call: Dict) -> Dict:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    if not isinstance(arguments, str) or len(arguments) <= ARGUMENT_CHARS:
        return call
    short = short_arguments(arguments)
    if len(short) >= len(arguments):
        return call
    return {**call, "function": {**function, "arguments": short}}


def short_arguments(arguments: str) -> str:
    """Valid JSON with the same keys. Paths stay whole; other long texts are cut."""
    try:
        value = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        value = {"arguments": arguments}
    return json.dumps(_short(value), ensure_ascii=False)


def _short(value: Any, key: str = "") -> Any:
    match value:
        case str() if len(value) > KEPT_CHARS and not (key in PATH_KEYS and len(value) < 1_000):
            return _short_text(value)
        case dict():
            return {name: _short(item, name) for name, item in value.items()}
        case list():
            items = [_short(item, key) for item in value]
            most = 5 * MOST_ITEMS if key in PATH_KEYS else MOST_ITEMS
            return items if len(items) <= most else [*items[:most], MARK]
    return value


def _short_text(text: str) -> str:
    head = text[:KEPT_CHARS]
    files = [line for line in _FILE_LINE.findall(text) if line not in head]
    return "\n".join([head, *files[:MOST_ITEMS]]) + MARK


def with_results_cut(messages: Dicts, chars: int) -> Dicts:
    """Every result within so many characters: for a conversation that fits no other way."""
    return [
        {**message, "content": cut_middle(text_of(message), chars)}
        if is_result(message) and len(text_of(message)) > 2 * chars
        else message
        for message in messages
    ]
