"""The documented interface of a memory provider.

A provider is synchronous. Its methods run in order in a thread of their own with a timeout, so they
may block and raise without affecting a turn. A provider must not print, and must keep its files
below `hermes_home`, so that profiles never share data.
"""

import json
from abc import ABC, abstractmethod
from typing import Any, Protocol, runtime_checkable

Dict = dict[str, Any]
Dicts = list[Dict]


class MemoryProvider(ABC):
    """Stores and recalls more than the built-in notes.

    Lifecycle: constructed without arguments, `is_available`, `initialize` once,
    `get_tool_schemas` and `system_prompt_block`; in each turn `prefetch`, after it
    `queue_prefetch` and `sync_turn`; `on_session_end`, `shutdown`.

    A method may accept fewer parameters than described here.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name used in the setting `memory.provider`."""

    @abstractmethod
    def is_available(self) -> bool:
        """Return whether keys and packages are present, without network access."""

    @abstractmethod
    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Prepare for a session.

        `kwargs` always contains `hermes_home` (a path as text) and, if known, `platform` (`cli`,
        `telegram`, …), `user_id` (empty for the owner), `project` (the folder of the project that
        is worked in) and `tell`, a function that shows the user one line.
        """

    @abstractmethod
    def get_tool_schemas(self) -> Dicts:
        """Return the provider's tools, each as `{"name", "description", "parameters"}`."""

    def handle_tool_call(self, name: str, args: Dict, **kwargs: Any) -> str:  # noqa: ARG002 - for providers with tools
        """Run one of the provider's tools and return its result as JSON."""
        return json.dumps({"error": f"the memory provider {self.name} has no tool {name!r}"})

    def get_config_schema(self) -> Dicts:
        """Return the fields for `hermes memory setup`: dicts with `key`, `description`, `secret`,
        `required`, `env_var`, `url` (where to get it), `default` and `choices`. Only `key` is
        required."""
        return []

    def save_config(self, values: Dict, hermes_home: str) -> None:  # noqa: B027 - optional
        """Store the answers, without secrets: these are stored in .env."""

    def system_prompt_block(self) -> str:
        """Return a short text for the system prompt; called once per session."""
        return ""

    def prefetch(self, query: str, **kwargs: Any) -> str:  # noqa: ARG002 - for providers that recall
        """Return stored text that is relevant to the user's message `query`. `kwargs`:
        `session_id`."""
        return ""

    def queue_prefetch(self, query: str, **kwargs: Any) -> None:  # noqa: B027 - optional
        """Prepare the recall for the next turn, in the background."""

    def sync_turn(self, user: str, assistant: str, **kwargs: Any) -> None:  # noqa: B027 - optional
        """Process a completed turn, in the background. `kwargs`: `session_id`."""

    def on_session_end(self, messages: Dicts) -> None:  # noqa: B027 - optional
        """Called when the user leaves the conversation; `messages` are OpenAI-format dicts."""

    def on_pre_compress(self, messages: Dicts) -> None:  # noqa: B027 - optional
        """Called before `messages` are compacted."""

    def on_memory_write(self, action: str, target: str, content: str) -> None:  # noqa: B027 - optional
        """Called after a change of the built-in notes: `add`, `replace` or `remove`, the target,
        and the entry added or removed."""

    def on_delegation(self, task: str, result: str, **kwargs: Any) -> None:  # noqa: B027 - optional
        """Called when a subagent has finished. `kwargs`: `child_session_id`."""

    def shutdown(self) -> None:  # noqa: B027 - optional
        """Called before the process ends."""


@runtime_checkable
class Inspectable(Protocol):
    """Optional methods with which `hermes memory` shows and edits stored entries.

    They are called after `initialize` and concern the user named there.
    """

    def summary(self) -> str:
        """Return one line: how much is stored, where, for whom."""
        ...

    def entries(self, query: str = "", limit: int = 100) -> Dicts:
        """Return stored entries, best match or newest first: dicts with `id` (text) and `text`;
        other keys are displayed unchanged."""
        ...

    def edit(self, entry_id: str, text: str) -> bool:
        """Replace the text of an entry. Return False if there is no such id."""
        ...

    def forget(self, entry_id: str) -> bool:
        """Delete an entry permanently. Return False if there is no such id."""
        ...
