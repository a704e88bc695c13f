"""The interface of a context engine, as documented for plugins.

An engine is synchronous and sees OpenAI-format dicts. The agent runs it in a worker thread, so it
may block; it must not keep the dicts it is given beyond the call, nor change them.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

Dict = dict[str, Any]
Dicts = list[Dict]


class SummaryAnswer(NamedTuple):
    text: str
    model: str  #: The model that wrote it.


class SummaryModel(msgspec.Struct, frozen=True):
    """A model that writes summaries. A call blocks, so it must run in a worker thread."""

    ask: Callable[[Dicts, int], SummaryAnswer]
    """Takes messages and the maximum tokens of the answer. Raises a `ProviderError`, or
    `Interrupted` if the turn is stopped."""
    context_length: int  #: Maximum tokens of question and answer together.


class ContextEngine(ABC):
    """Decides when a conversation is compacted, and what is left of it.

    Lifecycle: made, `on_session_start`, then `update_from_response` after each model call,
    `should_compress` after each round of tools, `compress` when that says so, `on_session_end`.
    """

    last_prompt_tokens: int = 0
    last_completion_tokens: int = 0
    last_total_tokens: int = 0
    threshold_tokens: int = 0
    """Prompt tokens from which `should_compress` returns True; also used for the warning."""
    context_length: int = 0
    compression_count: int = 0
    summary_model: str = ""  #: The model that wrote the last summary; empty if none did.

    @property
    @abstractmethod
    def name(self) -> str:
        """The name for the setting `context.engine`."""

    @abstractmethod
    def update_from_response(self, usage: dict[str, int]) -> None:
        """Receive `prompt_tokens`, `completion_tokens` and `total_tokens` of the last call."""

    @abstractmethod
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Return whether to compact a prompt of so many tokens; None is the last reported one."""

    @abstractmethod
    def compress(self, messages: Dicts, current_tokens: int | None = None) -> Dicts:
        """Return a valid, shorter conversation. `messages[0]` is the system prompt and is returned
        first, unchanged. Kept messages are returned as the same dicts.

        An engine whose `compress` also takes `focus_topic` receives the focus of `/compress`.
        """

    def on_session_start(self, session_id: str, **kw: Any) -> None:  # noqa: B027 - optional
        """Called before the first turn, and again with the new id after a compaction.

        Given as `kw`: `hermes_home` (path), `platform`, `model`, `context_length`, `summarisers`
        (`Summariser`s, the preferred first), `history` (a function that returns every message ever
        logged in this conversation, oldest first, also those of the sessions it went on from after
        a compaction, without the system prompt) and, after a compaction, `parent_session_id`.
        """

    def on_session_end(self, session_id: str, messages: Dicts) -> None:  # noqa: B027 - optional
        """The conversation ended."""

    def on_session_reset(self) -> None:
        """A new conversation begins in the same place."""
        self.last_prompt_tokens = self.last_completion_tokens = self.last_total_tokens = 0
        self.compression_count = 0

    def update_model(self, model: str, context_length: int, **_kw: Any) -> None:  # noqa: ARG002 - part of the interface
        """Use another model from now on. The threshold keeps its share of the context length."""
        share = self.threshold_tokens / self.context_length if self.context_length else 0.5
        self.context_length = context_length
        self.threshold_tokens = int(context_length * share)

    def get_tool_schemas(self) -> Dicts:
        """Tools of the engine, each as `{"name", "description", "parameters"}`."""
        return []

    def handle_tool_call(self, name: str, args: Dict, **_kw: Any) -> str:  # noqa: ARG002 - part of the interface
        """Return the result of a call of one of the engine's tools."""
        return json.dumps({"error": f"the context engine {self.name} has no tool {name!r}"})

    def should_compress_preflight(self, messages: Dicts) -> bool:  # noqa: ARG002 - part of the interface
        """Return whether to compact a loaded history before the first call of a turn; be quick."""
        return False

    def get_status(self) -> Dict:
        return {
            "name": self.name,
            "last_prompt_tokens": self.last_prompt_tokens,
            "last_completion_tokens": self.last_completion_tokens,
            "last_total_tokens": self.last_total_tokens,
            "threshold_tokens": self.threshold_tokens,
            "context_length": self.context_length,
            "compression_count": self.compression_count,
        }


class BuiltinEngine(ContextEngine):
    """Base class of our engines: remembers the usage of the last call."""

    def update_from_response(self, usage: dict[str, int]) -> None:
        self.last_prompt_tokens = usage.get("prompt_tokens", 0)
        self.last_completion_tokens = usage.get("completion_tokens", 0)
        total = self.last_prompt_tokens + self.last_completion_tokens
        self.last_total_tokens = usage.get("total_tokens", total)
