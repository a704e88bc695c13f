"""The ASGI application of the API server: access control, routes, and general endpoints."""

import hmac
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from hermes import __version__
from hermes.core.errors import HermesError
from hermes.core.ports import Clock
from hermes.gateway.platforms.api_server.errors import (
    INTERNAL_ERROR,
    ApiError,
    Headers,
    not_found,
    to_api_error,
)
from hermes.gateway.platforms.api_server.http import (
    JSON,
    ApiReply,
    ApiRequest,
    Exchange,
    error_reply,
    json_reply,
)
from hermes.gateway.platforms.api_server.idempotency import IdempotencyCache
from hermes.gateway.platforms.api_server.operations import (
    Operation,
    openapi_document,
    operation,
    operations_of,
)
from hermes.gateway.platforms.api_server.options import ANY, ApiOptions
from hermes.gateway.platforms.api_server.turns import ApiTurns
from hermes.util.hosts import is_loopback

logger = logging.getLogger(__name__)

MAX_AGE = "600"
METHODS = "GET, POST, PATCH, DELETE, OPTIONS"
USUAL_HEADERS = "authorization, content-type, idempotency-key, x-hermes-session-id"
EXPOSED = "X-Hermes-Session-Id, Idempotent-Replayed"
SECURITY_HEADERS: Headers = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)
"""Headers of every response."""
PUBLIC_PATHS = frozenset({"/health", "/v1/health"})  #: Paths that need no key.
METRICS = "text/plain; version=0.0.4; charset=utf-8"

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::[0-9]{1,5})?", re.ASCII)
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~ ,-]{1,2000}", re.ASCII)


class AccessPolicy:
    """Checks keys and origins.

    Without a key, every program on this machine may use the API, but a browser on this machine acts
    for any web page. So the requested address must be a loopback one (a DNS name that points here
    is not), and a page must be one of the configured origins.
    """

    def __init__(self, options: ApiOptions) -> None:
        self._key = options.key.encode()
        self._origins = frozenset(options.origins)

    def check(self, headers: Mapping[str, str], *, is_public: bool = False) -> None:
        """Raise `ApiError` if the client has no access. A public operation needs no key."""
        if not self._key:
            self._check_local(headers)
        elif not is_public and not self._has_key(headers.get("authorization", "")):
            raise ApiError(
                401,
                "this needs the key of the server, as `Authorization: Bearer KEY`",
                code="invalid_api_key",
                headers=(("WWW-Authenticate", "Bearer"),),
            )

    def _has_key(self, authorization: str) -> bool:
        scheme, _, key = authorization.partition(" ")
        # Headers were decoded as Latin-1; compare the bytes as they were sent.
        same = hmac.compare_digest(key.strip(" ").encode("latin-1"), self._key)
        return same and scheme.lower() == "bearer"

    def _check_local(self, headers: Mapping[str, str]) -> None:
        host = _HOST.fullmatch(headers.get("host", "").lower())
        if host is None or not is_loopback(host[1]):
            raise ApiError(
                403,
                "without API_SERVER_KEY only requests to 127.0.0.1 or localhost are answered",
                code="host_not_allowed",
            )
        origin = headers.get("origin", "")
        site = headers.get("sec-fetch-site", "")
        is_foreign = not origin and site in ("cross-site", "same-site")
        if is_foreign or (origin and not self._allows(origin)):
            raise ApiError(
                403,
                "web pages may not use this; API_SERVER_CORS_ORIGINS names those that may",
                code="origin_not_allowed",
            )

    def _allows(self, origin: str) -> bool:
        return ANY in self._origins or origin.lower() in self._origins

    def response_headers(self, headers: Mapping[str, str]) -> Headers:
        """Return the headers of every response to this request."""
        if not self._origins:
            return SECURITY_HEADERS
        origin = headers.get("origin", "")
        if not origin or not self._allows(origin):
            return (*SECURITY_HEADERS, ("Vary", "Origin"))
        return (
            *SECURITY_HEADERS,
            ("Vary", "Origin"),
            ("Access-Control-Allow-Origin", ANY if ANY in self._origins else origin),
            ("Access-Control-Expose-Headers", EXPOSED),
        )

    def preflight(self, headers: Mapping[str, str]) -> Headers | None:
        """Return the headers for a CORS preflight; None if it is not one, or not allowed."""
        if "access-control-request-method" not in headers:
            return None
        if not self._allows(headers.get("origin", "")):
            return None
        wanted = headers.get("access-control-request-headers", "")
        names = wanted if _HEADER_NAMES.fullmatch(wanted) else USUAL_HEADERS
        fields: Headers = (
            ("Access-Control-Allow-Methods", METHODS),
            ("Access-Control-Allow-Headers", names),
            ("Access-Control-Max-Age", MAX_AGE),
        )
        if headers.get("access-control-request-private-network") == "true":
            fields = (*fields, ("Access-Control-Allow-Private-Network", "true"))
        return fields


class OpenApiDocument(msgspec.Struct, frozen=True):
    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]


