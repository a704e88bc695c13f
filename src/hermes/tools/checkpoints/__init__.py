"""Checkpoints: snapshots of a workspace before the agent changes it, and rollback to them.

`Checkpoints` takes, lists and restores them. `TurnCheckpoints` takes one per turn. `rollback` is
the command `/rollback`.
"""

from hermes.tools.checkpoints.checkpoints import (
    CheckpointOptions,
    Checkpoints,
    TurnCheckpoints,
    find_workspace,
    format_checkpoints,
    format_restored,
    rollback,
)

__all__ = [
    "CheckpointOptions", "Checkpoints", "TurnCheckpoints", "find_workspace", "format_checkpoints",
    "format_restored", "rollback",
]  # fmt: skip
