"""Spans of the events of an agent, exported to an OTLP/HTTP collector.

Attributes `gen_ai.*` follow the OpenTelemetry semantic conventions for generative AI, version 1.41;
`hermes.*` are our own. Texts of a conversation are added only with `capture_content`.
"""

import json
import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Self, assert_never

import msgspec
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context

from hermes.sdk import clean, cut_middle
from hermes.sdk.telemetry import (
    ApprovalAnswered,
    ApprovalAsked,
    Compacted,
    CompactionStarted,
    Event,
    FellBack,
    ModelCalled,
    Observer,
    ReasoningDelta,
    Retrying,
    SubagentFinished,
    SubagentStarted,
    Telemetry,
    TelemetryOptions,
    TextDelta,
    TextFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Usage,
    UsageReported,
    __version__,
)

SCOPE = AGENT = "hermes"
LONGEST = 32_000  #: Characters of a text on a span.
DELEGATE = "delegate_task"

Values = dict[str, Any]

# Values of `error.type`.
TOOL_FAILED = "tool_failed"
NO_REPLY = "no_reply"
UNFINISHED = "unfinished"

_PROVIDERS = {
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google-gemini-cli": "gcp.gemini",
    "kimi-coding": "moonshot_ai",
    "kimi-coding-cn": "moonshot_ai",
    "mistral": "mistral_ai",
    "openai-codex": "openai",
    "xai": "x_ai",
}
"""The names that the conventions have for providers, where they differ from ours."""


class SpanContent(msgspec.Struct, frozen=True):
    """Decides which texts may be put on a span."""

    redact: Callable[[str], str]  #: Removes secrets.
    capture: bool = False

    def safe(self, text: str) -> str:
        """Return `text` without secrets. A lone surrogate would cost the whole batch of spans."""
        return cut_middle(clean(self.redact(text)), LONGEST)

    def captured(self, name: str, text: str) -> Values:
        """Return the attribute `name` if content is captured, else nothing."""
        return {name: self.safe(text)} if self.capture else {}

    def reply(self, text: str, reason: str) -> Values:
        """Return the reply of the model in the form that the conventions have for messages."""
        parts = [{"type": "text", "content": self.safe(text)}] if text else []
        message = {"role": "assistant", "parts": parts, "finish_reason": reason}
        encoded = json.dumps([message], ensure_ascii=False)
        return {"gen_ai.output.messages": encoded} if self.capture else {}


def usage_attributes(usage: Usage) -> Values:
    """By the conventions, the input tokens include those read from and written to a cache."""
    return {
        "gen_ai.usage.input_tokens": usage.prompt,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
    }


def under(span: Span | None) -> Context:
    """Return the context for a child of `span`, or for a span without a parent."""
    return Context() if span is None else set_span_in_context(span, Context())


def end(span: Span | None, error: str = "", text: str = "") -> None:
    """End the span, if there is one; `error` is its `error.type`, "" on success."""
    if span is None:
        return
    if error:
        span.set_attribute("error.type", error)
        span.set_status(StatusCode.ERROR, text or error)
    span.end()


