"""Parsers for tool calls in the raw text of a model, one for each format of the chat templates.

A server that returns tokens returns the text of the model as it is: calls stand in it between
marks of the model's chat template. `get_parser(name).parse(text)` separates them from the content;
`ToolCallStream` does the same while text arrives.

A parser never raises. Text that is not a complete call stays content: a call whose JSON was cut off
must not run with other arguments than the model meant.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from hermes.core.errors import UsageError
from hermes.core.messages import ToolCall

Schemas = Mapping[str, Mapping[str, Any]]
"""The parameters of each tool as a JSON Schema, by name. Formats with untyped values need them."""

_decoder = json.JSONDecoder(strict=False)  #: Accepts line breaks inside strings.


class CallBlock(msgspec.Struct, frozen=True):
    """The calls at one place in a text."""

    calls: tuple[ToolCall, ...]
    end: int  #: Where the text goes on.


ReadBlock = Callable[[str, int, Schemas], CallBlock | None]
"""Reads the calls at a mark, whose position is given. None: there is no complete call."""


class ToolCallParser(msgspec.Struct, frozen=True):
    """Finds the calls of one format. `marks` begin a block of calls."""

    name: str
    marks: tuple[str, ...]
    read_block: ReadBlock
    starts_text: bool = False  #: Calls stand only at the beginning of the text.

    def parse(self, text: str, schemas: Schemas | None = None) -> tuple[str, list[ToolCall]]:
        """Return the content without the calls, and the calls.

        A mark inside of closed reasoning (`<think>…</think>`) is text. Without `schemas` every name
        counts as a tool and untyped values are read as JSON where they are JSON.
        """
        known = schemas or {}
        start = text.rfind(THINK_END) + len(THINK_END) if THINK_END in text else 0
        pieces, position = [text[:start]], start
        calls: list[ToolCall] = []
        while True:
            mark = self._next_mark(text, position)
            if mark is None:
                break
            block = self.read_block(text, mark, known)
            if block is None or not block.calls:
                end = mark + 1
                pieces.append(text[position:end])
                position = end
                continue
            pieces.append(text[position:mark])
            calls += block.calls
            position = block.end
        pieces.append(text[position:])
        content = "".join(pieces)
        return (content.strip() if calls else content), calls

    def _next_mark(self, text: str, position: int) -> int | None:
        if self.starts_text:
            blank = len(text[position:]) - len(text[position:].lstrip())
            found = text.startswith(self.marks, position + blank)
            return position + blank if found and not text[:position].strip() else None
        places = [place for mark in self.marks if (place := text.find(mark, position)) >= 0]
        return min(places, default=None)


class ToolCallStream:
    """Separates content and calls while text arrives in pieces.

    Content is returned as soon as it cannot begin a call. `end` returns the rest and the calls, the
    same as `ToolCallParser.parse` for the whole text.
    """

    def __init__(self, parser: ToolCallParser, schemas: Schemas | None = None) -> None:
        self._parser, self._schemas = parser, schemas
        self._text, self._sent = "", 0
        self._is_held = False

    def feed(self, piece: str) -> str:
        """Return the content that is certain."""
        self._text += piece
        if self._is_held:
            return ""
        text, marks = self._text, self._parser.marks
        if self._parser.starts_text:
            first = text.lstrip()
            may_call = not first or any(m.startswith(first[: len(m)]) for m in marks)
            end = 0 if may_call else len(text)
            self._is_held = bool(first) and first.startswith(marks)
        else:
            places = [place for mark in marks if (place := text.find(mark, self._sent)) >= 0]
            self._is_held = bool(places)
            end = min(places) if places else len(text) - _open_length(text, marks)
        certain = text[self._sent : end].rstrip() if self._is_held else text[self._sent : end]
        # Blank text before a possible call is removed with the call.
        kept = certain.rstrip()
        self._sent += len(kept)
        return kept

    def end(self) -> tuple[str, list[ToolCall]]:
        """Return the content that was not returned yet, and the calls."""
        content, calls = self._parser.parse(self._text, self._schemas)
        sent = self._text[: self._sent]
        if content.startswith(sent):
            return content[len(sent) :], calls
        return content.removeprefix(sent.strip()), calls


def _open_length(text: str, marks: Sequence[str]) -> int:
    """Return how many characters at the end may turn out to begin a mark."""
    longest = max(map(len, marks)) - 1
    for length in range(min(longest, len(text)), 0, -1):
        if any(mark.startswith(text[-length:]) for mark in marks):
            return length
    return 0


THINK_END = "</think>"


# Values


def _make_call(name: str, arguments: str, call_id: str = "") -> ToolCall:
    """Return a call. Its id is the one that the model wrote; "" if the format has none."""
    return ToolCall(call_id, name, arguments)


def _read_json(text: str, position: int) -> tuple[Any, int] | None:
    """Return the JSON value at a position, and where it ends; None if it is not complete."""
    start = position + len(text[position:]) - len(text[position:].lstrip())
    try:
        return _decoder.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None


def _as_object(value: Any) -> str | None:
    """Return arguments as a JSON object; models also write them as JSON in a string."""
    if isinstance(value, str):
        found = _read_json(value, 0) if value.strip() else ({}, 0)
        value = found[0] if found else None
    if value is None:
        value = {}
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else None


def _to_call(value: Any, keys: Sequence[str] = ("arguments", "parameters")) -> ToolCall | None:
    """Return the call that a JSON object describes."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    given: Any = next((value[key] for key in keys if key in value), {})
    arguments = _as_object(given)
    number = value.get("id")
    name = value["name"].strip()
    if not name or arguments is None:
        return None
    return _make_call(name, arguments, number if isinstance(number, str) else "")


