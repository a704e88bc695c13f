"""The OpenAI responses API, also of the Codex service: requests and replies."""

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from hermes.core.messages import (
    Assistant,
    AssistantPart,
    Message,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
    canonical_arguments,
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
    IncrementalEncoder,
    Number,
    ReplyBuilder,
    content_refused,
    decode_json,
    encode_tools,
    join_arrays,
    safe_call_id,
    split_system,
    token_count,
)
from hermes.providers.wire.model import Dialect

# Encoding: a message becomes a list of items.

Item = dict[str, Any]


class ResponsesEncoder(msgspec.Struct, frozen=True):
    """Encodes one message (see `core.messages.WireForm`); an empty list means nothing to send."""

    developer_role: bool = False

    def __call__(self, message: Message) -> list[Item]:
        match message:
            case System():
                role = "developer" if self.developer_role else "system"
                return _text_message(role, "input_text", message.text.strip())
            case User():
                return _user_items(message)
            case Assistant():
                items = [item for part in message.parts for item in _assistant_items(part)]
                # The API refuses reasoning that is not followed by an item.
                return items if any(item.get("type") != "reasoning" for item in items) else []
            case ToolResult():
                call_id = safe_call_id(message.call_id)
                output = {"type": "function_call_output", "call_id": call_id}
                return [{**output, "output": message.text}]
            case _:
                assert_never(message)


def encode_tool(spec: ToolSpec) -> Item:
    # Without `strict: false` the API makes every argument required.
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", **function, "strict": False}


def _text_message(role: str, kind: str, text: str) -> list[Item]:
    return [_message_item(role, [{"type": kind, "text": text}])] if text else []


def _message_item(role: str, content: Sequence[Item]) -> Item:
    return {"type": "message", "role": role, "content": content}


def _user_items(message: User) -> list[Item]:
    content = [
        {"type": "input_text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "input_image", "image_url": part.url}
        for part in message.parts
        if not (isinstance(part, Text) and not part.text)
    ]
    return [_message_item("user", content)] if content else []


def _assistant_items(part: AssistantPart) -> list[Item]:
    match part:
        case Text():
            return _text_message("assistant", "output_text", part.text.strip())
        case Thinking():
            # An item without content only refers to one that was not stored.
            return [i for i in part.items if i.get("encrypted_content") or i.get("content")]
        case ToolCall():
            call = {"type": "function_call", "call_id": safe_call_id(part.id), "name": part.name}
            return [{**call, "arguments": canonical_arguments(part.arguments)}]
        case _:
            assert_never(part)


# Replies, from events or from one body.


class ResponsesInputDetails(msgspec.Struct):
    cached_tokens: Number = None
    cache_write_tokens: Number = None


class ResponsesOutputDetails(msgspec.Struct):
    reasoning_tokens: Number = None


class ResponsesUsage(msgspec.Struct):
    input_tokens: Number = None
    output_tokens: Number = None
    input_tokens_details: ResponsesInputDetails | None = None
    output_tokens_details: ResponsesOutputDetails | None = None
    cost: Any = None


class IncompleteDetails(msgspec.Struct):
    reason: str | None = None


class ResponseBody(msgspec.Struct):
    status: str | None = None
    output: list[dict[str, Any]] | None = None
    usage: ResponsesUsage | None = None
    error: Any = None
    incomplete_details: IncompleteDetails | None = None


class ResponsesEvent(msgspec.Struct):
    type: str = ""
    delta: Any = None
    output_index: int | None = None
    item_id: str | None = None
    item: dict[str, Any] | None = None
    arguments: str | None = None
    summary_index: int | None = None
    response: ResponseBody | None = None
    error: Any = None
    code: Any = None
    message: str | None = None


class _OutputItem:
    """An output item: `item` once it is complete, the fragments until then."""

    def __init__(self, item: dict[str, Any]) -> None:
        self.item = item
        self.pieces: list[str] = []
        self.summaries = 0
        self.done = False

    def finish(self, draft: ReplyBuilder) -> str:
        """Add the item to the reply and return the refusal in it."""
        grown = "".join(self.pieces)
        kind = self.item.get("type")
        if kind == "message":
            content = self.item.get("content") or ()
            text = "".join([part.get("text") or "" for part in content])
            if text := text or grown:
                draft.add(Text(text))
            return "".join([part.get("refusal") or "" for part in content])
        if kind == "reasoning":
            parts = self.item.get("summary") or self.item.get("content") or ()
            text = "\n\n".join([part.get("text") or "" for part in parts])
            draft.add(Thinking(text or grown, items=(self.item,)))
        elif kind == "function_call":
            arguments = self.item.get("arguments") if self.done else None
            call_id, name = self.item.get("call_id") or "", self.item.get("name") or ""
            draft.add_call(call_id, name, arguments or grown)
        return ""


class ResponsesReader:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._items: list[_OutputItem] = []
        self._places: dict[int | str, _OutputItem] = {}
        self._refusal = ""
        self._finish: str | None = None
        self._usage: ResponsesUsage | None = None
        self.is_done = False

    def feed(self, data: bytes) -> Sequence[ModelEvent] | None:
        if data == b"[DONE]":
            return ()
        event: ResponsesEvent = decode_json(_event_decoder, data, self._target.provider)
        kind, delta = event.type, event.delta
        if delta and isinstance(delta, str):
            return self._feed_delta(kind, delta, event)
        if (item := event.item) is not None:
            if kind == "response.output_item.added":
                self._begin(item, event)
            elif kind == "response.output_item.done":
                known = self._item_of(event, item.get("type") or "")
                known.item, known.done = item, True
            return ()
        if kind == "error":
            error = {"code": event.code, "message": event.message}
            raise failed_in_stream(self._target.provider, event.error or error)
        if kind in _END_EVENTS and event.response is not None:
            self._end(event.response, kind.removeprefix("response."))
        return None if kind == "keepalive" else ()

    def feed_body(self, data: bytes) -> None:
        response: ResponseBody = decode_json(_response_decoder, data, self._target.provider)
        default_status = "" if response.output is None else "completed"
        self._end(response, response.status or default_status)

    def reply(self) -> Reply:
        draft = ReplyBuilder(self._target)
        refusal = "".join([item.finish(draft) for item in self._items]) or self._refusal
        if refusal:
            raise content_refused(self._target.provider, refusal)
        cost = self._usage.cost if self._usage else None
        cost_usd = float(cost) if isinstance(cost, int | float) else None
        return draft.build(self._finish, _to_usage(self._usage), cost_usd)

    def _feed_delta(self, kind: str, delta: str, event: ResponsesEvent) -> Sequence[ModelEvent]:
        if kind == "response.output_text.delta":
            self._item_of(event, "message").pieces.append(delta)
            return (TextDelta(delta),)
        if kind == "response.function_call_arguments.delta":
            self._item_of(event, "function_call").pieces.append(delta)
        elif kind in _REASONING_EVENTS:
            return (ReasoningDelta(self._feed_reasoning(delta, event)),)
        elif kind == "response.refusal.delta":
            self._refusal += delta
        return ()

    def _feed_reasoning(self, delta: str, event: ResponsesEvent) -> str:
        """Add a reasoning delta. Parts of a summary are paragraphs."""
        item = self._item_of(event, "reasoning")
        number = event.summary_index or 0
        if number > item.summaries:
            item.summaries = number
            delta = "\n\n" + delta
        item.pieces.append(delta)
        return delta

    def _item_of(self, event: ResponsesEvent, kind: str) -> _OutputItem:
        """Return the item of an event. Some servers never announce it."""
        item = self._places.get(_item_key(event))
        if item is None or (item.done and item.item.get("type") != kind):
            return self._begin({"type": kind}, event)
        return item

    def _begin(self, item: dict[str, Any], event: ResponsesEvent) -> _OutputItem:
        output_item = self._places[_item_key(event)] = _OutputItem(item)
        self._items.append(output_item)
        return output_item

    def _end(self, response: ResponseBody, status: str) -> None:
        self.is_done = True
        self._usage = response.usage or self._usage
        if response.error or status in ("failed", "cancelled"):
            error = response.error or {"message": f"the reply was {status}"}
            raise failed_in_stream(self._target.provider, error)
        if not self._items:
            for item in response.output or ():
                self._items.append(_OutputItem(item))
                self._items[-1].done = True
        reason = response.incomplete_details.reason if response.incomplete_details else None
        if status == "completed":
            self._finish = "stop"
        elif status == "incomplete":
            self._finish = reason or "length"


def _item_key(event: ResponsesEvent) -> int | str:
    if event.output_index is not None:
        return event.output_index
    return event.item_id or (event.item or {}).get("id") or 0


def _to_usage(wire: ResponsesUsage | None) -> Usage | None:
    if wire is None:
        return None
    prompt = token_count(wire.input_tokens)
    details = wire.input_tokens_details or ResponsesInputDetails()
    read = min(token_count(details.cached_tokens), prompt)
    write = min(token_count(details.cache_write_tokens), prompt - read)
    thought = wire.output_tokens_details or ResponsesOutputDetails()
    return Usage(
        input=prompt - read - write,
        output=token_count(wire.output_tokens),
        cache_read=read,
        cache_write=write,
        reasoning=token_count(thought.reasoning_tokens),
    )


_END_EVENTS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_REASONING_EVENTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_event_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ResponsesEvent)
_response_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ResponseBody)


