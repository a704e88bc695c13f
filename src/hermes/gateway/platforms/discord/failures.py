"""What Discord's answers and broken connections mean to the gateway."""

from functools import partial

import aiohttp
import discord

from hermes.gateway.platforms.base import (
    AdapterError,
    CredentialsRefused,
    NotConnected,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.discord.http import NoMoreSessions, NotDiscord
from hermes.gateway.platforms.kit.failures import told_as

TROUBLE = (discord.DiscordException, aiohttp.ClientError, TimeoutError, OSError)
"""All that a call may end with."""
NOT_AGAIN = frozenset({4004, 4010, 4011, 4012, 4013})
"""Codes of the connection after which trying again does not help."""
TOKEN_HINT = "Set DISCORD_BOT_TOKEN to the token of the page Bot of your application."
INTENT_HINT = (
    "Switch on the Message Content Intent on the page Bot of your application at"
    " discord.com/developers/applications."
)


def of_call(error: BaseException) -> AdapterError:
    """Errors of `send` and `edit`."""
    if isinstance(error, discord.RateLimited):
        return SendLater("Discord wants us to wait", seconds=max(error.retry_after, 0.01))
    if isinstance(error, discord.HTTPException):
        return _of_status(error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return SendLater(f"Discord cannot be reached: {error.os_error.strerror or 'no connection'}")
    return SendUnsure(f"the connection to Discord broke: {type(error).__name__}")


told = partial(told_as, of_call, TROUBLE)


def of_connecting(error: BaseException) -> AdapterError:
    """Errors of `connect` and of the connection itself."""
    refused = getattr(error, "status", 0) == 401 and not isinstance(error, NotDiscord)
    if isinstance(error, discord.LoginFailure) or refused:
        return CredentialsRefused("Discord does not accept the bot token", hint=TOKEN_HINT)
    if isinstance(error, discord.PrivilegedIntentsRequired):
        return CredentialsRefused("Discord does not let us read messages", hint=INTENT_HINT)
    if isinstance(error, discord.ConnectionClosed):
        if error.code in NOT_AGAIN:
            why = f"Discord does not accept the bot (code {error.code})"
            return CredentialsRefused(why, hint=TOKEN_HINT)
        return NotConnected(f"Discord closed the connection (code {error.code})")
    if isinstance(error, discord.HTTPException):
        return NotConnected(f"Discord answered {error.status}")
    if isinstance(error, NoMoreSessions):
        return NotConnected(str(error))
    return NotConnected(f"Discord cannot be reached: {type(error).__name__}")


def _of_status(error: discord.HTTPException) -> AdapterError:
    if isinstance(error, NotDiscord):
        return SendLater(f"a server before Discord answered {error.status}", seconds=30.0)
    if error.status == 401:  # the message may go once there is a new token
        return NotConnected("Discord does not accept the bot token", hint=TOKEN_HINT)
    if error.status in (502, 504):  # something before Discord answered; Discord may have done it
        return SendUnsure(f"Discord answered {error.status}")
    if error.status >= 500:
        return SendLater(f"Discord answered {error.status}", seconds=2.0)
    code = f"{error.status}, {error.code}" if error.code else f"{error.status}"
    return SendRefused(f"Discord refuses it ({code}): {error.text}".strip())
