"""Environments for evaluation, data generation and training.

`Task` says what to do and how it is judged, `rollout` runs our agent on it, `Trace` is the result.
`CaptureServer` records the tokens of any agent; `parsers` finds tool calls in raw text.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.envs.capture import CaptureServer, RolloutResult
    from hermes.envs.model_servers import ServerKind
    from hermes.envs.parsers import ToolCallParser, get_parser, list_parsers
    from hermes.envs.runner import ModelEndpoint, RolloutOptions, RolloutRunner, WrapModel, rollout
    from hermes.envs.task import RolloutContext, Task, metric, reward
    from hermes.envs.taskset import load_tasks, select_tasks
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
    from hermes.envs.training import TrainingService

__all__ = [
    "CaptureServer", "Failure", "ModelEndpoint", "RecordedCall", "RolloutContext",
    "RolloutOptions", "RolloutResult", "RolloutRunner", "Sample", "ServerKind", "Task", "TaskError",
    "ToolCallParser", "Trace", "TraceNode", "TraceRecorder", "TrainingService", "WrapModel",
    "get_parser", "list_parsers", "load_tasks",
    "metric", "read_traces", "reward", "rollout", "select_tasks", "write_traces",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
