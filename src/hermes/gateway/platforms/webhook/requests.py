"""Checks a webhook request from the outside in, and stores it before it is acknowledged."""

import asyncio
import hashlib
import hmac
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from hermes.core.errors import HermesError
from hermes.core.ports import Clock
from hermes.gateway.platforms.webhook import subscriptions
from hermes.gateway.platforms.webhook.subscriptions import NO_AUTH, WebhookRoute, WebhookRoutes
from hermes.sdk.platforms import (
    BodyTooLarge,
    ClientDisconnected,
    RateLimit,
    RateLimiter,
    discard_body,
    read_body,
)
from hermes.security.injection import blocked, scan
from hermes.util.hosts import is_loopback
from hermes.util.text import clean

# Signatures.
#
# Exactly one of these headers carries the proof and decides how it is checked. A wrong proof is
# never tried in another way.
#
#     X-Hub-Signature-256    sha256=<hex>           HMAC-SHA256 of the body (GitHub)
#     X-Gitlab-Token         <secret>               the secret itself (GitLab)
#     X-Webhook-Signature    [sha256=]<hex>         HMAC-SHA256 of the body, or of
#     X-Signature            [sha256=]<hex>         `<timestamp>.<body>` when a timestamp is sent
#
# The timestamp (X-Webhook-Timestamp or X-Timestamp, in seconds since 1970) must be at most five
# minutes from our clock. The older X-Hub-Signature with SHA-1 proves nothing.

WINDOW = 300.0  #: Seconds that the clock of a caller may differ, and that a request is remembered.

_TIMES = (b"x-webhook-timestamp", b"x-timestamp")
_SIGNED = {
    b"x-hub-signature-256": re.compile(rb"sha256=([0-9a-fA-F]{64})"),
    b"x-webhook-signature": re.compile(rb"(?:sha256=)?([0-9a-fA-F]{64})"),
    b"x-signature": re.compile(rb"(?:sha256=)?([0-9a-fA-F]{64})"),
}
_TOKEN = b"x-gitlab-token"
_SECONDS = re.compile(rb"[0-9]{1,12}")

Headers = Iterable[tuple[bytes, bytes]]


class InvalidSignature(Exception):
    """The proof is missing or wrong; the text is only for the log."""


class VerifiedSignature(msgspec.Struct, frozen=True):
    signed: bool  #: True if the body is signed: the same body again may be a replay.
    timestamp: str = ""  #: When the caller signed it, if the time is signed too.


def check(headers: Headers, body: bytes, secret: str, now: float) -> VerifiedSignature:
    """Check the proof of a request. Raises `InvalidSignature`."""
    key = secret.encode()
    found = [(name.lower(), value) for name, value in headers]
    proofs = [each for each in found if each[0] in _SIGNED or each[0] == _TOKEN]
    if len(proofs) != 1:
        raise InvalidSignature(f"{len(proofs)} signatures" if proofs else "no signature")
    name, value = proofs[0]
    if name == _TOKEN:
        if not hmac.compare_digest(_digest(key, value), _digest(key, key)):
            raise InvalidSignature("wrong token")
        return VerifiedSignature(signed=False)
    match = _SIGNED[name].fullmatch(value)
    if match is None:
        raise InvalidSignature("the signature is not SHA-256 in hexadecimal digits")
    stamp = b"" if name == b"x-hub-signature-256" else _timestamp(found, now)
    wanted = _digest(key, stamp + b"." + body if stamp else body)
    if not hmac.compare_digest(bytes.fromhex(match[1].decode()), wanted):
        raise InvalidSignature("wrong signature")
    return VerifiedSignature(signed=True, timestamp=stamp.decode())


def _timestamp(found: list[tuple[bytes, bytes]], now: float) -> bytes:
    times = [value for name, value in found if name in _TIMES]
    if not times:
        return b""
    if len(times) > 1 or not _SECONDS.fullmatch(times[0]):
        raise InvalidSignature("the timestamp is not a number of seconds")
    if abs(now - int(times[0])) > WINDOW:
        raise InvalidSignature("the timestamp is too old or too new")
    return times[0]


