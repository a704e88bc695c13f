"""What Slack's answers and broken connections mean to the gateway."""

from functools import partial
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError

from hermes.gateway.platforms.base import (
    AdapterError,
    CredentialsRefused,
    NotConnected,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.kit.failures import told_as
from hermes.gateway.platforms.slack.options import APP_HINT, BOT_HINT

TROUBLE = (SlackClientError, aiohttp.ClientError, TimeoutError, OSError)
"""All that a call may end with."""
NO_ENTRY = frozenset(
    {
        "account_inactive",
        "app_not_installed",
        "invalid_auth",
        "not_allowed_token_type",
        "not_authed",
        "token_expired",
        "token_revoked",
    }
)
LIMITED = frozenset({"ratelimited", "rate_limited"})
PASSING = frozenset({"request_timeout", "service_unavailable", "team_added_to_org"})
"""Nothing was done, and may be later."""
HALF_DONE = frozenset({"fatal_error", "internal_error"})
"""Slack says of these that a part may have been done."""
UNREADABLE = frozenset(
    {"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long"}
)
GONE = frozenset(
    {"channel_not_found", "is_archived", "not_in_channel", "thread_not_found", "user_not_found"}
)
NO_ROUTE = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""No connection was made, so nothing was asked."""
LONGEST = 3600.0


def code_of(error: BaseException) -> str:
    """Slack's word for what is wrong; "" when it said none."""
    data = getattr(getattr(error, "response", None), "data", None)
    return str(data.get("error") or "") if isinstance(data, dict) else ""


def of_call(error: BaseException) -> AdapterError:
    """Errors of `send` and `edit`."""
    if isinstance(error, SlackApiError):
        return _refused(error)
    if isinstance(error, NO_ROUTE):
        return SendLater(f"Slack cannot be reached: {type(error).__name__}", seconds=2.0)
    return SendUnsure(f"the connection to Slack broke: {type(error).__name__}")


told = partial(told_as, of_call, TROUBLE)
unseen = partial(told, repeatable=True)
"""For calls that nobody sees anything of."""


def of_connecting(error: BaseException, hint: str = BOT_HINT) -> AdapterError:
    """Errors of `connect` and `probe`."""
    code = code_of(error)
    if code in NO_ENTRY:
        return CredentialsRefused(f"Slack does not accept the token ({code})", hint=hint)
    if code == "missing_scope":
        return CredentialsRefused(f"Slack lets us do too little: {_scope(error)}", hint=hint)
    if code:
        return NotConnected(f"Slack answered {code}")
    if isinstance(error, SlackApiError):
        return NotConnected(f"Slack answered {_status(error)}")
    return NotConnected(f"Slack cannot be reached: {type(error).__name__}")


def of_socket(error: BaseException) -> AdapterError:
    return of_connecting(error, APP_HINT)


def retry_after(error: BaseException) -> float | None:
    """Seconds that Slack wants us to wait; None when that is not what is wrong."""
    if _status(error) != 429 and code_of(error) not in LIMITED:
        return None
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        seconds = float(headers.get("Retry-After", 1.0))
    except ValueError:
        seconds = 1.0
    return min(max(seconds, 0.1), LONGEST)


def _refused(error: SlackApiError) -> AdapterError:
    code, status = code_of(error), _status(error)
    if (seconds := retry_after(error)) is not None:
        return SendLater("Slack wants us to wait", seconds=seconds)
    if code in NO_ENTRY:
        return CredentialsRefused(f"Slack does not accept the token ({code})", hint=BOT_HINT)
    if code in PASSING or (not code and status == 503):
        return SendLater(f"Slack answered {code or status}", seconds=5.0)
    if code in HALF_DONE or not code:
        return SendUnsure(f"Slack answered {code or status}")
    if code == "missing_scope":
        hint = "Add it on the page OAuth & Permissions of the app, and install the app again."
        return SendRefused(f"Slack does not allow it: {_scope(error)}", hint=hint)
    if code == "not_in_channel":
        return SendRefused("we are not in that channel of Slack", hint="Invite us with /invite.")
    return SendRefused(f"Slack refuses it: {code}")


def _scope(error: BaseException) -> str:
    data = getattr(getattr(error, "response", None), "data", None)
    needed = data.get("needed") if isinstance(data, dict) else ""
    return f"the scope {needed} is missing" if needed else "a scope is missing"


def _status(error: BaseException) -> int:
    response = getattr(error, "response", None)
    return int(getattr(response, "status_code", None) or getattr(response, "status", None) or 0)
