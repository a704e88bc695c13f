"""Checks a webhook request from the outside in, and stores it before it is acknowledged."""

import hashlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from hermes.core.errors import HermesError
from hermes.core.ports import Clock
from hermes.gateway.platforms.webhook import subscriptions
from hermes.gateway.platforms.webhook.subscriptions import NO_AUTH, WebhookRoute, WebhookRoutes
from hermes.sdk.platforms import (
    REPLAY_SECONDS,
    HttpRequestRefused,
    InvalidSignature,
    RateLimit,
    RateLimiter,
    ReplayWindow,
    VerifiedSignature,
    read_raw_body,
    verify_signature,
)
from hermes.security.injection import blocked, scan
from hermes.util.http import is_loopback
from hermes.util.text import clean

_EVENTS = ("x-github-event", "x-gitlab-event")
GITHUB = "x-github-delivery"
NAMES = (
    GITHUB, "idempotency-key", "x-gitlab-event-uuid", "webhook-id", "x-webhook-id",
    "x-delivery-id", "x-request-id",
)  # fmt: skip
"""Headers with the id of a request, which is the same for a retry."""
_SAFE_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
_SAFE_EVENT = re.compile(r"[A-Za-z0-9_.: -]{1,64}")
MAX_FIELDS = 1000


def parse_payload(content_type: str, body: bytes) -> Any:
    """Decode a JSON body or a form; GitHub's form holds JSON in `payload`."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("", "application/json") or kind.endswith("+json"):
        return _json(body)
    if kind != "application/x-www-form-urlencoded":
        raise HttpRequestRefused(415, "send application/json or application/x-www-form-urlencoded")
    try:
        fields = parse_qs(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise HttpRequestRefused(400, "the form cannot be read") from None
    if set(fields) == {"payload"} and len(fields["payload"]) == 1:
        return _json(fields["payload"][0].encode())
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise HttpRequestRefused(400, "the body is not JSON") from None
    except RecursionError:
        raise HttpRequestRefused(400, "the JSON is nested too deeply") from None


def event_name(headers: Mapping[str, str], data: Any) -> str:
    """Return the event type; "" if the request does not name one."""
    said = next((headers[name] for name in _EVENTS if headers.get(name)), "")
    if not said and isinstance(data, dict) and isinstance(data.get("event_type"), str):
        said = data["event_type"]
    said = said.strip()
    return said if _SAFE_EVENT.fullmatch(said) else ""


def canonical_event(event: str) -> str:
    """Return the common name of an event: GitLab's `Merge Request Hook` is `merge_request`."""
    return event.strip().lower().removesuffix(" hook").replace(" ", "_")


def delivery_id(
    headers: Mapping[str, str], body: bytes, proof: VerifiedSignature, window: int
) -> str:
    """Return the id of a request, which is the same for a retry. Without a header it is derived
    from the signed content, and from the time (`window`) if no time was signed."""
    for name in NAMES:
        if said := headers.get(name, "").strip():
            return said if _SAFE_NAME.fullmatch(said) else _hash(said.encode())
    return _hash(body, proof.timestamp.encode() or b"%d" % window)


def _hash(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]


log = logging.getLogger(__name__)

BODY_SECONDS = 20.0  #: Seconds in which a caller must send the whole request.
NO_LIMIT = RateLimit(1_000_000, 1.0)


class WebhookCall(msgspec.Struct, frozen=True):
    route: str
    event: str
    delivery: str
    data: Any
    body: str = ""
    """Hash of a body whose signature does not cover the time: it can be replayed at any time."""
    is_unique: bool = False  #: True if the sender never sends the same body under another id.


class DuplicateCall(Exception):
    """The request was already stored under another id."""


StoreCall = Callable[[WebhookRoute, WebhookCall], Awaitable[bool]]
"""Stores a genuine and wanted request. Returns True once it is stored. Raises `DuplicateCall`."""


class WebhookLimits(msgspec.Struct, frozen=True):
    secret: str  #: The secret of routes without their own.
    on_loopback: bool  #: Whether only this machine can reach the server.
    per_minute: int
    max_body_bytes: int
    body_seconds: float = BODY_SECONDS


