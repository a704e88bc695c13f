"""The OpenAPI document: the table of operations, written down."""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec

from hermes import __version__
from hermes.gateway.platforms.api_server.exchange import JSON
from hermes.gateway.platforms.api_server.idempotency import LONGEST_KEY
from hermes.gateway.platforms.api_server.operations import STREAM, Answer, Operation
from hermes.gateway.platforms.api_server.refusals import ErrorAnswer

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
"""What a turn adds."""

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
    """`keyed`: the server has a key."""
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
