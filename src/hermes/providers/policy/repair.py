"""Resend a refused request without the part that was refused."""

import json
from collections.abc import Callable
from typing import Any, TypeVar, assert_never

import msgspec

from hermes.core.errors import OptionRefused, ProviderError, SignatureRefused, UnicodeRefused
from hermes.core.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from hermes.core.model import EmitModelEvent, Model, ModelRequest, Reply, Retrying, ToolSpec
from hermes.providers.policy import ModelWrapper
from hermes.util.lazy import late_pattern

# Removal of characters that some endpoints refuse. Replaced by U+FFFD are lone surrogates (matching
# pairs become their character), control characters except tab and line ends, and Unicode
# noncharacters. A value without any of them is returned as the same object.

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_PLANE_ENDS = "".join(chr(plane << 16 | end) for plane in range(17) for end in (0xFFFE, 0xFFFF))
_CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_REFUSED = late_pattern(f"[{_CONTROLS}\ufdd0-\ufdef{_PLANE_ENDS}]")
_SURROGATE = late_pattern("[\ud800-\udfff]")

Part = TypeVar("Part", bound=Text | Image | Thinking | ToolCall)


def clean_text(text: str) -> str:
    if _SURROGATE.search(text):
        units = text.encode("utf-16-le", "surrogatepass")
        text = units.decode("utf-16-le", "replace")
    return _REFUSED.sub(REPLACEMENT, text)


def clean_json(value: Any) -> Any:
    """Return decoded JSON with cleaned strings and keys."""
    match value:
        case str():
            return clean_text(value)
        case dict():
            return {clean_text(key): clean_json(held) for key, held in value.items()}
        case list() | tuple():
            return type(value)(clean_json(held) for held in value)
        case _:
            return value


def clean_arguments(arguments: str) -> str:
    """Clean JSON text, including escapes such as `\\ud800`. Text that is not JSON stays text."""
    arguments = clean_text(arguments)
    if "\\u" not in arguments:
        return arguments
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    cleaned = clean_json(value)
    return arguments if cleaned == value else json.dumps(cleaned, ensure_ascii=False)


def clean_message(message: Message) -> Message:
    match message:
        case System() | ToolResult():
            cleaned: Message = msgspec.structs.replace(message, text=clean_text(message.text))
        case User():
            cleaned = User(tuple([_clean_part(part) for part in message.parts]))
        case Assistant():
            parts: tuple[AssistantPart, ...] = tuple([_clean_part(part) for part in message.parts])
            cleaned = Assistant(parts, message.finish_reason)
        case _:
            assert_never(message)
    return message if cleaned == message else cleaned


def clean_tool(tool: ToolSpec) -> ToolSpec:
    cleaned = ToolSpec(tool.name, clean_text(tool.description), clean_json(tool.parameters))
    return tool if cleaned == tool else cleaned


def _clean_part(part: Part) -> Part:
    replace = msgspec.structs.replace
    match part:
        case Text():
            return replace(part, text=clean_text(part.text))
        case Thinking():
            return replace(
                part,
                text=clean_text(part.text),
                details=clean_json(part.details),
                items=clean_json(part.items),
            )
        case ToolCall():
            return replace(
                part, arguments=clean_arguments(part.arguments), extra=clean_json(part.extra)
            )
        case _:
            return part


T = TypeVar("T")


def _unchanged(value: T) -> T:
    return value


class _Repair(msgspec.Struct, frozen=True):
    """One kind of repair. Each function returns its argument itself when nothing changes."""

    description: str  #: What was done, for the user.
    message: Callable[[Message], Message] = _unchanged
    tool: Callable[[ToolSpec], ToolSpec] = _unchanged
    request: Callable[[ModelRequest], ModelRequest] = _unchanged
    """Repairs of fields other than messages and tools."""

    def would_change(self, request: ModelRequest) -> bool:
        return (
            self.request(request) is not request
            or any(self.message(message) is not message for message in request.messages)
            or any(self.tool(tool) is not tool for tool in request.tools)
        )


