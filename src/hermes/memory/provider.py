"""The interface of a memory provider, as plugins know it.

A provider is synchronous. It is run in a thread of its own with a time limit, one call after the
other, so it may block and may raise: neither can break a turn. What it must not do is print, or
keep files anywhere but below `hermes_home`, so that profiles never share data.
"""

import json
from abc import ABC, abstractmethod
from typing import Any, Protocol, runtime_checkable

Dict = dict[str, Any]
Dicts = list[Dict]


class MemoryProvider(ABC):
    """Remembers beyond the notes every agent has.

    Lifecycle: made without arguments, `is_available`, `initialize` once, `get_tool_schemas` and
    `system_prompt_block`; in each turn `prefetch`, and after it `queue_prefetch` and `sync_turn`;
    `on_session_end`, `shutdown`.

    A method may take fewer parameters than are described here: it is given what it takes.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What `memory.provider` calls it."""

    @abstractmethod
    def is_available(self) -> bool:
        """Whether it is set up: keys and packages are there. No network."""

    @abstractmethod
    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Get ready for a session.

        Always given as `kwargs`: `hermes_home` (path as text). Also, as far as known: `platform`
        (`cli`, `telegram`, …), `user_id` (empty for the owner) and `tell`, a function that shows
        the user one line.
        """

    @abstractmethod
    def get_tool_schemas(self) -> Dicts:
        """Tools of the provider, each as `{"name", "description", "parameters"}`; may be empty."""

    def handle_tool_call(self, name: str, args: Dict, **kwargs: Any) -> str:  # noqa: ARG002 - for providers with tools
        """The result of a call of one of its tools, as JSON."""
        return json.dumps({"error": f"the memory provider {self.name} has no tool {name!r}"})

    def get_config_schema(self) -> Dicts:
        """What `hermes memory setup` asks: dicts with `key`, `description`, `secret`, `required`,
        `env_var`, `url` (where to get it), `default` and `choices`; only `key` is needed."""
        return []

    def save_config(self, values: Dict, hermes_home: str) -> None:  # noqa: B027 - optional
        """Keep what was answered; secrets are not among it, they go to .env."""

    def system_prompt_block(self) -> str:
        """A short text for the system prompt, asked for once."""
        return ""

    def prefetch(self, query: str, **kwargs: Any) -> str:  # noqa: ARG002 - for providers that recall
        """What is remembered that matters for the user's message `query`. `kwargs`:
        `session_id`."""
        return ""

    def queue_prefetch(self, query: str, **kwargs: Any) -> None:  # noqa: B027 - optional
        """Begin looking for what the next turn may need; nobody waits for it."""

    def sync_turn(self, user: str, assistant: str, **kwargs: Any) -> None:  # noqa: B027 - optional
        """A completed turn; nobody waits for it. `kwargs`: `session_id`."""

    def on_session_end(self, messages: Dicts) -> None:  # noqa: B027 - optional
        """The conversation was left; `messages` are OpenAI-format dicts."""

    def on_pre_compress(self, messages: Dicts) -> None:  # noqa: B027 - optional
        """These messages are about to be compacted."""

    def on_memory_write(self, action: str, target: str, content: str) -> None:  # noqa: B027 - optional
        """The built-in notes changed: `add`, `replace` or `remove`, which notes, and the entry
        that came or went."""

    def on_delegation(self, task: str, result: str, **kwargs: Any) -> None:  # noqa: B027 - optional
        """A subagent finished. `kwargs`: `child_session_id`."""

    def shutdown(self) -> None:  # noqa: B027 - optional
        """The process is about to end."""


@runtime_checkable
class Inspectable(Protocol):
    """What a provider may offer beyond that, so that `hermes memory` can show what it holds.

    Called after `initialize`, and about the user it named.
    """

    def summary(self) -> str:
        """One line: how much is stored, where, for whom."""
        ...

    def entries(self, query: str = "", limit: int = 100) -> Dicts:
        """What is stored, the best match or the newest first: dicts with `id` (text) and `text`;
        further keys are shown as they are."""
        ...

    def edit(self, entry_id: str, text: str) -> bool:
        """Put `text` in the place of an entry; False when there is none of that id."""
        ...

    def forget(self, entry_id: str) -> bool:
        """Delete an entry for good; False when there is none of that id."""
        ...