class WebhookHandler:
    def __init__(
        self, routes: WebhookRoutes, limits: WebhookLimits, clock: Clock, store: StoreCall
    ) -> None:
        self._routes, self._limits, self._clock, self._store_call = routes, limits, clock, store
        self._buckets = RateLimiter(RateLimit(limits.per_minute, 60.0), NO_LIMIT, clock)
        self._recent = ReplayWindow(clock)  #: Stored bodies, with their time if it was signed.
        self._reported: set[tuple[str, str]] = set()
        """Routes whose secret is unusable, with the reason."""

    async def handle(self, request: Request) -> ASGIApp:
        try:
            return await self._answer(request, request.path_params["route"])
        except HttpRequestRefused as refusal:
            return refusal.response(request.receive)

    async def _answer(self, request: Request, name: str) -> Response:
        route = self._routes.get(name)
        if route is None:
            raise HttpRequestRefused(404, "no such route")
        secret = self._secret(name, route)
        limits = self._limits
        body = await read_raw_body(request, limits.max_body_bytes, limits.body_seconds)
        proof = self._proof(request, name, secret, body)
        data = parse_payload(request.headers.get("content-type", ""), body)
        now = self._clock.now().timestamp()
        delivery = delivery_id(request.headers, body, proof, int(now // REPLAY_SECONDS))
        signed = f"{proof.timestamp}.".encode() + body if proof.timestamp else body
        digest = hashlib.sha256(name.encode() + b"\0" + signed).digest()
        timeless = proof.signed and not proof.timestamp
        call = WebhookCall(
            name,
            event_name(request.headers, data),
            delivery,
            data,
            body=digest.hex() if timeless else "",
            is_unique=timeless and GITHUB in request.headers,
        )
        fields = {"route": name, "event": call.event, "delivery_id": delivery}
        # GitHub's first request is a ping, which only tests the address.
        events = tuple(map(canonical_event, route.events))
        if canonical_event(call.event) not in events if events else call.event == "ping":
            return JSONResponse({"status": "ignored", **fields})
        named = any(request.headers.get(each) for each in NAMES)
        if (proof.signed or not named) and digest in self._recent:
            return JSONResponse({"status": "duplicate", **fields})
        # Only requests that cause work count towards the limit.
        if limits.per_minute and not self._buckets.try_take(name):
            raise HttpRequestRefused(429, "too many calls", **{"Retry-After": "60"})
        self._recent.add(digest)
        try:
            stored = await self._store_call(route, call)
        except DuplicateCall:
            log.warning("webhook route %s: a repeated call has another id", name)
            return JSONResponse({"status": "duplicate", **fields})
        except (HermesError, OSError) as error:
            log.error("a call of webhook route %s cannot be stored: %s", name, error)
            stored = False
        if not stored:
            self._recent.remove(digest)
            raise HttpRequestRefused(
                503, "it cannot be stored now; send it again", **{"Retry-After": "30"}
            )
        return JSONResponse({"status": "accepted", **fields}, 202)

    def _secret(self, name: str, route: WebhookRoute) -> str:
        secret = route.secret or self._limits.secret
        why = subscriptions.secret_problem(secret, on_loopback=self._limits.on_loopback)
        if not why:
            return secret
        if (name, why) not in self._reported:
            self._reported.add((name, why))
            log.error("webhook route %s accepts no calls: %s", name, why)
        raise HttpRequestRefused(401, "the signature is missing or wrong")

    def _proof(self, request: Request, name: str, secret: str, body: bytes) -> VerifiedSignature:
        if secret == NO_AUTH:
            _check_local(request)
            log.warning("webhook route %s accepts an unsigned call (%s)", name, NO_AUTH)
            return VerifiedSignature(signed=False)
        try:
            now = self._clock.now().timestamp()
            return verify_signature(request.headers.raw, body, secret, now)
        except InvalidSignature as error:
            peer = request.client.host if request.client else "?"
            log.warning("webhook route %s refused a call from %s: %s", name, peer, error)
            raise HttpRequestRefused(401, "the signature is missing or wrong") from None


def _check_local(request: Request) -> None:
    """Detect requests of web pages. A page in a browser on this machine reaches loopback too,
    but its requests name their origin or host, or cannot send JSON."""
    host = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    strange = "origin" in request.headers or not is_loopback(host)
    if strange or kind != "application/json":
        raise HttpRequestRefused(
            403, "unsigned calls must come from a program on this machine, as JSON"
        )


# A path follows object keys and list indices and nothing else: there is no attribute, call or
# format to reach. Inserted values are not expanded again. A path without a value stays as it is.

RAW = "__raw__"
RAW_CHARS = 4000
NESTED_CHARS = 2000
TEXT_CHARS = 20_000

TAG = "webhook-data"
_PATH = re.compile(r"\{([A-Za-z0-9_][A-Za-z0-9_.-]{0,200})\}")
_TAG = re.compile(r"<(?=\s*/?\s*webhook[\s_-]*data)", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z0-9_.@/+#-]{1,80}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_MISSING = object()

Show = Callable[[str], str]  #: Formats a value for the text.


def render(template: str, data: Any, show: Show) -> str:
    def put(found: re.Match[str]) -> str:
        value = data if found[1] == RAW else _at(data, found[1])
        if value is _MISSING:
            return found[0]
        return show(_text(value, RAW_CHARS if found[1] == RAW else NESTED_CHARS))

    return _PATH.sub(put, template)


def plain(text: str) -> str:
    """Format a value for people."""
    return _CONTROL.sub("", clean(text))


def line(text: str) -> str:
    """Format a value in one line."""
    return " ".join(plain(text).split())


def fence(text: str) -> str:
    """Format a value for the agent: enclosed in marks as foreign text, without what looks like
    an injection. A short name or number stays as it is."""
    shown = plain(text)
    lines = [(each, scan(each)) for each in shown.split("\n")]
    if found := scan("\n".join(each for each, signs in lines if not signs)):
        shown = blocked("a value of the call", found)
    else:
        shown = "\n".join(blocked("a line of the call", f) if f else each for each, f in lines)
    if _PLAIN.fullmatch(shown):
        return shown
    shown = _TAG.sub("‹", shown)
    gap = "\n" if "\n" in shown else ""
    return f"<{TAG}>{gap}{shown}{gap}</{TAG}>"


def _at(data: Any, path: str) -> Any:
    for step in path.split("."):
        if isinstance(data, dict) and step in data:
            data = data[step]
        elif isinstance(data, list) and step.isdecimal() and int(step) < len(data):
            data = data[int(step)]
        else:
            return _MISSING
    return data


def _text(value: Any, limit: int) -> str:
    if isinstance(value, str):
        text, limit = value, TEXT_CHARS
    else:
        indent = 2 if isinstance(value, dict | list) else None
        try:
            text = json.dumps(value, ensure_ascii=False, indent=indent)
        except RecursionError:
            return "[nested too deeply to show]"
    return text if len(text) <= limit else f"{text[:limit]}…"
