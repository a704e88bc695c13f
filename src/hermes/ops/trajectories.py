"""Reading trajectory files, and converting ShareGPT turns to OpenAI-format messages."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.core.errors import UsageError
from hermes.core.messages import from_dict, made_call_id
from hermes.core.model import ToolSpec
from hermes.store import Turn, to_sharegpt
from hermes.store.trajectory import THOUGHT

# Line ends inside the JSON are escaped, so a real one before the closing tag ends it.
_CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)
_RESPONSE = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)
_TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)

Entry = dict[str, Any]
"""An entry of a trajectory file: `conversations` or `messages`, and further fields."""


class TrajectoryLine(msgspec.Struct, frozen=True):
    """A line of a trajectory file that is not blank."""

    number: int
    size: int  #: Size in bytes.
    entry: Entry
    problem: str = ""  #: Why it is not an entry; then `entry` is empty.


class _Function(msgspec.Struct):
    name: str
    arguments: str | dict[str, Any] | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _FunctionHolder(msgspec.Struct):
    """A tool call, or a tool, in OpenAI's format."""

    function: _Function


class _Message(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[str | dict[str, Any]] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    codex_reasoning_items: list[dict[str, Any]] | None = None
    tool_calls: list[_FunctionHolder] | None = None


class _Turn(msgspec.Struct):
    speaker: Literal["system", "human", "gpt", "tool"] = msgspec.field(name="from")
    value: str


class _Entry(msgspec.Struct):
    """The required fields of an entry; others are kept."""

    conversations: list[_Turn] | None = None
    messages: list[_Message] | None = None
    tools: list[_FunctionHolder] | None = None


def read_lines(path: Path) -> Iterator[TrajectoryLine]:
    """Yield every line that is not blank, valid or not. Raises `UsageError` for a bad file."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _line(number, line)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read {path}: {reason}") from error


def as_sharegpt(entry: Entry) -> Entry:
    """Return the entry with its conversation as turns."""
    if entry.get("conversations") is not None:
        return entry
    rest = {key: value for key, value in entry.items() if key not in ("messages", "tools")}
    listed = msgspec.convert(entry.get("tools") or [], list[_FunctionHolder])
    functions = [each.function for each in listed]
    tools = [ToolSpec(f.name, f.description or "", f.parameters or {}) for f in functions]
    messages = [from_dict(message) for message in entry["messages"]]
    return {"conversations": to_sharegpt(messages, tools), **rest}


def as_openai(entry: Entry) -> Entry:
    """Return the entry with its conversation as messages, and its tools."""
    turns = entry.get("conversations")
    if turns is None:
        return entry
    rest = {key: value for key, value in entry.items() if key != "conversations"}
    tools = [{"type": "function", "function": msgspec.to_builtins(t)} for t in tools_of(turns)]
    return {"messages": from_sharegpt(turns), **({"tools": tools} if tools else {}), **rest}


def from_sharegpt(conversations: Sequence[Turn]) -> list[dict[str, Any]]:
    """Return OpenAI-format messages, without a system turn that lists tools: see `tools_of`."""
    messages: list[dict[str, Any]] = []
    for turn in conversations:
        text = turn["value"]
        match turn["from"]:
            case "system":
                messages += [] if _TOOLS.search(text) else [{"role": "system", "content": text}]
            case "human":
                messages.append({"role": "user", "content": text})
            case "gpt":
                messages.append(_assistant(text))
            case _:
                found = _RESPONSE.findall(text)
                results = [_result(_parse_json(each), each) for each in found or [text]]
                calls = messages[-1].get("tool_calls", []) if messages else []
                for call, result in zip(calls, results, strict=False):
                    call["id"] = result["tool_call_id"] or call["id"]
                messages += results
    return messages


def tools_of(conversations: Sequence[Turn]) -> list[ToolSpec]:
    """Return the tools that the system turn lists."""
    systems = (turn["value"] for turn in conversations if turn["from"] == "system")
    found = _TOOLS.search(next(systems, ""))
    listed = _parse_json(found[1]) if found else None
    return [
        ToolSpec(tool["name"], str(tool.get("description") or ""), tool.get("parameters") or {})
        for tool in (listed if isinstance(listed, list) else [])
        if isinstance(tool, dict) and isinstance(tool.get("name"), str)
    ]


def _line(number: int, line: bytes) -> TrajectoryLine:
    try:
        entry = json.loads(line)
        shape = msgspec.convert(entry, _Entry)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors too
        return TrajectoryLine(
            number, len(line), {}, f"not a trajectory: {error}".partition("\n")[0]
        )
    if (shape.conversations is None) == (shape.messages is None):
        problem = "not a trajectory: it needs either `conversations` or `messages`"
        return TrajectoryLine(number, len(line), {}, problem)
    return TrajectoryLine(number, len(line), entry)


def _assistant(text: str) -> dict[str, Any]:
    thought = THOUGHT.match(text)
    calls: list[dict[str, Any]] = []

    def take(found: re.Match[str]) -> str:
        match _parse_json(found[1]):
            case {"name": str(name), **others}:
                arguments = _json(others.get("arguments") or {})
                function = {"name": name, "arguments": arguments}
                made = made_call_id(name, arguments, len(calls))
                calls.append({"id": made, "type": "function", "function": function})
                return ""
        return found[0]

    said = _CALL.sub(take, text[thought.end() if thought else 0 :]).strip()
    message: dict[str, Any] = {"role": "assistant", "content": said}
    if thought and thought[1].strip():
        message["reasoning"] = thought[1].strip()
    if calls:
        message["tool_calls"] = calls
    return message


def _result(fields: Any, text: str) -> dict[str, Any]:
    """Return a result from its decoded `fields`, or with `text` as its content."""
    fields = fields if isinstance(fields, dict) else {"content": text}
    content = fields.get("content", "")
    return {
        "role": "tool",
        "tool_call_id": str(fields.get("tool_call_id") or ""),
        "name": str(fields.get("name") or ""),
        "content": content if isinstance(content, str) else _json(content),
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
