"""Google's Code Assist API (the Gemini CLI's): requests, replies and the schema of its tools."""

import mimetypes
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, assert_never
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
from hermes.core.model import (
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolSpec,
    Usage,
)
from hermes.providers.endpoints import Target
from hermes.providers.failures import failed_in_stream
from hermes.providers.wire.codec import (
    THINKING_BUDGETS,
    Number,
    ReplyBuilder,
    content_refused,
    decode_json,
    encode_tools,
    has_content,
    join_arrays,
    object_arguments,
    parse_data_url,
    safe_call_id,
    split_system,
    token_count,
)
from hermes.providers.wire.model import Dialect

# JSON Schema as Gemini accepts it: only known keywords, and nothing next to a reference.

Schema = dict[str, Any]

_KEYWORDS = (
    "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems"
    " minimum maximum anyOf oneOf properties additionalProperties required propertyOrdering"
)
_KNOWN_KEYWORDS = frozenset(_KEYWORDS.split())
_NOT_EMPTY = ("required", "enum")  #: Keywords that Gemini refuses when they are empty.
_SCHEMA_LISTS = ("anyOf", "oneOf", "prefixItems")
_SCHEMA_MAPS = ("properties", "$defs")


def gemini_schema(schema: Schema) -> Schema:
    """Return the schema with only the keywords that Gemini knows.

    The dropped ones only restrict values, and the tools validate their arguments anyway.
    """
    schema = _normalize_keywords(schema)
    if "$ref" in schema and "$defs" not in schema and "description" in schema:
        return {"anyOf": [{"$ref": schema["$ref"]}], "description": schema["description"]}
    if "$ref" in schema:
        return {
            key: _clean_value(key, value) for key, value in schema.items() if key.startswith("$")
        }
    cleaned = {
        key: _clean_value(key, value) for key, value in schema.items() if key in _KNOWN_KEYWORDS
    }
    if isinstance(names := cleaned.get("required"), list):
        known = cleaned.get("properties") or {}
        cleaned["required"] = [name for name in names if name in known]
    if isinstance(values := cleaned.get("enum"), list):
        # Gemini accepts only strings and numbers; for other values the type is enough.
        cleaned["enum"] = [value for value in values if type(value) in (str, int, float)]
    return {key: value for key, value in cleaned.items() if value or key not in _NOT_EMPTY}


def _normalize_keywords(schema: Schema) -> Schema:
    """Rewrite keywords that have a known equivalent."""
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


def _clean_value(key: str, value: Any) -> Any:
    if key in _SCHEMA_MAPS and isinstance(value, dict):
        return {name: _clean_schema(inner) for name, inner in value.items()}
    if key in _SCHEMA_LISTS and isinstance(value, list):
        return [_clean_schema(inner) for inner in value]
    if key == "additionalProperties" and isinstance(value, bool):
        return value
    return _clean_schema(value) if key in ("items", "additionalProperties") else value


def _clean_schema(schema: Any) -> Schema:
    """Clean a nested schema. Gemini does not accept `true` in place of an empty schema."""
    return gemini_schema(schema) if isinstance(schema, dict) else {}


# Encoding: a message becomes a list of parts.

Part = dict[str, Any]

SKIP_SIGNATURE_CHECK = "skip_thought_signature_validator"
"""The signature that Google documents for calls which no Gemini model made."""

_INVALID_NAME_CHARACTERS = re.compile(r"[^a-zA-Z0-9_.:-]")
_MAX_NAME_LENGTH = 64


class CodeAssistEncoder(msgspec.Struct, frozen=True):
    """Encodes one message (see `core.messages.WireForm`); an empty list means nothing to send.

    Thinking is not sent back; its signature is, on the call it came with.
    """

    signed: bool = False
    """The first call of a reply must carry a signature: its own, or `SKIP_SIGNATURE_CHECK`."""

    def __call__(self, message: Message) -> list[Part]:
        match message:
            case System():
                return _text_parts(message.text.strip())
            case User():
                return [part for stored in message.parts for part in _user_parts(stored)]
            case Assistant():
                return self._assistant_parts(message)
            case ToolResult():
                response = {"error" if message.failed else "output": message.text}
                call_id, name = safe_call_id(message.call_id), _valid_name(message.name)
                return [{"functionResponse": {"id": call_id, "name": name, "response": response}}]
            case _:
                assert_never(message)

    def _assistant_parts(self, message: Assistant) -> list[Part]:
        parts: list[Part] = []
        first = True
        for part in message.parts:
            match part:
                case Text():
                    parts += _text_parts(part.text)
                case Thinking():
                    continue
                case ToolCall():
                    parts.append(
                        _call_part(part, SKIP_SIGNATURE_CHECK if self.signed and first else "")
                    )
                    first = False
                case _:
                    assert_never(part)
        return parts


def encode_tool(spec: ToolSpec) -> dict[str, Any]:
    form: dict[str, Any] = {"name": _valid_name(spec.name), "description": spec.description}
    if spec.parameters.get("properties"):  # an object without properties is refused
        form["parametersJsonSchema"] = gemini_schema(spec.parameters)
    return form