class RequestRepairModel(ModelWrapper):
    """Repairs a request once for each kind of refusal, and all later requests in the same way.

    Later requests contain the refused history again, and the beginning of the conversation must
    stay the same for the provider's cache. A repaired message is kept, so that it is encoded only
    once.
    """

    def __init__(self, inner: Model, plain: set[tuple[str, str]] | None = None) -> None:
        """`plain` holds the (provider, name) of models that refuse options. It may be shared."""
        super().__init__(inner)
        self._plain = set() if plain is None else plain
        self._repairs: list[_Repair] = [DROP_OPTIONS] if self._model_key in self._plain else []
        self._messages: dict[int, tuple[Message, Message]] = {}
        """Original and repaired message by id. Holding the original keeps its id in use."""
        self._tools: tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]] = ((), ())

    @property
    def _model_key(self) -> tuple[str, str]:
        return self.provider, self.name

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        sent = self._apply_repairs(request)
        while True:
            try:
                return await self._inner.call(sent, emit)
            except tuple(REPAIRS) as error:
                repair = next(r for kind, r in REPAIRS.items() if isinstance(error, kind))
                if repair in self._repairs or not repair.would_change(sent):
                    raise
                self._repairs.append(repair)
                if repair is DROP_OPTIONS:
                    self._plain.add(self._model_key)
                self._messages, self._tools = {}, ((), ())
                sent = self._apply_repairs(request)
                emit(Retrying(f"{error}; {repair.description}", len(self._repairs), 0.0))

    def _apply_repairs(self, request: ModelRequest) -> ModelRequest:
        if not self._repairs:
            return request
        # Rebuilt for each request, so that messages which left the conversation are released.
        repaired = {id(message): self._repair_message(message) for message in request.messages}
        self._messages = repaired
        if self._tools[0] is not request.tools:
            tools = request.tools
            for repair in self._repairs:
                tools = tuple([repair.tool(tool) for tool in tools])
            self._tools = (request.tools, tools)
        for repair in self._repairs:
            request = repair.request(request)
        return msgspec.structs.replace(
            request,
            messages=tuple([repaired[id(message)][1] for message in request.messages]),
            tools=self._tools[1],
        )

    def _repair_message(self, message: Message) -> tuple[Message, Message]:
        pair = self._messages.get(id(message))
        if pair is None:
            repaired = message
            for repair in self._repairs:
                repaired = repair.message(repaired)
            pair = (message, repaired)
        return pair


def without_signatures(message: Message) -> Message:
    """Remove signatures that only the issuing provider can read; texts stay."""
    if not isinstance(message, Assistant):
        return message
    parts = tuple([_unsigned(part) for part in message.parts])
    if all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    return Assistant(parts, message.finish_reason)


def _unsigned(part: AssistantPart) -> AssistantPart:
    if isinstance(part, Thinking) and (part.details or part.items):
        return Thinking(part.text)
    if isinstance(part, ToolCall) and part.extra:
        return ToolCall(part.id, part.name, part.arguments)
    return part


def without_options(request: ModelRequest) -> ModelRequest:
    """Remove options that some models refuse and that a reply does not depend on."""
    if not request.reasoning_effort and request.temperature is None:
        return request
    return msgspec.structs.replace(request, reasoning_effort="", temperature=None)


DROP_SIGNATURES = _Repair("sent again without earlier reasoning", message=without_signatures)
CLEAN_CHARACTERS = _Repair(
    "sent again without unusual characters", message=clean_message, tool=clean_tool
)
DROP_OPTIONS = _Repair("sent again without it", request=without_options)

REPAIRS: dict[type[ProviderError], _Repair] = {
    SignatureRefused: DROP_SIGNATURES,
    UnicodeRefused: CLEAN_CHARACTERS,
    OptionRefused: DROP_OPTIONS,
}
