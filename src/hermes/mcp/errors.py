"""What can go wrong with a server. Each is a `ToolError`: the model sees it and goes on.

McpError
├── Unavailable       it cannot be started or reached (transient: trying again may help)
│   ├── HttpRefused   it answered with an HTTP status of 300 or more
│   ├── Misdirected   it names another host to go on with
│   └── Unauthorised  401 or 403
├── Lost              the connection ended in the middle of a call
│   └── SessionGone   there is no session any more; the request was not looked at
└── Refused           the server's own error (code, data)
"""

from typing import Any, ClassVar

from hermes.core.errors import HermesError, ToolError

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
USER_REJECTED = -1
URL_ELICITATION_REQUIRED = -32042


class McpError(ToolError):
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


class RequestRefused(McpError):
    def __init__(self, message: str, code: int, data: Any = None, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code, self.data = code, data


# What can go wrong with a login. A login server that is down is `mcp.failures.Unreachable`.


class LoginFailed(HermesError):
    """There is no login, and trying again as before will not help."""

    exit_code = 4


class LoginRequired(LoginFailed):
    """Somebody has to sign in to the server `name`."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message, hint=f"`hermes mcp login {name}` signs in")
