"""`hermes acp`: the agent for editors, over the Agent Client Protocol (ACP), version 1.

`server` is the protocol on standard input and output, `session` one conversation, `content` the
mapping between messages and events of Hermes and the content of the protocol, `editor` the files
and terminals of the editor.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.acp.server import AcpServer, serve_stdio
    from hermes.acp.session import AcpSession

__all__ = ["AcpServer", "AcpSession", "serve_stdio"]

__getattr__ = lazy_getattr(__name__)
