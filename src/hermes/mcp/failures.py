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

from hermes.core.errors import ToolError

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
USER_REJECTED = -1
URL_NEEDED = -32042


class McpError(ToolError):
    transient: ClassVar[bool] = False


class Unavailable(McpError):
    pass


class Unreachable(Unavailable):
    transient = True


class HttpRefused(Unavailable):
    def __init__(self, message: str, status: int, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class HttpBroken(HttpRefused):
    transient = True


class Misdirected(Unavailable):
    pass


class Unauthorised(Unavailable):
    pass


class Lost(McpError):
    pass


class SessionGone(Lost):
    pass


class Refused(McpError):
    def __init__(self, message: str, code: int, data: Any = None, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code, self.data = code, data
