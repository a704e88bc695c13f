"""What a wire must know of an API: where it is, how a request is written, how a reply is read."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Protocol

from hermes.core.model import ModelEvent, ModelRequest, Reply, WireMode
from hermes.providers.target import Target


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
    """How `target` is spoken to. Only the dialect that is used is loaded."""
    module, name = _DIALECTS[target.api_mode]
    make: Callable[[Target], Dialect] = getattr(import_module(module), name)
    return make(target)


_HERE = "hermes.providers.wire"
_DIALECTS: dict[WireMode, tuple[str, str]] = {
    "chat_completions": (f"{_HERE}.chat.request", "ChatDialect"),
    "anthropic_messages": (f"{_HERE}.anthropic.request", "AnthropicDialect"),
    "codex_responses": (f"{_HERE}.responses.request", "ResponsesDialect"),
    "code_assist": (f"{_HERE}.code_assist.request", "CodeAssistDialect"),
}
