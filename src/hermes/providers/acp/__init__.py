"""Models that are agent programs on this machine, over the Agent Client Protocol."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.providers.acp.model import AcpModel
    from hermes.providers.acp.process import AgentPool, agent_command

__all__ = [
    "AcpModel", "AgentPool", "agent_command",
]  # fmt: skip

_MODULES = {
    "model": "AcpModel",
    "process": "AgentPool agent_command",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import `name` from its module on first use: most processes need only a few of them."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