class SpanObserver:
    """The `Observer` of one agent: a span for each turn, and under it one for each model call, tool
    call and compaction. The observer of a subagent has the one of its parent."""

    def __init__(self, tracer: Tracer, content: SpanContent, parent: Self | None = None) -> None:
        self._tracer, self._content, self._parent = tracer, content, parent
        self._turn: Span | None = None
        self._call: Span | None = None
        self._compaction: Span | None = None
        # By the id of the call, which repeats within a session but not within a reply.
        self._tools: dict[str, Span] = {}
        self._delegations: set[str] = set()
        self._session = self._model = self._provider = self._text = ""
        self._waiting_since: float | None = None  #: Set until the reply begins.

    def see(self, event: Event) -> None:
        match event:
            case TurnStarted() | TurnFinished():
                self._see_turn(event)
            case ToolStarted() | ToolFinished():
                self._see_tool(event)
            case CompactionStarted() | Compacted():
                self._see_compaction(event)
            case ApprovalAsked() | ApprovalAnswered() | SubagentStarted() | SubagentFinished():
                self._note_on_tool(event)
            case _:
                self._see_call(event)

    def abandon(self) -> None:
        """End all open spans as errors: no more events of the turn will come."""
        self._end_children()
        end(self._turn, UNFINISHED)
        self._turn = None

    @property
    def context(self) -> Context:
        """The parent of a subagent's turns: the only running delegation, else the turn."""
        running = [self._tools[call_id] for call_id in self._delegations]
        return under(running[0] if len(running) == 1 else self._turn)

    def _start(
        self, name: str, about: Values, kind: SpanKind = SpanKind.INTERNAL, began: int | None = None
    ) -> Span:
        """Start a span of the turn. `began` is in nanoseconds."""
        session = {"gen_ai.conversation.id": self._session} if self._session else {}
        return self._tracer.start_span(
            name, under(self._turn), kind, attributes={**session, **about}, start_time=began
        )

    def _note(self, span: Span | None, name: str, about: Values) -> None:
        """Add an event to `span`, or to the turn without one."""
        on = span or self._turn
        if on is not None:
            on.add_event(name, about)

    def _about_model(self) -> Values:
        provider = _PROVIDERS.get(self._provider, self._provider)
        return {"gen_ai.request.model": self._model, "gen_ai.provider.name": provider}

    def _end_children(self) -> None:
        self._end_call(UNFINISHED)
        for span in self._tools.values():
            end(span, UNFINISHED)
        self._tools.clear()
        self._delegations.clear()
        self._end_compaction(UNFINISHED)

    def _see_turn(self, event: TurnStarted | TurnFinished) -> None:
        if isinstance(event, TurnStarted):
            self.abandon()
            self._session, self._model = event.session_id, event.model
            self._provider = event.provider
            about: Values = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": AGENT,
                "gen_ai.conversation.id": event.session_id,
                **self._about_model(),
            }
            where = Context() if self._parent is None else self._parent.context
            self._turn = self._tracer.start_span(f"invoke_agent {AGENT}", where, attributes=about)
            return
        self._end_children()
        if self._turn is None:
            return
        about = {
            "hermes.exit_reason": event.exit_reason,
            "hermes.api_calls": event.api_calls,
            **usage_attributes(event.usage),
            **self._content.reply(event.text, event.exit_reason),
            **({} if event.cost_usd is None else {"hermes.cost_usd": event.cost_usd}),
        }
        self._turn.set_attributes(about)
        failed = event.exit_reason if event.failed else ""
        end(self._turn, failed, self._content.safe(event.error))
        self._turn = None

    def _see_call(self, event: Event) -> None:
        """Follow a model call from the request, over retries and fallbacks, to the reply."""
        match event:
            case ModelCalled():
                self._end_compaction("")
                self._end_call(NO_REPLY)
                about = {"gen_ai.operation.name": "chat", "hermes.iteration": event.iteration}
                about |= self._about_model()
                self._call = self._start(f"chat {self._model}", about, SpanKind.CLIENT)
                self._waiting_since, self._text = time.monotonic(), ""
            case TextDelta() | ReasoningDelta():
                if self._call is not None and self._waiting_since is not None:
                    waited = round(time.monotonic() - self._waiting_since, 6)
                    self._call.set_attribute("gen_ai.response.time_to_first_chunk", waited)
                self._waiting_since = None
            case Retrying():
                about = {"hermes.attempt": event.attempt, "hermes.seconds": event.seconds}
                about["hermes.error"] = self._content.safe(event.error)
                self._note(self._call, "hermes.retry", about)
            case FellBack():
                self._model, self._provider = event.model, event.provider
                about = {**self._about_model(), "hermes.error": self._content.safe(event.error)}
                self._note(self._call, "hermes.fallback", about)
            case TextFinished():
                self._text = event.text
            case UsageReported() if self._call is not None:
                known: Values = {
                    "gen_ai.response.model": event.model,
                    "gen_ai.provider.name": _PROVIDERS.get(event.provider, event.provider),
                    "gen_ai.response.finish_reasons": [event.finish_reason]
                    if event.finish_reason
                    else None,
                    "hermes.cost_usd": event.cost_usd,
                }
                reported = {name: value for name, value in known.items() if value not in (None, "")}
                said = self._content.reply(self._text, event.finish_reason)
                self._call.set_attributes({**usage_attributes(event.usage), **reported, **said})
                self._end_call("")
            case _:
                pass  # other events leave no trace

    def _end_call(self, error: str) -> None:
        end(self._call, error)
        self._call = self._waiting_since = None

    def _see_compaction(self, event: CompactionStarted | Compacted) -> None:
        if isinstance(event, CompactionStarted):
            self._end_call(NO_REPLY)  # the call was refused as too long
            self._end_compaction("")
            about = {
                "hermes.compaction.tokens_before": event.tokens,
                "hermes.compaction.threshold": event.threshold,
            }
            self._compaction = self._start("hermes.compact", about)
            return
        # A compaction without a start was made in the background.
        began = time.time_ns() - int(event.seconds * 1e9)
        span = self._compaction or self._start("hermes.compact", {}, began=began)
        span.set_attributes(
            {
                "hermes.compaction.done": True,
                "hermes.compaction.messages_before": event.messages_before,
                "hermes.compaction.messages_after": event.messages_after,
                "hermes.compaction.tokens_before": event.tokens_before,
                "hermes.compaction.tokens_after": event.tokens_after,
                "hermes.compaction.summary_model": event.summary_model,
                "hermes.seconds": event.seconds,
            }
        )
        end(span)
        self._compaction, self._session = None, event.session_id

    def _end_compaction(self, error: str) -> None:
        """End a compaction that changed nothing."""
        if self._compaction is not None:
            self._compaction.set_attribute("hermes.compaction.done", False)
        end(self._compaction, error)
        self._compaction = None

    def _see_tool(self, event: ToolStarted | ToolFinished) -> None:
        if isinstance(event, ToolFinished):
            span = self._take_tool(event.call_id)
            if span is not None:
                result = self._content.captured("gen_ai.tool.call.result", event.result)
                span.set_attributes(result)
            end(span, TOOL_FAILED if event.failed else "")
            return
        call, name = event.call, self._content.safe(event.call.name)
        end(self._take_tool(call.id), UNFINISHED)
        about = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.id,
            **self._content.captured("gen_ai.tool.call.arguments", call.arguments),
        }
        self._tools[call.id] = self._start(f"execute_tool {name}", about)
        if call.name == DELEGATE:
            self._delegations.add(call.id)

    def _take_tool(self, call_id: str) -> Span | None:
        self._delegations.discard(call_id)
        return self._tools.pop(call_id, None)

    def _note_on_tool(
        self, event: ApprovalAsked | ApprovalAnswered | SubagentStarted | SubagentFinished
    ) -> None:
        content, about = self._content, dict[str, Any]()
        match event:
            case ApprovalAsked():
                name = "hermes.approval.asked"
                about = {"hermes.approval.reason": content.safe(event.reason)}
                about |= content.captured("hermes.approval.subject", event.subject)
            case ApprovalAnswered():
                name, about = "hermes.approval.answered", {"hermes.approval.answer": event.answer}
            case SubagentStarted():
                name = "hermes.subagent.started"
                about = {
                    "hermes.subagent.number": event.child,
                    "hermes.subagent.session_id": event.session_id,
                    **content.captured("hermes.subagent.goal", event.goal),
                }
            case SubagentFinished():
                name = "hermes.subagent.finished"
                about = {
                    "hermes.subagent.number": event.child,
                    "hermes.subagent.status": event.status,
                    "hermes.seconds": event.seconds,
                    "hermes.api_calls": event.api_calls,
                }
            case _:
                assert_never(event)
        self._note(self._tools.get(event.call_id), name, about)


