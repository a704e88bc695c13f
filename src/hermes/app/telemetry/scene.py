"""What all spans of one agent have in common: its turn, its session, its model."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context

from hermes.app.telemetry import attributes as names
from hermes.util.text import clean, cut_middle

LONGEST = 32_000
"""Characters of a text on a span."""

Values = dict[str, Any]
Handlers = dict[type, Callable[[Any], None]]
"""What is done with an event, by its type."""


class Content(msgspec.Struct, frozen=True):
    """What may be told of what was said."""

    redact: Callable[[str], str]
    """Takes secrets out."""
    capture: bool = False

    def safe(self, text: str) -> str:
        """Fit to leave this machine. A lone surrogate would cost the whole batch of spans."""
        return cut_middle(clean(self.redact(text)), LONGEST)

    def told(self, name: str, text: str) -> Values:
        """`text` by the name of its attribute when content may be told, else nothing."""
        return {name: self.safe(text)} if self.capture else {}

    def reply(self, text: str, reason: str) -> Values:
        """The same for what the model said, in the form the conventions have for messages."""
        if not self.capture:
            return {}
        parts = [{"type": "text", "content": self.safe(text)}] if text else []
        message = {"role": "assistant", "parts": parts, "finish_reason": reason}
        return {names.OUTPUT_MESSAGES: json.dumps([message], ensure_ascii=False)}


class Scene:
    """Where a span belongs. The parts of an observer share it."""

    def __init__(self, tracer: Tracer, content: Content) -> None:
        self.tracer, self.content = tracer, content
        self.turn: Span | None = None
        self.session = self.model = self.provider = ""

    def start(
        self,
        name: str,
        about: Values,
        kind: SpanKind = SpanKind.INTERNAL,
        began: int | None = None,
    ) -> Span:
        """A new span of the turn, or one by itself when there is none. `began` is in
        nanoseconds."""
        session = {names.CONVERSATION_ID: self.session} if self.session else {}
        return self.tracer.start_span(
            name, under(self.turn), kind, attributes={**session, **about}, start_time=began
        )

    def note(self, span: Span | None, name: str, about: Values) -> None:
        """An event on `span`, or on the turn when there is no such span."""
        on = span or self.turn
        if on is not None:
            on.add_event(name, about)

    def about_model(self) -> Values:
        return {
            names.REQUEST_MODEL: self.model,
            names.PROVIDER_NAME: names.provider_name(self.provider),
        }


def under(span: Span | None) -> Context:
    """The context of a child of `span`; without one, that of a span with no parent."""
    return Context() if span is None else set_span_in_context(span, Context())


def end(span: Span | None, error: str = "", text: str = "") -> None:
    """End the span, if there is one; `error` is its `error.type`, empty when all went well."""
    if span is None:
        return
    if error:
        span.set_attribute(names.ERROR_TYPE, error)
        span.set_status(StatusCode.ERROR, text or error)
    span.end()
