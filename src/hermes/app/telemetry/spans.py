"""Spans made of the events of an agent: one for each turn, and under it one for each model call,
tool call and compaction."""

from typing import Self

from opentelemetry.context import Context
from opentelemetry.trace import Tracer

from hermes.app.telemetry import attributes as names
from hermes.app.telemetry.call_spans import CallSpans
from hermes.app.telemetry.compaction_spans import CompactionSpans
from hermes.app.telemetry.scene import Content, Handlers, Scene, end, under
from hermes.app.telemetry.tool_spans import ToolSpans
from hermes.core.events import (
    CompactionStarted,
    Event,
    ModelCalled,
    TurnFinished,
    TurnStarted,
)


class SpanObserver:
    """The `Observer` of one agent; that of a subagent has the one of its parent."""

    def __init__(self, tracer: Tracer, content: Content, parent: Self | None = None) -> None:
        self._parent = parent
        scene = self._scene = Scene(tracer, content)
        self._calls, self._tools = CallSpans(scene), ToolSpans(scene)
        self._compactions = CompactionSpans(scene)
        self._handlers: Handlers = {
            TurnStarted: self._started,
            TurnFinished: self._finished,
            **self._calls.handlers,
            **self._tools.handlers,
            **self._compactions.handlers,
        }

    def see(self, event: Event) -> None:
        """Events without a handler leave no trace."""
        if isinstance(event, CompactionStarted):  # the call was refused as too long
            self._calls.close(names.NO_REPLY)
        elif isinstance(event, ModelCalled):
            self._compactions.close("")
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def abandon(self) -> None:
        """Nothing more of the turn will be seen: whatever is open ends as an error."""
        self._end_children()
        end(self._scene.turn, names.UNFINISHED)
        self._scene.turn = None

    @property
    def context(self) -> Context:
        """Where a subagent's turns belong: to the delegation that runs, or else to the turn."""
        return under(self._tools.delegation or self._scene.turn)

    def _started(self, event: TurnStarted) -> None:
        self.abandon()
        scene = self._scene
        scene.session, scene.model, scene.provider = event.session_id, event.model, event.provider
        about = {
            names.OPERATION_NAME: names.INVOKE_AGENT,
            names.AGENT_NAME: names.AGENT,
            names.CONVERSATION_ID: event.session_id,
            **scene.about_model(),
        }
        where = Context() if self._parent is None else self._parent.context
        name = f"{names.INVOKE_AGENT} {names.AGENT}"
        scene.turn = scene.tracer.start_span(name, where, attributes=about)

    def _finished(self, event: TurnFinished) -> None:
        self._end_children()
        turn, content = self._scene.turn, self._scene.content
        if turn is None:
            return
        cost = {} if event.cost_usd is None else {names.COST_USD: event.cost_usd}
        about = {
            names.EXIT_REASON: event.exit_reason,
            names.API_CALLS: event.api_calls,
            **names.usage_attributes(event.usage),
            **content.reply(event.text, event.exit_reason),
            **cost,
        }
        turn.set_attributes(about)
        end(turn, event.exit_reason if event.failed else "", content.safe(event.error))
        self._scene.turn = None

    def _end_children(self) -> None:
        for spans in (self._calls, self._tools, self._compactions):
            spans.close(names.UNFINISHED)
