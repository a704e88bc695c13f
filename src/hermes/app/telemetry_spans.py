"""Every name that is put on a span, in one place.

`gen_ai.*` follows the OpenTelemetry semantic conventions for generative AI, as they stood in
version 1.41; `hermes.*` is our own.
"""

import json
import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Self

import msgspec
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context

from hermes import __version__
from hermes.app.telemetry import TelemetryOptions
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Compacted,
    CompactionStarted,
    Event,
    ModelCalled,
    SubagentFinished,
    SubagentStarted,
    TextFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    UsageReported,
)
from hermes.core.model import FellBack, ReasoningDelta, Retrying, TextDelta, Usage
from hermes.core.ports import Observer
from hermes.util.text import clean, cut_middle

SCOPE = "hermes"
AGENT = "hermes"

# Operations, which are also the beginnings of span names.
INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
COMPACT = "hermes.compact"

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
ERROR_TYPE = "error.type"

# What was said and done: only with `capture_content`.
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
APPROVAL_SUBJECT = "hermes.approval.subject"
SUBAGENT_GOAL = "hermes.subagent.goal"

ITERATION = "hermes.iteration"
API_CALLS = "hermes.api_calls"
COST_USD = "hermes.cost_usd"
EXIT_REASON = "hermes.exit_reason"
SECONDS = "hermes.seconds"
ATTEMPT = "hermes.attempt"
ERROR = "hermes.error"
APPROVAL_REASON = "hermes.approval.reason"
APPROVAL_ANSWER = "hermes.approval.answer"
SUBAGENT = "hermes.subagent.number"
SUBAGENT_SESSION = "hermes.subagent.session_id"
SUBAGENT_STATUS = "hermes.subagent.status"
COMPACTED = "hermes.compaction.done"
COMPACTION_THRESHOLD = "hermes.compaction.threshold"
MESSAGES_BEFORE = "hermes.compaction.messages_before"
MESSAGES_AFTER = "hermes.compaction.messages_after"
TOKENS_BEFORE = "hermes.compaction.tokens_before"
TOKENS_AFTER = "hermes.compaction.tokens_after"
SUMMARY_MODEL = "hermes.compaction.summary_model"

# Events within a span.
RETRIED = "hermes.retry"
FELL_BACK = "hermes.fallback"
APPROVAL_ASKED = "hermes.approval.asked"
APPROVAL_ANSWERED = "hermes.approval.answered"
SUBAGENT_STARTED = "hermes.subagent.started"
SUBAGENT_FINISHED = "hermes.subagent.finished"

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


def provider_name(provider: str) -> str:
    """The name the conventions have for a provider, or its own."""
    return _PROVIDERS.get(provider, provider)


def usage_attributes(usage: Usage) -> dict[str, int]:
    """By the conventions, the input tokens hold what was read from and written to a cache."""
    return {
        INPUT_TOKENS: usage.prompt,
        OUTPUT_TOKENS: usage.output,
        CACHE_READ_TOKENS: usage.cache_read,
        CACHE_WRITE_TOKENS: usage.cache_write,
        REASONING_TOKENS: usage.reasoning,
    }


# What all spans of one agent have in common: its turn, its session, its model.

LONGEST = 32_000  #: Characters of a text on a span.

Values = dict[str, Any]
Handlers = dict[type, Callable[[Any], None]]  #: What is done with an event, by its type.


class SpanContent(msgspec.Struct, frozen=True):
    """What may be told of what was said."""

    redact: Callable[[str], str]  #: Takes secrets out.
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
        return {OUTPUT_MESSAGES: json.dumps([message], ensure_ascii=False)}


class SpanFactory:
    """Where a span belongs. The parts of an observer share it."""

    def __init__(self, tracer: Tracer, content: SpanContent) -> None:
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
        session = {CONVERSATION_ID: self.session} if self.session else {}
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
            REQUEST_MODEL: self.model,
            PROVIDER_NAME: provider_name(self.provider),
        }


def under(span: Span | None) -> Context:
    """The context of a child of `span`; without one, that of a span with no parent."""
    return Context() if span is None else set_span_in_context(span, Context())


def end(span: Span | None, error: str = "", text: str = "") -> None:
    """End the span, if there is one; `error` is its `error.type`, empty when all went well."""
    if span is None:
        return
    if error:
        span.set_attribute(ERROR_TYPE, error)
        span.set_status(StatusCode.ERROR, text or error)
    span.end()


# The span of a model call: from the request, over retries and fallbacks, to the reply.


