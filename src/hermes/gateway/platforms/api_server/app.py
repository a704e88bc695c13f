"""The application of the API server: access, routes, OpenAPI, and general endpoints."""

import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermes import __version__
from hermes.core.ports import Clock
from hermes.gateway.platforms.api_server.http import (
    ANY,
    CLOSE,
    EVENT_STREAM,
    JSON,
    KEY_HEADER,
    REPLAYED,
    SESSION_HEADER,
    ApiError,
    ApiOptions,
    ApiRequest,
    ErrorBody,
    EventStream,
    Handler,
    IdempotencyCache,
    error_response,
    json_response,
    not_found,
)
from hermes.gateway.platforms.api_server.turns import ApiTurns
from hermes.sdk.platforms import BodyTooLarge, EarlyResponse

Json = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Awaitable[Response]])

MAX_AGE = "600"
METHODS = "GET, POST, PATCH, DELETE, OPTIONS"
USUAL_HEADERS = "authorization, content-type, idempotency-key, x-hermes-session-id"
EXPOSED = f"{SESSION_HEADER}, {REPLAYED}"
SECURITY_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
"""Headers of every response."""
PUBLIC_PATHS = frozenset({"/health", "/v1/health", "/ready"})  #: Paths that need no key.
METRICS = "text/plain; version=0.0.4; charset=utf-8"
EVENT_HEADER = "Last-Event-ID"
TURN: dict[str, Any] = {"errors": (404, 409, 429, 502, 503)}  #: For operations that run a turn.
STREAMED_TURN = {**TURN, "media_type": EVENT_STREAM}

_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~ ,-]{1,2000}", re.ASCII)


class AccessMiddleware:
    """Checks the key, which every client has to send: other users of this machine, web pages and
    commands of the agent can reach the port too.

    As a middleware it checks access before the route, so that clients without it do not learn which
    paths exist. Inside, a repeated header is one header with both values, so that a second key is
    never overlooked, and paths have no trailing slash, because clients join paths in different
    ways.
    """

    def __init__(self, app: ASGIApp, options: ApiOptions) -> None:
        self._app, self._key = app, options.key.encode()
        self._origins = frozenset(options.origins)

    def check(self, headers: Mapping[str, str], *, is_public: bool = False) -> None:
        """Raise `ApiError` if the client has no access. A public operation needs no key."""
        if not is_public:
            scheme, _, key = headers.get("authorization", "").partition(" ")
            # Headers were decoded as Latin-1; compare the bytes as they were sent.
            same = hmac.compare_digest(key.strip(" ").encode("latin-1"), self._key)
            if not (self._key and same) or scheme.lower() != "bearer":
                raise ApiError(
                    401,
                    "this needs the key of the server, as `Authorization: Bearer KEY`",
                    code="invalid_api_key",
                    headers={"WWW-Authenticate": "Bearer"},
                )

    def _allows(self, origin: str) -> bool:
        return ANY in self._origins or origin.lower() in self._origins

    def response_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        if not self._origins:
            return SECURITY_HEADERS
        origin = headers.get("origin", "")
        fields = {**SECURITY_HEADERS, "Vary": "Origin"}
        if origin and self._allows(origin):
            fields["Access-Control-Allow-Origin"] = ANY if ANY in self._origins else origin
            fields["Access-Control-Expose-Headers"] = EXPOSED
        return fields

    def preflight(self, headers: Mapping[str, str]) -> dict[str, str] | None:
        """Return the headers for a CORS preflight; None if it is not one, or not allowed."""
        if "access-control-request-method" not in headers:
            return None
        if not self._allows(headers.get("origin", "")):
            return None
        wanted = headers.get("access-control-request-headers", "")
        allowed = wanted if _HEADER_NAMES.fullmatch(wanted) else USUAL_HEADERS
        fields = {
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": allowed,
            "Access-Control-Max-Age": MAX_AGE,
        }
        if headers.get("access-control-request-private-network") == "true":
            fields["Access-Control-Allow-Private-Network"] = "true"
        return fields

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        path, method = scope["path"].rstrip("/"), scope["method"]
        pairs = [(key.encode("latin-1"), text.encode("latin-1")) for key, text in headers.items()]
        scope = {**scope, "path": path, "headers": pairs}
        common = [
            (name.lower().encode(), value.encode("latin-1"))
            for name, value in self.response_headers(headers).items()
        ]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *common]}
            await send(message)

        app = self._app
        try:
            fields = self.preflight(headers) if method == "OPTIONS" else None
            if fields is not None:
                app = Response(status_code=204, headers=fields)
            else:
                is_public = path in PUBLIC_PATHS and method in ("GET", "HEAD")
                self.check(headers, is_public=is_public)
        except ApiError as error:
            app = error_response(error)
        await app(scope, receive, send_with_headers)


