"""The ASGI application: access control, the table of operations, and the OpenAPI document."""

import hmac
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from hermes import __version__
from hermes.app.app import App
from hermes.core.errors import HermesError
from hermes.core.ports import Clock, Scheduler
from hermes.gateway.platforms.api_server.chat import ChatCompletions
from hermes.gateway.platforms.api_server.http import (
    ANY,
    JSON,
    OUR_FAULT,
    ErrorAnswer,
    Exchange,
    Headers,
    Options,
    Refused,
    Reply,
    Request,
    Scope,
    Send,
    answered,
    missing,
    refusal_of,
)
from hermes.gateway.platforms.api_server.reading import ChatCompletion, ChatRequest
from hermes.gateway.platforms.api_server.responses import (
    ResponseDeleted,
    ResponseObject,
    ResponseRequest,
    ResponsesEndpoint,
)
from hermes.gateway.platforms.api_server.runs import (
    LONGEST_KEY,
    Handler,
    Idempotency,
    JobList,
    JobRecord,
    Jobs,
    JobWanted,
    RunBegun,
    RunRequest,
    Runs,
    RunStopped,
)
from hermes.gateway.platforms.api_server.turns import Turns
from hermes.gateway.platforms.kit.http_server import AsgiReceive
from hermes.util.hosts import is_loopback

# Without a key, every program on this machine may use the API, but a browser on this machine acts
# for any web page. So the requested address must be a loopback one (a DNS name that points here is
# not), and a page must be one of the configured origins.

