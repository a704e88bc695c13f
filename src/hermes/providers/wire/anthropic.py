"""The Anthropic messages API: requests and replies."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, assert_never

import msgspec

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
    EMPTY_ARRAY,
    MAX_CACHE_MARKS,
    MIN_THINKING_BUDGET,
    Number,
    ReplyBuilder,
    cache_control,
    cache_ttl_of,
    content_refused,
    decode_json,
    effort_fields,
    encode_tools,
    has_content,
    join_arrays,
    last_positions,
    object_arguments,
    parse_data_url,
    safe_call_id,
    split_system,
    token_count,
)
from hermes.providers.wire.model import Dialect, join_url

# Encoding. A message becomes a list of content blocks. Neighbours of one role are joined later,
# because all results of one reply must be in one message.

Block = dict[str, Any]

THINKING_TYPES = ("thinking", "redacted_thinking")
_INVALID_NAME_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")


class AnthropicEncoder(msgspec.Struct, frozen=True):
    """Encodes one message (see `core.messages.WireForm`); an empty list means nothing to send."""

    mark: str = ""  #: Cache lifetime of the prefix up to this message; empty without a mark.

    def __call__(self, message: Message) -> list[Block]:
        blocks = _blocks(message)
        if self.mark:
            last = max(at for at, block in enumerate(blocks) if block["type"] not in THINKING_TYPES)
            blocks[last] = {**blocks[last], "cache_control": cache_control(self.mark)}
        return blocks


def encode_tool(spec: ToolSpec) -> Block:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}


def has_signed_thinking(message: Assistant) -> bool:
    """Return whether the message still carries signed thinking of this API."""
    thoughts = [part for part in message.parts if isinstance(part, Thinking)]
    return any(detail.get("type") in THINKING_TYPES for part in thoughts for detail in part.details)


def _blocks(message: Message) -> list[Block]:
    match message:
        case System():
            return _text_blocks(message.text.strip())
        case User():
            return [block for part in message.parts for block in _user_blocks(part)]
        case Assistant():
            blocks = [block for part in message.parts for block in _assistant_blocks(part)]
            # The API refuses a message that contains only thinking.
            return blocks if any(block["type"] not in THINKING_TYPES for block in blocks) else []
        case ToolResult():
            return [_result_block(message)]
        case _:
            assert_never(message)


def _text_blocks(text: str) -> list[Block]:
    return [{"type": "text", "text": text}] if text.strip() else []


def _user_blocks(part: Text | Image) -> list[Block]:
    if isinstance(part, Text):
        return _text_blocks(part.text)
    source = {"type": "url", "url": part.url}
    if inline := parse_data_url(part.url):
        source = {"type": "base64", "media_type": inline[0], "data": inline[1]}
    return [{"type": "image", "source": source}]


def _assistant_blocks(part: AssistantPart) -> list[Block]:
    match part:
        case Text():
            return _text_blocks(part.text.strip())
        case Thinking():
            return [detail for detail in part.details if detail.get("type") in THINKING_TYPES]
        case ToolCall():
            name = _INVALID_NAME_CHARACTERS.sub("_", part.name)[:128] or "_"
            use = {"type": "tool_use", "id": safe_call_id(part.id), "name": name}
            return [{**use, "input": object_arguments(part.arguments)}]
        case _:
            assert_never(part)


def _result_block(message: ToolResult) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": safe_call_id(message.call_id)}
    if message.text.strip():
        block["content"] = message.text
    if message.failed:
        block["is_error"] = True
    return block


# Replies, from events or from one body.


class AnthropicOutputDetails(msgspec.Struct):
    thinking_tokens: Number = None


class AnthropicUsage(msgspec.Struct):
    """Each count is the total so far. A missing or zero count keeps the earlier value."""

    input_tokens: Number = None
    output_tokens: Number = None
    cache_creation_input_tokens: Number = None
    cache_read_input_tokens: Number = None
    output_tokens_details: AnthropicOutputDetails | None = None


class AnthropicStopDetails(msgspec.Struct):
    category: str | None = None
    explanation: str | None = None


class AnthropicMessage(msgspec.Struct):
    """The message at the start of a stream, or a whole reply."""

    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    stop_details: AnthropicStopDetails | None = None
    usage: AnthropicUsage | None = None
    error: Any = None


class AnthropicDelta(msgspec.Struct):
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    stop_reason: str | None = None
    stop_details: AnthropicStopDetails | None = None


class AnthropicEvent(msgspec.Struct):
    type: str = ""
    index: int | None = None
    message: AnthropicMessage | str | None = None  #: A string only in malformed errors.
    content_block: dict[str, Any] | None = None
    delta: AnthropicDelta | None = None
    usage: AnthropicUsage | None = None
    error: Any = None


class _ContentBlock:
    """A content block that is still receiving deltas."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.kind = start.get("type", "")
        self.start = start
        self.pieces: list[str] = []
        self.signature = ""

    def add(self, delta: AnthropicDelta) -> ModelEvent | None:
        if text := delta.text:
            self.pieces.append(text)
            return TextDelta(text)
        if thought := delta.thinking:
            self.pieces.append(thought)
            return ReasoningDelta(thought)
        if delta.partial_json:
            self.pieces.append(delta.partial_json)
        elif delta.signature:
            self.signature += delta.signature
        return None

    @property
    def text(self) -> str:
        return (self.start.get("text") or "") + "".join(self.pieces) if self.kind == "text" else ""

    def finish(self, draft: ReplyBuilder) -> None:
        grown = "".join(self.pieces)
        if text := self.text:
            draft.add(Text(text))
        elif self.kind in THINKING_TYPES:
            draft.add(self._thinking_part(grown))
        elif self.kind == "tool_use":
            given = self.start.get("input") or ""
            if not isinstance(given, str):
                given = msgspec.json.encode(given).decode()
            start = self.start
            draft.add_call(start.get("id") or "", start.get("name") or "", grown or given)

    def _thinking_part(self, grown: str) -> Thinking:
        """Return the block exactly as it would have arrived in one piece."""
        block = dict(self.start)
        if grown:
            block["thinking"] = (block.get("thinking") or "") + grown
        if self.signature:
            block["signature"] = (block.get("signature") or "") + self.signature
        return Thinking(block.get("thinking") or "", (block,))


