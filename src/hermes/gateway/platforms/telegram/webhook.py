"""Telegram calls us. An update is answered with 200 only when it was kept; else it comes again."""

import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable
from datetime import datetime
from http import HTTPStatus
from typing import Any

import msgspec
from telegram import Bot

from hermes.core.ports import Clock
from hermes.gateway.platforms.base import NotConnected
from hermes.gateway.platforms.kit.connection import Connection
from hermes.gateway.platforms.kit.listening import listen
from hermes.gateway.platforms.telegram.failures import told
from hermes.gateway.platforms.telegram.options import Options
from hermes.gateway.platforms.telegram.polling import UPDATES

log = logging.getLogger(__name__)

MAX_BODY = 1_000_000
SECRET_HEADER = b"x-telegram-bot-api-secret-token"
Handle = Callable[[dict[str, Any]], Awaitable[bool]]


class Webhook:
    """Takes calls on every path: a proxy in front may change it, and the secret is what counts."""

    def __init__(self, bot: Bot, options: Options, clock: Clock, handle: Handle) -> None:
        self._bot, self._url, self._port = bot, options.webhook_url, options.webhook_port
        self._clock, self._handle = clock, handle
        self._secret = options.webhook_secret or secrets.token_urlsafe(32)
        self._told_at: datetime | None = None

    async def start(self, connection: Connection) -> None:
        """Telegram keeps what comes until we are there again."""
        hint = "set TELEGRAM_WEBHOOK_PORT to a free one"
        await listen(connection, self._answer, "0.0.0.0", self._port, hint=hint)
        with told():
            await self._bot.set_webhook(
                self._url, secret_token=self._secret, allowed_updates=UPDATES
            )

    async def ask(self) -> None:
        with told():
            info = await self._bot.get_webhook_info()
        if info.url != self._url:
            raise NotConnected("Telegram's webhook was changed by another program")
        told_at = info.last_error_date
        if info.pending_update_count and told_at and told_at != self._told_at:
            self._told_at = told_at
            log.warning("Telegram cannot call us: %s", info.last_error_message)

    async def catch_up(self, patience: float) -> None:
        """Until no update waits at Telegram."""
        end = self._clock.monotonic() + patience
        while True:
            with told():
                info = await self._bot.get_webhook_info()
            if not info.pending_update_count:
                return
            if self._clock.monotonic() > end:
                raise NotConnected("Telegram still has older messages for us")
            await self._clock.sleep(0.2)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        status = await self._status(scope, receive) if scope["type"] == "http" else None
        if status is not None:
            headers = [(b"content-length", b"0")]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

    async def _status(self, scope: Any, receive: Any) -> HTTPStatus:
        if scope["method"] != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED
        given = dict(scope["headers"]).get(SECRET_HEADER, b"")
        if not hmac.compare_digest(given, self._secret.encode()):
            return HTTPStatus.FORBIDDEN
        body = await _body(receive)
        if body is None:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        try:
            update = msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.MsgspecError:
            return HTTPStatus.BAD_REQUEST
        if not isinstance(update.get("update_id"), int):
            return HTTPStatus.BAD_REQUEST
        kept = await self._handle(update)
        return HTTPStatus.OK if kept else HTTPStatus.SERVICE_UNAVAILABLE


async def _body(receive: Any) -> bytes | None:
    """None when it is too large, or the caller went away."""
    body: bytes = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += bytes(message.get("body", b""))
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body"):
            return body