def _typed(text: str, schema: Mapping[str, Any] | None, *, strict: bool = False) -> Any:
    """Return an untyped value as its schema says. Without a schema, JSON is read as JSON, and with
    `strict` only if it is not a string."""
    kind = schema.get("type") if schema else None
    kinds = [kind] if isinstance(kind, str) else list(kind or ())
    if "string" in kinds and len([each for each in kinds if each != "null"]) == 1:
        return text
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        lowered = text.strip().lower()
        if "boolean" in kinds and lowered in ("true", "false"):
            return lowered == "true"
        return None if lowered in ("none", "null") and kinds else text
    return text if strict and isinstance(value, str) and not kinds else value


def _properties(schemas: Schemas, name: str) -> Mapping[str, Any]:
    found = schemas.get(name, {}).get("properties", {})
    return found if isinstance(found, Mapping) else {}


# Formats


def _json_in_tags(opening: str, closing: str) -> ReadBlock:
    """One JSON object between tags; the last tag may be missing."""

    def read(text: str, mark: int, _schemas: Schemas) -> CallBlock | None:
        found = _read_json(text, mark + len(opening))
        call = _to_call(found[0]) if found else None
        if found is None or call is None:
            return None
        return CallBlock((call,), _after(text, found[1], closing))

    return read


def _after(text: str, position: int, closing: str) -> int:
    """Return the position after `closing`, if it follows after blanks."""
    rest = text[position:].lstrip()
    skipped = len(text) - position - len(rest)
    return position + skipped + len(closing) if rest.startswith(closing) else position


def _keys_and_values(prefix: str, opening: str, closing: str) -> ReadBlock:
    """A name, then keys and values in tags, as GLM writes them."""
    pair = re.compile(
        rf"\s*<{prefix}arg_key>(.*?)</{prefix}arg_key>\s*"
        rf"<{prefix}arg_value>(.*?)</{prefix}arg_value>",
        re.DOTALL,
    )
    head = re.compile(rf"{re.escape(opening)}\s*([^\s<{{]+)")

    def read(text: str, mark: int, schemas: Schemas) -> CallBlock | None:
        name = head.match(text, mark)
        if name is None:
            return None
        values: dict[str, Any] = {}
        position = name.end()
        while found := pair.match(text, position):
            key = found[1].strip()
            schema = _properties(schemas, name[1]).get(key)
            values[key] = _typed(found[2], schema, strict=True)
            position = found.end()
        end = _after(text, position, closing)
        if end == position:  # a key without a value: the call was cut off
            return None
        return CallBlock((_make_call(name[1], json.dumps(values, ensure_ascii=False)),), end)

    return read


