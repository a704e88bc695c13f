"""Tool calls inside a text: how the model is told to write them, and how they are found.

A call is a fenced block. What is around it is the text of the reply. The JSON of a call is read
to where the object ends, not to the next fence: the arguments may well hold fences.
"""

import json
import re
from typing import Any

import msgspec

from hermes.core.model import ToolSpec

MARK = "tool_call"
INSTRUCTION = f"""\
To use tools, write one fenced block for each call, on lines of its own:

```{MARK}
{{"name": "NAME OF THE TOOL", "arguments": {{"PARAMETER": "VALUE"}}}}
```

The block holds one JSON object; inside its strings a line break is \\n. Write nothing after the
last block: the program runs the calls in their order and sends the results. When no tool is needed
(any more), answer in plain text without such a block."""

_OPENING = re.compile(rf"```+[ \t]*{MARK}[ \t]*\r?\n")
_CLOSING = re.compile(r"\s*```+[ \t]*(?=\r?\n|\Z)")
_UNDECIDED = re.compile(r"\s*(?:`{1,2}|```+[ \t]*\w*[ \t]*\r?)?\Z")
"""The end of a piece that may turn out to be in front of a call, or the beginning of one."""
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]+)"')
_LENIENT = json.JSONDecoder(strict=False)
"""Takes line breaks inside of strings."""


class FoundCall(msgspec.Struct, frozen=True):
    name: str
    """Empty when the block names no tool."""
    arguments: str
    """JSON, or what stands there instead."""


class CallSplitter:
    """Takes a text in pieces; gives what is said as soon as it is certain to be no call."""

    def __init__(self) -> None:
        self._held = ""
        self._spoke = self._in_calls = False

    def feed(self, piece: str) -> str:
        self._held += piece
        if self._in_calls:
            return ""
        if opening := _OPENING.search(self._held):
            self._in_calls = True
            said, self._held = self._held[: opening.start()], self._held[opening.start() :]
            return self._certain(said.rstrip())
        undecided = _UNDECIDED.search(self._held)
        at = undecided.start() if undecided else len(self._held)
        said, self._held = self._held[:at], self._held[at:]
        return self._certain(said)

    def end(self) -> tuple[str, list[FoundCall]]:
        """What is still to be said, and the calls."""
        rest, calls, said = self._held, [], []
        while opening := _OPENING.search(rest):
            said.append(rest[: opening.start()].strip())
            call, rest = _read_call(rest[opening.end() :])
            calls.append(call)
        if not calls:
            return rest, []
        said.append(rest.strip())
        text = "\n\n".join(filter(None, said))
        return f"\n\n{text}" if text and self._spoke else text, calls

    def _certain(self, said: str) -> str:
        self._spoke = self._spoke or bool(said)
        return said


def written(name: str, arguments: str) -> str:
    """A call as the model should write it."""
    try:
        given = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        given = arguments
    body = msgspec.json.encode({"name": name, "arguments": given}).decode()
    return f"```{MARK}\n{body}\n```"


def described(tools: tuple[ToolSpec, ...]) -> str:
    """One line of JSON for each tool."""
    return "\n".join(msgspec.json.encode(tool).decode() for tool in tools)


def _read_call(text: str) -> tuple[FoundCall, str]:
    """The call at the beginning of `text`, and what comes after it."""
    start = len(text) - len(text.lstrip())
    try:
        value, end = _LENIENT.raw_decode(text, start)
    except ValueError:
        # Not JSON: up to the line that closes the block.
        body, _, rest = text.partition("\n```")
        name = _NAME.search(body)
        return FoundCall(name[1] if name else "", body.strip()), rest.lstrip("`")
    closing = _CLOSING.match(text, end)
    return _call_of(value), text[closing.end() if closing else end :]


def _call_of(value: Any) -> FoundCall:
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str):
        return FoundCall("", json.dumps(value))
    arguments = value.get("arguments", {})
    if isinstance(arguments, str):  # JSON in a string, as some APIs have it
        return FoundCall(name, arguments)
    return FoundCall(name, msgspec.json.encode(arguments).decode())
