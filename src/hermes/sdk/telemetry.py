"""What an exporter of telemetry needs: its options, its interface and the events of an agent.

An exporter is a bundled plugin with a function `start(options, redact)` that returns a `Telemetry`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from hermes.core.ports import Observer
from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes import __version__
    from hermes.core.events import (
        ApprovalAnswered, ApprovalAsked, Compacted, CompactionStarted, Event, ModelCalled,
        SubagentFinished, SubagentStarted, TextFinished, ToolFinished, ToolStarted, TurnFinished,
        TurnStarted, UsageReported,
    )
    from hermes.core.model import FellBack, ReasoningDelta, Retrying, TextDelta, Usage
    # fmt: on
    # isort: on

__all__ = [
    "ApprovalAnswered", "ApprovalAsked", "Compacted", "CompactionStarted", "Event", "FellBack",
    "ModelCalled", "Observer", "ReasoningDelta", "Retrying", "StartTelemetry", "SubagentFinished",
    "SubagentStarted", "Telemetry", "TelemetryOptions", "TextDelta", "TextFinished",
    "ToolFinished", "ToolStarted", "TurnFinished", "TurnStarted", "Usage", "UsageReported",
    "__version__",
]  # fmt: skip


class TelemetryOptions(msgspec.Struct, frozen=True):
    """The settings of `telemetry`, but for `enabled`."""

    endpoint: str = "http://127.0.0.1:4318"
    headers: dict[str, str] = {}
    service_name: str = "hermes"
    capture_content: bool = False


class Telemetry(Protocol):
    """A running exporter, shared by all agents of the process."""

    def observer(self, parent: Observer | None = None) -> Observer:
        """Return the observer of an agent. The turns of a subagent belong to the trace of its
        parent."""
        ...

    def close(self) -> None:
        """Send the remaining spans within a few seconds. Never raises."""
        ...


StartTelemetry = Callable[[TelemetryOptions, Callable[[str], str]], Telemetry]
"""Starts an exporter; the function removes secrets from texts."""

__getattr__ = lazy_getattr(__name__)
