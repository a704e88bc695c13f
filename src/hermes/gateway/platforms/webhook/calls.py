"""What happens to a call: looked at from the outside in, and kept before it is acknowledged."""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from hermes.core.errors import HermesError
from hermes.core.ports import Clock
from hermes.gateway.platforms.base import Rate
from hermes.gateway.platforms.bodies import ClientLeft, TooLarge, body_of, read_away
from hermes.gateway.platforms.kit.buckets import Buckets
from hermes.gateway.platforms.webhook import payloads, signatures, subscriptions
from hermes.gateway.platforms.webhook.signatures import WINDOW, Forged, Proof
from hermes.gateway.platforms.webhook.subscriptions import NO_AUTH, Route, Routes

log = logging.getLogger(__name__)

BODY_SECONDS = 20.0
"""Seconds in which a caller must have sent everything."""
MOST_REMEMBERED = 10_000
NO_LIMIT = Rate(1_000_000, 1.0)
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Call(msgspec.Struct, frozen=True):
    route: str
    event: str
    delivery: str
    data: Any
    body: str = ""
    """The hash of a body whose signature says nothing of the time: a copy may come any day."""
    is_unique: bool = False
    """Its sender never sends the same body again under another name."""


class Copied(Exception):
    """The call was kept before, under another name."""


Keep = Callable[[Route, Call], Awaitable[bool]]
"""Takes a call that is genuine and wanted. True once it is kept. Raises `Copied`."""


class Limits(msgspec.Struct, frozen=True):
    secret: str
    """Of routes that have none of their own."""
    on_loopback: bool
    """Whether only this machine can call us."""
    per_minute: int
    max_body_bytes: int
    body_seconds: float = BODY_SECONDS


class Refusal(Exception):
    """The call is not taken; the text is for the caller."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers
        self.unread: TooLarge | None = None


class _Refused(JSONResponse):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__({"error": str(refusal)}, refusal.status, refusal.headers)
        self._unread = refusal.unread

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._unread is None:
            await super().__call__(scope, receive, send)
            return

        async def unended(message: Message) -> None:
            await send({**message, "more_body": True})

        await super().__call__(scope, receive, unended)
        await read_away(receive, self._unread)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Calls:
    def __init__(self, routes: Routes, limits: Limits, clock: Clock, keep: Keep) -> None:
        self._routes, self._limits, self._clock, self._keep = routes, limits, clock, keep
        self._buckets = Buckets(Rate(limits.per_minute, 60.0), NO_LIMIT, clock)
        self._recent: dict[bytes, float] = {}
        """What was kept a short while ago: bodies, with the time when that was signed too."""
        self._told: set[tuple[str, str]] = set()
        """Routes whose secret is of no use, and why."""

    async def answer(self, request: Request) -> Response:
        try:
            return await self._answer(request, request.path_params["route"])
        except Refusal as refusal:
            return _Refused(refusal)

    async def _answer(self, request: Request, name: str) -> Response:
        route = self._routes.get(name)
        if route is None:
            raise Refusal(404, "no such route")
        secret = self._secret(name, route)
        body = await self._body(request)
        proof = self._proof(request, name, secret, body)
        try:
            data = payloads.data_of(request.headers.get("content-type", ""), body)
        except payloads.Unreadable as error:
            raise Refusal(error.status, str(error)) from None
        now = self._clock.now().timestamp()
        delivery = payloads.delivery_of(request.headers, body, proof, int(now // WINDOW))
        signed = f"{proof.timestamp}.".encode() + body if proof.timestamp else body
        copied = hashlib.sha256(name.encode() + b"\0" + signed).digest()
        timeless = proof.signed and not proof.timestamp
        call = Call(
            name,
            payloads.event_of(request.headers, data),
            delivery,
            data,
            body=copied.hex() if timeless else "",
            is_unique=timeless and payloads.GITHUB in request.headers,
        )
        told = {"route": name, "event": call.event, "delivery_id": delivery}
        if not _wanted(route, call.event):
            return JSONResponse({"status": "ignored", **told})
        named = any(request.headers.get(each) for each in payloads.NAMES)
        if (proof.signed or not named) and self._seen(copied):
            return JSONResponse({"status": "duplicate", **told})
        if self._limits.per_minute and not self._buckets.take(name):  # of those that make work
            raise Refusal(429, "too many calls", **{"Retry-After": "60"})
        self._recent[copied] = self._clock.monotonic()
        try:
            kept = await self._kept(route, call)
        except Copied:
            log.warning("webhook route %s: a call of before came under another name", name)
            return JSONResponse({"status": "duplicate", **told})
        if not kept:
            self._recent.pop(copied, None)
            raise Refusal(503, "it cannot be kept now; send it again", **{"Retry-After": "30"})
        return JSONResponse({"status": "accepted", **told}, 202)

    def _secret(self, name: str, route: Route) -> str:
        secret = route.secret or self._limits.secret
        why = subscriptions.weakness(secret, on_loopback=self._limits.on_loopback)
        if not why:
            return secret
        if (name, why) not in self._told:
            self._told.add((name, why))
            log.error("webhook route %s takes no calls: %s", name, why)
        raise Refusal(401, "the signature is missing or wrong")

    async def _body(self, request: Request) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                return await body_of(request.receive, request.headers, self._limits.max_body_bytes)
        except TooLarge as error:
            refusal = Refusal(413, "the body is too large", Connection="close")
            refusal.unread = error
            raise refusal from None
        except TimeoutError:
            raise Refusal(408, "the body took too long", Connection="close") from None
        except ClientLeft:
            raise Refusal(400, "the body is not complete") from None

    def _proof(self, request: Request, name: str, secret: str, body: bytes) -> Proof:
        if secret == NO_AUTH:
            _check_local(request)
            log.warning("webhook route %s takes a call that nobody signed (%s)", name, NO_AUTH)
            return Proof(signed=False)
        try:
            now = self._clock.now().timestamp()
            return signatures.check(request.headers.raw, body, secret, now)
        except Forged as error:
            peer = request.client.host if request.client else "?"
            log.warning("webhook route %s refused a call from %s: %s", name, peer, error)
            raise Refusal(401, "the signature is missing or wrong") from None

    def _seen(self, copied: bytes) -> bool:
        """Whether this was kept within the last minutes. A copied call may have another id, which
        is not signed."""
        oldest = self._clock.monotonic() - WINDOW
        if len(self._recent) > MOST_REMEMBERED or any(t < oldest for t in self._recent.values()):
            kept = [each for each in self._recent.items() if each[1] >= oldest]
            self._recent = dict(kept[-MOST_REMEMBERED:])
        return copied in self._recent

    async def _kept(self, route: Route, call: Call) -> bool:
        try:
            return await self._keep(route, call)
        except (HermesError, OSError) as error:
            log.error("a call of webhook route %s cannot be kept: %s", call.route, error)
            return False


def _wanted(route: Route, event: str) -> bool:
    if route.events:
        return any(payloads.same_event(event, each) for each in route.events)
    return event != "ping"  # GitHub's first call, which only tries the address


def _check_local(request: Request) -> None:
    """A page in a browser on this machine reaches loopback too, but cannot hide that it is one:
    it names its origin, or the host it was told to ask, or may not send JSON."""
    host = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    strange = "origin" in request.headers or host.strip("[]").lower() not in LOOPBACK
    if strange or kind != "application/json":
        raise Refusal(403, "unsigned calls must come from a program on this machine, as JSON")
