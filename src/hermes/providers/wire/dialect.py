"""What a wire must know of an API: where it is, how a request is written, how a reply is read."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from hermes.core.model import ModelEvent, ModelRequest, Reply, WireMode
from hermes.providers.target import Target
from hermes.providers.wire.anthropic.request import AnthropicDialect
from hermes.providers.wire.chat.request import ChatDialect
from hermes.providers.wire.responses.request import ResponsesDialect


class ReplyReader(Protocol):
    """Reads one reply. Every method raises a `ProviderError` for what is not in order."""

    @property
    def ended(self) -> bool:
        """The endpoint has said that nothing more comes."""
        ...

    def take(self, data: bytes) -> Sequence[ModelEvent] | None:
        """One event of a stream: the deltas in it, or None when it brings nothing new."""
        ...

    def take_whole(self, data: bytes) -> None:
        """A reply that was not streamed."""
        ...

    def reply(self) -> Reply:
        """The whole reply, after the last event or the body."""
        ...


class Dialect(Protocol):
    @property
    def headers(self) -> Mapping[str, str]: ...

    def url(self, base_url: str) -> str: ...

    def body(self, request: ModelRequest, stream: bool) -> bytes: ...

    def reader(self) -> ReplyReader: ...


def dialect_for(target: Target) -> Dialect:
    return _DIALECTS[target.api_mode](target)


_DIALECTS: dict[WireMode, type[ChatDialect] | type[AnthropicDialect] | type[ResponsesDialect]] = {
    "chat_completions": ChatDialect,
    "anthropic_messages": AnthropicDialect,
    "codex_responses": ResponsesDialect,
}
