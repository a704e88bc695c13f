"""Client for MCP servers: their tools become tools of a session.

`McpHub` holds the servers of a process and connects on demand; `probe` connects once and lists what
a server offers. `hermes.mcp.oauth` signs in to servers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.mcp.caller import Caller
    from hermes.mcp.catalog import CatalogCache, RemoteTool, ServerCatalog
    from hermes.mcp.connection import McpOptions, TransportFactory, program_environment
    from hermes.mcp.errors import (
        LoginFailed,
        LoginRequired,
        McpError,
        ServerUnauthorized,
        ServerUnavailable,
    )
    from hermes.mcp.hub import McpHub, ProbeResult, ServerStatus, probe
    from hermes.mcp.tools import offered_tools
    from hermes.mcp.transport import McpLimits

__all__ = [
    "Caller", "CatalogCache", "LoginFailed", "LoginRequired", "McpError", "McpHub", "McpLimits",
    "McpOptions", "ProbeResult", "RemoteTool", "ServerCatalog", "ServerStatus",
    "ServerUnauthorized", "ServerUnavailable", "TransportFactory", "offered_tools", "probe",
    "program_environment",
]  # fmt: skip

_MODULES = {
    "caller": ("Caller",),
    "catalog": ("CatalogCache", "RemoteTool", "ServerCatalog",),
    "connection": ("McpOptions", "TransportFactory", "program_environment",),
    "errors": ("LoginFailed", "LoginRequired", "McpError", "ServerUnauthorized",
        "ServerUnavailable",),
    "hub": ("McpHub", "ProbeResult", "ServerStatus", "probe",),
    "tools": ("offered_tools",),
    "transport": ("McpLimits",),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import on first use: a session without servers must not load the client."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