def _digest(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()


_EVENTS = ("x-github-event", "x-gitlab-event")
GITHUB = "x-github-delivery"
NAMES = (
    GITHUB,
    "idempotency-key",
    "x-gitlab-event-uuid",
    "webhook-id",
    "x-webhook-id",
    "x-delivery-id",
    "x-request-id",
)
"""Headers with the id of a request, which is the same for a retry."""
_SAFE_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
_SAFE_EVENT = re.compile(r"[A-Za-z0-9_.: -]{1,64}")
MAX_FIELDS = 1000


class CallRefused(Exception):
    """The request is refused; the text is for the caller."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers
        self.unread: BodyTooLarge | None = None


def parse_payload(content_type: str, body: bytes) -> Any:
    """Decode a JSON body or a form; GitHub's form holds JSON in `payload`. Raises
    `CallRefused`."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("", "application/json") or kind.endswith("+json"):
        return _json(body)
    if kind != "application/x-www-form-urlencoded":
        raise CallRefused(415, "send application/json or application/x-www-form-urlencoded")
    try:
        fields = parse_qs(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise CallRefused(400, "the form cannot be read") from None
    if set(fields) == {"payload"} and len(fields["payload"]) == 1:
        return _json(fields["payload"][0].encode())
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise CallRefused(400, "the body is not JSON") from None
    except RecursionError:
        raise CallRefused(400, "the JSON is nested too deeply") from None


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
MAX_REMEMBERED = 10_000
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


class _RefusalResponse(JSONResponse):
    def __init__(self, refusal: CallRefused) -> None:
        super().__init__({"error": str(refusal)}, refusal.status, refusal.headers)
        self._unread = refusal.unread

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._unread is None:
            await super().__call__(scope, receive, send)
            return

        async def unended(message: Message) -> None:
            await send({**message, "more_body": True})

        await super().__call__(scope, receive, unended)
        await discard_body(receive, self._unread)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class WebhookHandler:
    def __init__(
        self, routes: WebhookRoutes, limits: WebhookLimits, clock: Clock, store: StoreCall
    ) -> None:
        self._routes, self._limits, self._clock, self._store_call = routes, limits, clock, store
        self._buckets = RateLimiter(RateLimit(limits.per_minute, 60.0), NO_LIMIT, clock)
        self._recent: dict[bytes, float] = {}
        """Recently stored bodies, with their time if it was signed."""
        self._reported: set[tuple[str, str]] = set()
        """WebhookRoutes whose secret is unusable, with the reason."""

    async def handle(self, request: Request) -> Response:
        try:
            return await self._answer(request, request.path_params["route"])
        except CallRefused as refusal:
            return _RefusalResponse(refusal)

    async def _answer(self, request: Request, name: str) -> Response:
        route = self._routes.get(name)
        if route is None:
            raise CallRefused(404, "no such route")
        secret = self._secret(name, route)
        body = await self._body(request)
        proof = self._proof(request, name, secret, body)
        data = parse_payload(request.headers.get("content-type", ""), body)
        now = self._clock.now().timestamp()
        delivery = delivery_id(request.headers, body, proof, int(now // WINDOW))
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
        if not _accepts(route, call.event):
            return JSONResponse({"status": "ignored", **fields})
        named = any(request.headers.get(each) for each in NAMES)
        if (proof.signed or not named) and self._seen(digest):
            return JSONResponse({"status": "duplicate", **fields})
        # Only requests that cause work count towards the limit.
        if self._limits.per_minute and not self._buckets.try_take(name):
            raise CallRefused(429, "too many calls", **{"Retry-After": "60"})
        self._recent[digest] = self._clock.monotonic()
        try:
            stored = await self._store(route, call)
        except DuplicateCall:
            log.warning("webhook route %s: a repeated call has another id", name)
            return JSONResponse({"status": "duplicate", **fields})
        if not stored:
            self._recent.pop(digest, None)
            raise CallRefused(
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
        raise CallRefused(401, "the signature is missing or wrong")

    async def _body(self, request: Request) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                return await read_body(
                    request.receive, request.headers, self._limits.max_body_bytes
                )
        except BodyTooLarge as error:
            refusal = CallRefused(413, "the body is too large", Connection="close")
            refusal.unread = error
            raise refusal from None
        except TimeoutError:
            raise CallRefused(408, "the body took too long", Connection="close") from None
        except ClientDisconnected:
            raise CallRefused(400, "the body is not complete") from None

    def _proof(self, request: Request, name: str, secret: str, body: bytes) -> VerifiedSignature:
        if secret == NO_AUTH:
            _check_local(request)
            log.warning("webhook route %s accepts an unsigned call (%s)", name, NO_AUTH)
            return VerifiedSignature(signed=False)
        try:
            now = self._clock.now().timestamp()
            return check(request.headers.raw, body, secret, now)
        except InvalidSignature as error:
            peer = request.client.host if request.client else "?"
            log.warning("webhook route %s refused a call from %s: %s", name, peer, error)
            raise CallRefused(401, "the signature is missing or wrong") from None

    def _seen(self, digest: bytes) -> bool:
        """Return whether this was stored within the last minutes. A replay may have another id,
        because the id is not signed."""
        oldest = self._clock.monotonic() - WINDOW
        if len(self._recent) > MAX_REMEMBERED or any(t < oldest for t in self._recent.values()):
            kept = [each for each in self._recent.items() if each[1] >= oldest]
            self._recent = dict(kept[-MAX_REMEMBERED:])
        return digest in self._recent

    async def _store(self, route: WebhookRoute, call: WebhookCall) -> bool:
        try:
            return await self._store_call(route, call)
        except (HermesError, OSError) as error:
            log.error("a call of webhook route %s cannot be stored: %s", call.route, error)
            return False


def _accepts(route: WebhookRoute, event: str) -> bool:
    if route.events:
        return canonical_event(event) in map(canonical_event, route.events)
    return event != "ping"  # GitHub's first request, which only tests the address


def _check_local(request: Request) -> None:
    """Detect requests of web pages. A page in a browser on this machine reaches loopback too,
    but its requests name their origin or host, or cannot send JSON."""
    host = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    strange = "origin" in request.headers or not is_loopback(host)
    if strange or kind != "application/json":
        raise CallRefused(403, "unsigned calls must come from a program on this machine, as JSON")


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
    told = plain(text)
    lines = [(each, scan(each)) for each in told.split("\n")]
    if found := scan("\n".join(each for each, signs in lines if not signs)):
        told = blocked("a value of the call", found)
    else:
        told = "\n".join(blocked("a line of the call", f) if f else each for each, f in lines)
    if _PLAIN.fullmatch(told):
        return told
    told = _TAG.sub("‹", told)
    gap = "\n" if "\n" in told else ""
    return f"<{TAG}>{gap}{told}{gap}</{TAG}>"


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
        return _cut(value, TEXT_CHARS)
    indent = 2 if isinstance(value, dict | list) else None
    try:
        return _cut(json.dumps(value, ensure_ascii=False, indent=indent), limit)
    except RecursionError:
        return "[nested too deeply to show]"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
