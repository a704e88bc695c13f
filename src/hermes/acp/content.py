"""Content of the protocol: prompts to messages, events and stored messages to session updates."""

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from hermes.core.errors import UsageError
from hermes.core.events import (
    Compacted,
    Event,
    ModelCalled,
    Notice,
    SubagentProgress,
    SubagentStarted,
    TextFinished,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    UsageReported,
)
from hermes.core.messages import (
    COMPACTED,
    NOT_THE_USER,
    STEERED,
    Assistant,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
    UserPart,
)
from hermes.core.model import FellBack, ReasoningDelta, Retrying, TextDelta
from hermes.util.text import clean, plain_line

Update = dict[str, Any]

KINDS = {
    "read_file": "read",
    "skill_view": "read",
    "vision_analyze": "read",
    "write_file": "edit",
    "patch": "edit",
    "search_files": "search",
    "session_search": "search",
    "tool_search": "search",
    "terminal": "execute",
    "process": "execute",
    "execute_code": "execute",
    "web_search": "fetch",
    "web_extract": "fetch",
    "todo": "think",
    "memory": "think",
    "delegate_task": "think",
}
"""The `ToolKind` of each tool; others are `other`."""
SUBJECTS = ("command", "path", "pattern", "query", "url", "urls", "name", "goal", "action", "code")
"""Arguments that say best what a call does, in order of preference."""
MAX_TITLE = 200
MAX_OUTPUT = 20_000  #: Characters of a tool's output in an update; its end is kept.
MAX_DIFF_BYTES = 512 * 1024  #: Of a file that is shown as a diff.
MAX_RESOURCE = 200_000  #: Characters of an embedded resource.
PLAN_STATUS = {"pending": "pending", "in_progress": "in_progress", "completed": "completed"}

_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+?)\s*$", re.MULTILINE)


# Prompts


def user_message(blocks: Sequence[Any]) -> User:
    """Return the message for the content blocks of a prompt. Raises `UsageError`."""
    parts: list[UserPart] = []
    for block in blocks:
        known = block if isinstance(block, dict) else {}
        match known.get("type"):
            case "text":
                parts.append(Text(clean(str(known.get("text", "")))))
            case "image":
                parts.append(_image(known))
            case "resource_link":
                parts.append(Text(_link_text(known)))
            case "resource":
                parts.append(_resource(known.get("resource")))
            case "audio":
                raise UsageError("audio is not supported", hint="send text, images or files")
            case other:
                raise UsageError(f"unknown content in the prompt: {str(other)[:50]!r}")
    if not any(isinstance(part, Image) or part.text.strip() for part in parts):
        raise UsageError("the prompt is empty")
    return User(_join_texts(parts))


def _join_texts(parts: Iterable[UserPart]) -> tuple[UserPart, ...]:
    """Join neighbouring texts: a mention is a part of the sentence around it."""
    joined: list[UserPart] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, Text) and isinstance(last, Text):
            joined[-1] = Text(last.text + part.text)
        else:
            joined.append(part)
    return tuple(joined)


def _image(block: Mapping[str, Any]) -> Image:
    data, kind = str(block.get("data") or ""), str(block.get("mimeType") or "image/png")
    if data and re.fullmatch(r"image/[\w.+-]+", kind) and re.fullmatch(r"[A-Za-z0-9+/=\s]+", data):
        return Image(f"data:{kind};base64,{''.join(data.split())}")
    uri = str(block.get("uri") or "")
    if uri.startswith("https://"):
        return Image(uri)
    raise UsageError("an image of the prompt has neither data nor an https address")