class AnthropicReader:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._blocks: list[_ContentBlock] = []
        self._open: dict[int, _ContentBlock] = {}
        """The latest block of each index; some servers use an index twice."""
        self._finish: str | None = None
        self._stop = AnthropicStopDetails()
        self._usage: AnthropicUsage | None = None
        self.is_done = False

    def feed(self, data: bytes) -> Sequence[ModelEvent] | None:
        event: AnthropicEvent = decode_json(_event_decoder, data, self._target.provider)
        if event.type == "content_block_delta":
            return self._feed_delta(event)
        if event.type == "ping":
            return None
        if event.type == "content_block_start" and event.content_block is not None:
            return self._begin(event.content_block, event.index)
        if event.error or event.type == "error":
            raise failed_in_stream(self._target.provider, event.error or event.message)
        self.is_done = event.type == "message_stop"
        self._add_usage(event.usage)
        if isinstance(event.message, AnthropicMessage):
            self._add_usage(event.message.usage)
        if event.delta is not None:
            self._finish = event.delta.stop_reason or self._finish
            self._stop = event.delta.stop_details or self._stop
        return ()

    def feed_body(self, data: bytes) -> None:
        reply: AnthropicMessage = decode_json(_message_decoder, data, self._target.provider)
        if reply.error:
            raise failed_in_stream(self._target.provider, reply.error)
        self.is_done = True
        self._blocks = [_ContentBlock(block) for block in reply.content or ()]
        self._usage = reply.usage
        if reply.content is not None:
            self._finish = reply.stop_reason or "end_turn"
            self._stop = reply.stop_details or self._stop

    def reply(self) -> Reply:
        draft = ReplyBuilder(self._target)
        for block in self._blocks:
            block.finish(draft)
        if self._finish == "refusal":
            text = "".join([block.text for block in self._blocks])
            reason = self._stop.explanation or text or self._stop.category or ""
            raise content_refused(self._target.provider, reason)
        return draft.build(self._finish, _to_usage(self._usage))

    def _begin(self, start: dict[str, Any], index: int | None) -> Sequence[ModelEvent]:
        block = _ContentBlock(start)
        self._open[len(self._blocks) if index is None else index] = block
        self._blocks.append(block)
        text, thought = start.get("text"), start.get("thinking")
        if text:
            return (TextDelta(text),)
        return (ReasoningDelta(thought),) if thought else ()

    def _feed_delta(self, event: AnthropicEvent) -> Sequence[ModelEvent] | None:
        block = self._open.get(event.index) if event.index is not None else None
        if block is None and self._blocks:
            block = self._blocks[-1]
        if block is None or event.delta is None:
            return None
        event_delta = block.add(event.delta)
        return () if event_delta is None else (event_delta,)

    def _add_usage(self, usage: AnthropicUsage | None) -> None:
        if usage is not None:
            counts = {name: n for name, n in msgspec.structs.asdict(usage).items() if n}
            self._usage = msgspec.structs.replace(self._usage or AnthropicUsage(), **counts)


