"""Client for MCP servers: their tools become tools of a session.

`McpHub` holds the servers of a process and connects on demand; `probe` connects once and lists what
a server offers. `hermes.mcp.oauth` signs in to servers.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.mcp.catalog import CatalogCache, RemoteTool, ServerCatalog
    from hermes.mcp.connection import McpOptions, TransportFactory, program_environment
    from hermes.mcp.hub import McpHub, ProbeResult, ServerStatus, probe
    from hermes.mcp.session import Caller
    from hermes.mcp.tools import offered_tools
    from hermes.mcp.transport import (
        LoginFailed, LoginRequired, McpError, McpLimits, ServerUnauthorized, ServerUnavailable,
    )
    # fmt: on
    # isort: on

__all__ = [
    "Caller", "CatalogCache", "LoginFailed", "LoginRequired", "McpError", "McpHub", "McpLimits",
    "McpOptions", "ProbeResult", "RemoteTool", "ServerCatalog", "ServerStatus",
    "ServerUnauthorized", "ServerUnavailable", "TransportFactory", "offered_tools", "probe",
    "program_environment",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
