"""What answers of the homeserver and broken connections mean to the gateway."""

from functools import partial

import aiohttp

from hermes.gateway.platforms.base import (
    AdapterError,
    CredentialsRefused,
    NotConnected,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.kit.failures import told_as
from hermes.gateway.platforms.matrix.options import HINT
from hermes.gateway.platforms.matrix.wire import TROUBLE, Refusal

NO_LOGIN = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED"})
PAUSE = 30.0
"""Seconds that a message waits for a new token; it is not given up."""
NOT_YET = 5.0
"""Seconds, when the homeserver does not say how long."""


def is_login_refused(error: BaseException) -> bool:
    return isinstance(error, Refusal) and (error.code in NO_LOGIN or error.status == 401)


def of_sending(error: BaseException) -> AdapterError:
    if isinstance(error, Refusal):
        return _refused(error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return SendLater(f"Matrix cannot be reached: {type(error).__name__}")
    return SendUnsure(f"the connection to Matrix broke: {type(error).__name__}")


def of_connecting(error: BaseException) -> AdapterError:
    """Errors of `connect`, `probe` and the synchronisation."""
    if is_login_refused(error):
        return CredentialsRefused(f"Matrix does not accept our login ({error})", hint=HINT)
    if isinstance(error, Refusal):
        return NotConnected(f"Matrix answered {error}")
    return NotConnected(f"Matrix cannot be reached: {type(error).__name__}")


told = partial(told_as, of_connecting, TROUBLE)
"""Errors of calls that are neither sends nor edits."""
sending = partial(told_as, of_sending, TROUBLE)


def _refused(error: Refusal) -> AdapterError:
    if error.code == "M_LIMIT_EXCEEDED" or error.status == 429:
        return SendLater("Matrix wants us to wait", seconds=error.seconds or NOT_YET)
    if is_login_refused(error):
        return SendLater("Matrix does not accept our login", seconds=PAUSE)
    if error.status >= 500:
        return SendUnsure(f"Matrix has a fault: {error}")
    return SendRefused(f"Matrix refused it: {error}")
