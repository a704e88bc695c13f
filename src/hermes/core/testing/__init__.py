"""Test doubles for models: a scripted model in the process and a scripted model server on HTTP.

Part of the product, for plugin authors too. How to use it: `docs/contributing/testing.md`.
"""

from hermes.core.testing.http_server import RecordedRequest
from hermes.core.testing.model_server import ModelServer, echo
from hermes.core.testing.prefix_cache import SessionReport
from hermes.core.testing.script import (
    CallIds,
    Cut,
    ErrorEvent,
    Fault,
    Gzip,
    Headers,
    Interleave,
    KeepAlive,
    Malformed,
    Redirect,
    Refuse,
    ScriptedModel,
    ScriptError,
    Slow,
    SplitBytes,
    Stall,
    Step,
    StepLike,
    scripts,
    steps_from_data,
)

# fmt: off
__all__ = [
    "CallIds", "Cut", "ErrorEvent", "Fault", "Gzip", "Headers", "Interleave", "KeepAlive",
    "Malformed", "ModelServer", "RecordedRequest", "Redirect", "Refuse", "ScriptError",
    "ScriptedModel", "SessionReport", "Slow", "SplitBytes", "Stall", "Step", "StepLike", "echo",
    "scripts", "steps_from_data",
]
