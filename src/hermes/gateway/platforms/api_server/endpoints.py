"""Everything the server answers, put together."""

from collections.abc import Callable
from typing import Any

import msgspec

from hermes.app.app import App
from hermes.core.ports import Scheduler
from hermes.gateway.platforms.api_server.about import (
    METRICS,
    About,
    DetailedHealth,
    Health,
    ModelCard,
    ModelList,
)
from hermes.gateway.platforms.api_server.chat.endpoint import ChatCompletions
from hermes.gateway.platforms.api_server.chat.wire import ChatCompletion, ChatRequest
from hermes.gateway.platforms.api_server.exchange import Reply, Request
from hermes.gateway.platforms.api_server.jobs import JobList, JobRecord, Jobs, JobWanted
from hermes.gateway.platforms.api_server.openapi import TURN, document
from hermes.gateway.platforms.api_server.operations import Answer, Operation, Routes
from hermes.gateway.platforms.api_server.options import Options
from hermes.gateway.platforms.api_server.responses.endpoint import ResponsesEndpoint
from hermes.gateway.platforms.api_server.responses.wire import (
    ResponseDeleted,
    ResponseObject,
    ResponseRequest,
)
from hermes.gateway.platforms.api_server.runs import RunBegun, RunRequest, Runs, RunStopped
from hermes.gateway.platforms.api_server.turns import Turns

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