class CallSpans:
    """One at a time."""

    def __init__(self, scene: SpanFactory) -> None:
        self._scene = scene
        self._span: Span | None = None
        self._text = ""
        self._waiting_since: float | None = None  #: Set until the reply begins.
        self.handlers: Handlers = {
            ModelCalled: self._called,
            TextDelta: self._begun,
            ReasoningDelta: self._begun,
            Retrying: self._retrying,
            FellBack: self._fell_back,
            TextFinished: self._said,
            UsageReported: self._answered,
        }

    def close(self, error: str) -> None:
        """End a call that got no reply."""
        end(self._span, error)
        self._span = self._waiting_since = None

    def _called(self, event: ModelCalled) -> None:
        self.close(NO_REPLY)
        scene = self._scene
        about = {
            OPERATION_NAME: CHAT,
            ITERATION: event.iteration,
            **scene.about_model(),
        }
        self._span = scene.start(f"{CHAT} {scene.model}", about, SpanKind.CLIENT)
        self._waiting_since, self._text = time.monotonic(), ""

    def _begun(self, _event: TextDelta | ReasoningDelta) -> None:
        if self._span is not None and self._waiting_since is not None:
            waited = round(time.monotonic() - self._waiting_since, 6)
            self._span.set_attribute(TIME_TO_FIRST_CHUNK, waited)
        self._waiting_since = None

    def _retrying(self, event: Retrying) -> None:
        about = {
            ATTEMPT: event.attempt,
            SECONDS: event.seconds,
            ERROR: self._scene.content.safe(event.error),
        }
        self._scene.note(self._span, RETRIED, about)

    def _fell_back(self, event: FellBack) -> None:
        self._scene.model, self._scene.provider = event.model, event.provider
        about = {**self._scene.about_model(), ERROR: self._scene.content.safe(event.error)}
        self._scene.note(self._span, FELL_BACK, about)

    def _said(self, event: TextFinished) -> None:
        self._text = event.text

    def _answered(self, event: UsageReported) -> None:
        if self._span is None:
            return
        known = {
            RESPONSE_MODEL: event.model,
            PROVIDER_NAME: provider_name(event.provider),
            FINISH_REASONS: [event.finish_reason] if event.finish_reason else None,
            COST_USD: event.cost_usd,
        }
        told = {name: value for name, value in known.items() if value not in (None, "")}
        said = self._scene.content.reply(self._text, event.finish_reason)
        self._span.set_attributes({**usage_attributes(event.usage), **told, **said})
        self.close("")


# The span of a compaction.


class CompactionSpans:
    """One at a time."""

    def __init__(self, scene: SpanFactory) -> None:
        self._scene = scene
        self._span: Span | None = None
        self.handlers: Handlers = {CompactionStarted: self._started, Compacted: self._done}

    def close(self, error: str) -> None:
        """End one that brought nothing: with `error` when the turn ended over it, else because
        the conversation goes on as it was."""
        if self._span is not None:
            self._span.set_attribute(COMPACTED, False)
        end(self._span, error)
        self._span = None

    def _started(self, event: CompactionStarted) -> None:
        self.close("")
        about = {TOKENS_BEFORE: event.tokens, COMPACTION_THRESHOLD: event.threshold}
        self._span = self._scene.start(COMPACT, about)

    def _done(self, event: Compacted) -> None:
        """One that was not seen starting was made beside the conversation."""
        began = time.time_ns() - int(event.seconds * 1e9)
        span = self._span or self._scene.start(COMPACT, {}, began=began)
        about: Values = {
            COMPACTED: True,
            MESSAGES_BEFORE: event.messages_before,
            MESSAGES_AFTER: event.messages_after,
            TOKENS_BEFORE: event.tokens_before,
            TOKENS_AFTER: event.tokens_after,
            SUMMARY_MODEL: event.summary_model,
            SECONDS: event.seconds,
        }
        span.set_attributes(about)
        end(span)
        self._span, self._scene.session = None, event.session_id


# The spans of tool calls, side by side, with what was asked and started on their way.

DELEGATE = "delegate_task"


