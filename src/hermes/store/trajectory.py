"""Conversations as ShareGPT trajectories: one JSON object a line, for training and evaluation.

Turns are `{"from": "system" | "human" | "gpt" | "tool", "value": text}`. Every `gpt` turn begins
with a `<think>` block; calls are `<tool_call>` blocks; all results that follow a reply are one
`tool` turn of `<tool_response>` blocks. The system turn is generated.
"""

import fcntl
import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from hermes.core.errors import HermesError
from hermes.core.messages import Assistant, Message, System, Text, ToolCall, ToolResult, User
from hermes.core.model import ToolSpec
from hermes.util.concurrency import SystemClock
from hermes.util.lazy import late_pattern
from hermes.util.text import clean

logger = logging.getLogger(__name__)

COMPLETED, FAILED = "trajectory_samples.jsonl", "failed_trajectories.jsonl"
THOUGHT = late_pattern(r"\s*<think>(.*?)(?:</think>|\Z)", re.DOTALL)
_SCRATCHPAD = late_pattern(r"<(/?)REASONING_SCRATCHPAD>")

Turn = dict[str, str]


def to_sharegpt(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Turn]:
    """Return the conversation as turns. One system turn that describes `tools` replaces its system
    messages."""
    listed = [
        {"name": t.name, "description": t.description, "parameters": t.parameters, "required": None}
        for t in tools
    ]
    preamble = Path(__file__).with_name("trajectory_preamble.txt").read_text("utf-8").rstrip("\n")
    turns = [_turn("system", preamble % _json(listed))]
    calls: tuple[ToolCall, ...] = ()
    dialogue = (message for message in messages if not isinstance(message, System))
    for is_tool_turn, group in groupby(dialogue, lambda message: isinstance(message, ToolResult)):
        if is_tool_turn:
            results = (result for result in group if isinstance(result, ToolResult))
            responses = (_response(each, place, calls) for place, each in enumerate(results))
            turns.append(_turn("tool", "\n".join(responses)))
            continue
        for message in group:
            calls = message.calls if isinstance(message, Assistant) else ()
            if isinstance(message, Assistant):
                turns.append(_turn("gpt", _reply(message)))
            elif isinstance(message, User):
                said = (part.text if isinstance(part, Text) else "[image]" for part in message.said)
                turns.append(_turn("human", "\n".join(said)))
    return turns


def convert_scratchpad_to_think(text: str) -> str:
    """Replace `<REASONING_SCRATCHPAD>` tags with `<think>` tags."""
    return _SCRATCHPAD.sub(r"<\1think>", text)


def save_trajectory(
    conversations: Sequence[Mapping[str, str]],
    model: str,
    completed: bool,
    filename: str | None = None,
    folder: Path = Path(),
    timestamp: datetime | None = None,
) -> Path:
    """Append an entry to `filename` in `folder`, or to the file for completed or for failed ones.

    Any number of processes may append to one file. Raises `HermesError` if it cannot be written;
    the file is then unchanged.
    """
    path = folder / (filename or (COMPLETED if completed else FAILED))
    entry = {
        "conversations": list(conversations),
        "timestamp": (timestamp or SystemClock().now()).isoformat(),
        "model": model,
        "completed": completed,
    }
    try:
        _append(path, clean(_json(entry)).encode() + b"\n")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "choose another working folder, or switch agent.save_trajectories off"
        raise HermesError(f"cannot save the trajectory to {path}: {reason}", hint=hint) from error
    return path


def _turn(speaker: str, value: str) -> Turn:
    return {"from": speaker, "value": clean(value)}


def _reply(message: Assistant) -> str:
    thought, text = message.thinking.strip(), convert_scratchpad_to_think(message.text)
    if not thought and (found := THOUGHT.match(text)):
        thought, text = found[1].strip(), text[found.end() :]
    parts = (text.strip(), *map(_call, message.calls))
    block = f"<think>\n{thought}\n</think>\n" if thought else "<think>\n</think>\n"
    return block + "\n".join(filter(None, parts))


def _call(call: ToolCall) -> str:
    arguments = _parse_json(call.arguments)
    if not isinstance(arguments, dict):
        if call.arguments.strip():
            logger.warning(
                "the arguments of a %s call are not a JSON object: {} is saved", call.name
            )
        arguments = {}
    return f"<tool_call>\n{_json({'name': call.name, 'arguments': arguments})}\n</tool_call>"


def _response(result: ToolResult, place: int, calls: tuple[ToolCall, ...]) -> str:
    """The name is that of the call with the same id, or else of the call at the same position."""
    here = calls[place : place + 1]
    asked = [call for call in (*here, *calls) if call.id == result.call_id] or here
    content = _parse_json(result.text) if result.text.lstrip().startswith(("{", "[")) else None
    fields = {
        "tool_call_id": result.call_id,
        "name": asked[0].name if asked else result.name,
        "content": result.text if content is None else content,
    }
    return f"<tool_response>\n{_json(fields)}\n</tool_response>"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _parse_json(text: str) -> Any:
    """Return the value of JSON that can be encoded again, else None."""
    try:
        value = json.loads(text)
        json.dumps([[value]], allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return value


def _append(path: Path, line: bytes) -> None:
    """Append a line completely or not at all. An unfinished last line is ended first."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        try:
            while line:
                line = line[os.write(descriptor, line) :]
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
