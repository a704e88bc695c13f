"""What Telegram's answers and broken connections mean to the gateway."""

from functools import partial

import httpx
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    EndPointNotFound,
    Forbidden,
    InvalidToken,
    NetworkError,
    TelegramError,
)

from hermes.gateway.platforms.base import (
    AdapterError,
    CredentialsRefused,
    NotConnected,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.kit.failures import told_as
from hermes.gateway.platforms.telegram.options import TOKEN_HINT

NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
"""The request did not leave this machine."""
REFUSED_TOKEN_PAUSE = 30.0
"""Seconds; a message waits for a new token and is not given up."""


class TooOften(TelegramError):
    """429. Stands for the library's `RetryAfter`, which warns about itself each time."""

    def __init__(self, seconds: float) -> None:
        super().__init__("Too Many Requests")
        self.seconds = seconds


def of_call(error: TelegramError) -> AdapterError:
    """Errors of `send` and `edit`."""
    if _is_page(error):
        return SendUnsure(f"a server before Telegram answered: {type(error).__name__}")
    match error:
        case TooOften():
            return SendLater("Telegram wants us to wait", seconds=error.seconds)
        case Forbidden() | ChatMigrated():
            return SendRefused(f"Telegram does not let us write there: {error.message}")
        case InvalidToken():
            return SendLater("Telegram does not accept the bot token", seconds=REFUSED_TOKEN_PAUSE)
        case BadRequest():
            return SendRefused(f"Telegram refused the message: {error.message}")
        case NetworkError():
            return _of_network(error)
        case _:
            return SendUnsure(f"Telegram's answer cannot be read: {type(error).__name__}")


def of_connecting(error: TelegramError) -> AdapterError:
    """Errors of `connect`, `probe` and the long poll."""
    if _is_page(error):
        return NotConnected("a server before Telegram answers in its place")
    match error:
        case InvalidToken() | EndPointNotFound():
            return CredentialsRefused("Telegram does not accept the bot token", hint=TOKEN_HINT)
        case Conflict():
            return NotConnected(
                "another program receives the messages of this Telegram bot",
                hint="stop it, or give it a bot of its own",
            )
        case _:
            return NotConnected(f"Telegram cannot be reached: {_reason(error)}")


told = partial(told_as, of_connecting, (TelegramError,))
"""Errors of calls that are neither sends nor edits."""


def says(error: TelegramError, *phrases: str) -> bool:
    """Whether Telegram's words have one of these phrases."""
    message = error.message.lower()
    return any(phrase in message for phrase in phrases)


def _is_page(error: TelegramError) -> bool:
    """An answer that is not Telegram's, such as the page of a proxy, refuses nothing for good."""
    return type(error.__cause__) is TelegramError


def _of_network(error: NetworkError) -> AdapterError:
    """Without a cause it is an answer of the Bot API itself, which did not take the message. A page
    of a server in front of it (502) says nothing about that."""
    if error.__cause__ is None:
        if says(error, "entity too large"):
            return SendRefused("the file is too large for Telegram")
        return SendLater(f"Telegram has a fault: {error.message}")
    if isinstance(error.__cause__, NEVER_SENT):
        return SendLater(f"Telegram cannot be reached: {_reason(error)}")
    return SendUnsure(f"the connection to Telegram broke: {_reason(error)}")


def _reason(error: TelegramError) -> str:
    """In a word, without addresses: they have the token in them."""
    cause = error.__cause__
    if isinstance(cause, httpx.HTTPError):
        return type(cause).__name__
    return type(error).__name__ if cause else error.message