class Operation(msgspec.Struct, frozen=True):
    method: str
    path: str
    result: Any = None  #: The type of the JSON of a successful response; None if it is not JSON.
    body: Any = None  #: The type of the JSON body of the request.
    headers: tuple[str, ...] = ()  #: Headers that the operation reads.
    status: int = 200
    errors: tuple[int, ...] = ()  #: Statuses besides those that every such operation can have.
    media_type: str = ""  #: Another media type that the response may have.

    @property
    def is_idempotent(self) -> bool:
        """Whether a request that is repeated with the same key runs only once."""
        return KEY_HEADER in self.headers


def operation(route: str, *fields: Any, **more: Any) -> Callable[[F], F]:
    """Declare the decorated handler as the operation of a route, such as `GET /health`, with fields
    of `Operation` from `result` on. openapi.json has its name and summary."""
    method, _, path = route.partition(" ")

    def declare(handler: F) -> F:
        others = getattr(handler, "operations", ())
        declared = (Operation(method, path, *fields, **more), *others)
        setattr(handler, "operations", declared)  # noqa: B010 - mypy knows no such attribute
        return handler

    return declare


def create_app(
    options: ApiOptions, endpoints: Iterable[object], idempotency: IdempotencyCache
) -> Starlette:
    """Return the application with the operations that the methods of `endpoints` declare."""
    found = [
        (each, getattr(endpoint, name))
        for endpoint in endpoints
        for name, function in vars(type(endpoint)).items()
        for each in getattr(function, "operations", ())
    ]
    operations = [each for each, _handler in found]
    document = msgspec.json.encode(openapi_document(operations))

    async def openapi(_request: Request) -> Response:
        return Response(document, media_type=JSON)

    routes = [
        Route(each.path, _Endpoint(each, handler, options, idempotency), methods=[each.method])
        for each, handler in found
    ]
    app = Starlette(
        routes=[*routes, Route(OPENAPI.path, openapi)],
        middleware=[Middleware(AccessMiddleware, options)],
        exception_handlers={404: _no_route, 405: _no_method},
    )
    app.router.redirect_slashes = False
    return app


class _Endpoint:
    """An operation as an ASGI application.

    For a function, `Route` would create another request and wrap every message of the response.
    """

    def __init__(
        self,
        operation: Operation,
        handler: Handler,
        options: ApiOptions,
        idempotency: IdempotencyCache,
    ) -> None:
        self._operation, self._handler = operation, handler
        self._options, self._idempotency = options, idempotency

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(ApiRequest(scope, self._options, receive))
        await response(scope, receive, send)

    async def _answer(self, request: ApiRequest) -> ASGIApp:
        try:
            if self._operation.body is not None:
                await request.read()
            if self._operation.is_idempotent:
                response = await self._idempotency.run_once(request, self._handler)
            else:
                response = await self._handler(request)
        except BodyTooLarge as error:
            message = f"the body is larger than {self._options.max_body_bytes} bytes"
            refusal = ApiError(413, message, code="request_too_large", headers=CLOSE)
            return EarlyResponse(error_response(refusal), error, request.receive_soon)
        except Exception as error:  # noqa: BLE001 - the client gets a response in any case
            response = error_response(error)
        if not isinstance(response, EventStream):
            await request.stop_watching()
        return response


async def _no_route(request: Request, _error: Exception) -> Response:
    path = request.scope["path"]
    known = any(getattr(each, "path", "") == f"/v1{path}" for each in request.app.routes)
    hint = "; the address of this API ends with /v1" if known else ""
    return error_response(not_found(f"there is nothing at {path[:200]}{hint}"))


async def _no_method(request: Request, _error: Exception) -> Response:
    allowed = {
        method
        for route in request.app.routes
        if route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods - {"HEAD"}
    }
    message = f"{request.method} is not possible here"
    headers = {"Allow": ", ".join(sorted(allowed))}
    return error_response(ApiError(405, message, code="method_not_allowed", headers=headers))


class OpenApiDocument(msgspec.Struct, frozen=True):
    openapi: str
    info: Json
    paths: Json


