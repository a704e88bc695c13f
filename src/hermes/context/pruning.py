"""Making a conversation smaller without a model: old results and arguments lose their bulk."""

import hashlib
import json
import re
from typing import Any

import msgspec

from hermes.context.conversation import (
    PATH_KEYS,
    answered_calls,
    describe_call,
    estimate_messages_tokens_rough,
    group_end,
    is_result,
    message_text,
    newest_todo_list,
    tool_calls,
)
from hermes.context.engine import Dict, Dicts
from hermes.core.messages import ToolCall
from hermes.util.text import cut_middle

RESULT_CHARS = 200  #: Results up to this length are kept.
ARGUMENT_CHARS = 500  #: Arguments up to this length are kept.
KEPT_CHARS = 200
MARK = "...[truncated]"
MOST_ITEMS = 20  #: Items of a list within long arguments.

_FILE_LINE = re.compile(r"^(?:\*\*\* (?:Update|Add|Delete|Move)\b.*|(?:---|\+\+\+) \S.*)$", re.M)
"""Lines of a patch that name a file."""


def drop_duplicates(messages: Dicts) -> Dicts:
    """Keep only the newest of equal long results; the others become references."""
    calls, seen = answered_calls(messages), set[bytes]()
    kept: Dicts = []
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        text = message_text(message) if is_result(message) else ""
        if len(text) > RESULT_CHARS:
            key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
            if key in seen:
                message = _with_line(message, calls.get(index), "[same as later: {}]")
            seen.add(key)
        kept.append(message)
    return kept[::-1]


def prune(messages: Dicts, tail: int) -> Dicts:
    """Shorten results and arguments before index `tail`. Unchanged messages are the same dicts."""
    calls, todo = answered_calls(messages), newest_todo_list(messages).place
    small: Dicts = []
    for index, message in enumerate(messages[:tail]):
        if is_result(message) and index != todo and len(message_text(message)) > RESULT_CHARS:
            small.append(_with_line(message, calls.get(index), "[{}]"))
        else:
            small.append(shorten_arguments(message))
    return [*small, *messages[tail:]]


def _with_line(message: Dict, call: ToolCall | None, form: str) -> Dict:
    name = str(message.get("name") or (call.name if call else "") or "tool")
    line = form.format(describe_call(call, name, message_text(message)))
    return {**message, "content": line}


def shorten_arguments(message: Dict) -> Dict:
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
    short = shorten_json(arguments)
    if len(short) >= len(arguments):
        return call
    return {**call, "function": {**function, "arguments": short}}


def shorten_json(arguments: str) -> str:
    """Return valid JSON with the same keys, paths complete and other long texts shortened."""
    try:
        value = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        value = {"arguments": arguments}
    return json.dumps(_short(value), ensure_ascii=False)


def _short(value: Any, key: str = "") -> Any:
    match value:
        case str() if len(value) > KEPT_CHARS and not (key in PATH_KEYS and len(value) < 1_000):
            head = value[:KEPT_CHARS]
            files = [line for line in _FILE_LINE.findall(value) if line not in head]
            return "\n".join([head, *files[:MOST_ITEMS]]) + MARK
        case dict():
            return {name: _short(item, name) for name, item in value.items()}
        case list():
            items = [_short(item, key) for item in value]
            most = 5 * MOST_ITEMS if key in PATH_KEYS else MOST_ITEMS
            return items if len(items) <= most else [*items[:most], MARK]
    return value


def cut_results(messages: Dicts, chars: int) -> Dicts:
    """Cut every result to so many characters, for a conversation that fits in no other way."""
    return [
        {**message, "content": cut_middle(message_text(message), chars)}
        if is_result(message) and len(message_text(message)) > 2 * chars
        else message
        for message in messages
    ]


# Check whether a conversation fits, and the last resort if it does not.

LAST_RESORT = (8_000, 3_000, 1_000, 400)
"""Characters to which results are cut, tried in order until the conversation fits."""


class FitCheck:
    """Checks whether a changed conversation fits, given its size before the change."""

    def __init__(self, estimate: int, current_tokens: int | None, limit: int) -> None:
        """`estimate` is for the messages before the change, `current_tokens` the known size of the
        whole request, or None. A request below `limit` fits."""
        self._before, self._limit = estimate, limit
        self._current = estimate if current_tokens is None else current_tokens
        self._factor = min(1.0, self._current / estimate) if estimate else 1.0

    def __call__(self, messages: Dicts) -> bool:
        saved = self._before - estimate_messages_tokens_rough(messages)
        return self._current - saved * self._factor < self._limit

    def force(self, messages: Dicts) -> Dicts:
        """Return `messages`, with tool results cut if they do not fit otherwise."""
        for chars in LAST_RESORT:
            if self(messages):
                return messages
            messages = cut_results(messages, chars)
        return messages if self(messages) else [shorten_arguments(each) for each in messages]


# Repair of calls and results after messages were removed.

STUB = "[the result was removed with earlier messages]"


def repair_calls(messages: Dicts) -> Dicts:
    """Give every call exactly one result, in the order of the calls, and drop other results.

    Calls at the end that have no results yet stay open.
    """
    whole: Dicts = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if is_result(message):
            continue  # an orphan: results of a call are handled with it
        whole.append(message)
        if calls := tool_calls(message):
            end = group_end(messages, index)
            if end == index == len(messages):
                break
            results: dict[str, Dicts] = {}
            for result in messages[index:end]:
                results.setdefault(str(result.get("tool_call_id") or ""), []).append(result)
            whole += [_result(call, results) for call in calls]
            index = end
    return whole


def _result(call: ToolCall, results: dict[str, Dicts]) -> Dict:
    if given := results.get(call.id):
        return given.pop(0)
    return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": STUB}
