"""The JSON of /v1/chat/completions. Fields that are not here are ignored."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hermes.core.usage import Usage

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


class ImageUrl(msgspec.Struct, frozen=True):
    url: str


class Part(msgspec.Struct, frozen=True):
    """A piece of what was said."""

    type: str
    """`text` or `image_url`; in responses `input_text`, `output_text` or `input_image`."""
    text: str | None = None
    image_url: ImageUrl | str | None = None
    refusal: str | None = None


class Function(msgspec.Struct, frozen=True):
    name: str
    arguments: str = "{}"


class Call(msgspec.Struct, frozen=True):
    id: str
    function: Function | None = None


class ChatMessage(msgspec.Struct, frozen=True):
    role: Role
    content: str | list[Part] | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class ChatRequest(msgspec.Struct, frozen=True):
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    model: str | None = None
    """Ignored and said back: the model is that of the settings."""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Meta(ge=1, le=1)] | None = None
    user: str | None = None
    response_format: Any = None
    """`json_object` and `json_schema` are asked of the agent; nothing checks its answer."""


class PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: int


class CompletionDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int


class ChatUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


class AnswerMessage(msgspec.Struct, frozen=True):
    content: str
    role: Literal["assistant"] = "assistant"
    refusal: str | None = None


class Choice(msgspec.Struct, frozen=True):
    message: AnswerMessage
    finish_reason: Literal["stop", "length"]
    index: int = 0
    logprobs: None = None


class ChatCompletion(msgspec.Struct, frozen=True):
    id: str
    created: int
    model: str
    choices: list[Choice]
    usage: ChatUsage
    object: Literal["chat.completion"] = "chat.completion"


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    role: str | None = None
    content: str | None = None


class ChunkChoice(msgspec.Struct, frozen=True):
    delta: Delta
    finish_reason: str | None = None
    index: int = 0
    logprobs: None = None


class ToolProgress(msgspec.Struct, frozen=True):
    """The event `hermes.tool.progress`. It is a chunk that says nothing, so that clients which do
    not know it are not disturbed."""

    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    tool: str
    call_id: str
    status: str
    """`started`, `finished` or `failed`."""
    object: str = "chat.completion.chunk"
    label: str = ""
    """What it works on, in a few words."""
    seconds: float | None = None


class Chunk(msgspec.Struct, frozen=True):
    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    object: str = "chat.completion.chunk"
    usage: ChatUsage | msgspec.UnsetType | None = msgspec.UNSET


def usage_of(usage: Usage) -> ChatUsage:
    return ChatUsage(
        usage.prompt,
        usage.output,
        usage.total,
        PromptDetails(usage.cache_read),
        CompletionDetails(usage.reasoning),
    )


def label_of(arguments: str) -> str:
    """The first thing that the arguments of a call name."""
    try:
        found: Any = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return ""
    values = found.values() if isinstance(found, dict) else ()
    text = next((value for value in values if isinstance(value, str) and value), "")
    return " ".join(text.split())[:80]