log = logging.getLogger(__name__)

TRACES = "/v1/traces"
EXPORT_SECONDS = 5.0  #: For one batch, with all its tries.
CLOSE_SECONDS = 2.0


class QuietExporter(SpanExporter):
    """Logs once that the collector is not reachable, and once that it is again."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._failing = self._closed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        failed = result is not SpanExportResult.SUCCESS
        if self._closed:
            return result
        if failed and not self._failing:
            log.warning("telemetry.endpoint takes no spans: they are dropped until it does")
        elif self._failing and not failed:
            log.info("telemetry.endpoint takes spans again")
        self._failing = failed
        return result

    def shutdown(self) -> None:
        self._closed = True
        self._inner.shutdown()


class OtlpTelemetry(Telemetry):
    """Exports the spans of a process."""

    def __init__(self, options: TelemetryOptions, redact: Callable[[str], str]) -> None:
        # Its loggers write an error, or a traceback, for each batch that finds no collector.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._exporter = QuietExporter(
            OTLPSpanExporter(
                address(options.endpoint), headers=options.headers, timeout=EXPORT_SECONDS
            )
        )
        about = {"service.name": options.service_name, "service.version": __version__}
        # Not at exit: that would wait for a collector as long as half a minute.
        self._provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer(SCOPE, __version__)
        self._content = SpanContent(redact, options.capture_content)
        self._observers: weakref.WeakSet[SpanObserver] = weakref.WeakSet()

    def observer(self, parent: Observer | None = None) -> Observer:
        known = parent if isinstance(parent, SpanObserver) else None
        observer = SpanObserver(self._tracer, self._content, known)
        self._observers.add(observer)
        return observer

    def close(self) -> None:
        for observer in tuple(self._observers):
            observer.abandon()
        # The provider waits too long for a user who ends a program.
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)
        if closing.is_alive():
            self._exporter.shutdown()
            log.warning("telemetry.endpoint did not take the last spans in time: they are lost")


def address(endpoint: str) -> str:
    """Return the URL for traces; `endpoint` may be that URL or the collector."""
    base = endpoint.rstrip("/")
    return base if base.endswith(TRACES) else base + TRACES


def start(options: TelemetryOptions, redact: Callable[[str], str]) -> Telemetry:
    """Start the exporter; called once per process, when `telemetry.enabled` is on."""
    return OtlpTelemetry(options, redact)
