import mimetypes
import re
from collections.abc import Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any, ClassVar, assert_never
from urllib.parse import parse_qs

import msgspec

from hermes.core.errors import ReplyInvalid
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
from hermes.core.model import ModelEvent, ModelRequest, ReasoningDelta, Reply, TextDelta, ToolSpec
from hermes.core.usage import Usage
from hermes.providers.failures import failed_inside
from hermes.providers.target import Target
from hermes.providers.wire.codec import (
    BUDGETS,
    ReplyDraft,
    count,
    declined,
    decoded,
    encoded_tools,
    has_content,
    joined,
    safe_call_id,
)

# JSON Schema as Gemini takes it: a known set of keywords, and nothing beside a reference.

Schema = dict[str, Any]

_PLAIN = (
    "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems"
    " minimum maximum anyOf oneOf properties additionalProperties required propertyOrdering"
)
_KEPT = frozenset(_PLAIN.split())
_ONCE_FILLED = ("required", "enum")
"""Refused when they are empty."""
_SEVERAL = ("anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "$defs")


def gemini_schema(schema: Schema) -> Schema:
    """What is left out only narrowed the values down; the tools check their arguments anyway."""
    schema = _respelled(schema)
    if "$ref" in schema and "$defs" not in schema and "description" in schema:
        return {"anyOf": [{"$ref": schema["$ref"]}], "description": schema["description"]}
    if "$ref" in schema:
        return {key: _inner(key, value) for key, value in schema.items() if key.startswith("$")}
    cleaned = {key: _inner(key, value) for key, value in schema.items() if key in _KEPT}
    if isinstance(names := cleaned.get("required"), list):
        known = cleaned.get("properties") or {}
        cleaned["required"] = [name for name in names if name in known]
    if isinstance(values := cleaned.get("enum"), list):
        # Only words and numbers are taken; of `true`, `null` and objects the type is enough.
        cleaned["enum"] = [value for value in values if type(value) in (str, int, float)]
    return {key: value for key, value in cleaned.items() if value or key not in _ONCE_FILLED}


def _respelled(schema: Schema) -> Schema:
    """The same in the keywords that are known."""
    schema = dict(schema)
    for part in schema.pop("allOf", None) or ():
        if isinstance(part, dict):
            schema = {**part, **schema}
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    if isinstance(schema.get("definitions"), dict):
        schema["$defs"] = schema.pop("definitions") | schema.get("$defs", {})
    if isinstance(name := schema.get("$ref"), str):
        schema["$ref"] = name.replace("#/definitions/", "#/$defs/")
    return schema


def _inner(key: str, value: Any) -> Any:
    if key in _NAMED and isinstance(value, dict):
        return {name: _one(inner) for name, inner in value.items()}
    if key in _SEVERAL and isinstance(value, list):
        return [_one(inner) for inner in value]
    if key == "additionalProperties" and isinstance(value, bool):
        return value
    return _one(value) if key in ("items", "additionalProperties") else value


def _one(schema: Any) -> Schema:
    """In most places `true` is not taken for the schema that fits everything."""
    return gemini_schema(schema) if isinstance(schema, dict) else {}


# Messages and tools as the Code Assist wire writes them: a message becomes a list of parts.

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


# A Code Assist reply, read from its events or from one body: each is a whole response of Gemini's
# API in an envelope, with the parts that are new.

Number = float | None

REFUSALS = {
    "SAFETY",
    "PROHIBITED_CONTENT",
    "BLOCKLIST",
    "SPII",
    "MODEL_ARMOR",
    "LANGUAGE",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
}
"""The reply was withheld; what came of it is not to be used."""
FAILURES = {
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
}
"""The model wrote something that is no reply; asked again it may do better."""
LOST_SIGNATURE = "MISSING_THOUGHT_SIGNATURE"


class FunctionCall(msgspec.Struct):
    name: str | None = None
    args: Any = None
    id: str | None = None
    """Only newer models give one."""


class ReplyPart(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    function_call: FunctionCall | None = None
    thought_signature: str | None = None


class Content(msgspec.Struct):
    parts: list[ReplyPart] | None = None


class Candidate(msgspec.Struct, rename="camel"):
    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class PromptFeedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class UsageWire(msgspec.Struct, rename="camel"):
    """Totals so far."""

    prompt_token_count: Number = None
    candidates_token_count: Number = None
    thoughts_token_count: Number = None
    """Not part of the candidates."""
    cached_content_token_count: Number = None
    """Part of the prompt."""
    tool_use_prompt_token_count: Number = None
    """Not part of the prompt."""

    def usage(self) -> Usage:
        prompt, thought = count(self.prompt_token_count), count(self.thoughts_token_count)
        read = min(count(self.cached_content_token_count), prompt)
        return Usage(
            input=prompt - read + count(self.tool_use_prompt_token_count),
            output=count(self.candidates_token_count) + thought,
            cache_read=read,
            reasoning=thought,
        )


class Response(msgspec.Struct, rename="camel"):
    candidates: list[Candidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: UsageWire | None = None


class Envelope(msgspec.Struct):
    response: Response | None = None
    error: Any = None


class CodeAssistReader:
    ended = False
    """No event says that it is the last one; the body ends."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._parts: list[ReplyPart] = []
        self._finish: str | None = None
        self._said = ""
        """Why it ended, in words."""
        self._blocked: PromptFeedback | None = None
        self._usage: UsageWire | None = None

    def take(self, data: bytes) -> Sequence[ModelEvent] | None:
        envelope: Envelope = decoded(_decoder, data, self._target.provider)
        if envelope.error:
            raise failed_inside(self._target.provider, envelope.error)
        response = envelope.response
        if response is None:
            return None
        self._usage = response.usage_metadata or self._usage
        if response.prompt_feedback is not None and response.prompt_feedback.block_reason:
            self._blocked = response.prompt_feedback
        if not response.candidates:
            return None
        candidate = response.candidates[0]
        self._finish = candidate.finish_reason or self._finish
        self._said = candidate.finish_message or self._said
        new = (candidate.content.parts if candidate.content else None) or []
        self._parts += new
        return [_delta(part) for part in new if part.text] if new or self._finish else None

    def take_whole(self, data: bytes) -> None:
        self.take(data)

    def reply(self) -> Reply:
        self._check()
        draft = ReplyDraft(self._target)
        for kind, run in groupby(self._parts, _kind):
            if kind is ToolCall:
                for part in run:
                    _add_call(part, draft)
            elif text := "".join([part.text or "" for part in run]):
                draft.add(Thinking(text) if kind is Thinking else Text(text))
        return draft.finished(self._finish, self._usage.usage() if self._usage else None)

    def _check(self) -> None:
        """Raises for a reply that is none."""
        provider = self._target.provider
        if self._blocked is not None:
            said = self._blocked.block_reason_message or self._blocked.block_reason or ""
            raise declined(provider, said)
        if self._finish in REFUSALS:
            raise declined(provider, self._said or self._finish)
        if self._finish == LOST_SIGNATURE:
            raise failed_inside(provider, {"message": self._said, "status": self._finish})
        if self._finish in FAILURES:
            said = self._said or self._finish
            raise ReplyInvalid(f"{provider} broke its reply off: {said}", provider=provider)


def _delta(part: ReplyPart) -> ModelEvent:
    return ReasoningDelta(part.text or "") if part.thought else TextDelta(part.text or "")


def _kind(part: ReplyPart) -> type[AssistantPart]:
    if part.function_call is not None:
        return ToolCall
    return Thinking if part.thought else Text


def _add_call(part: ReplyPart, draft: ReplyDraft) -> None:
    call = part.function_call or FunctionCall()
    arguments = msgspec.json.encode(call.args or {}).decode()
    draft.add_call(call.id or "", call.name or "", arguments, extra_of(part.thought_signature))


_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Envelope)


# Requests of the Code Assist API: Gemini's own API in an envelope with model and project.

LEVELS = {"none": "LOW", "minimal": "LOW", "low": "LOW", "medium": "MEDIUM"}
"""Those that every newer model knows; it cannot be kept from thinking. Anything else is HIGH."""
MOST_BUDGET = 24_576
LEAST_BUDGET = {"pro": 128}
"""What an older model thinks at least; the others can be kept from it."""

_OLDER = re.compile(r"gemini-[12]\b(?:.*\b(?P<kind>pro)\b)?")
"""Models with a budget instead of a level, whose calls need no signature."""


class CodeAssistDialect:
    """The API has no single address for both kinds of reply: the profile must say `always` for
    streaming, and `url` is where streams come from.

    A login brings its project along in its address, as `?project=ID`; it belongs into the body.
    """

    headers: ClassVar[Mapping[str, str]] = {}

    def __init__(self, target: Target) -> None:
        self._target = target
        self._older = _OLDER.search(target.model)
        self._form = CodeAssistForm(signed=self._older is None)
        self._project = ""

    def url(self, base_url: str) -> str:
        base, _, query = base_url.partition("?")
        self._project = parse_qs(query).get("project", [""])[0]
        return f"{base.rstrip('/')}:streamGenerateContent?alt=sse"

    def reader(self) -> CodeAssistReader:
        return CodeAssistReader(self._target)

    def body(self, request: ModelRequest, stream: bool) -> bytes:  # noqa: ARG002 - the address asks for it
        profile = self._target.profile
        leading = list(takewhile(lambda message: isinstance(message, System), request.messages))
        system = [message.wire(self._form) for message in leading if has_content(message)]
        inner: dict[str, Any] = {}
        if system:
            inner["systemInstruction"] = {"role": "user", "parts": joined(system)}
        if request.tools and profile.tools:
            functions = encoded_tools(tool_form, request.tools)
            inner["tools"] = [{"functionDeclarations": functions}]
        if config := self._config(request, tools="tools" in inner):
            inner["generationConfig"] = config
        inner["contents"] = self._contents(request.messages[len(leading) :])
        body: dict[str, Any] = {"model": self._target.model}
        if self._project:
            body["project"] = self._project
        return msgspec.json.encode({**body, "request": inner} | profile.extra_body)

    def _contents(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Neighbours of one kind as one content: all results of one reply must stand together,
        and nothing may stand between a call and what was said with it."""
        sent = [message for message in _named(messages) if has_content(message)]
        return [
            {
                "role": "model" if kind is Assistant else "user",
                "parts": joined([message.wire(self._form) for message in run]),
            }
            for kind, run in groupby(sent, type)
        ]

    def _config(self, request: ModelRequest, *, tools: bool) -> dict[str, Any]:
        profile = self._target.profile
        config: dict[str, Any] = {}
        if request.max_tokens is not None and profile.max_tokens_field:
            config["maxOutputTokens"] = request.max_tokens
        if request.temperature is not None and profile.temperature:
            config["temperature"] = request.temperature
        # The older models refuse a form of the reply beside tools.
        if request.reply_schema is not None and not (tools and self._older):
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = gemini_schema(request.reply_schema)
        if profile.reasoning:
            config["thinkingConfig"] = self._thinking(request.reasoning_effort)
        return config

    def _thinking(self, effort: str) -> dict[str, Any]:
        thinking: dict[str, Any] = {"includeThoughts": effort != "none"}
        if not effort:
            return thinking
        if self._older is None:
            return {**thinking, "thinkingLevel": LEVELS.get(effort, "HIGH")}
        least = LEAST_BUDGET.get(self._older["kind"] or "", 0)
        budget = 0 if effort == "none" else BUDGETS.get(effort, BUDGETS["medium"])
        return {**thinking, "thinkingBudget": min(max(budget, least), MOST_BUDGET)}


def _named(messages: Sequence[Message]) -> Sequence[Message]:
    """A result is matched by the name of its tool; one from elsewhere may lack it."""
    if all(message.name for message in messages if isinstance(message, ToolResult)):
        return messages
    said = [message for message in messages if isinstance(message, Assistant)]
    names = {call.id: call.name for message in said for call in message.calls}
    return [
        msgspec.structs.replace(message, name=names.get(message.call_id, ""))
        if isinstance(message, ToolResult) and not message.name
        else message
        for message in messages
    ]
