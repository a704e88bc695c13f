"""The HTTP server that calls come to, while it listens."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as Path

from hermes.config.home import get_hermes_home
from hermes.core.errors import ConfigError
from hermes.core.ports import Clock
from hermes.gateway.platforms.base import AdapterContext, CredentialsRefused, NotConnected, Receive
from hermes.gateway.platforms.kit.connection import Connection
from hermes.gateway.platforms.kit.listening import listen
from hermes.gateway.platforms.webhook.calls import Call, Calls, Limits
from hermes.gateway.platforms.webhook.subscriptions import (
    FILE,
    Route,
    Routes,
    common_secret,
    doubt,
    route,
    weakness,
)
from hermes.util.hosts import from_here, http_address, is_loopback

log = logging.getLogger(__name__)

TAKEN = "another program has it, or the address is not ours: change WEBHOOK_PORT"

Answer = Callable[[Request], Awaitable[Response]]
Keep = Callable[[Route, Call], Awaitable[bool]]


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok", "platform": "webhook"})


async def _refused(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    return JSONResponse({"error": "no such route" if status == 404 else "not allowed"}, status)


def application(answer: Answer) -> Starlette:
    app = Starlette(
        routes=[
            Path("/health", _health, methods=["GET"]),
            Path("/webhooks/{route}", answer, methods=["POST"]),
        ],
        exception_handlers={404: _refused, 405: _refused},
    )
    app.router.redirect_slashes = False
    return app


class Server(Connection):
    port = 0
    """Where it listens, once it does."""

    def __init__(self, context: AdapterContext, receive: Receive, clock: Clock, keep: Keep) -> None:
        super().__init__(context, receive)
        extra = context.connection.extra
        try:
            fixed = {name: route(name, raw) for name, raw in extra.routes.items()}
        except ConfigError as error:
            raise CredentialsRefused(f"Webhook cannot start: {error}", hint=error.hint) from None
        self._host: str = extra.host
        self._wanted: int = extra.port
        self.routes = Routes(fixed, get_hermes_home() / FILE)
        self._limits = Limits(
            secret=common_secret(extra, context.unset),
            on_loopback=is_loopback(self._host),
            per_minute=extra.rate_limit,
            max_body_bytes=extra.max_body_bytes,
        )
        self._calls = Calls(self.routes, self._limits, clock, keep)

    async def open(self) -> None:
        self._warn()
        app = application(self._calls.answer)
        self.port = await listen(self, app, self._host, self._wanted, hint=TAKEN)

    @property
    def address(self) -> str:
        return http_address(self._host, self.port)

    async def ask(self) -> None:
        """Ask ourselves."""
        try:
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection(from_here(self._host), self.port)
                try:
                    writer.write(b"GET /health HTTP/1.0\r\n\r\n")
                    line = await reader.readline()
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            line = b""
        if b" 200 " not in line:
            raise NotConnected(f"Webhook does not answer on port {self.port}")

    def _warn(self) -> None:
        routes, limits = self.routes.all(), self._limits
        for name, each in routes.items():
            secret = each.secret or limits.secret
            if why := weakness(secret, on_loopback=limits.on_loopback):
                log.warning("webhook route %s takes no calls: %s", name, why)
            elif known := doubt(secret):
                log.warning("webhook route %s %s", name, known)
        if not routes:
            log.warning("there is no webhook route yet: hermes webhook subscribe NAME")
