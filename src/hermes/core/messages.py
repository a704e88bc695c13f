"""The conversation as frozen values.

A message is one of `System`, `User`, `Assistant` and `ToolResult`. It never changes, so the form
it takes on a wire is computed once and kept with it (`wire`): sending a long history again costs
what is new, not the whole. OpenAI-format dicts exist only at the edges; see `core.openai_format`.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec


# `gc=False`: these hold text and JSON, which never lead back to them, so a long history costs the
# collector nothing.
class Text(msgspec.Struct, frozen=True, tag="text", gc=False):
    text: str


class Aside(Text, frozen=True, tag="aside", gc=False):
    """Context for the model beside what the user said: sent with it, but never stored."""


class Image(msgspec.Struct, frozen=True, tag="image", gc=False):
    url: str
    """An https: or data: address."""


class Thinking(msgspec.Struct, frozen=True, tag="thinking"):
    """What the model thought. Only `details` and `items` ever go back to a provider."""

    text: str = ""
    details: tuple[dict[str, Any], ...] = ()
    """`reasoning_details`: signed blocks, returned untouched."""
    items: tuple[dict[str, Any], ...] = ()
    """`codex_reasoning_items`: encrypted items, returned untouched."""


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call", gc=False):
    id: str
    name: str
    arguments: str
    """JSON text as the model wrote it; it may be invalid."""
    extra: dict[str, Any] | None = None
    """`extra_content` of the provider (a thought signature, say), returned untouched."""


UserPart = Text | Image
AssistantPart = Text | Thinking | ToolCall


class WireCached(msgspec.Struct, frozen=True, dict=True):
    """A frozen value that remembers the wire forms made of it."""

    def wire(self, form: "WireForm") -> msgspec.Raw:
        """This value as `form` writes it, encoded once."""
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

    def beside(self, text: str) -> "User":
        """The same message with `text` as an aside."""
        return User((*self.parts, Aside(f"\n{text}"))) if text else self

    @property
    def said(self) -> tuple[UserPart, ...]:
        """What the user said, without asides."""
        return tuple([part for part in self.parts if not isinstance(part, Aside)])


class Assistant(WireCached, frozen=True, tag="assistant"):
    role: ClassVar[str] = "assistant"
    parts: tuple[AssistantPart, ...]
    finish_reason: str = "stop"
    """`stop`, `tool_calls`, `length`, `content_filter` or what the provider said."""

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
"""The text of the result of a call that was stopped."""

WireForm = Callable[[Any], Any]
"""Turns a message into JSON-ready data. Also the cache key, so it must be hashable and pure."""
