"""Looking into OpenAI-format dicts."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from hermes.context.engine import Dict, Dicts
from hermes.core.messages import TODO_LIST, ToolCall, call_from_dict, from_dict
from hermes.core.model import message_tokens, text_tokens
from hermes.util.text import cut_middle, many

IMAGE = "[image]"


def content_text(content: Any) -> str:
    """Return the text of a content in any form, with a marker for images."""
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


def message_text(message: Dict) -> str:
    return content_text(message.get("content"))


def tool_calls(message: Dict) -> list[ToolCall]:
    if message.get("role") != "assistant":
        return []
    calls = message.get("tool_calls") or ()
    return [call_from_dict(call, position) for position, call in enumerate(calls)]


def call_arguments(call: ToolCall) -> Dict:
    """Return the arguments of a call; empty if they are not a JSON object."""
    try:
        value = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def is_result(message: Dict) -> bool:
    return message.get("role") == "tool"


def group_start(messages: Sequence[Dict], index: int) -> int:
    """Return the start of the tool-call group around `index`, or `index` outside of a group."""
    while index > 0 and index < len(messages) and is_result(messages[index]):
        index -= 1
    return index


def group_end(messages: Sequence[Dict], index: int) -> int:
    """Return the first index from `index` on that is not a tool result."""
    while index < len(messages) and is_result(messages[index]):
        index += 1
    return index


def answered_calls(messages: Dicts) -> dict[int, ToolCall]:
    """Return the call of each tool result, by the index of the result.

    Ids may be reused in later groups, so only calls of the same group are considered.
    """
    found: dict[int, ToolCall] = {}
    open_calls: dict[str, ToolCall] = {}
    for index, message in enumerate(messages):
        if not is_result(message):
            open_calls = {call.id: call for call in tool_calls(message)}
        elif call := open_calls.get(str(message.get("tool_call_id") or "")):
            found[index] = call
    return found


def one_line(text: str, chars: int) -> str:
    """Return `text` as one line of at most `chars` characters."""
    line = " ".join(text[: 4 * chars].split())
    return line if len(line) <= chars else line[: chars - 1] + "…"


def cut_to_tokens(text: str, tokens: int) -> str:
    """Return head and tail of `text` within about so many tokens."""
    size = text_tokens(text)
    if size <= tokens:
        return text
    return cut_middle(text, max(40, len(text) * tokens // size - 40))


# The todo list in a conversation.

MARKS = ("[x] ", "[>] ", "[ ] ", "[-] ")


class ShownTodoList(NamedTuple):
    text: str  #: The heading and its lines; "" when there is none.
    place: int  #: Index of the message it stands in; -1 when there is none.


def newest_todo_list(messages: Dicts) -> ShownTodoList:
    calls = answered_calls(messages)
    for index in range(len(messages) - 1, -1, -1):
        message, call = messages[index], calls.get(index)
        by_user = message.get("role") == "user"
        tool = message.get("name") or (call.name if call else "")
        by_tool = is_result(message) and tool == "todo"
        if (by_user or by_tool) and (text := todo_list_in(message)):
            return ShownTodoList(text, index)
    return ShownTodoList("", -1)


def todo_list_in(message: Dict) -> str:
    """Return the first todo list in a message, at the start of a line, as the tool reads it."""
    text = message_text(message)
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


# A tool call and its result in one line: tool, subject, outcome, size.

SUBJECTS = (
    *("command", "pattern", "query", "path", "file_path", "url", "urls", "goal"),
    *("session_id", "action", "name", "question", "code"),
)
"""Arguments that describe a call, the most informative first."""
SUBJECT_CHARS, WORDS_CHARS, LINE_CHARS = 60, 50, 180
TELLING_AT_THE_END = frozenset({"terminal", "process", "execute_code"})
"""Tools whose last output line is more informative than the first."""

_EXIT = re.compile(r"""\[exit code (-?\d+)|"exit_code": ?(-?\d+)""")
_ERROR = re.compile(r'\s*\{\s*"error"\s*:\s*"((?:[^"\\]|\\.)*)')


def call_subject(call: ToolCall) -> str:
    """Return the subject of a call in a few words."""
    arguments = call_arguments(call)
    for key in (*SUBJECTS, *arguments):
        value = arguments.get(key)
        if value and isinstance(value, str | list):
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            return one_line(text, SUBJECT_CHARS)
    return ""


def failure_text(text: str) -> str:
    """Return the failure in a result, or ""."""
    if error := _ERROR.match(text):
        return f"error: {one_line(error[1], WORDS_CHARS)}"
    codes = [code for found in _EXIT.finditer(text[-2_000:]) if (code := found[1] or found[2])]
    return f"exit code {codes[-1]}" if codes and codes[-1] != "0" else ""


def describe_call(call: ToolCall | None, name: str, text: str) -> str:
    """Describe a call and its result in one line of at most `LINE_CHARS` characters."""
    about = call_subject(call) if call else ""
    lines = [line for line in text.splitlines() if any(map(str.isalnum, line))] or ["nothing"]
    telling = lines[-1 if name in TELLING_AT_THE_END else 0]
    outcome = failure_text(text) or f"ok: {one_line(telling, WORDS_CHARS)}"
    size = f"{many(text.count(chr(10)) + 1, 'line')}, {many(len(text), 'character')}"
    line = f"{one_line(name, 30)}{' ' + about if about else ''}: {outcome}"
    return one_line(f"{line} ({size})" if len(text) > WORDS_CHARS else line, LINE_CHARS)


# Token estimates of OpenAI-format dicts, for engines.


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


PATH_KEYS = frozenset(
    {
        *("path", "paths", "file", "files", "file_path", "filepath", "filename", "workdir"),
        *("cwd", "folder", "directory", "output_path", "notebook_path", "target_file"),
    }
)
"""Arguments that name files or folders."""


# Long arguments, shortened.

KEPT_CHARS = 200
MARK = "...[truncated]"
MOST_ITEMS = 20  #: Items of a list within long arguments.

_FILE_LINE = re.compile(r"^(?:\*\*\* (?:Update|Add|Delete|Move)\b.*|(?:---|\+\+\+) \S.*)$", re.M)
"""Lines of a patch that name a file."""


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
