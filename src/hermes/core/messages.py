"""The conversation as frozen values.

A message is one of `System`, `User`, `Assistant` and `ToolResult`. It never changes, so its form on
a wire is computed once and cached (`wire`): sending a long history again costs only the new part.
OpenAI-format dicts exist only at the edges; see `to_dict`.
"""

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, assert_never

import msgspec

from hermes.core.errors import UsageError


# `gc=False`: these hold text and JSON and form no cycles, so the garbage collector can skip a long
# history.
class Text(msgspec.Struct, frozen=True, tag="text", gc=False):
    text: str


class Aside(Text, frozen=True, tag="aside", gc=False):
    """Context for the model in addition to the user's text: sent with it, but never stored."""


class Image(msgspec.Struct, frozen=True, tag="image", gc=False):
    url: str  #: An https: or data: address.

    @classmethod
    def from_bytes(cls, data: bytes) -> "Image | None":
        """Return the image with these contents; None if they are not an image."""
        kind = image_kind(data[:16])
        return cls(f"data:{kind};base64,{base64.b64encode(data).decode()}") if kind else None


MAX_IMAGE_BYTES = 5_000_000  #: Endpoints refuse larger images.
IMAGE_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def image_kind(start: bytes) -> str:
    """Return the media type of an image by its first bytes; "" for other files."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in IMAGE_STARTS.items() if start.startswith(mark)), "")


class Thinking(msgspec.Struct, frozen=True, tag="thinking"):
    """The reasoning of the model. `details` and `items` are sent back to a provider; `text` only to
    endpoints whose profile names a field for it."""

    text: str = ""
    details: tuple[dict[str, Any], ...] = ()
    """`reasoning_details`: signed blocks, returned unchanged."""
    items: tuple[dict[str, Any], ...] = ()
    """`codex_reasoning_items`: encrypted items, returned unchanged."""


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call", gc=False):
    id: str
    name: str
    arguments: str  #: JSON text as the model wrote it; it may be invalid.
    extra: dict[str, Any] | None = None
    """`extra_content` of the provider (such as a thought signature), returned unchanged."""


UserPart = Text | Image
AssistantPart = Text | Thinking | ToolCall


class WireCached(msgspec.Struct, frozen=True, dict=True):
    """A frozen value that caches its wire forms."""

    def wire(self, form: "WireForm") -> msgspec.Raw:
        """Return this value in the wire form `form`, encoded once."""
        forms: dict[WireForm, msgspec.Raw] | None = self.__dict__.get("wire_forms")
        if forms is None:
            forms = self.__dict__["wire_forms"] = {}
        raw = forms.get(form)
        if raw is None:
            raw = forms[form] = msgspec.Raw(msgspec.json.encode(form(self)))
        return raw


class System(WireCached, frozen=True, tag="system"):
    role: ClassVar[str] = "system"
    text: str


class User(WireCached, frozen=True, tag="user"):
    role: ClassVar[str] = "user"
    parts: tuple[UserPart, ...]

    @classmethod
    def say(cls, text: str) -> "User":
        return cls((Text(text),))

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    def with_aside(self, text: str) -> "User":
        """Return the same message with `text` as an aside."""
        return User((*self.parts, Aside(f"\n{text}"))) if text else self

    def joined_with(self, later: "User") -> "User":
        """Return one message with the parts of both; a blank line separates their texts."""
        parts = list(later.parts)
        if parts and isinstance(parts[0], Text):
            parts[0] = msgspec.structs.replace(parts[0], text=f"\n{parts[0].text}")
        return User((*self.parts, *parts))

    @property
    def said(self) -> tuple[UserPart, ...]:
        """The user's text, without asides."""
        return tuple([part for part in self.parts if not isinstance(part, Aside)])


