import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, assert_never

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
)
from hermes.core.model import ModelEvent, ModelRequest, ReasoningDelta, Reply, TextDelta, ToolSpec
from hermes.core.openai_format import canonical_arguments, user_content
from hermes.core.usage import Usage
from hermes.providers.failures import failed_in_stream
from hermes.providers.target import RemoteToolProgress, Target
from hermes.providers.wire.codec import (
    MAX_CACHE_MARKS,
    IncrementalEncoder,
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
from hermes.providers.wire.model import join_url

# Tool calls of the chat-completions wire, put together from their pieces.


class FunctionDelta(msgspec.Struct):
    name: str | None = None
    arguments: Any = None
    """A piece of JSON text; some servers send the object."""


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
            text = arguments if isinstance(arguments, str) else _encode_json(arguments)
            self.arguments.append(text)

    def is_over(self, piece: ToolCallDelta) -> bool:
        """Whether `piece` begins another call, although it stands in the place of this one."""
        if piece.id and self.id:
            return piece.id != self.id or self._repeated(piece)
        return self._repeated(piece)

    def _repeated(self, piece: ToolCallDelta) -> bool:
        """A name and arguments once more, after arguments that are complete."""
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
    """Knows which call a piece belongs to, also where servers leave out or repeat the index."""

    def __init__(self) -> None:
        self._calls: list[_ToolCallParts] = []
        self._open: dict[int | str, _ToolCallParts] = {}
        self._last: int | str = 0

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, pieces: list[ToolCallDelta]) -> None:
        for position, piece in enumerate(pieces):
            place = self._place(piece, position if len(pieces) > 1 else None)
            call = self._open.get(place)
            if call is None or call.is_over(piece):
                call = self._open[place] = _ToolCallParts()
                self._calls.append(call)
            call.add(piece)
            self._last = place

    def _place(self, piece: ToolCallDelta, position: int | None) -> int | str:
        if piece.index is not None:
            return piece.index
        return piece.id or (self._last if position is None else position)

    def finish(self, draft: ReplyBuilder) -> None:
        for call in self._calls:
            if call.name or call.arguments:
                draft.add_call(call.id, call.name, "".join(call.arguments), call.extra)


def _encode_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# `reasoning_details`: signed or encrypted blocks of thinking, streamed in pieces.

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
                self.fields.setdefault(name, "")  # The order of the fields stays.
            elif value is not None or name not in self.fields:
                self.fields[name] = value

    def whole(self) -> Detail:
        return self.fields | {name: "".join(pieces) for name, pieces in self._grown.items()}

    def continued_by(self, piece: Detail) -> bool:
        """Providers number carelessly: another id, or text after a signature, begins anew."""
        fields, new_id = self.fields, piece.get("id")
        if any(fields.get(name) != piece.get(name) for name in ("index", "type")):
            return False
        if piece.get("index") is None and piece.get("data"):
            return False
        if new_id and fields.get("id") and new_id != fields["id"]:
            return False
        return not (fields.get("signature") and piece.get("text"))


class ReasoningDetails:
    """Puts pieces together so that each block goes back as the provider made it."""

    def __init__(self) -> None:
        self._blocks: list[_DetailBlock] = []

    def add(self, pieces: list[Detail]) -> str:
        """Takes the pieces of one chunk and gives the text in them."""
        earlier = self._blocks[::-1]  # What comes together is not one block.
        for piece in pieces:
            self._block_of(piece, earlier).add(piece)
        texts = [piece.get("text") or piece.get("summary") for piece in pieces]
        return "".join([text for text in texts if isinstance(text, str)])

    def whole(self) -> tuple[Detail, ...]:
        return tuple(block.whole() for block in self._blocks)

    def _block_of(self, piece: Detail, earlier: list[_DetailBlock]) -> _DetailBlock:
        """The block that `piece` continues, or a new one."""
        for block in earlier:
            if block.continued_by(piece):
                return block
        self._blocks.append(_DetailBlock())
        return self._blocks[-1]


# Messages and tools as the chat-completions wire writes them.

_ANTHROPIC_TYPES = ("thinking", "redacted_thinking")
"""Blocks of the Anthropic wire, which mean nothing here."""
_NINE_CHARACTERS = re.compile(r"[a-zA-Z0-9]{9}")


