"""A collector on this machine that takes spans over OTLP/HTTP, as a real one does."""

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from hermes.core.testing.http_server import LoopbackServer, Outgoing, RecordedRequest


class Seen(NamedTuple):
    """A span as the collector got it."""

    name: str
    id: bytes
    parent: bytes
    trace: bytes
    kind: int
    error: str | None
    """The message of an error status; None when there was no error."""
    attributes: dict[str, Any]
    events: dict[str, dict[str, Any]]
    start: int
    end: int


class Collector:
    def __init__(self) -> None:
        self.requests: list[RecordedRequest] = []
        self.status = 200
        self.pause = 0.0
        self.got_one = threading.Event()
        self._server = LoopbackServer(self._answer)
        self.endpoint = f"http://127.0.0.1:{self._server.port}"

    def close(self) -> None:
        self._server.close()

    def _answer(self, request: RecordedRequest) -> Outgoing:
        self.requests.append(request)
        self.got_one.set()
        actions = (self.pause, b"late") if self.pause else (b"",)
        return Outgoing(self.status, {"Content-Type": "application/x-protobuf"}, actions)

    @property
    def spans(self) -> list[Seen]:
        """In the order in which they ended."""
        return [
            seen(span)
            for request in self.requests
            for resource in ExportTraceServiceRequest.FromString(request.raw).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def resource(self) -> dict[str, Any]:
        [first, *_] = ExportTraceServiceRequest.FromString(self.requests[0].raw).resource_spans
        return values(first.resource.attributes)

    def named(self, name: str) -> Seen:
        [found] = [span for span in self.spans if span.name == name]
        return found


def seen(span: Any) -> Seen:
    return Seen(
        span.name,
        span.span_id,
        span.parent_span_id,
        span.trace_id,
        span.kind,
        span.status.message if span.status.code == 2 else None,
        values(span.attributes),
        {event.name: values(event.attributes) for event in span.events},
        span.start_time_unix_nano,
        span.end_time_unix_nano,
    )


def values(attributes: Any) -> dict[str, Any]:
    return {each.key: value_of(each.value) for each in attributes}


def value_of(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(each) for each in value.array_value.values]
    return getattr(value, kind)


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()