def file_path(uri: str) -> str:
    """Return the path of a `file:` address, and any other address as it is."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return unquote(parts.path) if parts.scheme == "file" else uri


def _link_text(block: Mapping[str, Any]) -> str:
    return f"@{plain_line(file_path(str(block.get('uri', ''))))}"


def _resource(resource: Any) -> UserPart:
    """Return the text of a file that the editor attached, with its address."""
    known = resource if isinstance(resource, dict) else {}
    name = plain_line(file_path(str(known.get("uri", ""))))
    kind = str(known.get("mimeType") or "")
    if "text" in known:
        text = clean(str(known["text"]))
        if len(text) > MAX_RESOURCE:
            text = f"{text[:MAX_RESOURCE]}\n[cut after {MAX_RESOURCE:,} characters]"
        mark = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
        return Text(f"\n\n{name}:\n{mark}\n{text}\n{mark}\n")
    if kind.startswith("image/") and known.get("blob"):
        return _image({"data": known["blob"], "mimeType": kind})
    return Text(f"@{name}")


# Updates


def text_block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def message_chunk(text: str, kind: str = "agent_message_chunk", message_id: str = "") -> Update:
    """Return a piece of a message. Pieces with the same id belong together."""
    named = {"messageId": message_id} if message_id else {}
    return {"sessionUpdate": kind, "content": text_block(text), **named}


class TurnUpdates:
    """Maps the events of a turn to session updates.

    `folder` is the working folder, and `here` says whether its files are on this machine, so that
    changes of files can be shown as diffs.
    """

    def __init__(self, folder: str, *, here: bool = True) -> None:
        self._folder, self._here = folder, here
        self._before: dict[str, dict[str, str | None]] = {}
        """Text of the files that a running call may change, by call; None: there is no file."""
        self._output: dict[str, str] = {}
        self._has_streamed = False
        self._message_id = ""

    def see(self, event: Event) -> list[Update]:
        match event:
            case ModelCalled():
                self._message_id, self._has_streamed = str(uuid.uuid4()), False
                return []
            case TextDelta() | TextFinished():
                is_sent = isinstance(event, TextFinished) and self._has_streamed
                self._has_streamed = True
                if is_sent or not event.text:
                    return []
                return [message_chunk(event.text, message_id=self._message_id)]
            case ReasoningDelta():
                return [message_chunk(event.text, "agent_thought_chunk")] if event.text else []
            case ToolStarted():
                return self._started(event.call)
            case ToolOutput():
                return self._progress(event.call_id, event.text)
            case ToolFinished():
                return self._finished(event)
            case SubagentStarted() | SubagentProgress():
                text = event.goal if isinstance(event, SubagentStarted) else event.text
                return self._progress(event.call_id, f"[{event.child + 1}] {text}\n")
            case _:
                note = _note(event)
                return [message_chunk(f"{note}\n\n", "agent_thought_chunk")] if note else []

    def _started(self, call: ToolCall) -> list[Update]:
        arguments = parse_arguments(call.arguments)
        if self._here and KINDS.get(call.name) == "edit":
            paths = changed_paths(arguments, self._folder)
            self._before[call.id] = {path: _read_text(path) for path in paths}
        return [call_update(call, self._folder, "in_progress")]

    def _progress(self, call_id: str, text: str) -> list[Update]:
        output = (self._output.get(call_id, "") + text)[-MAX_OUTPUT:]
        self._output[call_id] = output
        shown = {"type": "content", "content": text_block(output)}
        return [{"sessionUpdate": "tool_call_update", "toolCallId": call_id, "content": [shown]}]

    def _finished(self, event: ToolFinished) -> list[Update]:
        self._output.pop(event.call_id, None)
        content: list[dict[str, Any]] = []
        for path, old in self._before.pop(event.call_id, {}).items():
            new = _read_text(path)
            if new is not None and new != old:
                content.append({"type": "diff", "path": path, "oldText": old, "newText": new})
        if event.failed or not content:
            shown = event.result[-MAX_OUTPUT:]
            content.append({"type": "content", "content": text_block(shown)})
        return [
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": event.call_id,
                "status": "failed" if event.failed else "completed",
                "content": content,
                "rawOutput": {"result": event.result[-MAX_OUTPUT:], "seconds": event.seconds},
            }
        ]


def _note(event: Event) -> str:
    """Return what the user should know that is not part of the answer."""
    match event:
        case Notice():
            return event.text
        case Retrying():
            return f"Trying again: {event.error}"
        case FellBack():
            return f"Continuing with {event.model}: {event.error}"
        case Compacted():
            return "The conversation was compacted."
        case _:
            return ""


def usage_update(event: UsageReported, context: int, spent_usd: float | None) -> Update:
    """Return how much of the window the last request filled, and what the session cost."""
    used = event.usage.prompt + event.usage.output
    update: Update = {"sessionUpdate": "usage_update", "used": used, "size": max(context, used)}
    if spent_usd is not None:
        update["cost"] = {"amount": spent_usd, "currency": "USD"}
    return update


def plan_update(items: Iterable[tuple[str, str]]) -> Update:
    """Return the plan for tasks, given as text and status. A cancelled one is left out."""
    entries = [
        {"content": text, "priority": "medium", "status": PLAN_STATUS[status]}
        for text, status in items
        if status in PLAN_STATUS
    ]
    return {"sessionUpdate": "plan", "entries": entries}


def call_update(call: ToolCall, folder: str, status: str) -> Update:
    arguments = parse_arguments(call.arguments)
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": call.id,
        "title": call_title(call.name, arguments),
        "kind": KINDS.get(call.name, "other"),
        "status": status,
        "locations": call_locations(arguments, folder),
        "rawInput": arguments,
    }


def call_title(name: str, arguments: Mapping[str, Any]) -> str:
    for key in SUBJECTS:
        value = arguments.get(key)
        value = value[0] if isinstance(value, list) and value else value
        if isinstance(value, str) and value.strip():
            return plain_line(f"{name}: {value}")[:MAX_TITLE]
    return name


def call_locations(arguments: Mapping[str, Any], folder: str) -> list[dict[str, Any]]:
    line = arguments.get("offset")
    place = {"line": line} if isinstance(line, int) and line > 0 else {}
    return [{"path": path, **place} for path in changed_paths(arguments, folder)]


def changed_paths(arguments: Mapping[str, Any], folder: str) -> list[str]:
    """Return the absolute paths of the files that a call names."""
    path, text = arguments.get("path"), arguments.get("patch")
    named = [path] if isinstance(path, str) and path else []
    named += _PATCHED.findall(text) if isinstance(text, str) else []
    return [str(Path(folder, Path(each).expanduser())) for each in dict.fromkeys(named)]


def parse_arguments(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {"arguments": text}
    return found if isinstance(found, dict) else {"arguments": found}


def _read_text(path: str) -> str | None:
    """Return the text of a file; None if there is none, or it is large or not text."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - between two events, where a Path costs more
            data = file.read(MAX_DIFF_BYTES + 1)
        return data.decode() if len(data) <= MAX_DIFF_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None


