"""Environments for evaluation, data generation and training.

`Task` says what to do and how it is judged, `rollout` runs our agent on it, `Trace` is the result.
`CaptureServer` records the tokens of any agent; `parsers` finds tool calls in raw text.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.envs.capture import CaptureServer
    from hermes.envs.model_servers import ServerKind
    from hermes.envs.parsers import ToolCallParser, get_parser, list_parsers
    from hermes.envs.runner import ModelEndpoint, RolloutOptions, RolloutRunner, WrapModel, rollout
    from hermes.envs.task import RolloutContext, Task, metric, reward
    from hermes.envs.trace import (
        Failure,
        RecordedCall,
        Sample,
        TaskError,
        Trace,
        TraceNode,
        TraceRecorder,
        read_traces,
        write_traces,
    )

__all__ = [
    "CaptureServer", "Failure", "ModelEndpoint", "RecordedCall", "RolloutContext",
    "RolloutOptions", "RolloutRunner", "Sample", "ServerKind", "Task", "TaskError",
    "ToolCallParser", "Trace", "TraceNode", "TraceRecorder", "WrapModel", "get_parser",
    "list_parsers",
    "metric", "read_traces", "reward", "rollout", "write_traces",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