def _first_of(*readers: ReadBlock) -> ReadBlock:
    def read(text: str, mark: int, schemas: Schemas) -> CallBlock | None:
        return next((b for reader in readers if (b := reader(text, mark, schemas))), None)

    return read


_FUNCTION = re.compile(r"(?:<tool_call>\s*)?<function=([^>\s]+)>")
_PARAMETER = re.compile(
    r"\s*<parameter=([^>\s]+)>(.*?)(?:</parameter>|(?=<parameter=)|(?=</function>))", re.DOTALL
)


def _read_qwen3_coder(text: str, mark: int, schemas: Schemas) -> CallBlock | None:
    head = _FUNCTION.match(text, mark)
    if head is None:
        return None
    values: dict[str, Any] = {}
    position = head.end()
    while found := _PARAMETER.match(text, position):
        value = found[2].removeprefix("\n").removesuffix("\n")
        schema = _properties(schemas, head[1]).get(found[1])
        values[found[1]] = _typed(value, schema, strict=True)
        position = found.end()
    end = _after(text, position, "</function>")
    if end == position:
        return None
    call = _make_call(head[1], json.dumps(values, ensure_ascii=False))
    return CallBlock((call,), _after(text, end, "</tool_call>"))


PYTHON_TAG = "<|python_tag|>"


def _read_llama3(text: str, mark: int, schemas: Schemas) -> CallBlock | None:
    """Objects joined by `;`. Without the tag, JSON is a call only if it names a tool."""
    tagged = text.startswith(PYTHON_TAG, mark)
    position = mark + len(PYTHON_TAG) if tagged else mark
    calls: list[ToolCall] = []
    while found := _read_json(text, position):
        value, position = found
        call = _to_call(value, ("parameters", "arguments"))
        is_named = isinstance(value, dict) and ("parameters" in value or "arguments" in value)
        if call is None or not (tagged or is_named) or (schemas and call.name not in schemas):
            return None
        calls.append(call)
        rest = text[position:].lstrip()
        if not rest.startswith(";"):
            break
        position = len(text) - len(rest) + 1
    return CallBlock(tuple(calls), position) if calls else None


TOOL_CALLS = "[TOOL_CALLS]"
_MISTRAL_NAME = re.compile(r"\s*([^\s\[\]{}]+)\s*(?:\[CALL_ID\]([^\[\]{}]*))?\[ARGS\]")


def _read_mistral(text: str, mark: int, _schemas: Schemas) -> CallBlock | None:
    """A list of objects, or `NAME[ARGS]{…}`; what follows the mark decides."""
    position = mark + len(TOOL_CALLS)
    if name := _MISTRAL_NAME.match(text, position):
        found = _read_json(text, name.end())
        arguments = _as_object(found[0]) if found else None
        if found is None or arguments is None:
            return None
        return CallBlock((_make_call(name[1], arguments, (name[2] or "").strip()),), found[1])
    found = _read_json(text, position)
    if found is None:
        return None
    values = found[0] if isinstance(found[0], list) else [found[0]]
    calls = [_to_call(value) for value in values]
    if not calls or None in calls:
        return None
    return CallBlock(tuple(call for call in calls if call), found[1])


def _sequence(
    begin: str, end: str, each: Callable[[str, int], tuple[ToolCall, int] | None]
) -> ReadBlock:
    """Calls one after the other between marks of the whole; complete ones count."""

    def read(text: str, mark: int, _schemas: Schemas) -> CallBlock | None:
        calls: list[ToolCall] = []
        position = mark + len(begin)
        while found := each(text, position):
            calls.append(found[0])
            position = found[1]
        return CallBlock(tuple(calls), _after(text, position, end)) if calls else None

    return read


