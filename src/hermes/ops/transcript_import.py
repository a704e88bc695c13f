"""Files of conversations: importing sessions from JSON Lines, and converting trajectories."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import msgspec

from hermes.core.errors import UsageError
from hermes.core.messages import from_dict, made_call_id
from hermes.core.model import ToolSpec
from hermes.store import (
    JSON_COLUMNS,
    Progress,
    Record,
    SessionFilter,
    SessionStore,
    Turn,
    clean_title,
    ignore_progress,
    to_sharegpt,
)
from hermes.store.trajectory import THOUGHT
from hermes.util.text import new_session_id, plain_line

# Sessions: all of a file are imported, or none if a line is invalid.
#
# The fields of a line. Unknown keys are ignored.

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=253_402_300_799)]
"""Until the year 9999, the last one of `datetime`."""
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Objects = list[dict[str, Any]] | str | None
"""Also accepted as JSON text, as in the documented database."""


class ImportedMessage(msgspec.Struct):
    """A message with the columns of the store, or in OpenAI's format."""

    role: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    content: str | list[Any] | dict[str, Any] | None = None
    id: Count | None = None
    timestamp: Seconds | None = None
    token_count: Count | None = None
    finish_reason: str | None = None
    tool_calls: Objects = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    name: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: Objects = None
    codex_reasoning_items: Objects = None


class ImportedCall(msgspec.Struct):
    timestamp: Seconds
    task: str
    provider: str
    model: str
    tool: str
    input_tokens: Count
    output_tokens: Count
    cache_read_tokens: Count
    cache_write_tokens: Count
    reasoning_tokens: Count
    seconds: float
    cost_usd: float | None = None


class ImportedProjection(msgspec.Struct):
    """The messages that make up the conversation."""

    after_id: Count
    basis: list[tuple[str, Count, Count | None] | dict[str, Any]]


class ImportedSession(msgspec.Struct):
    messages: list[ImportedMessage]
    id: Name | None = None
    source: Name | None = None
    user_id: str | None = None
    model: str | None = None
    model_config: str | dict[str, Any] | None = None
    system_prompt: str | None = None
    parent_session_id: str | None = None
    started_at: Seconds | None = None
    ended_at: Seconds | None = None
    end_reason: str | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    billing_provider: str | None = None
    billing_base_url: str | None = None
    billing_mode: str | None = None
    estimated_cost_usd: float | None = None
    actual_cost_usd: float | None = None
    cost_status: str | None = None
    cost_source: str | None = None
    pricing_version: str | None = None
    title: str | None = None
    archived_at: Seconds | None = None
    model_calls: list[ImportedCall] | None = None
    projection: ImportedProjection | None = None


# Parsing and checking of lines.
#
# A line is a session exported by Hermes, a session of another program with the documented columns,
# or only messages in OpenAI's format (`{"messages": […]}` or a list).

SOURCE = "import"  #: The source of a session without one.


def read_session(line: bytes, now: datetime) -> Record:
    """Parse a line into a session. Raises `UsageError`."""
    try:
        data = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise UsageError(f"this is not JSON: {_message_of(error)}") from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"this is not JSON: {error}") from None
    if isinstance(data, list):
        data = {"messages": data}
    if not isinstance(data, dict) or "messages" not in data:
        raise UsageError("this is not a session: there are no messages")
    shape = _check(data)
    record = {name: value for name, value in data.items() if value is not None}
    record["messages"] = [_message(message) for message in data["messages"]]
    record.setdefault("source", SOURCE)
    if shape.title:
        record["title"] = clean_title(shape.title)
    if "id" not in record:
        record["id"] = new_session_id(now)
    if "started_at" not in record:
        times = [each.timestamp for each in shape.messages if each.timestamp]
        record["started_at"] = min(times, default=now.timestamp())
    messages = record["messages"]
    if messages and messages[0]["role"] in ("system", "developer") and "id" not in messages[0]:
        # The store keeps the system prompt in the session.
        prompt = messages[0].get("content")
        record.setdefault("system_prompt", prompt if isinstance(prompt, str) else "")
        record["messages"] = messages[1:]
    return record


def _check(data: Record) -> ImportedSession:
    try:
        shape = msgspec.convert(data, ImportedSession)
    except msgspec.ValidationError as error:
        raise UsageError(_message_of(error)) from None
    if shape.id is not None and shape.id != plain_line(shape.id):
        raise UsageError("id: it has control characters, or spaces where none may be")
    if shape.projection is not None:  # it refers to messages by their ids
        ids = [message.id for message in shape.messages]
        if None in ids or len(set(ids)) != len(ids):
            raise UsageError("messages: with a projection, each must have an id of its own")
        owners = {piece[0] for piece in shape.projection.basis if isinstance(piece, tuple)}
        if owners - {shape.id}:
            raise UsageError("projection: it takes messages from another session")
    return shape


def _message(data: Record) -> Record:
    """Convert a message with the columns of the store."""
    message = {name: value for name, value in data.items() if value is not None}
    for column in JSON_COLUMNS:
        if isinstance(message.get(column), str):
            message[column] = _objects(message[column])
    if "reasoning_content" in message:
        message.setdefault("reasoning", message["reasoning_content"])
    if message["role"] != "user" and isinstance(message.get("content"), list):
        texts = (
            each.get("text") if isinstance(each, dict) else each for each in message["content"]
        )
        message["content"] = "\n".join(text for text in texts if text and isinstance(text, str))
    return message