def signature_extra(signature: str | None) -> dict[str, Any] | None:
    """Return a signature in the form in which a call stores it, as Google's chat API sends it."""
    return {"google": {"thought_signature": signature}} if signature else None


def _text_parts(text: str) -> list[Part]:
    return [{"text": text}] if text.strip() else []


def _user_parts(part: Text | Image) -> list[Part]:
    if isinstance(part, Text):
        return _text_parts(part.text)
    if inline := parse_data_url(part.url):
        return [{"inlineData": {"mimeType": inline[0], "data": inline[1]}}]
    media_type = mimetypes.guess_type(part.url.partition("?")[0])[0] or "image/jpeg"
    return [{"fileData": {"mimeType": media_type, "fileUri": part.url}}]


def _call_part(call: ToolCall, unsigned: str) -> Part:
    function = {
        "id": safe_call_id(call.id),
        "name": _valid_name(call.name),
        "args": object_arguments(call.arguments),
    }
    stored = (call.extra or {}).get("google")
    signature = stored.get("thought_signature") if isinstance(stored, dict) else None
    if not (signature and isinstance(signature, str)):
        signature = unsigned
    return {"functionCall": function} | ({"thoughtSignature": signature} if signature else {})


def _valid_name(name: str) -> str:
    """Return a valid function name, the same for a tool, its calls and their results."""
    name = _INVALID_NAME_CHARACTERS.sub("_", name)[:_MAX_NAME_LENGTH]
    return name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"[:_MAX_NAME_LENGTH]


# Replies, from events or from one body. Each event is a Gemini response in an envelope, with the
# new parts.

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
"""The reply was withheld; its parts must not be used."""
FAILURES = {
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
}
"""The model wrote something invalid; a retry may succeed."""
MISSING_SIGNATURE = "MISSING_THOUGHT_SIGNATURE"


class GeminiFunctionCall(msgspec.Struct):
    name: str | None = None
    args: Any = None
    id: str | None = None  #: Only newer models send one.