# Stored conversations


def replay(messages: Sequence[Message], folder: str) -> Iterator[Update]:
    """Yield the updates that show a stored conversation."""
    failed = {each.call_id for each in messages if isinstance(each, ToolResult) and each.failed}
    for message in messages:
        match message:
            case User():
                yield from _replay_user(message)
            case Assistant():
                yield from _replay_assistant(message, folder)
            case ToolResult():
                shown = {"type": "content", "content": text_block(message.text[-MAX_OUTPUT:])}
                yield {
                    "sessionUpdate": "tool_call_update",
                    "toolCallId": message.call_id,
                    "status": "failed" if message.call_id in failed else "completed",
                    "content": [shown],
                }
            case _:
                pass


def _replay_user(message: User) -> Iterator[Update]:
    for part in message.said:
        if isinstance(part, Image):
            kind, _, data = part.url.removeprefix("data:").partition(";base64,")
            if part.url.startswith("data:"):
                block = {"type": "image", "mimeType": kind, "data": data}
            else:
                block = {"type": "resource_link", "name": "image", "uri": part.url}
            yield {"sessionUpdate": "user_message_chunk", "content": block}
        elif part.text.startswith((COMPACTED, *NOT_THE_USER)):
            yield message_chunk(f"{part.text}\n\n", "agent_thought_chunk")
        else:
            text = part.text.removeprefix(STEERED).lstrip("\n")
            yield message_chunk(text, "user_message_chunk")


def _replay_assistant(message: Assistant, folder: str) -> Iterator[Update]:
    for part in message.parts:
        if isinstance(part, Thinking) and part.text:
            yield message_chunk(part.text, "agent_thought_chunk")
        elif isinstance(part, Text) and part.text:
            yield message_chunk(part.text)
        elif isinstance(part, ToolCall):
            yield call_update(part, folder, "pending")


def without_overlap(earlier: Sequence[Message], later: Sequence[Message]) -> list[Message]:
    """Return the messages of a session after those that a compaction copied from `earlier`."""
    start = 0
    while start < len(later) and _is_notes(later[start]):
        start += 1
    for size in range(min(len(earlier), len(later) - start), 0, -1):
        if tuple(earlier[-size:]) == tuple(later[start : start + size]):
            return [*later[start + size :]]
    return [*later[start:]]


def _is_notes(message: Message) -> bool:
    return isinstance(message, User) and message.text.startswith(COMPACTED)