def _to_usage(wire: AnthropicUsage | None) -> Usage | None:
    if wire is None:
        return None
    details = wire.output_tokens_details
    return Usage(
        input=token_count(wire.input_tokens),
        output=token_count(wire.output_tokens),
        cache_read=token_count(wire.cache_read_input_tokens),
        cache_write=token_count(wire.cache_creation_input_tokens),
        reasoning=token_count(details.thinking_tokens if details else None),
    )


_event_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AnthropicEvent)
_message_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AnthropicMessage)


# Requests.

DEFAULT_MAX_TOKENS = 8192
"""The API requires a limit. Used when neither the request nor the model has one."""


class AnthropicDialect(Dialect):
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._encoder, self._marked = AnthropicEncoder(), AnthropicEncoder(cache_ttl_of(target))

    def url(self, base_url: str) -> str:
        base = base_url.partition("?")[0].rstrip("/")
        return join_url(base_url, "/messages" if base.endswith("/v1") else "/v1/messages")

    def reader(self) -> AnthropicReader:
        return AnthropicReader(self._target)

    def body(self, request: ModelRequest, stream: bool) -> bytes:
        profile = self._target.profile
        leading, messages = split_system(request.messages)
        system = self._system(leading)
        body: dict[str, Any] = {
            "model": self._target.model,
            "max_tokens": request.max_tokens or profile.max_output or DEFAULT_MAX_TOKENS,
        }
        if system != EMPTY_ARRAY:
            body["system"] = msgspec.Raw(system)
        slots = MAX_CACHE_MARKS - (system != EMPTY_ARRAY)
        body["messages"] = self._messages(messages, slots)
        if request.tools and profile.tools:
            body["tools"] = encode_tools(encode_tool, request.tools)
        body.update(self._thinking(request, body["max_tokens"]))
        if request.temperature is not None and profile.temperature and "thinking" not in body:
            body["temperature"] = request.temperature
        if request.reply_schema is not None:
            form = {"type": "json_schema", "schema": request.reply_schema}
            body["output_config"] = {**body.get("output_config", {}), "format": form}
        if stream:
            body["stream"] = True
        return msgspec.json.encode(body | profile.extra_body)

    def _system(self, messages: Sequence[Message]) -> bytes:
        sent = [message for message in messages if has_content(message)]
        if not sent:
            return EMPTY_ARRAY
        *first, last = sent
        return bytes(
            join_arrays([*(m.wire(self._encoder) for m in first), last.wire(self._marked)])
        )

    def _messages(self, messages: Sequence[Message], slots: int) -> list[dict[str, Any]]:
        """Join neighbours of one role into one message and mark the last ones."""
        runs: list[tuple[str, list[Message]]] = []
        for message in messages:
            if not has_content(message):
                continue
            role = "assistant" if isinstance(message, Assistant) else "user"
            if not runs or runs[-1][0] != role:
                runs.append((role, []))
            runs[-1][1].append(message)
        marks = last_positions([True] * len(runs), slots if self._marked.mark else 0)
        return [
            {"role": role, "content": self._content(run, position in marks)}
            for position, (role, run) in enumerate(runs)
        ]

    def _content(self, messages: Sequence[Message], mark: bool) -> msgspec.Raw:
        *first, last = messages
        end = last.wire(self._marked if mark else self._encoder)
        if not first:
            return end
        return join_arrays([message.wire(self._encoder) for message in first] + [end])

    def _thinking(self, request: ModelRequest, max_tokens: int) -> dict[str, Any]:
        """Return the fields that request thinking. A budget must leave room for the answer."""
        profile = self._target.profile
        fields = effort_fields(profile.reasoning, request.reasoning_effort)
        budget = fields.get("thinking", {}).get("budget_tokens")
        if budget is None:
            return fields
        if _lacks_signed_thinking(request.messages):
            return {}
        if request.max_tokens is None and max_tokens <= budget:
            max_tokens = min(max_tokens + budget, profile.max_output or max_tokens + budget)
        budget = min(budget, max_tokens // 2)
        if budget < MIN_THINKING_BUDGET:  # the limit of the caller leaves no room for thinking
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}, "max_tokens": max_tokens}


def _lacks_signed_thinking(messages: Sequence[Message]) -> bool:
    """Return True when a pending tool call lacks the thinking that the API requires with it.

    A call made by another model has none, and a request with thinking would be refused.
    """
    text = [m for m in messages if not isinstance(m, ToolResult)]
    waiting = bool(messages) and isinstance(messages[-1], ToolResult)
    last = text[-1] if text else None
    return waiting and isinstance(last, Assistant) and not has_signed_thinking(last)