class GeminiPart(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    function_call: GeminiFunctionCall | None = None
    thought_signature: str | None = None


class GeminiContent(msgspec.Struct):
    parts: list[GeminiPart] | None = None


class GeminiCandidate(msgspec.Struct, rename="camel"):
    content: GeminiContent | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class PromptFeedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class GeminiUsage(msgspec.Struct, rename="camel"):
    """Totals so far."""

    prompt_token_count: Number = None
    candidates_token_count: Number = None
    thoughts_token_count: Number = None  #: Not included in the candidates.
    cached_content_token_count: Number = None  #: Included in the prompt.
    tool_use_prompt_token_count: Number = None  #: Not included in the prompt.

    def usage(self) -> Usage:
        prompt = token_count(self.prompt_token_count)
        thought = token_count(self.thoughts_token_count)
        read = min(token_count(self.cached_content_token_count), prompt)
        return Usage(
            input=prompt - read + token_count(self.tool_use_prompt_token_count),
            output=token_count(self.candidates_token_count) + thought,
            cache_read=read,
            reasoning=thought,
        )


class GeminiResponse(msgspec.Struct, rename="camel"):
    candidates: list[GeminiCandidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: GeminiUsage | None = None


class CodeAssistEnvelope(msgspec.Struct):
    response: GeminiResponse | None = None
    error: Any = None


class CodeAssistReader:
    is_done = False  #: No event is marked as the last one; the body just ends.

    def __init__(self, target: Target) -> None:
        self._target = target
        self._parts: list[GeminiPart] = []
        self._finish: str | None = None
        self._finish_message = ""  #: The finish message of the endpoint.
        self._blocked: PromptFeedback | None = None
        self._usage: GeminiUsage | None = None

    def feed(self, data: bytes) -> Sequence[ModelEvent] | None:
        envelope: CodeAssistEnvelope = decode_json(_decoder, data, self._target.provider)
        if envelope.error:
            raise failed_in_stream(self._target.provider, envelope.error)
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
        self._finish_message = candidate.finish_message or self._finish_message
        new = (candidate.content.parts if candidate.content else None) or []
        self._parts += new
        if not (new or self._finish):
            return None
        return [
            ReasoningDelta(part.text) if part.thought else TextDelta(part.text)
            for part in new
            if part.text
        ]

    def feed_body(self, data: bytes) -> None:
        self.feed(data)

    def reply(self) -> Reply:
        self._check()
        draft = ReplyBuilder(self._target)
        for kind, run in groupby(self._parts, _part_type):
            if kind is ToolCall:
                for part in run:
                    call = part.function_call or GeminiFunctionCall()
                    arguments = msgspec.json.encode(call.args or {}).decode()
                    extra = signature_extra(part.thought_signature)
                    draft.add_call(call.id or "", call.name or "", arguments, extra)
            elif text := "".join([part.text or "" for part in run]):
                draft.add(Thinking(text) if kind is Thinking else Text(text))
        return draft.build(self._finish, self._usage.usage() if self._usage else None)

    def _check(self) -> None:
        """Raise the error of a blocked or broken reply."""
        provider = self._target.provider
        if self._blocked is not None:
            reason = self._blocked.block_reason_message or self._blocked.block_reason or ""
            raise content_refused(provider, reason)
        if self._finish in REFUSALS:
            raise content_refused(provider, self._finish_message or self._finish)
        if self._finish == MISSING_SIGNATURE:
            raise failed_in_stream(
                provider, {"message": self._finish_message, "status": self._finish}
            )
        if self._finish in FAILURES:
            reason = self._finish_message or self._finish
            raise ReplyInvalid(f"{provider} ended its reply early: {reason}", provider=provider)


def _part_type(part: GeminiPart) -> type[AssistantPart]:
    if part.function_call is not None:
        return ToolCall
    return Thinking if part.thought else Text


_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(CodeAssistEnvelope)


# Requests: Gemini's own API in an envelope with model and project.

THINKING_LEVELS = {"none": "LOW", "minimal": "LOW", "low": "LOW", "medium": "MEDIUM"}
"""Levels that every newer model knows. Thinking cannot be switched off. Anything else is HIGH."""
MAX_THINKING_BUDGET = 24_576
MIN_THINKING_BUDGETS = {"pro": 128}
"""Smallest thinking budgets of older models; the others accept 0."""

_BUDGET_MODEL = re.compile(r"gemini-[12]\b(?:.*\b(?P<kind>pro)\b)?")
"""Older models: they take a budget instead of a level, and their calls need no signature."""


class CodeAssistDialect(Dialect):
    """Gemini through Code Assist.

    The API has different URLs for streamed and whole replies, so the profile must say `always` for
    streaming. A login passes its project in its base URL as `?project=ID`; it is sent in the body.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._budget_model = _BUDGET_MODEL.search(target.model)
        self._encoder = CodeAssistEncoder(signed=self._budget_model is None)
        self._project = ""

    def url(self, base_url: str) -> str:
        base, _, query = base_url.partition("?")
        self._project = parse_qs(query).get("project", [""])[0]
        return f"{base.rstrip('/')}:streamGenerateContent?alt=sse"

    def reader(self) -> CodeAssistReader:
        return CodeAssistReader(self._target)

    def body(self, request: ModelRequest, stream: bool) -> bytes:  # noqa: ARG002 - the address asks for it
        profile = self._target.profile
        leading, messages = split_system(request.messages)
        system = [message.wire(self._encoder) for message in leading if has_content(message)]
        inner: dict[str, Any] = {}
        if system:
            inner["systemInstruction"] = {"role": "user", "parts": join_arrays(system)}
        if request.tools and profile.tools:
            functions = encode_tools(encode_tool, request.tools)
            inner["tools"] = [{"functionDeclarations": functions}]
        if config := self._config(request, tools="tools" in inner):
            inner["generationConfig"] = config
        inner["contents"] = self._contents(messages)
        body: dict[str, Any] = {"model": self._target.model}
        if self._project:
            body["project"] = self._project
        return msgspec.json.encode({**body, "request": inner} | profile.extra_body)

    def _contents(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Join neighbours of one role: all results of one reply must be in one content, and nothing
        may stand between a call and the text it came with."""
        sent = [message for message in _with_tool_names(messages) if has_content(message)]
        return [
            {
                "role": "model" if kind is Assistant else "user",
                "parts": join_arrays([message.wire(self._encoder) for message in run]),
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
        # Older models refuse a reply schema together with tools.
        if request.reply_schema is not None and not (tools and self._budget_model):
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = gemini_schema(request.reply_schema)
        if profile.reasoning:
            config["thinkingConfig"] = self._thinking(request.reasoning_effort)
        return config

    def _thinking(self, effort: str) -> dict[str, Any]:
        thinking: dict[str, Any] = {"includeThoughts": effort != "none"}
        if not effort:
            return thinking
        if self._budget_model is None:
            return {**thinking, "thinkingLevel": THINKING_LEVELS.get(effort, "HIGH")}
        least = MIN_THINKING_BUDGETS.get(self._budget_model["kind"] or "", 0)
        budget = 0 if effort == "none" else THINKING_BUDGETS.get(effort, THINKING_BUDGETS["medium"])
        return {**thinking, "thinkingBudget": min(max(budget, least), MAX_THINKING_BUDGET)}


def _with_tool_names(messages: Sequence[Message]) -> Sequence[Message]:
    """Fill in missing tool names of results; the API matches results by name."""
    if all(message.name for message in messages if isinstance(message, ToolResult)):
        return messages
    replies = [message for message in messages if isinstance(message, Assistant)]
    names = {call.id: call.name for reply in replies for call in reply.calls}
    return [
        msgspec.structs.replace(message, name=names.get(message.call_id, ""))
        if isinstance(message, ToolResult) and not message.name
        else message
        for message in messages
    ]
