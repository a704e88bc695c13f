"""The agent: the loop of model calls and tool calls, and what a conversation needs around it.

`Agent` runs the turns of one session; `hermes.app` builds it from the settings.
"""

from hermes.agent.agent import AfterTurn, Agent, AgentOptions
from hermes.agent.compaction import Compactor
from hermes.agent.dispatch import TOOL_BUG, ToolDispatcher, ToolPolicy, run_permitted
from hermes.agent.subagents import Subagent, Subagents
from hermes.agent.turn import IterationBudget, PendingMessages, Turn

__all__ = [
    "TOOL_BUG",
    "AfterTurn",
    "Agent",
    "AgentOptions",
    "Compactor",
    "IterationBudget",
    "PendingMessages",
    "Subagent",
    "Subagents",
    "ToolDispatcher",
    "ToolPolicy",
    "Turn",
    "run_permitted",
]
