"""The chat completions API: requests, streamed replies, tool calls and reasoning details."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from hermes.core.messages import (
    Assistant,
    Message,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
    canonical_arguments,
    user_content,
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
from hermes.providers.endpoints import RemoteToolProgress, Target
from hermes.providers.failures import failed_in_stream
from hermes.providers.wire.codec import (
    MAX_CACHE_MARKS,
    IncrementalEncoder,
    Number,
    ReplyBuilder,
    ThinkTagSplitter,
    cache_control,
    cache_ttl_of,
    content_refused,
    decode_json,
    effort_fields,
    encode_tools,
    has_content,
    last_positions,
    token_count,
)
from hermes.providers.wire.model import Dialect
from hermes.util.lazy import late_pattern

# Tool calls, assembled from stream deltas.


class FunctionDelta(msgspec.Struct):
    name: str | None = None
    arguments: Any = None  #: A fragment of JSON text; some servers send the object.


class ToolCallDelta(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None
    extra_content: dict[str, Any] | None = None


class _ToolCallParts:
    def __init__(self) -> None:
        self.id, self.name = "", ""
        self.arguments: list[str] = []
        self.extra: dict[str, Any] | None = None

    def add(self, piece: ToolCallDelta) -> None:
        self.id = self.id or piece.id or ""
        self.extra = piece.extra_content or self.extra
        if piece.function is None:
            return
        self.name = self.name or piece.function.name or ""
        if arguments := piece.function.arguments:
            if not isinstance(arguments, str):
                arguments = msgspec.json.encode(arguments).decode()
            self.arguments.append(arguments)

    def is_finished_by(self, piece: ToolCallDelta) -> bool:
        """Return whether `piece` starts another call under the same index."""
        if piece.id and self.id:
            return piece.id != self.id or self._repeats(piece)
        return self._repeats(piece)

    def _repeats(self, piece: ToolCallDelta) -> bool:
        """Return True for a name with arguments after complete arguments."""
        function = piece.function
        if function is None or not (function.name and function.arguments and self.arguments):
            return False
        if not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            msgspec.json.decode("".join(self.arguments))
        except msgspec.DecodeError:
            return False
        return True


class ToolCallAssembler:
    """Assigns deltas to tool calls, also when a server omits or repeats the index."""

    def __init__(self) -> None:
        self._calls: list[_ToolCallParts] = []
        self._open: dict[int | str, _ToolCallParts] = {}
        self._last: int | str = 0

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, pieces: list[ToolCallDelta]) -> None:
        for position, piece in enumerate(pieces):
            place: int | str | None = piece.index
            if place is None:
                place = piece.id or (position if len(pieces) > 1 else self._last)
            call = self._open.get(place)
            if call is None or call.is_finished_by(piece):
                call = self._open[place] = _ToolCallParts()
                self._calls.append(call)
            call.add(piece)
            self._last = place

    def finish(self, draft: ReplyBuilder) -> None:
        for call in self._calls:
            if call.name or call.arguments:
                draft.add_call(call.id, call.name, "".join(call.arguments), call.extra)


# `reasoning_details`: signed or encrypted blocks of reasoning, streamed in fragments.

Detail = dict[str, Any]

_STREAMED_FIELDS = ("text", "summary", "data")


class _DetailBlock:
    def __init__(self) -> None:
        self.fields: Detail = {}
        self._grown: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, piece: Detail) -> None:
        for name, value in piece.items():
            if name in _STREAMED_FIELDS and isinstance(value, str):
                self._grown[name].append(value)
                self.fields.setdefault(name, "")  # keeps the order of the fields
            elif value is not None or name not in self.fields:
                self.fields[name] = value

    def assemble(self) -> Detail:
        return self.fields | {name: "".join(pieces) for name, pieces in self._grown.items()}

    def is_continued_by(self, piece: Detail) -> bool:
        """Return whether `piece` continues this block.

        Providers reuse indexes: another id, or text after a signature, starts a new block.
        """
        fields, new_id = self.fields, piece.get("id")
        if any(fields.get(name) != piece.get(name) for name in ("index", "type")):
            return False
        if piece.get("index") is None and piece.get("data"):
            return False
        if new_id and fields.get("id") and new_id != fields["id"]:
            return False
        return not (fields.get("signature") and piece.get("text"))


class ReasoningDetails:
    """Assembles blocks so that each is sent back exactly as the provider made it."""

    def __init__(self) -> None:
        self._blocks: list[_DetailBlock] = []

    def add(self, pieces: list[Detail]) -> str:
        """Add the fragments of one chunk and return the text in them."""
        earlier = self._blocks[::-1]  # fragments of one chunk belong to different blocks
        for piece in pieces:
            block = next((block for block in earlier if block.is_continued_by(piece)), None)
            if block is None:
                self._blocks.append(block := _DetailBlock())
            block.add(piece)
        texts = [piece.get("text") or piece.get("summary") for piece in pieces]
        return "".join([text for text in texts if isinstance(text, str)])

    def assemble(self) -> tuple[Detail, ...]:
        return tuple(block.assemble() for block in self._blocks)


# Encoding.

_ANTHROPIC_TYPES = ("thinking", "redacted_thinking")
"""Block types of the Anthropic API; chat completions endpoints do not know them."""
_NINE_CHARACTERS = late_pattern(r"[a-zA-Z0-9]{9}")


class ChatEncoder(msgspec.Struct, frozen=True):
    """Encodes one message (see `core.messages.WireForm`).

    Encoders with equal fields share one cache entry per message.
    """

    developer_role: bool = False
    thinking_field: str = ""
    strict: bool = False  #: Omit fields that only some endpoints know.
    nine_letter_ids: bool = False
    mark: str = ""  #: Cache lifetime of the prefix up to this message; empty without a mark.

    def __call__(self, message: Message) -> dict[str, Any]:
        data = self._plain(message)
        if self.mark:
            data["content"] = self._marked(data["content"])
        return data

    def _plain(self, message: Message) -> dict[str, Any]:
        match message:
            case System():
                role = "developer" if self.developer_role else "system"
                return {"role": role, "content": message.text.strip()}
            case User():
                return {"role": "user", "content": user_content(message.parts)}
            case Assistant():
                return self._assistant(message)
            case ToolResult():
                call_id = self._id(message.call_id)
                return {"role": "tool", "tool_call_id": call_id, "content": message.text}
            case _:
                assert_never(message)

    def _assistant(self, message: Assistant) -> dict[str, Any]:
        # Some endpoints refuse a missing `content`; the API documents null.
        data: dict[str, Any] = {"role": "assistant", "content": message.text.strip() or None}
        if calls := message.calls:
            data["tool_calls"] = [self._call(call) for call in calls]
        elif data["content"] is None:
            data["content"] = ""
        if self.thinking_field and message.thinking:
            data[self.thinking_field] = message.thinking
        thoughts = [part for part in message.parts if isinstance(part, Thinking)]
        details = [detail for thought in thoughts for detail in thought.details]
        sent = [detail for detail in details if detail.get("type") not in _ANTHROPIC_TYPES]
        if sent and not self.strict:
            data["reasoning_details"] = sent
        return data

    def _call(self, call: ToolCall) -> dict[str, Any]:
        function = {"name": call.name, "arguments": canonical_arguments(call.arguments)}
        data: dict[str, Any] = {"id": self._id(call.id), "type": "function", "function": function}
        if call.extra is not None and not self.strict:
            data["extra_content"] = call.extra
        return data

    def _id(self, call_id: str) -> str:
        """Return the id for a call and its result; a valid id is not changed."""
        if not self.nine_letter_ids or _NINE_CHARACTERS.fullmatch(call_id):
            return call_id
        return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:9]

    def _marked(self, content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        last = max(at for at, block in enumerate(blocks) if block.get("text", "image").strip())
        marked = {**blocks[last], "cache_control": cache_control(self.mark)}
        return [*blocks[:last], marked, *blocks[last + 1 :]]


def can_carry_mark(message: Message) -> bool:
    """Return whether the message can carry a cache mark, which needs non-empty content."""
    return has_content(message) if isinstance(message, User) else bool(message.text.strip())


def encode_tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


# Token counts, in the spellings in use.


class ChatPromptDetails(msgspec.Struct):
    cached_tokens: Number = None
    cache_write_tokens: Number = None
    cache_creation_input_tokens: Number = None


class ChatOutputDetails(msgspec.Struct):
    reasoning_tokens: Number = None


class ChatCompletionsUsage(msgspec.Struct):
    prompt_tokens: Number = None
    completion_tokens: Number = None
    total_tokens: Number = None
    prompt_tokens_details: ChatPromptDetails | None = None
    completion_tokens_details: ChatOutputDetails | None = None
    prompt_cache_hit_tokens: Number = None  #: DeepSeek.
    cached_tokens: Number = None  #: Moonshot.
    reasoning_tokens: Number = None
    cost: Any = None  #: OpenRouter sends US dollars, others an object.

    def usage(self) -> Usage:
        prompt, output = token_count(self.prompt_tokens), token_count(self.completion_tokens)
        details = self.prompt_tokens_details or ChatPromptDetails()
        cached = self.cached_tokens or self.prompt_cache_hit_tokens or details.cached_tokens
        written = details.cache_write_tokens or details.cache_creation_input_tokens
        read = min(token_count(cached), prompt)
        write = min(token_count(written), prompt - read)
        # Some servers count reasoning only in the total, not in the output.
        unseen = max(0, token_count(self.total_tokens) - prompt - output)
        thought = self.completion_tokens_details or ChatOutputDetails()
        reasoning = token_count(thought.reasoning_tokens or self.reasoning_tokens)
        return Usage(
            input=prompt - read - write,
            output=output + unseen,
            cache_read=read,
            cache_write=write,
            reasoning=max(reasoning, unseen),
        )

    @property
    def cost_usd(self) -> float | None:
        cost = self.cost.get("total_cost") if isinstance(self.cost, dict) else self.cost
        return float(cost) if isinstance(cost, int | float) else None


# Replies, from chunks or from one body.


class ChatDelta(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallDelta] | None = None
    function_call: FunctionDelta | None = None  #: The predecessor of `tool_calls`.


class ChatChoice(msgspec.Struct):
    delta: ChatDelta | None = None
    message: ChatDelta | None = None
    finish_reason: str | None = None
    usage: ChatCompletionsUsage | None = None  #: Moonshot sends the usage here.
    error: Any = None


class GroqExtra(msgspec.Struct):
    usage: ChatCompletionsUsage | None = None


class MiniMaxStatus(msgspec.Struct):
    """How MiniMax reports errors."""

    status_code: int = 0
    status_msg: str | None = None


class ChatChunk(msgspec.Struct):
    """A chunk or a whole reply; the latter has `choices[].message`."""

    choices: list[ChatChoice] | None = None
    usage: ChatCompletionsUsage | None = None
    x_groq: GroqExtra | None = None
    error: Any = None
    object: str | None = None
    message: Any = None
    type: Any = None
    code: Any = None
    base_resp: MiniMaxStatus | None = None
    tool: Any = None
    """With `call_id`, `status` and `label`: tool progress of another Hermes
    (`hermes.tool.progress`)."""
    call_id: Any = None
    status: Any = None
    label: Any = None


class ChatReader:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._tags = ThinkTagSplitter()
        self._thinking: list[str] = []
        self._details = ReasoningDetails()
        self._calls = ToolCallAssembler()
        self._refusal = ""
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._cost: float | None = None
        self.is_done = False

    def feed(self, data: bytes) -> Sequence[ModelEvent] | None:
        if data == b"[DONE]":
            self.is_done = True
            if self._finish is None and (self._tags.visible or self._calls):
                self._finish = "stop"  # some servers send no finish reason
            return self._flush_tags()
        chunk: ChatChunk = decode_json(_decoder, data, self._target.provider)
        self._read_status(chunk)
        if chunk.tool and chunk.call_id:
            return [_tool_progress(chunk)]
        if not chunk.choices:
            return None if chunk.usage is None else ()
        choice = chunk.choices[0]
        deltas = self._feed_delta(choice.delta) if choice.delta is not None else None
        if choice.finish_reason:
            self._finish = choice.finish_reason
            deltas = [*(deltas or ()), *self._flush_tags()]
        return deltas

    def feed_body(self, data: bytes) -> None:
        reply: ChatChunk = decode_json(_decoder, data, self._target.provider)
        self._read_status(reply)
        self.is_done = True
        for choice in (reply.choices or ())[:1]:
            self._finish = choice.finish_reason or "stop"
            if choice.message is not None:
                self._feed_delta(choice.message)

    def reply(self) -> Reply:
        if self._refusal:
            raise content_refused(self._target.provider, self._refusal)
        if self._finish == "error":
            raise failed_in_stream(self._target.provider, "the reply ended with an error")
        self._flush_tags()
        draft = ReplyBuilder(self._target)
        thinking = "".join(self._thinking) or "\n".join(self._tags.thinking).strip()
        details = self._details.assemble()
        if thinking or details:
            draft.add(Thinking(thinking, details))
        if text := "".join(self._tags.visible):
            draft.add(Text(text))
        self._calls.finish(draft)
        return draft.build(self._finish, self._usage, self._cost)

    def _read_status(self, chunk: ChatChunk) -> None:
        """Raise reported errors and note the usage."""
        choice = chunk.choices[0] if chunk.choices else None
        if error := chunk.error or (choice and choice.error):
            raise failed_in_stream(self._target.provider, error)
        if chunk.object == "error":
            details = {"message": chunk.message, "type": chunk.type, "code": chunk.code}
            raise failed_in_stream(self._target.provider, details)
        if chunk.base_resp is not None and chunk.base_resp.status_code:
            details = {"base_resp": msgspec.to_builtins(chunk.base_resp)}
            raise failed_in_stream(self._target.provider, details)
        usage = chunk.usage or (choice and choice.usage) or (chunk.x_groq and chunk.x_groq.usage)
        if usage:
            self._usage, self._cost = usage.usage(), usage.cost_usd

    def _feed_delta(self, delta: ChatDelta) -> list[ModelEvent] | None:
        """Return the deltas to show; None when the delta was empty."""
        events: list[ModelEvent] = []
        self._feed_thinking(delta, events)
        if content := delta.content:
            self._feed_content(content, events)
        if delta.tool_calls:
            self._calls.add(delta.tool_calls)
        elif delta.function_call is not None:
            self._calls.add([ToolCallDelta(index=0, function=delta.function_call)])
        elif delta.refusal:
            self._refusal += delta.refusal
        elif not (events or content or delta.reasoning_details):
            return None
        return events

    def _feed_thinking(self, delta: ChatDelta, events: list[ModelEvent]) -> None:
        thought = delta.reasoning_content or delta.reasoning
        if delta.reasoning_details:
            # Servers that send both fields send the same text in both.
            text = self._details.add(delta.reasoning_details)
            thought = thought or text
        if thought:
            self._thinking.append(thought)
            events.append(ReasoningDelta(thought))

    def _feed_content(self, content: str | list[dict[str, Any]], events: list[ModelEvent]) -> None:
        if isinstance(content, list):
            content, thought = _split_blocks(content)
            if thought:
                self._thinking.append(thought)
                events.append(ReasoningDelta(thought))
        text, thought = self._tags.feed(content)
        if thought and not self._thinking:
            events.append(ReasoningDelta(thought))
        if text:
            events.append(TextDelta(text))

    def _flush_tags(self) -> list[ModelEvent]:
        """Return text that was held back as a possible start of a tag."""
        text = self._tags.end()
        return [TextDelta(text)] if text else []


def _tool_progress(chunk: ChatChunk) -> TextDelta:
    """Return the progress event of a starting tool, an empty delta for any other status."""
    if chunk.status != "started":
        return TextDelta("")
    arguments = msgspec.json.encode({"label": str(chunk.label)} if chunk.label else {}).decode()
    return RemoteToolProgress(call=ToolCall(str(chunk.call_id), str(chunk.tool), arguments))


def _split_blocks(blocks: list[dict[str, Any]]) -> tuple[str, str]:
    """Split content blocks, as Mistral sends them, into text and thinking."""
    text = [block.get("text") or "" for block in blocks if block.get("type") != "thinking"]
    inner = [block.get("thinking") or [] for block in blocks if block.get("type") == "thinking"]
    thoughts = [
        part if isinstance(part, str) else part.get("text") or ""
        for parts in inner
        for part in parts
    ]
    return "".join(text), "".join(thoughts)


_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ChatChunk)


# Requests of the chat completions API, as OpenAI defined it and many endpoints implement it.


class ChatCompletionsDialect(Dialect):
    path = "/chat/completions"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        profile = target.profile
        self._encoder = ChatEncoder(
            profile.developer_role, profile.thinking_field, profile.strict, profile.nine_letter_ids
        )
        self._marked = msgspec.structs.replace(self._encoder, mark=cache_ttl_of(target))
        self._incremental = IncrementalEncoder(self._encoder)

    def reader(self) -> ChatReader:
        return ChatReader(self._target)

    def body(self, request: ModelRequest, stream: bool) -> bytes:
        """Encode the request. Messages cache their encoded form, so only new ones are encoded."""
        profile = self._target.profile
        body: dict[str, Any] = {
            "model": self._target.model,
            "messages": self._messages(request.messages),
        }
        if request.tools and profile.tools:
            body["tools"] = encode_tools(encode_tool, request.tools)
        if request.max_tokens is not None and profile.max_tokens_field:
            body[profile.max_tokens_field] = request.max_tokens
        if request.temperature is not None and profile.temperature:
            body["temperature"] = request.temperature
        body.update(effort_fields(profile.reasoning, request.reasoning_effort))
        if request.reply_schema is not None:
            schema = {"name": "reply", "strict": True, "schema": request.reply_schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if stream:
            body["stream"] = True
            if profile.stream_usage:
                body["stream_options"] = {"include_usage": True}
        return msgspec.json.encode(body | profile.extra_body)

    def _messages(self, messages: Sequence[Message]) -> list[msgspec.Raw]:
        if not self._marked.mark:
            return self._incremental.encode(messages)
        marks = _marked_positions(messages)
        return [
            message.wire(self._marked if position in marks else self._encoder)
            for position, message in enumerate(messages)
        ]


def _marked_positions(messages: Sequence[Message]) -> set[int]:
    """Return the positions to mark: the system prompt and the last messages that can carry a mark.

    Of the results of one reply only the last is marked, so that the marks reach further back.
    """
    system = bool(messages) and isinstance(messages[0], System) and can_carry_mark(messages[0])
    carry = [
        can_carry_mark(message)
        and not isinstance(message, System)
        and not (isinstance(message, ToolResult) and isinstance(after, ToolResult))
        for message, after in zip(messages, (*messages[1:], None), strict=True)
    ]
    return last_positions(carry, MAX_CACHE_MARKS - system) | ({0} if system else set())
