"""Errors of MCP servers. Each is a `ToolError`: the model sees it and continues.

McpError
├── ServerUnavailable           cannot be started or reached
│   ├── ServerUnreachable       transient: a retry may help
│   ├── HttpStatusError         an HTTP status of 300 or more
│   │   └── HttpTransientError  a status for which a retry may help
│   ├── ForeignEndpointError    the server names an endpoint on another host
│   └── ServerUnauthorized      401 or 403
├── ConnectionLostError         the connection ended during a call
│   └── SessionExpiredError     the session ended before the request was processed
└── ServerRefused               an error of the server itself (code, data)

A login fails with `LoginFailed`, which is not a `ToolError`: the user has to act.
"""

from typing import Any, ClassVar

from hermes.core.errors import HermesError, ToolError

USER_REJECTED = -1
URL_ELICITATION_REQUIRED = -32042


class McpError(ToolError):
    """Base class; `transient` says whether a retry may help."""

    transient: ClassVar[bool] = False


class ServerUnavailable(McpError):
    pass


class ServerUnreachable(ServerUnavailable):
    transient = True


class HttpStatusError(ServerUnavailable):
    def __init__(self, message: str, status: int, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class HttpTransientError(HttpStatusError):
    transient = True


class ForeignEndpointError(ServerUnavailable):
    pass


class ServerUnauthorized(ServerUnavailable):
    pass


class ConnectionLostError(McpError):
    pass


class SessionExpiredError(ConnectionLostError):
    pass


class ServerRefused(McpError):
    def __init__(self, message: str, code: int, data: Any = None, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code, self.data = code, data


# Login errors. A login server that cannot be reached raises `ServerUnreachable`.


class LoginFailed(HermesError):
    """There is no login, and a retry would not help."""

    exit_code = 4


class LoginRequired(LoginFailed):
    """The user has to sign in to the server `name`."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message, hint=f"`hermes mcp login {name}` signs in")
