"""Messages and tools as the Code Assist wire writes them: a message becomes a list of parts."""

import mimetypes
import re
from typing import Any, assert_never

import msgspec

from hermes.core.messages import (
    Assistant,
    Image,
    Message,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from hermes.core.model import ToolSpec
from hermes.providers.wire.code_assist.schema import gemini_schema
from hermes.providers.wire.encoding import safe_call_id

Part = dict[str, Any]

UNSIGNED = "skip_thought_signature_validator"
"""What Google documents as the signature of calls that no Gemini model made."""

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_.:-]")
_LONGEST_NAME = 64


class CodeAssistForm(msgspec.Struct, frozen=True):
    """A wire form (see `core.messages.WireForm`); an empty list stands for nothing to send.

    Thoughts do not go back; their signature does, on the call that it came with.
    """

    signed: bool = False
    """The first call of a reply must carry a signature: without one of its own, `UNSIGNED`."""

    def __call__(self, message: Message) -> list[Part]:
        match message:
            case System():
                return _text(message.text.strip())
            case User():
                return [part for held in message.parts for part in _user_part(held)]
            case Assistant():
                return self._said(message)
            case ToolResult():
                return [_result(message)]
            case _:
                assert_never(message)

    def _said(self, message: Assistant) -> list[Part]:
        parts: list[Part] = []
        first = True
        for part in message.parts:
            match part:
                case Text():
                    parts += _text(part.text)
                case Thinking():
                    continue
                case ToolCall():
                    parts.append(_call(part, UNSIGNED if self.signed and first else ""))
                    first = False
                case _:
                    assert_never(part)
        return parts


def tool_form(spec: ToolSpec) -> dict[str, Any]:
    form: dict[str, Any] = {"name": _name(spec.name), "description": spec.description}
    if spec.parameters.get("properties"):  # an object without any is refused
        form["parametersJsonSchema"] = gemini_schema(spec.parameters)
    return form


def extra_of(signature: str | None) -> dict[str, Any] | None:
    """How a signature is kept with its call; Google's chat-completions API sends it like this."""
    return {"google": {"thought_signature": signature}} if signature else None


def _signature(call: ToolCall) -> str:
    held = (call.extra or {}).get("google")
    signature = held.get("thought_signature") if isinstance(held, dict) else None
    return signature if isinstance(signature, str) else ""


def _text(text: str) -> list[Part]:
    return [{"text": text}] if text.strip() else []


def _user_part(part: Text | Image) -> list[Part]:
    if isinstance(part, Text):
        return _text(part.text)
    kind, comma, data = part.url.partition(",")
    if comma and kind.startswith("data:"):
        media_type = kind.removeprefix("data:").partition(";")[0] or "image/png"
        return [{"inlineData": {"mimeType": media_type, "data": data}}]
    media_type = mimetypes.guess_type(part.url.partition("?")[0])[0] or "image/jpeg"
    return [{"fileData": {"mimeType": media_type, "fileUri": part.url}}]


def _call(call: ToolCall, unsigned: str) -> Part:
    function = {"id": safe_call_id(call.id), "name": _name(call.name), "args": _args(call)}
    signature = _signature(call) or unsigned
    return {"functionCall": function} | ({"thoughtSignature": signature} if signature else {})


def _args(call: ToolCall) -> msgspec.Raw:
    """The arguments as an object with sorted keys, which is what the API insists on."""
    try:
        value = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        value = call.arguments
    if not isinstance(value, dict):
        value = {"arguments": value}
    return msgspec.Raw(msgspec.json.encode(value, order="sorted"))


def _result(message: ToolResult) -> Part:
    response = {"error" if message.failed else "output": message.text}
    call_id, name = safe_call_id(message.call_id), _name(message.name)
    return {"functionResponse": {"id": call_id, "name": name, "response": response}}


def _name(name: str) -> str:
    """A name that is taken; the same for a tool, a call of it and the result."""
    name = _NOT_IN_A_NAME.sub("_", name)[:_LONGEST_NAME]
    return name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"[:_LONGEST_NAME]