class ChatEncoder(msgspec.Struct, frozen=True):
    """A wire form (see `core.messages.WireForm`); two with equal fields share a cache entry."""

    developer_role: bool = False
    thinking_field: str = ""
    strict: bool = False
    """Nothing that only some endpoints know."""
    nine_letter_ids: bool = False
    mark: str = ""
    """How long the prefix up to this message is to be kept; empty without a mark."""

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
        # A missing `content` is refused by some endpoints; null is what the API documents.
        data: dict[str, Any] = {"role": "assistant", "content": message.text.strip() or None}
        if calls := message.calls:
            data["tool_calls"] = [self._call(call) for call in calls]
        elif data["content"] is None:
            data["content"] = ""
        if self.thinking_field and message.thinking:
            data[self.thinking_field] = message.thinking
        if not self.strict and (details := _reasoning_details(message)):
            data["reasoning_details"] = details
        return data

    def _call(self, call: ToolCall) -> dict[str, Any]:
        function = {"name": call.name, "arguments": canonical_arguments(call.arguments)}
        data: dict[str, Any] = {"id": self._id(call.id), "type": "function", "function": function}
        if call.extra is not None and not self.strict:
            data["extra_content"] = call.extra
        return data

    def _id(self, call_id: str) -> str:
        """The same for a call and its result; one that fits is left as it is."""
        if not self.nine_letter_ids or _NINE_CHARACTERS.fullmatch(call_id):
            return call_id
        return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:9]

    def _marked(self, content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        last = max(at for at, block in enumerate(blocks) if block.get("text", "image").strip())
        marked = {**blocks[last], "cache_control": cache_control(self.mark)}
        return [*blocks[:last], marked, *blocks[last + 1 :]]


def can_carry_mark(message: Message) -> bool:
    """Whether a mark fits: it sits on the content, and content must not be empty."""
    return has_content(message) if isinstance(message, User) else bool(message.text.strip())


def encode_tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def _reasoning_details(message: Assistant) -> list[dict[str, Any]]:
    thoughts = [part for part in message.parts if isinstance(part, Thinking)]
    details = [detail for thought in thoughts for detail in thought.details]
    return [detail for detail in details if detail.get("type") not in _ANTHROPIC_TYPES]


# Token counts of the chat-completions wire, in the spellings in use.

Number = float | None


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
    prompt_cache_hit_tokens: Number = None
    """DeepSeek."""
    cached_tokens: Number = None
    """Moonshot."""
    reasoning_tokens: Number = None
    cost: Any = None
    """OpenRouter: US dollars. Others put an object here."""

    def usage(self) -> Usage:
        prompt, output = token_count(self.prompt_tokens), token_count(self.completion_tokens)
        details = self.prompt_tokens_details or ChatPromptDetails()
        cached = self.cached_tokens or self.prompt_cache_hit_tokens or details.cached_tokens
        written = details.cache_write_tokens or details.cache_creation_input_tokens
        read = min(token_count(cached), prompt)
        write = min(token_count(written), prompt - read)
        # Some leave the thinking out of the output and count it only in the total.
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


# A chat-completions reply, read from its chunks or from one body.


class ChatDelta(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallDelta] | None = None
    function_call: FunctionDelta | None = None
    """What tool calls were called before there could be several."""


class ChatChoice(msgspec.Struct):
    delta: ChatDelta | None = None
    message: ChatDelta | None = None
    finish_reason: str | None = None
    usage: ChatCompletionsUsage | None = None
    """Moonshot puts it here."""
    error: Any = None


class GroqExtra(msgspec.Struct):
    usage: ChatCompletionsUsage | None = None


class MiniMaxStatus(msgspec.Struct):
    """How MiniMax says that something went wrong."""

    status_code: int = 0
    status_msg: str | None = None


class ChatChunk(msgspec.Struct):
    """A chunk, or a whole reply, which differs only in `choices[].message`."""

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
    """With `call_id`, `status` and `label`: what another Hermes does (`hermes.tool.progress`)."""
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
        self.ended = False

    def take(self, data: bytes) -> Sequence[ModelEvent] | None:
        if data == b"[DONE]":
            self.ended = True
            if self._finish is None and (self._tags.said or self._calls):
                self._finish = "stop"  # Some servers never say why.
            return self._last_words()
        chunk: ChatChunk = decode_json(_decoder, data, self._target.provider)
        self._note(chunk)
        if chunk.tool and chunk.call_id:
            return [_tool_progress(chunk)]
        if not chunk.choices:
            return None if chunk.usage is None else ()
        choice = chunk.choices[0]
        deltas = self._take_delta(choice.delta) if choice.delta is not None else None
        if choice.finish_reason:
            self._finish = choice.finish_reason
            deltas = [*(deltas or ()), *self._last_words()]
        return deltas

    def take_whole(self, data: bytes) -> None:
        reply: ChatChunk = decode_json(_decoder, data, self._target.provider)
        self._note(reply)
        self.ended = True
        for choice in (reply.choices or ())[:1]:
            self._finish = choice.finish_reason or "stop"
            if choice.message is not None:
                self._take_delta(choice.message)

    def reply(self) -> Reply:
        if self._refusal:
            raise content_refused(self._target.provider, self._refusal)
        if self._finish == "error":
            raise failed_in_stream(self._target.provider, "the reply ended with an error")
        self._last_words()
        draft = ReplyBuilder(self._target)
        thinking = "".join(self._thinking) or "\n".join(self._tags.thought).strip()
        details = self._details.whole()
        if thinking or details:
            draft.add(Thinking(thinking, details))
        if text := "".join(self._tags.said):
            draft.add(Text(text))
        self._calls.finish(draft)
        return draft.finished(self._finish, self._usage, self._cost)

    def _note(self, chunk: ChatChunk) -> None:
        """What a chunk says besides its deltas."""
        choice = chunk.choices[0] if chunk.choices else None
        if error := chunk.error or (choice and choice.error):
            raise failed_in_stream(self._target.provider, error)
        if chunk.object == "error":
            told = {"message": chunk.message, "type": chunk.type, "code": chunk.code}
            raise failed_in_stream(self._target.provider, told)
        if chunk.base_resp is not None and chunk.base_resp.status_code:
            told = {"base_resp": msgspec.to_builtins(chunk.base_resp)}
            raise failed_in_stream(self._target.provider, told)
        usage = chunk.usage or (choice and choice.usage) or (chunk.x_groq and chunk.x_groq.usage)
        if usage:
            self._usage, self._cost = usage.usage(), usage.cost_usd

    def _take_delta(self, delta: ChatDelta) -> list[ModelEvent] | None:
        """The deltas to show; None when there was nothing in it."""
        shown: list[ModelEvent] = []
        self._take_thinking(delta, shown)
        if content := delta.content:
            self._take_content(content, shown)
        if delta.tool_calls:
            self._calls.add(delta.tool_calls)
        elif delta.function_call is not None:
            self._calls.add([ToolCallDelta(index=0, function=delta.function_call)])
        elif delta.refusal:
            self._refusal += delta.refusal
        elif not (shown or content or delta.reasoning_details):
            return None
        return shown

    def _take_thinking(self, delta: ChatDelta, shown: list[ModelEvent]) -> None:
        thought = delta.reasoning_content or delta.reasoning
        if delta.reasoning_details:
            # The same text comes in both fields where there are both.
            text = self._details.add(delta.reasoning_details)
            thought = thought or text
        if thought:
            self._thinking.append(thought)
            shown.append(ReasoningDelta(thought))

    def _take_content(self, content: str | list[dict[str, Any]], shown: list[ModelEvent]) -> None:
        if isinstance(content, list):
            content, thought = _split_blocks(content)
            if thought:
                self._thinking.append(thought)
                shown.append(ReasoningDelta(thought))
        said, thought = self._tags.feed(content)
        if thought and not self._thinking:
            shown.append(ReasoningDelta(thought))
        if said:
            shown.append(TextDelta(said))

    def _last_words(self) -> list[ModelEvent]:
        """What was held back because it looked like the beginning of a tag."""
        said = self._tags.end()
        return [TextDelta(said)] if said else []


def _tool_progress(chunk: ChatChunk) -> TextDelta:
    """A tool that begins; of its end only that something happened."""
    if chunk.status != "started":
        return TextDelta("")
    given = msgspec.json.encode({"label": str(chunk.label)} if chunk.label else {}).decode()
    return RemoteToolProgress(call=ToolCall(str(chunk.call_id), str(chunk.tool), given))


def _split_blocks(blocks: list[dict[str, Any]]) -> tuple[str, str]:
    """The text and the thinking of content in blocks, as Mistral sends it."""
    said = [block.get("text") or "" for block in blocks if block.get("type") != "thinking"]
    inner = [block.get("thinking") or [] for block in blocks if block.get("type") == "thinking"]
    thoughts = [
        part if isinstance(part, str) else part.get("text") or ""
        for parts in inner
        for part in parts
    ]
    return "".join(said), "".join(thoughts)


_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ChatChunk)


# Requests of the chat-completions API, as OpenAI defined it and many endpoints speak it.


class ChatCompletionsDialect:
    headers: ClassVar[Mapping[str, str]] = {}

    def __init__(self, target: Target) -> None:
        profile = target.profile
        self._target = target
        self._form = ChatEncoder(
            profile.developer_role, profile.thinking_field, profile.strict, profile.nine_letter_ids
        )
        self._marked = msgspec.structs.replace(self._form, mark=cache_ttl_of(target))
        self._growing = IncrementalEncoder(self._form)

    def url(self, base_url: str) -> str:
        return join_url(base_url, "/chat/completions")

    def reader(self) -> ChatReader:
        return ChatReader(self._target)

    def body(self, request: ModelRequest, stream: bool) -> bytes:
        """The request as bytes: messages carry their own encoded form, so only new ones cost."""
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
            return self._growing.encoded(messages)
        marks = _marked_positions(messages)
        return [
            message.wire(self._marked if position in marks else self._form)
            for position, message in enumerate(messages)
        ]


def _marked_positions(messages: Sequence[Message]) -> set[int]:
    """Where the marks go: on the system prompt and on the last messages that can carry one.

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
