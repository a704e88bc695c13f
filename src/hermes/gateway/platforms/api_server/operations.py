"""Operations of the API: declared at their handlers, described as an OpenAPI document."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

from hermes import __version__
from hermes.gateway.platforms.api_server.errors import ErrorBody
from hermes.gateway.platforms.api_server.http import JSON, SESSION_HEADER, ApiReply, ApiRequest
from hermes.gateway.platforms.api_server.idempotency import KEY_HEADER, MAX_KEY_CHARS

Json = dict[str, Any]
Handler = Callable[[ApiRequest], Awaitable[ApiReply]]
F = TypeVar("F", bound=Callable[..., Awaitable[ApiReply]])

_ATTRIBUTE = "__api_operations__"
EVENT_HEADER = "Last-Event-ID"
EVENT_STREAM = "text/event-stream"
TURN_ERRORS = (404, 409, 429, 502, 503)  #: Statuses of operations that run a turn.

ERRORS = {
    400: "The request is invalid, or asks for something impossible.",
    401: "The key is missing or wrong.",
    403: "Without a key, only programs on this machine and configured web pages have access.",
    404: "It does not exist.",
    408: "The request was not complete in time.",
    409: "A turn is already running in this session.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "This Idempotency-Key was used for another request.",
    429: "The budget is spent, or the model gets too many requests.",
    500: "The server has an error.",
    502: "The model failed.",
    503: "The server is overloaded, is stopping, or lacks a component.",
}
HEADERS: dict[str, Json] = {
    KEY_HEADER: {
        "description": "A request that was sent with it in the last five minutes gets the same"
        " answer and does not run again.",
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS},
    },
    SESSION_HEADER: {
        "description": "Continue this session: only the last message is used.",
        "schema": {"type": "string"},
    },
    EVENT_HEADER: {
        "description": "The last event that was received; later ones are sent.",
        "schema": {"type": "integer", "minimum": 0, "maximum": 999_999_999},
    },
}


async def _undeclared(_request: ApiRequest) -> ApiReply:
    raise NotImplementedError("the operation belongs to no endpoint")


class Operation(msgspec.Struct, frozen=True):
    method: str
    path: str
    name: str
    summary: str
    result: Any = None  #: The type of the JSON of a successful response; None if it is not JSON.
    status: int = 200
    errors: tuple[int, ...] = ()
    body: Any = None  #: The type of the JSON body of the request.
    headers: tuple[str, ...] = ()  #: Headers that the operation reads.
    media_type: str = ""  #: Another media type that the response may have.
    handler: Handler = _undeclared

    @property
    def is_idempotent(self) -> bool:
        """Whether a request that is repeated with the same key runs only once."""
        return KEY_HEADER in self.headers


def operation(method: str, path: str, name: str, summary: str, **more: Any) -> Callable[[F], F]:
    """Declare the decorated handler as an operation; `more` are fields of `Operation`."""

    def declare(handler: F) -> F:
        others = getattr(handler, _ATTRIBUTE, ())
        setattr(handler, _ATTRIBUTE, (Operation(method, path, name, summary, **more), *others))
        return handler

    return declare


def operations_of(endpoint: object) -> Iterator[Operation]:
    """Yield the operations of an object, in the order of their declaration."""
    for name, function in vars(type(endpoint)).items():
        for declared in getattr(function, _ATTRIBUTE, ()):
            yield msgspec.structs.replace(declared, handler=getattr(endpoint, name))


def openapi_document(
    operations: Iterable[Operation], public: frozenset[str], *, has_key: bool
) -> Json:
    """Return the OpenAPI document; paths in `public` need no key."""
    listed = tuple(operations)
    types = [ErrorBody, *(kind for each in listed for kind in (each.body, each.result) if kind)]
    unique = list({id(kind): kind for kind in types}.values())
    made, components = msgspec.json.schema_components(
        unique, ref_template="#/components/schemas/{name}"
    )
    schemas = {id(kind): schema for kind, schema in zip(unique, made, strict=True)}
    paths: Json = {}
    for each in listed:
        needs_key = has_key and each.path not in public
        described = _describe(each, schemas, needs_key=needs_key)
        paths.setdefault(each.path, {})[each.method.lower()] = described
    bearer = {"type": "http", "scheme": "bearer", "description": "API_SERVER_KEY"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hermes API server",
            "version": __version__,
            "description": "Fields of OpenAI's API that are not listed here are ignored: the agent"
            " has its own model, tools and limits.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"bearer": bearer}},
    }


def _describe(operation: Operation, schemas: Mapping[int, Json], *, needs_key: bool) -> Json:
    statuses = {400, 403, 500, *operation.errors}
    if operation.body is not None:
        statuses |= {408, 413, 415}
    if operation.is_idempotent:
        statuses.add(422)
    if needs_key:
        statuses.add(401)
    content = {JSON: {"schema": schemas[id(operation.result)]}} if operation.result else {}
    if operation.media_type:
        content[operation.media_type] = {"schema": {"type": "string"}}
    responses: Json = {str(operation.status): {"description": "Success", "content": content}}
    error = {JSON: {"schema": schemas[id(ErrorBody)]}}
    for status in sorted(statuses):
        description = ERRORS.get(status, HTTPStatus(status).phrase)
        responses[str(status)] = {"description": description, "content": error}
    described: Json = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": responses,
        "security": [{"bearer": []}] if needs_key else [],
    }
    text = {"type": "string", "minLength": 1}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": text}
        for name in re.findall(r"\{(\w+)\}", operation.path)
    ]
    parameters += [
        {"name": name, "in": "header", "required": False, **HEADERS[name]}
        for name in operation.headers
    ]
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        body = {JSON: {"schema": schemas[id(operation.body)]}}
        described["requestBody"] = {"required": True, "content": body}
    return described
