"""`environments.agent_loop`, for programs that run in this folder's parent."""

from hermes.compat.environments import AgentResult, HermesAgentLoop
from hermes.compat.environments import AgentToolError as ToolError
from hermes.compat.environments import tool_executor as _tool_executor

__all__ = ["AgentResult", "HermesAgentLoop", "ToolError", "_tool_executor"]