_DEEPSEEK = re.compile(r"\s*<｜tool▁call▁begin｜>(.*?)<｜tool▁sep｜>", re.DOTALL)
_DEEPSEEK_END = "<｜tool▁call▁end｜>"
_FENCE = re.compile(r"([^\n]*)\n```(?:json)?\n")


def _deepseek_v3(text: str, position: int) -> tuple[ToolCall, int] | None:
    head = _DEEPSEEK.match(text, position)
    fence = _FENCE.match(text, head.end()) if head else None
    return _fenced_call(text, fence) if fence else None


def _fenced_call(text: str, fence: re.Match[str]) -> tuple[ToolCall, int] | None:
    found = _read_json(text, fence.end())
    arguments = _as_object(found[0]) if found else None
    if found is None or arguments is None:
        return None
    end = _after(text, _after(text, found[1], "```"), _DEEPSEEK_END)
    return _make_call(fence[1].strip(), arguments), end


def _deepseek_v3_1(text: str, position: int) -> tuple[ToolCall, int] | None:
    head = _DEEPSEEK.match(text, position)
    found = _read_json(text, head.end()) if head else None
    arguments = _as_object(found[0]) if found else None
    if head is None or found is None or arguments is None:
        return None
    return _make_call(head[1].strip(), arguments), _after(text, found[1], _DEEPSEEK_END)


_KIMI = re.compile(r"\s*<\|tool_call_begin\|>\s*(\S+?)\s*<\|tool_call_argument_begin\|>")
_KIMI_ID = re.compile(r"(?:functions\.)?(.+?)(?::\d+)?")


def _kimi_k2(text: str, position: int) -> tuple[ToolCall, int] | None:
    """The id is kept: results name it, and its number counts over the whole conversation."""
    head = _KIMI.match(text, position)
    found = _read_json(text, head.end()) if head else None
    arguments = _as_object(found[0]) if found else None
    if head is None or found is None or arguments is None:
        return None
    name = _KIMI_ID.fullmatch(head[1])
    call = _make_call(name[1] if name else head[1], arguments, head[1])
    return call, _after(text, found[1], "<|tool_call_end|>")


_LONGCAT = "<longcat_tool_call>", "</longcat_tool_call>"
_TAGS = "<tool_call>", "</tool_call>"
_DEEPSEEK_ALL = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_KIMI_ALL = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"

_PARSERS = {
    parser.name: parser
    for parser in (
        ToolCallParser("hermes", (_TAGS[0],), _json_in_tags(*_TAGS)),
        ToolCallParser("mistral", (TOOL_CALLS,), _read_mistral),
        ToolCallParser("llama3_json", (PYTHON_TAG, "{"), _read_llama3, starts_text=True),
        ToolCallParser("qwen", (_TAGS[0],), _json_in_tags(*_TAGS)),
        ToolCallParser("qwen3_coder", (_TAGS[0], "<function="), _read_qwen3_coder),
        ToolCallParser("deepseek_v3", (_DEEPSEEK_ALL[0],), _sequence(*_DEEPSEEK_ALL, _deepseek_v3)),
        ToolCallParser(
            "deepseek_v3_1", (_DEEPSEEK_ALL[0],), _sequence(*_DEEPSEEK_ALL, _deepseek_v3_1)
        ),
        ToolCallParser("kimi_k2", (_KIMI_ALL[0],), _sequence(*_KIMI_ALL, _kimi_k2)),
        ToolCallParser(
            "longcat",
            (_LONGCAT[0],),
            _first_of(_json_in_tags(*_LONGCAT), _keys_and_values("longcat_", *_LONGCAT)),
        ),
        ToolCallParser("glm45", (_TAGS[0],), _keys_and_values("", *_TAGS)),
        ToolCallParser("glm47", (_TAGS[0],), _keys_and_values("", *_TAGS)),
    )
}


def list_parsers() -> list[str]:
    return list(_PARSERS)


def get_parser(name: str) -> ToolCallParser:
    """Return the parser of a format. Raises `UsageError`."""
    if name in _PARSERS:
        return _PARSERS[name]
    raise UsageError(f"there is no parser {name!r}", hint=f"there are: {', '.join(_PARSERS)}")