class ApiApplication:
    """The ASGI application.

    Access is checked before the route, so that clients without it do not learn which paths exist.
    """

    def __init__(
        self, options: ApiOptions, endpoints: Iterable[object], idempotency: IdempotencyCache
    ) -> None:
        self._options, self._idempotency = options, idempotency
        self._access = AccessPolicy(options)
        self._operations = [each for one in (*endpoints, self) for each in operations_of(one)]
        self._routes = [
            (Route(each.path, each.handler, methods=[each.method]), each)
            for each in self._operations
        ]
        self._document = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _join_headers(scope["headers"])
        exchange = Exchange(receive, send, self._options, self._access.response_headers(headers))
        try:
            reply = await self._reply(scope, headers, exchange)
        except HermesError as error:
            reply = error_reply(to_api_error(error))
        except Exception:  # the client gets a response even if the server is at fault
            logger.exception("a request failed")
            reply = error_reply(INTERNAL_ERROR)
        if scope["method"] == "HEAD" and reply.stream is not None:
            await reply.stream.aclose()
            reply = msgspec.structs.replace(reply, stream=None)
        await exchange.answer(reply)

    async def _reply(self, scope: Scope, headers: dict[str, str], exchange: Exchange) -> ApiReply:
        method, path = scope["method"], scope["path"]
        if method == "OPTIONS" and (fields := self._access.preflight(headers)) is not None:
            return ApiReply(status=204, headers=fields, media_type="")
        # A trailing slash is ignored, because clients join paths in different ways.
        plain = path.rstrip("/")
        is_public = plain in PUBLIC_PATHS and method in ("GET", "HEAD")
        self._access.check(headers, is_public=is_public)
        found, path_params = self._find({**scope, "path": plain})
        body = b""
        if found.body is not None:
            _check_media_type(headers)
            body = await exchange.read_body(headers)
        request = ApiRequest(method, path, headers, body, path_params)
        request.watch = lambda: exchange.watch(request)
        if found.is_idempotent:
            return await self._idempotency.run_once(request, found.handler)
        return await found.handler(request)

    def _find(self, scope: Scope) -> tuple[Operation, dict[str, str]]:
        """Return the operation and its path parameters. Raises `ApiError` if there is none."""
        allowed: set[str] = set()
        for route, each in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                return each, found["path_params"]
            if match is Match.PARTIAL:
                allowed.add(each.method)
        if allowed:
            headers = (("Allow", ", ".join(sorted(allowed))),)
            message = f"{scope['method']} is not possible here"
            raise ApiError(405, message, code="method_not_allowed", headers=headers)
        path = scope["path"]
        known = any(each.path == f"/v1{path}" for each in self._operations)
        hint = "; the address of this API ends with /v1" if known else ""
        raise not_found(f"there is nothing at {path[:200]}{hint}")

    @operation("GET", "/openapi.json", "openapi", "This document", result=OpenApiDocument)
    async def _openapi(self, _request: ApiRequest) -> ApiReply:
        if not self._document:
            document = openapi_document(
                self._operations, PUBLIC_PATHS, has_key=bool(self._options.key)
            )
            self._document = msgspec.json.encode(document)
        return ApiReply(self._document)


def _join_headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers by name. A repeated header keeps both values, so that a second key is
    never overlooked."""
    headers: dict[str, str] = {}
    for name, value in pairs:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _check_media_type(headers: Mapping[str, str]) -> None:
    kind = headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON and not kind.endswith("+json"):
        message = f"the body must be {JSON}, not {kind[:100]}"
        raise ApiError(415, message, code="unsupported_media")


class HealthStatus(msgspec.Struct, frozen=True):
    status: Literal["ok"] = "ok"


class DetailedHealth(msgspec.Struct, frozen=True):
    version: str
    model: str
    uptime_seconds: float
    turns_running: int
    agents_ready: int  #: Sessions whose agent is open.
    gateway: dict[str, Any] | None = None  #: State of the platforms of the gateway.
    status: Literal["ok"] = "ok"


class ModelCard(msgspec.Struct, frozen=True):
    id: str
    created: int
    object: Literal["model"] = "model"
    owned_by: str = "hermes"


class ModelList(msgspec.Struct, frozen=True):
    data: list[ModelCard]
    object: Literal["list"] = "list"


class ServerEndpoints:
    """Endpoints about the server itself."""

    def __init__(
        self,
        turns: ApiTurns,
        clock: Clock,
        model_name: str,
        status: Callable[[], dict[str, Any]] | None,
        metrics: Callable[[], bytes] | None,
    ) -> None:
        self._turns, self._clock, self._model_name = turns, clock, model_name
        self._status, self._metrics = status, metrics
        self._started_at = clock.monotonic()
        self._card = ModelCard(model_name, int(clock.now().timestamp()))

    @operation("GET", "/health", "health", "Whether it works", result=HealthStatus)
    @operation("GET", "/v1/health", "v1_health", "The same", result=HealthStatus)
    async def health(self, _request: ApiRequest) -> ApiReply:
        return json_reply(HealthStatus())

    @operation("GET", "/health/detailed", "health_detailed", "Current state", result=DetailedHealth)
    async def detailed(self, _request: ApiRequest) -> ApiReply:
        return json_reply(
            DetailedHealth(
                __version__,
                self._model_name,
                round(self._clock.monotonic() - self._started_at, 3),
                self._turns.count,
                self._turns.agents.count,
                self._status() if self._status else None,
            )
        )

    @operation("GET", "/v1/models", "models", "The models", result=ModelList)
    async def models(self, _request: ApiRequest) -> ApiReply:
        return json_reply(ModelList([self._card]))

    @operation("GET", "/v1/models/{model_id}", "model", "A model", result=ModelCard, errors=(404,))
    async def model(self, request: ApiRequest) -> ApiReply:
        if request.path_params["model_id"] != self._model_name:
            raise not_found(f"the only model is {self._model_name}", "model_not_found")
        return json_reply(self._card)

    @operation(
        "GET", "/metrics", "metrics", "Metrics for Prometheus", media_type=METRICS, errors=(404,)
    )
    async def metrics(self, _request: ApiRequest) -> ApiReply:
        if self._metrics is None:
            raise not_found("there are no metrics", "no_metrics")
        return ApiReply(self._metrics(), media_type=METRICS)
