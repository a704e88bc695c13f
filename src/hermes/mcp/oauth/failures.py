"""What can go wrong with a login. A login server that is down is `mcp.failures.Unreachable`."""

from hermes.core.errors import HermesError


class LoginFailed(HermesError):
    """There is no login, and trying again as before will not help."""

    exit_code = 4


class LoginNeeded(LoginFailed):
    """Somebody has to sign in to the server `name`."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message, hint=f"`hermes mcp login {name}` signs in")
