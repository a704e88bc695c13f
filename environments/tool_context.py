"""`environments.tool_context`, for programs that run in this folder's parent."""

from hermes.compat.environments import RolloutToolContext as ToolContext

__all__ = ["ToolContext"]
