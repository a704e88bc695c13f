"""`hermes mcp serve`: conversations, messages and approvals for MCP clients.

`server` offers the tools over standard input and output and over HTTP, with the SDK of the extra
`mcp-server`; `conversations` reads and writes the store and needs no SDK.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.mcp_server.conversations import ConversationService
    from hermes.mcp_server.server import HttpOptions, http_options, serve_http, serve_stdio

__all__ = ["ConversationService", "HttpOptions", "http_options", "serve_http", "serve_stdio"]

__getattr__ = lazy_getattr(__name__)