MAX_AGE = "600"
METHODS = "GET, POST, PATCH, DELETE, OPTIONS"
USUAL_HEADERS = "authorization, content-type, idempotency-key, x-hermes-session-id"
EXPOSED = "X-Hermes-Session-Id, Idempotent-Replayed"
SAFE: Headers = (("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"))
"""Headers of every response."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::[0-9]{1,5})?", re.ASCII)
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~ ,-]{1,2000}", re.ASCII)
_ELSEWHERE = ("cross-site", "same-site")


class Door:
    def __init__(self, options: Options) -> None:
        self._key = options.key.encode()
        self._origins = frozenset(options.origins)

    def check(self, headers: Mapping[str, str], *, public: bool = False) -> None:
        """Check access. Raises `Refused`. A `public` operation needs no key."""
        if not self._key:
            self._check_local(headers)
        elif not public and not self._has_key(headers.get("authorization", "")):
            raise Refused(
                401,
                "this needs the key of the server, as `Authorization: Bearer KEY`",
                code="invalid_api_key",
                headers=(("WWW-Authenticate", "Bearer"),),
            )

    def _has_key(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        # Headers were decoded as Latin-1; compare the bytes as they were sent.
        same = hmac.compare_digest(given.strip(" ").encode("latin-1"), self._key)
        return same and scheme.lower() == "bearer"

    def _check_local(self, headers: Mapping[str, str]) -> None:
        if not is_local(headers.get("host", "")):
            raise Refused(
                403,
                "without API_SERVER_KEY only requests to 127.0.0.1 or localhost are answered",
                code="host_not_allowed",
            )
        origin = headers.get("origin", "")
        elsewhere = not origin and headers.get("sec-fetch-site", "") in _ELSEWHERE
        if elsewhere or (origin and not self._allows(origin)):
            raise Refused(
                403,
                "web pages may not use this; API_SERVER_CORS_ORIGINS names those that may",
                code="origin_not_allowed",
            )

    def _allows(self, origin: str) -> bool:
        return ANY in self._origins or origin.lower() in self._origins

    def shared(self, headers: Mapping[str, str]) -> Headers:
        """Return the headers of every response to this request."""
        if not self._origins:
            return SAFE
        origin = headers.get("origin", "")
        if not origin or not self._allows(origin):
            return (*SAFE, ("Vary", "Origin"))
        allowed = ("Access-Control-Allow-Origin", ANY if ANY in self._origins else origin)
        return (*SAFE, ("Vary", "Origin"), allowed, ("Access-Control-Expose-Headers", EXPOSED))

    def preflight(self, headers: Mapping[str, str]) -> Headers | None:
        """Return the headers for a CORS preflight; None if it is not one, or not allowed."""
        origin = headers.get("origin", "")
        if "access-control-request-method" not in headers or not self._allows(origin):
            return None
        asked = headers.get("access-control-request-headers", "")
        names = asked if _HEADER_NAMES.fullmatch(asked) else USUAL_HEADERS
        fields: Headers = (
            ("Access-Control-Allow-Methods", METHODS),
            ("Access-Control-Allow-Headers", names),
            ("Access-Control-Max-Age", MAX_AGE),
        )
        if headers.get("access-control-request-private-network") == "true":
            fields = (*fields, ("Access-Control-Allow-Private-Network", "true"))
        return fields


def is_local(host: str) -> bool:
    """Return whether a Host header names this machine by a loopback address."""
    found = _HOST.fullmatch(host.lower())
    return found is not None and is_loopback(found[1])


STREAM = "text/event-stream"


class Answer(msgspec.Struct, frozen=True):
    """A response that an operation may give."""

    says: str
    kind: Any = None
    """The type of its JSON; None if it has none."""
    stream: bool = False
    """True if it may be an event stream instead."""
    text: str = ""
    """The media type if it is not JSON."""


class Operation(msgspec.Struct, frozen=True):
    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    answers: Mapping[int, Answer]
    """Responses for success; error statuses are in `refuses`."""
    refuses: tuple[int, ...] = ()
    takes: Any = None
    """The type of the JSON body."""
    headers: tuple[str, ...] = ()
    """Headers that the operation reads."""
    public: bool = False
    """True if it needs no key."""

    @property
    def once(self) -> bool:
        """Whether a repeated request runs only once."""
        return "Idempotency-Key" in self.headers


class Routes:
    def __init__(self, operations: tuple[Operation, ...]) -> None:
        self.operations = operations
        self._exact: dict[str, dict[str, Operation]] = {}
        self._patterns: list[tuple[re.Pattern[str], dict[str, Operation]]] = []
        places: dict[str, dict[str, Operation]] = {}
        for operation in operations:
            places.setdefault(operation.path, {})[operation.method] = operation
        for path, methods in places.items():
            if "{" in path:
                pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)
                self._patterns.append((re.compile(pattern), methods))
            else:
                self._exact[path] = methods

    def find(self, method: str, path: str) -> tuple[Operation, dict[str, str]]:
        """Return the operation for a request. Raises `Refused` if there is none."""
        methods, given = self._place(path)
        operation = methods.get("GET" if method == "HEAD" else method)
        if operation is None:
            allowed = (("Allow", ", ".join(sorted(methods))),)
            message = f"{method} is not possible here"
            raise Refused(405, message, code="method_not_allowed", headers=allowed)
        return operation, given

    def _place(self, path: str) -> tuple[dict[str, Operation], dict[str, str]]:
        """Split a path. A trailing slash is ignored, because clients join paths in different
        ways."""
        plain = path.rstrip("/")
        if plain in self._exact:
            return self._exact[plain], {}
        for pattern, methods in self._patterns:
            if found := pattern.fullmatch(plain):
                return methods, found.groupdict()
        hint = "; the address of this API ends with /v1" if f"/v1{plain}" in self._exact else ""
        raise missing(f"there is nothing at {path[:200]}{hint}")


logger = logging.getLogger(__name__)


class Application:
    """The ASGI application of the server."""

    def __init__(self, options: Options, routes: Routes, idempotency: Idempotency) -> None:
        self._options, self._routes, self._idempotency = options, routes, idempotency
        self._door = Door(options)

    async def __call__(self, scope: Scope, receive: AsgiReceive, send: Send) -> None:
        headers = _headers(scope["headers"])
        exchange = Exchange(receive, send, self._options, self._door.shared(headers))
        try:
            reply = await self._reply(scope, headers, exchange)
        except HermesError as error:
            reply = refused(refusal_of(error))
        except Exception:  # the client gets a response even if the server is at fault
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
            self._door.check(
                headers, public=public
            )  # unauthenticated clients do not learn which paths exist
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
    """Return the headers by name. A repeated header keeps both values, so that a second key is
    never overlooked."""
    headers: dict[str, str] = {}
    for name, value in pairs:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _check_kind(headers: dict[str, str]) -> None:
    kind = headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON and not kind.endswith("+json"):
        raise Refused(415, f"the body must be {JSON}, not {kind[:100]}", code="unsupported_media")


Json = dict[str, Any]

REFUSALS = {
    400: "The request cannot be understood, or asks for what cannot be.",
    401: "The key is missing or wrong.",
    403: "Without a key, only programs on this machine and the web pages that were named may.",
    404: "It is not there.",
    408: "The request did not come to its end in time.",
    409: "A turn is already running in this session.",
    413: "The body is too large.",
    415: "The body is no JSON.",
    422: "This Idempotency-Key was used for another request.",
    429: "The budget is spent, or the model is asked too often.",
    500: "Something is wrong here.",
    502: "The model failed.",
    503: "Not now: too much is going on, the server stops, or a part of it is missing.",
}
ALWAYS = (400, 403, 500)
WITH_BODY = (408, 413, 415)
TURN = (429, 502, 503)
"""Statuses that a turn adds."""

HEADERS: dict[str, Json] = {
    "Idempotency-Key": {
        "description": "A request that was sent with it before, in the last five minutes, gets the"
        " same answer and does not run again.",
        "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY},
    },
    "X-Hermes-Session-Id": {
        "description": "Go on with this session: only the last message is used.",
        "schema": {"type": "string"},
    },
    "Last-Event-ID": {
        "description": "The last event that was seen; those behind it are sent.",
        "schema": {"type": "integer", "minimum": 0, "maximum": 999_999_999},
    },
}


def document(operations: Iterable[Operation], *, keyed: bool) -> Json:
    """Return the OpenAPI document for the operations; `keyed` if the server has a key."""
    listed = tuple(operations)
    kinds = [ErrorAnswer, *filter(None, map(_taken, listed)), *_answered(listed)]
    unique = list({id(kind): kind for kind in kinds}.values())
    made, components = msgspec.json.schema_components(
        unique, ref_template="#/components/schemas/{name}"
    )
    schemas = {id(kind): schema for kind, schema in zip(unique, made, strict=True)}
    paths: Json = {}
    for operation in listed:
        described = _described(operation, schemas, keyed=keyed)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    bearer = {"type": "http", "scheme": "bearer", "description": "API_SERVER_KEY"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hermes API server",
            "version": __version__,
            "description": "What OpenAI's API takes and is not written here is ignored: the agent"
            " has its own model, tools and limits.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"bearer": bearer}},
    }


def _taken(operation: Operation) -> Any:
    return operation.takes


def _answered(operations: Iterable[Operation]) -> list[Any]:
    return [a.kind for o in operations for a in o.answers.values() if a.kind is not None]


def _described(operation: Operation, schemas: dict[int, Json], *, keyed: bool) -> Json:
    statuses = {*ALWAYS, *operation.refuses}
    if operation.takes is not None:
        statuses |= set(WITH_BODY)
    if operation.once:
        statuses.add(422)
    if keyed and not operation.public:
        statuses.add(401)
    answers = {str(s): _answer(a, schemas) for s, a in operation.answers.items()}
    error = schemas[id(ErrorAnswer)]
    answers |= {str(s): _refusal(s, error) for s in sorted(statuses)}
    described: Json = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": answers,
        "security": [{"bearer": []}] if keyed and not operation.public else [],
    }
    if parameters := _parameters(operation):
        described["parameters"] = parameters
    if operation.takes is not None:
        content = {JSON: {"schema": schemas[id(operation.takes)]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _answer(answer: Answer, schemas: dict[int, Json]) -> Json:
    content: Json = {}
    if answer.kind is not None:
        content[JSON] = {"schema": schemas[id(answer.kind)]}
    if answer.stream:
        content[STREAM] = {"schema": {"type": "string"}}
    if answer.text:
        content[answer.text] = {"schema": {"type": "string"}}
    return {"description": answer.says, "content": content}


def _refusal(status: int, error: Json) -> Json:
    says = REFUSALS.get(status, HTTPStatus(status).phrase)
    return {"description": says, "content": {JSON: {"schema": error}}}


def _parameters(operation: Operation) -> list[Json]:
    names = re.findall(r"\{(\w+)\}", operation.path)
    one = {"type": "string", "minLength": 1}
    places = [{"name": name, "in": "path", "required": True, "schema": one} for name in names]
    headers = [
        {"name": name, "in": "header", "required": False, **HEADERS[name]}
        for name in operation.headers
    ]
    return [*places, *headers]


METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Health(msgspec.Struct, frozen=True):
    status: Literal["ok"] = "ok"


class DetailedHealth(msgspec.Struct, frozen=True):
    version: str
    model: str
    uptime_seconds: float
    turns_running: int
    agents_ready: int
    """Sessions whose agent is open."""
    gateway: dict[str, Any] | None = None
    """State of the platforms of the gateway."""
    status: Literal["ok"] = "ok"


class ModelCard(msgspec.Struct, frozen=True):
    id: str
    created: int
    object: Literal["model"] = "model"
    owned_by: str = "hermes"


class ModelList(msgspec.Struct, frozen=True):
    data: list[ModelCard]
    object: Literal["list"] = "list"


class About:
    def __init__(
        self,
        turns: Turns,
        clock: Clock,
        model_name: str,
        status: Callable[[], dict[str, Any]] | None,
        metrics: Callable[[], bytes] | None,
    ) -> None:
        self._turns, self._clock, self._model_name = turns, clock, model_name
        self._status, self._metrics = status, metrics
        self._began = clock.monotonic()
        self._card = ModelCard(model_name, int(clock.now().timestamp()))

    async def health(self, _request: Request) -> Reply:
        return answered(Health())

    async def detailed(self, _request: Request) -> Reply:
        return answered(
            DetailedHealth(
                __version__,
                self._model_name,
                round(self._clock.monotonic() - self._began, 3),
                self._turns.count,
                self._turns.live.count,
                self._status() if self._status else None,
            )
        )

    async def models(self, _request: Request) -> Reply:
        return answered(ModelList([self._card]))

    async def model(self, request: Request) -> Reply:
        if request.places["model_id"] != self._model_name:
            raise missing(f"the only model is {self._model_name}", "model_not_found")
        return answered(self._card)

    async def metrics(self, _request: Request) -> Reply:
        if self._metrics is None:
            raise missing("there are no metrics", "no_metrics")
        return Reply(self._metrics(), kind=METRICS)


ONCE = "Idempotency-Key"
SESSION = "X-Hermes-Session-Id"


class Document(msgspec.Struct, frozen=True):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]


class Endpoints:
    def __init__(
        self,
        app: App,
        turns: Turns,
        options: Options,
        scheduler: Scheduler | None,
        status: Callable[[], dict[str, Any]] | None,
        metrics: Callable[[], bytes] | None,
    ) -> None:
        def now() -> float:
            return app.clock.now().timestamp()

        name = options.model_name
        self._keyed = bool(options.key)
        about = About(turns, app.clock, name, status, metrics)
        chat = ChatCompletions(turns, name, now)
        responses = ResponsesEndpoint(turns, app.store, name, now)
        self.routes = Routes(
            (
                *_about(about),
                *_talking(chat, responses),
                *_running(Runs(turns)),
                *_jobs(Jobs(scheduler, turns.backend)),
                Operation(
                    "GET",
                    "/openapi.json",
                    "openapi",
                    "This document",
                    self._document,
                    {200: Answer("OpenAPI 3.1", Document)},
                ),
            )
        )
        self._written = b""

    async def _document(self, _request: Request) -> Reply:
        if not self._written:
            made = document(self.routes.operations, keyed=self._keyed)
            self._written = msgspec.json.encode(made)
        return Reply(self._written)


def _about(about: About) -> tuple[Operation, ...]:
    ok = {200: Answer("It works", Health)}
    cards = {200: Answer("The one there is", ModelList)}
    detailed = {200: Answer("What goes on", DetailedHealth)}
    metrics = {200: Answer("For Prometheus", text=METRICS)}
    seen = about.health
    return (
        Operation("GET", "/health", "health", "Whether it works", seen, ok, public=True),
        Operation("GET", "/v1/health", "v1_health", "The same", seen, ok, public=True),
        Operation(
            "GET", "/health/detailed", "health_detailed", "What goes on", about.detailed, detailed
        ),
        Operation("GET", "/v1/models", "models", "The models", about.models, cards),
        Operation(
            "GET",
            "/v1/models/{model_id}",
            "model",
            "A model",
            about.model,
            {200: Answer("What is known of it", ModelCard)},
            (404,),
        ),
        Operation("GET", "/metrics", "metrics", "Figures", about.metrics, metrics, (404,)),
    )


def _talking(chat: ChatCompletions, responses: ResponsesEndpoint) -> tuple[Operation, ...]:
    place = "/v1/responses/{response_id}"
    return (
        Operation(
            "POST",
            "/v1/chat/completions",
            "chat_completion",
            "Answer a conversation",
            chat.create,
            {200: Answer("The answer", ChatCompletion, stream=True)},
            (404, 409, *TURN),
            ChatRequest,
            (ONCE, SESSION),
        ),
        Operation(
            "POST",
            "/v1/responses",
            "response",
            "Answer, and keep the conversation",
            responses.create,
            {200: Answer("The answer", ResponseObject, stream=True)},
            (404, 409, *TURN),
            ResponseRequest,
            (ONCE,),
        ),
        Operation(
            "GET",
            place,
            "stored_response",
            "An answer that was kept",
            responses.get,
            {200: Answer("As it was given", ResponseObject)},
            (404,),
        ),
        Operation(
            "DELETE",
            place,
            "delete_response",
            "Forget an answer",
            responses.delete,
            {200: Answer("It is forgotten", ResponseDeleted)},
            (404,),
        ),
    )


def _running(runs: Runs) -> tuple[Operation, ...]:
    return (
        Operation(
            "POST",
            "/v1/runs",
            "run",
            "Begin a turn that goes on by itself",
            runs.create,
            {202: Answer("It runs", RunBegun)},
            (404, 409, *TURN),
            RunRequest,
            (ONCE,),
        ),
        Operation(
            "GET",
            "/v1/runs/{run_id}/events",
            "run_events",
            "Everything that happens in it, from the beginning",
            runs.events,
            {200: Answer("Events until it is over", stream=True)},
            (404,),
            headers=("Last-Event-ID",),
        ),
        Operation(
            "POST",
            "/v1/runs/{run_id}/stop",
            "stop_run",
            "Stop it",
            runs.stop,
            {200: Answer("It stops", RunStopped)},
            (404,),
        ),
    )


def _jobs(jobs: Jobs) -> tuple[Operation, ...]:
    place = "/api/jobs/{job_id}"
    one = {200: Answer("The job", JobRecord)}
    listed = {200: Answer("All of them", JobList)}
    made = {201: Answer("The new job", JobRecord)}
    refuses = (404, 503)
    verbs = (
        ("pause", "Let it rest", jobs.pause),
        ("resume", "Go on with its schedule", jobs.resume),
        ("run", "Run it soon, beside its schedule", jobs.run),
    )
    return (
        Operation("GET", "/api/jobs", "jobs", "Scheduled jobs", jobs.listed, listed, (503,)),
        Operation(
            "POST",
            "/api/jobs",
            "new_job",
            "Make a job",
            jobs.create,
            made,
            (503,),
            JobWanted,
            (ONCE,),
        ),
        Operation("GET", place, "job", "A job", jobs.get, one, refuses),
        Operation(
            "PATCH", place, "change_job", "Change a job", jobs.update, one, refuses, JobWanted
        ),
        Operation("DELETE", place, "delete_job", "Remove a job", jobs.remove, one, refuses),
        *[
            Operation("POST", f"{place}/{verb}", f"{verb}_job", says, handler, one, refuses)
            for verb, says, handler in verbs
        ],
    )