def _objects(text: str) -> list[Any] | None:
    """Decode a list in JSON text. Invalid text of an old database is ignored."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else None


def _message_of(error: msgspec.DecodeError) -> str:
    """Return msgspec's message with the path first: `messages[2].role: expected str, got int`."""
    what, _, place = str(error).partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    what = what.replace("`", "")
    if not what[:2].isupper():
        what = what[:1].lower() + what[1:]
    return f"{place}: {what}" if place else what


EVERYTHING = 2**31 - 1  #: The largest limit.
SHOWN_PROBLEMS = 5


class SessionPlace(msgspec.Struct, frozen=True):
    """The position of a session in the file, and the facts needed before it is imported."""

    id: str
    parent: str
    line: int
    offset: int


class ImportResult(msgspec.Struct, frozen=True):
    stored: tuple[str, ...]
    skipped: tuple[str, ...]
    retitled: dict[str, str]  #: New titles, by session, where the title was already used.


async def import_file(
    store: SessionStore,
    path: Path,
    now: datetime,
    *,
    skip_existing: bool,
    progress: Progress = ignore_progress,
) -> ImportResult:
    """Import all sessions after checking every line. Raises `UsageError`."""
    try:
        with path.open("rb") as file:
            return await _import(store, file, path, now, skip_existing, progress)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read {path}: {reason}") from error


async def _import(
    store: SessionStore,
    file: BinaryIO,
    path: Path,
    now: datetime,
    skip_existing: bool,
    progress: Progress,
) -> ImportResult:
    if not file.seekable():
        raise UsageError(f"cannot read {path}: it must be a file, since it is read twice")
    places = check_lines(file, path, now)
    there = {
        info.id for info in await store.sessions(SessionFilter(archived=None, limit=EVERYTHING))
    }
    taken = [place for place in places if place.id in there]
    if taken and not skip_existing:
        more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
        raise UsageError(
            f"{path}:{taken[0].line}: there is already a session {taken[0].id}{more}",
            hint="--skip-existing leaves those out; nothing was imported",
        )
    wanted = [place for place in _parents_first(places) if place.id not in there]
    retitled: dict[str, str] = {}
    for done, place in enumerate(wanted, start=1):
        file.seek(place.offset)
        record = {**read_session(file.readline(), now), "id": place.id}
        await store.restore(record)
        title = (await store.info(place.id)).title
        if record.get("title") and title != record["title"]:
            retitled[place.id] = title
        progress(done, len(wanted))
    stored = tuple(place.id for place in wanted)
    return ImportResult(stored, tuple(place.id for place in taken), retitled)


def check_lines(file: BinaryIO, path: Path, now: datetime) -> list[SessionPlace]:
    """Find the sessions. Raises `UsageError` that names the invalid lines."""
    places: list[SessionPlace] = []
    problems: list[str] = []
    lines: dict[str, int] = {}
    offset = 0
    for number, line in enumerate(iter(file.readline, b""), start=1):
        start, offset = offset, offset + len(line)
        if not line.strip():
            continue
        try:
            record = read_session(line, now)
            first = lines.setdefault(record["id"], number)
            if first != number:
                raise UsageError(f"session {record['id']} is in line {first} already")
        except UsageError as error:
            problems.append(f"{path}:{number}: {error}")
            continue
        parent = record.get("parent_session_id", "")
        places.append(SessionPlace(record["id"], parent, number, start))
    if problems:
        shown = problems[:SHOWN_PROBLEMS]
        more = [f"and {len(problems) - len(shown)} more lines"] if problems[SHOWN_PROBLEMS:] else []
        hint = "nothing was imported; each line must be one session, as `export` writes them"
        raise UsageError("\n".join([*shown, *more]), hint=hint)
    if not places:
        raise UsageError(f"{path}: there is no session in it", hint="nothing was imported")
    return places


def _parents_first(places: list[SessionPlace]) -> list[SessionPlace]:
    """Sort parents before children. A cycle is left as it is."""
    by_id = {place.id: place for place in places}
    ordered: dict[str, SessionPlace] = {}
    for place in places:
        line: list[SessionPlace] = []
        current: SessionPlace | None = place
        while current is not None and current.id not in ordered and current not in line:
            line.append(current)
            current = by_id.get(current.parent)
        ordered.update({one.id: one for one in reversed(line)})
    return list(ordered.values())


# Trajectory files, and ShareGPT turns as OpenAI-format messages.

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
                    yield _trajectory_line(number, line)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read {path}: {reason}") from error


def superseded_lines(lines: Iterable[TrajectoryLine]) -> set[int]:
    """Return the numbers of the lines whose whole conversation a later line begins with. A session
    writes its conversation again after each turn; the system prompt may differ."""
    ends: dict[bytes, int] = {}
    found: set[int] = set()
    for line in lines:
        if line.problem:
            continue
        digest, prefixes = hashlib.sha256(), list[bytes]()
        for turn in line.entry.get("conversations") or line.entry["messages"]:
            if (turn.get("from") or turn.get("role")) != "system":
                digest.update(msgspec.json.encode(turn))
                prefixes.append(digest.digest())
        found.update(ends.pop(prefix) for prefix in prefixes if prefix in ends)
        if prefixes:
            ends[prefixes[-1]] = line.number
    return found


def as_sharegpt(entry: Entry) -> Entry:
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
    systems = (turn["value"] for turn in conversations if turn["from"] == "system")
    found = _TOOLS.search(next(systems, ""))
    listed = _parse_json(found[1]) if found else None
    return [
        ToolSpec(tool["name"], str(tool.get("description") or ""), tool.get("parameters") or {})
        for tool in (listed if isinstance(listed, list) else [])
        if isinstance(tool, dict) and isinstance(tool.get("name"), str)
    ]


def _trajectory_line(number: int, line: bytes) -> TrajectoryLine:
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