class ToolSpans:
    """By the id of the call, which repeats within a session but not within a reply."""

    def __init__(self, scene: SpanFactory) -> None:
        self._scene = scene
        self._open: dict[str, Span] = {}
        self._delegations: set[str] = set()
        self.handlers: Handlers = {
            ToolStarted: self._started,
            ToolFinished: self._finished,
            ApprovalAsked: self._asked,
            ApprovalAnswered: self._answered,
            SubagentStarted: self._child_started,
            SubagentFinished: self._child_finished,
        }

    @property
    def delegation(self) -> Span | None:
        """The call subagents work for, when there can be no doubt."""
        running = [self._open[call_id] for call_id in self._delegations]
        return running[0] if len(running) == 1 else None

    def close(self, error: str) -> None:
        """End the calls that never finished."""
        for span in self._open.values():
            end(span, error)
        self._open.clear()
        self._delegations.clear()

    def _started(self, event: ToolStarted) -> None:
        call, content = event.call, self._scene.content
        name = content.safe(call.name)
        end(self._take(call.id), UNFINISHED)
        about = {
            OPERATION_NAME: EXECUTE_TOOL,
            TOOL_NAME: name,
            TOOL_TYPE: "function",
            TOOL_CALL_ID: call.id,
            **content.told(TOOL_ARGUMENTS, call.arguments),
        }
        self._open[call.id] = self._scene.start(f"{EXECUTE_TOOL} {name}", about)
        if call.name == DELEGATE:
            self._delegations.add(call.id)

    def _finished(self, event: ToolFinished) -> None:
        span = self._take(event.call_id)
        if span is not None:
            span.set_attributes(self._scene.content.told(TOOL_RESULT, event.result))
        end(span, TOOL_FAILED if event.failed else "")

    def _take(self, call_id: str) -> Span | None:
        self._delegations.discard(call_id)
        return self._open.pop(call_id, None)

    def _asked(self, event: ApprovalAsked) -> None:
        content = self._scene.content
        about = {APPROVAL_REASON: content.safe(event.reason)}
        about |= content.told(APPROVAL_SUBJECT, event.subject)
        self._scene.note(self._open.get(event.call_id), APPROVAL_ASKED, about)

    def _answered(self, event: ApprovalAnswered) -> None:
        about = {APPROVAL_ANSWER: event.answer}
        self._scene.note(self._open.get(event.call_id), APPROVAL_ANSWERED, about)

    def _child_started(self, event: SubagentStarted) -> None:
        about = {
            SUBAGENT: event.child,
            SUBAGENT_SESSION: event.session_id,
            **self._scene.content.told(SUBAGENT_GOAL, event.goal),
        }
        self._scene.note(self._open.get(event.call_id), SUBAGENT_STARTED, about)

    def _child_finished(self, event: SubagentFinished) -> None:
        about = {
            SUBAGENT: event.child,
            SUBAGENT_STATUS: event.status,
            SECONDS: event.seconds,
            API_CALLS: event.api_calls,
        }
        self._scene.note(self._open.get(event.call_id), SUBAGENT_FINISHED, about)


# Spans made of the events of an agent: one for each turn, and under it one for each model call,
# tool call and compaction.


class SpanObserver:
    """The `Observer` of one agent; that of a subagent has the one of its parent."""

    def __init__(self, tracer: Tracer, content: SpanContent, parent: Self | None = None) -> None:
        self._parent = parent
        scene = self._scene = SpanFactory(tracer, content)
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
            self._calls.close(NO_REPLY)
        elif isinstance(event, ModelCalled):
            self._compactions.close("")
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def abandon(self) -> None:
        """Nothing more of the turn will be seen: whatever is open ends as an error."""
        self._end_children()
        end(self._scene.turn, UNFINISHED)
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
            OPERATION_NAME: INVOKE_AGENT,
            AGENT_NAME: AGENT,
            CONVERSATION_ID: event.session_id,
            **scene.about_model(),
        }
        where = Context() if self._parent is None else self._parent.context
        name = f"{INVOKE_AGENT} {AGENT}"
        scene.turn = scene.tracer.start_span(name, where, attributes=about)

    def _finished(self, event: TurnFinished) -> None:
        self._end_children()
        turn, content = self._scene.turn, self._scene.content
        if turn is None:
            return
        cost = {} if event.cost_usd is None else {COST_USD: event.cost_usd}
        about = {
            EXIT_REASON: event.exit_reason,
            API_CALLS: event.api_calls,
            **usage_attributes(event.usage),
            **content.reply(event.text, event.exit_reason),
            **cost,
        }
        turn.set_attributes(about)
        end(turn, event.exit_reason if event.failed else "", content.safe(event.error))
        self._scene.turn = None

    def _end_children(self) -> None:
        for spans in (self._calls, self._tools, self._compactions):
            spans.close(UNFINISHED)


# The spans of a process on their way to an OTLP/HTTP collector.

log = logging.getLogger(__name__)

TRACES = "/v1/traces"
EXPORT_SECONDS = 5.0  #: For one batch, with all its tries.
CLOSE_SECONDS = 2.0


class QuietExporter(SpanExporter):
    """Tells the log once that the collector is not there, and once that it is again."""

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


class OtlpTelemetry:
    """See `exporting.Telemetry`."""

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
        # The provider waits longer than anybody who ends a program would.
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)
        if closing.is_alive():
            self._exporter.shutdown()
            log.warning("telemetry.endpoint did not take the last spans in time: they are lost")


def address(endpoint: str) -> str:
    """Where traces go: `endpoint` may be the collector, or already the place for traces."""
    base = endpoint.rstrip("/")
    return base if base.endswith(TRACES) else base + TRACES
