"""The spans of a process on their way to an OTLP/HTTP collector."""

import logging
import threading
import weakref
from collections.abc import Callable, Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from hermes import __version__
from hermes.app.telemetry.attributes import SCOPE
from hermes.app.telemetry.exporting import TelemetryOptions
from hermes.app.telemetry.scene import Content
from hermes.app.telemetry.spans import SpanObserver
from hermes.core.ports import Observer

log = logging.getLogger(__name__)

TRACES = "/v1/traces"
EXPORT_SECONDS = 5.0
"""For one batch, with all its tries."""
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
        self._content = Content(redact, options.capture_content)
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
