"""From a request to its answer: the door, the table of operations, and errors in one form."""

import logging
from typing import Any

from msgspec.structs import replace

from hermes.core.errors import HermesError
from hermes.gateway.platforms.api_server.door import Door
from hermes.gateway.platforms.api_server.exchange import (
    JSON,
    Exchange,
    Reply,
    Request,
    Scope,
    Send,
    answered,
)
from hermes.gateway.platforms.api_server.idempotency import Idempotency
from hermes.gateway.platforms.api_server.operations import Routes
from hermes.gateway.platforms.api_server.options import Options
from hermes.gateway.platforms.api_server.refusals import OUR_FAULT, Refused, refusal_of
from hermes.gateway.platforms.bodies import Receive

logger = logging.getLogger(__name__)


class Application:
    """An ASGI application."""

    def __init__(self, options: Options, routes: Routes, idempotency: Idempotency) -> None:
        self._options, self._routes, self._idempotency = options, routes, idempotency
        self._door = Door(options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _headers(scope["headers"])
        exchange = Exchange(receive, send, self._options, self._door.shared(headers))
        try:
            reply = await self._reply(scope, headers, exchange)
        except HermesError as error:
            reply = refused(refusal_of(error))
        except Exception:  # a client gets an answer also when we are at fault
            logger.exception("a request failed")
            reply = refused(OUR_FAULT)
        if scope["method"] == "HEAD" and reply.stream is not None:
            await reply.stream.aclose()
            reply = replace(reply, stream=None)
        await exchange.answer(reply)

    async def _reply(self, scope: Scope, headers: dict[str, str], exchange: Exchange) -> Reply:
        method, path = scope["method"], scope["path"]
        if method == "OPTIONS" and (fields := self._door.preflight(headers)) is not None:
            return Reply(status=204, headers=fields, kind="")
        public = False
        try:
            operation, places = self._routes.find(method, path)
            public = operation.public
        finally:
            self._door.check(headers, public=public)  # strangers do not hear what there is
        body = b""
        if operation.takes is not None:
            _check_kind(headers)
            body = await exchange.body(headers)
        request = Request(method, path, headers, body)
        request.places = places
        request.watched = lambda: exchange.watch(request)
        if operation.once:
            return await self._idempotency.once(request, operation.handler)
        return await operation.handler(request)


def refused(refusal: Refused) -> Reply:
    return answered(refusal.answer, refusal.status, refusal.headers)


def _headers(pairs: Any) -> dict[str, str]:
    """By name. One that comes twice is what comes twice, so no second key is ever overlooked."""
    headers: dict[str, str] = {}
    for name, value in pairs:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _check_kind(headers: dict[str, str]) -> None:
    kind = headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON and not kind.endswith("+json"):
        raise Refused(415, f"the body must be {JSON}, not {kind[:100]}", code="unsupported_media")
