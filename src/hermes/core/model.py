"""Models: requests, replies, tokens and prices."""

from collections.abc import Callable, Iterable, Sequence
from operator import add
from typing import Any, Literal, Protocol, Self

import msgspec

from hermes.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, User


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one call or of many. `input` does not contain the two cache counts."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0  #: Part of `output`.

    @property
    def prompt(self) -> int:
        """Everything the model read."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        return self.prompt + self.output

    @property
    def hits(self) -> float:
        """Share of the prompt that came from the cache, from 0 to 1."""
        return self.cache_read / self.prompt if self.prompt else 0.0

    def __add__(self, other: Self) -> Self:
        mine, its = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return type(self)(*map(add, mine, its))


class LongPrompts(msgspec.Struct, frozen=True):
    """The higher price of calls whose prompt has more than `over` tokens."""

    over: int
    input: float  #: Factor for the price of everything that is read,
    output: float  #: and of everything that is written.


class Price(msgspec.Struct, frozen=True):
    """US dollars for a million tokens, as published on `date`."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    date: str = ""
    long: LongPrompts | None = None

    def cost(self, usage: Usage) -> float:
        price = self.for_prompt(usage.prompt)
        return (
            usage.input * price.input
            + usage.output * price.output
            + usage.cache_read * price.cache_read
            + usage.cache_write * price.cache_write
        ) / 1_000_000

    def for_prompt(self, tokens: int) -> "Price":
        """Return the price for a prompt of `tokens` tokens."""
        long = self.long
        if long is None or tokens <= long.over:
            return self
        return Price(
            self.input * long.input,
            self.output * long.output,
            self.cache_read * long.input,
            self.cache_write * long.input,
            self.date,
        )


FREE = Price(0, 0, 0, 0)


class ModelCall(msgspec.Struct, frozen=True):
    """One call of a model, as it is accounted for."""

    usage: Usage
    model: str = ""
    provider: str = ""
    cost_usd: float | None = None  #: None: the price is not known.
    task: str = "main"  #: `main`, or the auxiliary task the call was made for.
    tool: str = ""  #: The tool that made the call, or empty.
    seconds: float = 0.0  #: From the request to the end of the reply.


# Requests to a model, and its replies.

ApiMode = Literal["chat_completions", "anthropic_messages", "codex_responses"]
"""APIs that an endpoint of the user may have; see `providers.wire`."""
WireMode = ApiMode | Literal["code_assist", "acp"]
"""All supported APIs, with those of the Gemini CLI's login and of agent programs."""


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]  #: JSON Schema of an object.

    def __hash__(self) -> int:
        return hash((self.name, self.description))


class ModelRequest(msgspec.Struct, frozen=True):
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str = ""
    """"" leaves it to the provider; else none, minimal, low, medium, high or xhigh."""
    reply_schema: dict[str, Any] | None = None
    """JSON Schema the reply text must follow, where the endpoint can enforce one."""
    stream: bool = True
    """False asks for the reply in one piece, without deltas."""


class TextDelta(msgspec.Struct, frozen=True, tag="text_delta"):
    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, tag="reasoning_delta"):
    text: str


class Retrying(msgspec.Struct, frozen=True, tag="retrying"):
    """The call failed and will be made again; deltas so far are void."""

    error: str
    attempt: int
    seconds: float


class FellBack(msgspec.Struct, frozen=True, tag="fell_back"):
    """Another model takes over; deltas so far are void."""

    provider: str
    model: str
    error: str


class Reply(msgspec.Struct, frozen=True, tag="reply"):
    message: Assistant
    usage: Usage
    model: str = ""  #: The model that was asked, as it is accounted for.
    provider: str = ""
    cost_usd: float | None = None  #: None: the price is not known.


ModelEvent = TextDelta | ReasoningDelta | Retrying | FellBack
EmitModelEvent = Callable[[ModelEvent], None]  #: Must not block.


class Model(Protocol):
    """Anything that can answer a request. A failure is raised as a `ProviderError`."""

    @property
    def name(self) -> str: ...

    @property
    def provider(self) -> str: ...

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        """Emit deltas as they arrive, and return the whole reply. Cancelling it ends the call."""


class ModelSource(Protocol):
    """Returns the model of each turn; a fallback lasts for one turn only."""

    @property
    def name(self) -> str: ...

    @property
    def provider(self) -> str: ...

    def for_turn(self) -> Model: ...


# Estimates of the tokens of a request, before a provider counts them: rather too high than too low.

BYTES_PER_TOKEN = 3  #: Of UTF-8. Prose has four or more, program text about three.
IMAGE_TOKENS = 2000
MESSAGE_TOKENS = 8  #: For the role and the marks around a message.
REQUEST_TOKENS = 500  #: For what providers put in front themselves, such as how to call tools.


def messages_tokens(messages: Iterable[Message]) -> int:
    # The number is kept with each message like a wire form, so a long history costs little.
    return sum([int(bytes(message.wire(message_tokens))) for message in messages])


def message_tokens(message: Message) -> int:
    if isinstance(message, User | Assistant):
        return MESSAGE_TOKENS + sum([_part_tokens(part) for part in message.parts])
    return MESSAGE_TOKENS + text_tokens(message.text)


def tools_tokens(tools: Sequence[ToolSpec]) -> int:
    return -(-len(msgspec.json.encode(tools)) // BYTES_PER_TOKEN) if tools else 0


def text_tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def _part_tokens(part: Text | Image | Thinking | ToolCall) -> int:
    match part:
        case Text():
            return text_tokens(part.text)
        case Image():
            return IMAGE_TOKENS
        case Thinking():
            # Sent back is either the text or the provider's own form of it.
            return max(text_tokens(part.text), _json_tokens([part.details, part.items]))
        case ToolCall():
            return _json_tokens([part.id, part.name, part.arguments, part.extra])


def _json_tokens(value: Any) -> int:
    import json  # a start does not need it

    return text_tokens(json.dumps(value, ensure_ascii=False))
