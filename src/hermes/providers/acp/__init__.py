"""Models that are agent programs on this machine, over the Agent Client Protocol."""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.providers.acp.model import AcpModel
    from hermes.providers.acp.process import AgentPool, agent_command
    # fmt: on
    # isort: on

__all__ = [
    "AcpModel", "AgentPool", "agent_command",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