OPENAPI = Operation("GET", "/openapi.json", OpenApiDocument)
TEXTS = Path(__file__).with_name("openapi.json")
"""Texts of the OpenAPI document: about the API, its errors, request headers and operations."""


def openapi_document(operations: Iterable[Operation]) -> Json:
    listed = (*operations, OPENAPI)
    types = [ErrorBody, *(kind for each in listed for kind in (each.body, each.result) if kind)]
    unique = list({id(kind): kind for kind in types}.values())
    made, components = msgspec.json.schema_components(
        unique, ref_template="#/components/schemas/{name}"
    )
    schemas = {id(kind): schema for kind, schema in zip(unique, made, strict=True)}
    texts: Json = msgspec.json.decode(TEXTS.read_bytes())
    paths: Json = {}
    for each in listed:
        needs_key = each.path not in PUBLIC_PATHS
        described = _describe(each, schemas, texts, needs_key=needs_key)
        paths.setdefault(each.path, {})[each.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {**texts["info"], "version": __version__},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"bearer": texts["bearer"]}},
    }


def _describe(
    operation: Operation, schemas: Mapping[int, Json], texts: Json, *, needs_key: bool
) -> Json:
    statuses = {400, 403, 500, *operation.errors}
    if operation.body is not None:
        statuses |= {408, 413, 415}
    if operation.is_idempotent:
        statuses.add(422)
    if "{" in operation.path:
        statuses.add(404)
    if needs_key:
        statuses.add(401)
    content = {JSON: {"schema": schemas[id(operation.result)]}} if operation.result else {}
    if operation.media_type:
        content[operation.media_type] = {"schema": {"type": "string"}}
    responses: Json = {str(operation.status): {"description": "Success", "content": content}}
    error = {JSON: {"schema": schemas[id(ErrorBody)]}}
    for status in sorted(statuses):
        description = texts["errors"][str(status)]
        responses[str(status)] = {"description": description, "content": error}
    described: Json = {
        **texts["operations"][f"{operation.method} {operation.path}"],
        "responses": responses,
        "security": [{"bearer": []}] if needs_key else [],
    }
    text = {"type": "string", "minLength": 1}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": text}
        for name in re.findall(r"\{(\w+)\}", operation.path)
    ]
    parameters += [
        {"name": name, "in": "header", "required": False, **texts["headers"][name]}
        for name in operation.headers
    ]
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        body = {JSON: {"schema": schemas[id(operation.body)]}}
        described["requestBody"] = {"required": True, "content": body}
    return described


class HealthStatus(msgspec.Struct, frozen=True):
    status: Literal["ok"] = "ok"


class Readiness(msgspec.Struct, frozen=True):
    status: Literal["ready", "not_ready"] = "ready"
    problems: list[str] = []
    """The parts that do not work, such as `store` or `platform:telegram`. The reasons are in
    /health/detailed, because this operation needs no key."""


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

    @operation("GET /health", HealthStatus)
    @operation("GET /v1/health", HealthStatus)
    async def health(self, _request: ApiRequest) -> Response:
        return json_response(HealthStatus())

    @operation("GET /ready", Readiness, errors=(503,))
    async def ready(self, _request: ApiRequest) -> Response:
        """Say whether requests can be answered now; `health` says only that the process runs."""
        state = self._status() if self._status else {}
        found = [each["part"] for each in state.get("problems", ())]
        if not found:
            return json_response(Readiness())
        return json_response(Readiness("not_ready", found), 503)

    @operation("GET /health/detailed", DetailedHealth)
    async def detailed(self, _request: ApiRequest) -> Response:
        return json_response(
            DetailedHealth(
                __version__,
                self._model_name,
                round(self._clock.monotonic() - self._started_at, 3),
                self._turns.count,
                self._turns.agents.count,
                self._status() if self._status else None,
            )
        )

    @operation("GET /v1/models", ModelList)
    async def models(self, _request: ApiRequest) -> Response:
        return json_response(ModelList([self._card]))

    @operation("GET /v1/models/{model_id}", ModelCard)
    async def model(self, request: ApiRequest) -> Response:
        if request.path_params["model_id"] != self._model_name:
            raise not_found(f"the only model is {self._model_name}", "model_not_found")
        return json_response(self._card)

    @operation("GET /metrics", media_type=METRICS, errors=(404,))
    async def metrics(self, _request: ApiRequest) -> Response:
        if self._metrics is None:
            raise not_found("there are no metrics", "no_metrics")
        return Response(self._metrics(), media_type=METRICS)