class Assistant(WireCached, frozen=True, tag="assistant"):
    role: ClassVar[str] = "assistant"
    parts: tuple[AssistantPart, ...]
    finish_reason: str = "stop"
    """`stop`, `tool_calls`, `length`, `content_filter`, `interrupted` (the user stopped the reply)
    or another word of the provider."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def thinking(self) -> str:
        return "\n".join(p.text for p in self.parts if isinstance(p, Thinking) and p.text)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple([part for part in self.parts if isinstance(part, ToolCall)])


class ToolResult(WireCached, frozen=True, tag="tool"):
    role: ClassVar[str] = "tool"
    call_id: str
    name: str
    text: str
    failed: bool = False


Message = System | User | Assistant | ToolResult

INTERRUPTED_RESULT = "[interrupted: this call did not finish]"
"""The result text of a call that was stopped."""
INTERRUPTED_REPLY = "[interrupted by the user]"  #: The last line of a reply that the user stopped.

WireForm = Callable[[Any], Any]
"""Converts a message to JSON-ready data. Also the cache key, so it must be hashable and pure."""


# Conversion to and from OpenAI-format dicts, the form of the store, plugins and trajectories.


def to_dict(message: Message) -> dict[str, Any]:
    """Return the dict that other programs expect, without loss."""
    match message:
        case System():
            return {"role": "system", "content": message.text}
        case User():
            return {"role": "user", "content": user_content(message.said)}
        case Assistant():
            return _assistant_to_dict(message)
        case ToolResult():
            return {
                "role": "tool",
                "tool_call_id": message.call_id,
                "name": message.name,
                "content": message.text,
            }
        case _:
            assert_never(message)


def from_dict(data: dict[str, Any]) -> Message:
    """Return a message from an OpenAI-format dict. Raises `UsageError` if it is invalid."""
    match data.get("role"):
        case "system" | "developer":
            return System(_text_of(data.get("content")))
        case "user":
            return User(_user_parts(data.get("content")))
        case "assistant":
            return _assistant_from_dict(data)
        case "tool":
            return ToolResult(
                call_id=str(data.get("tool_call_id") or ""),
                name=str(data.get("name") or data.get("tool_name") or ""),
                text=_text_of(data.get("content")),
            )
        case role:
            raise UsageError(f"a message has the unknown role {role!r}")


def user_content(parts: Sequence[UserPart]) -> str | list[dict[str, Any]]:
    """Return a string if there is only text, else a list of content parts."""
    texts = [part.text for part in parts if isinstance(part, Text)]
    if len(texts) == len(parts):
        return "\n".join(texts)
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image_url", "image_url": {"url": part.url}}
        for part in parts
    ]


def call_to_dict(call: ToolCall) -> dict[str, Any]:
    data: dict[str, Any] = {
        "id": call.id,
        "call_id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    if call.extra is not None:
        data["extra_content"] = call.extra
    return data


def call_from_dict(data: dict[str, Any], position: int = 0) -> ToolCall:
    function = data.get("function") or {}
    name = str(function.get("name") or "")
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments or {}).decode()
    return ToolCall(
        id=str(data.get("id") or data.get("call_id") or made_call_id(name, arguments, position)),
        name=name,
        arguments=arguments,
        extra=data.get("extra_content"),
    )


def made_call_id(name: str, arguments: str, position: int) -> str:
    """Return the id for a call without one; the same call always gets the same id."""
    import hashlib  # few models omit the id, and every start loads this module

    digest = hashlib.sha256(f"{position}\0{name}\0{arguments}".encode("utf-8", "replace"))
    return f"call_{digest.hexdigest()[:24]}"


def canonical_arguments(arguments: str) -> str:
    """Return arguments with sorted keys and compact separators, so that a prefix stays byte-stable.

    Text that is not JSON is returned unchanged.
    """
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments), order="sorted").decode()
    except msgspec.DecodeError:
        return arguments


def _assistant_to_dict(message: Assistant) -> dict[str, Any]:
    data: dict[str, Any] = {"role": "assistant", "content": message.text}
    if calls := message.calls:
        data["tool_calls"] = [call_to_dict(call) for call in calls]
    thoughts = [part for part in message.parts if isinstance(part, Thinking)]
    if message.thinking:
        data["reasoning"] = message.thinking
    if details := [detail for thought in thoughts for detail in thought.details]:
        data["reasoning_details"] = details
    if items := [item for thought in thoughts for item in thought.items]:
        data["codex_reasoning_items"] = items
    data["finish_reason"] = message.finish_reason
    return data


def _assistant_from_dict(data: dict[str, Any]) -> Assistant:
    parts: list[AssistantPart] = []
    thinking = Thinking(
        text=data.get("reasoning") or data.get("reasoning_content") or "",
        details=tuple(data.get("reasoning_details") or ()),
        items=tuple(data.get("codex_reasoning_items") or ()),
    )
    if thinking != Thinking():
        parts.append(thinking)
    if text := _text_of(data.get("content")):
        parts.append(Text(text))
    calls: Iterable[dict[str, Any]] = data.get("tool_calls") or ()
    parts.extend(call_from_dict(call, position) for position, call in enumerate(calls))
    default = "tool_calls" if data.get("tool_calls") else "stop"
    return Assistant(tuple(parts), finish_reason=data.get("finish_reason") or default)


def _user_parts(content: Any) -> tuple[UserPart, ...]:
    if not isinstance(content, list):
        return (Text(_text_of(content)),)
    parts: list[UserPart] = []
    for block in content:
        if isinstance(block, dict) and block.get("type") in ("image_url", "input_image"):
            image = block.get("image_url")
            parts.append(Image(str(image.get("url", "") if isinstance(image, dict) else image)))
        else:
            parts.append(Text(_text_of([block])))
    return tuple(parts)


def _text_of(content: Any) -> str:
    """Return the text of a string, null or list of content parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [block if isinstance(block, str) else block.get("text", "") for block in content]
        return "\n".join(text for text in texts if text)
    return msgspec.json.encode(content).decode()


# Prefixes of texts that one part of the agent writes into a conversation and another recognises,
# also after a restart.

COMPACTED = "[CONTEXT COMPACTION]"  #: Notes that stand in the place of older messages.
TODO_LIST = "Todo list: "  #: The list of the tool `todo`.
STEERED = "[While you were working, the user said:]"
"""The line before a message that the user sent into a running turn."""
PROCESS_NEWS = "[background process "  #: News of a background process.
SUBAGENT_NEWS = "[background subagent "  #: The report of a subagent in the background.
TOOL_IMAGES = "[Images of the tool results "  #: The line before images that tools returned.
REMEDY = "[Your reply "  #: Asks a model to correct a reply that cannot end the turn.

NOT_THE_USER = (PROCESS_NEWS, SUBAGENT_NEWS, TOOL_IMAGES, REMEDY)
"""Messages with the user role that contain no request of the user."""