# Requests of the OpenAI responses API and of the Codex service.

DEFAULT_INSTRUCTIONS = "You are a helpful assistant."  #: For services that require instructions.


class ResponsesDialect(Dialect):
    path = "/responses"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._incremental = IncrementalEncoder(ResponsesEncoder(target.profile.developer_role))

    def reader(self) -> ResponsesReader:
        return ResponsesReader(self._target)

    def body(self, request: ModelRequest, stream: bool) -> bytes:
        """Encode the request. Nothing is stored at the endpoint, so reasoning is sent encrypted."""
        profile, effort = self._target.profile, request.reasoning_effort
        leading, rest = split_system(request.messages)
        body: dict[str, Any] = {"model": self._target.model, "store": False}
        if profile.reasoning:  # a model without reasoning refuses this field
            body["include"] = ["reasoning.encrypted_content"]
        instructions = "\n\n".join(message.text.strip() for message in leading)
        if instructions or profile.streaming == "always":
            body["instructions"] = instructions or DEFAULT_INSTRUCTIONS
        body["input"] = join_arrays(self._incremental.encode(rest))
        if request.tools and profile.tools:
            body["tools"] = encode_tools(encode_tool, request.tools)
        if request.max_tokens is not None and profile.max_tokens_field:
            body["max_output_tokens"] = request.max_tokens
        if request.temperature is not None and profile.temperature:
            body["temperature"] = request.temperature
        if effort and profile.reasoning:
            body["reasoning"] = {"effort": effort, "summary": "auto"}
        if request.reply_schema is not None:
            schema = {"name": "reply", "strict": True, "schema": request.reply_schema}
            body["text"] = {"format": {"type": "json_schema", **schema}}
        if stream:
            body["stream"] = True
        return msgspec.json.encode(body | profile.extra_body)
