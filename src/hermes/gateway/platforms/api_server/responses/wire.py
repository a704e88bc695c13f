"""The JSON of /v1/responses. Fields of a request that are not here are ignored."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hermes.core.usage import Usage
from hermes.gateway.platforms.api_server.chat.wire import Part, Role

Status = Literal["in_progress", "completed", "incomplete", "failed"]


class InputItem(msgspec.Struct, frozen=True):
    """A message, or a call of a function and its result."""

    type: str | None = None
    role: Role | None = None
    content: str | list[Part] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[Part] | None = None


class ConversationRef(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=200)]


class ResponseRequest(msgspec.Struct, frozen=True):
    input: str | Annotated[list[InputItem], Meta(min_length=1)]
    model: str | None = None
    """Ignored and said back: the model is that of the settings."""
    instructions: str | None = None
    """Only for this answer."""
    previous_response_id: str | None = None
    conversation: Annotated[str, Meta(min_length=1, max_length=200)] | ConversationRef | None = None
    """The name of a conversation: it goes on where it was, or begins."""
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    metadata: dict[str, str] | None = None
    text: Any = None
    """Its `format`, as `response_format` of chat completions."""


class OutputText(msgspec.Struct, frozen=True):
    text: str
    type: Literal["output_text"] = "output_text"
    annotations: list[Any] = []
    logprobs: list[Any] = []


class MessageItem(msgspec.Struct, frozen=True, tag_field="type", tag="message"):
    id: str
    content: list[OutputText]
    status: Status = "completed"
    role: Literal["assistant"] = "assistant"


class CallItem(msgspec.Struct, frozen=True, tag_field="type", tag="function_call"):
    """A call of one of our tools; it was made, the client has nothing to do."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: Status = "completed"


class ResultItem(msgspec.Struct, frozen=True, tag_field="type", tag="function_call_output"):
    id: str
    call_id: str
    output: str
    status: Status = "completed"


Item = MessageItem | CallItem | ResultItem


class InputDetails(msgspec.Struct, frozen=True):
    cached_tokens: int
    cache_write_tokens: int


class OutputDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int


class ResponseUsage(msgspec.Struct, frozen=True):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseError(msgspec.Struct, frozen=True):
    code: str
    message: str


class Incomplete(msgspec.Struct, frozen=True):
    reason: str


class TextFormat(msgspec.Struct, frozen=True):
    type: str = "text"


class TextSettings(msgspec.Struct, frozen=True):
    format: TextFormat = TextFormat()


class Where(msgspec.Struct, frozen=True):
    """Where the conversation is kept."""

    session_id: str
    messages: int = 0
    """How many it has up to this answer."""


class ResponseObject(msgspec.Struct, frozen=True):
    id: str
    created_at: int
    model: str
    hermes: Where
    status: Status = "in_progress"
    output: list[Item] = []
    usage: ResponseUsage | None = None
    error: ResponseError | None = None
    incomplete_details: Incomplete | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: ConversationRef | None = None
    store: bool = True
    metadata: dict[str, str] = {}
    object: Literal["response"] = "response"
    parallel_tool_calls: bool = True
    tool_choice: Literal["auto"] = "auto"
    tools: list[Any] = []
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    text: TextSettings = TextSettings()
    truncation: Literal["disabled"] = "disabled"


class ResponseDeleted(msgspec.Struct, frozen=True):
    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True


def usage_of(usage: Usage) -> ResponseUsage:
    return ResponseUsage(
        usage.prompt,
        InputDetails(usage.cache_read, usage.cache_write),
        usage.output,
        OutputDetails(usage.reasoning),
        usage.total,
    )
