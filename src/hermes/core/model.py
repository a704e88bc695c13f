"""What the agent asks of a model, and what comes back."""

from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol

import msgspec

from hermes.core.messages import Assistant, Message
from hermes.core.usage import Usage

ApiMode = Literal["chat_completions", "anthropic_messages", "codex_responses"]
"""The APIs an endpoint of the user's own may speak; see `providers.wire`."""
WireMode = ApiMode | Literal["code_assist", "acp"]
"""All that are spoken: also that of the Gemini CLI's login, and that of agents on this machine."""


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of an object."""

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
    """False asks for the reply in one piece; it still comes out as a stream of one `Reply`."""


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
    """The whole reply; always the last item of a stream."""

    message: Assistant
    usage: Usage
    model: str = ""
    """The model that was asked, as it is accounted for."""
    provider: str = ""
    cost_usd: float | None = None
    """None: the price is not known."""


ModelEvent = TextDelta | ReasoningDelta | Retrying | FellBack | Reply


class Model(Protocol):
    """Anything that can answer a request. A failure is raised as a `ProviderError`."""

    @property
    def name(self) -> str: ...

    @property
    def provider(self) -> str: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Deltas as they come, then one `Reply`. Closing the generator ends the call at once."""
        ...


class ModelSource(Protocol):
    """Gives the model of each turn: what one turn fell back to does not outlive it."""

    @property
    def name(self) -> str: ...

    @property
    def provider(self) -> str: ...

    def for_turn(self) -> Model: ...
