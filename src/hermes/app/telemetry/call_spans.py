"""The span of a model call: from the request, over retries and fallbacks, to the reply."""

import time

from opentelemetry.trace import Span, SpanKind

from hermes.app.telemetry import attributes as names
from hermes.app.telemetry.scene import Handlers, Scene, end
from hermes.core.events import ModelCalled, TextFinished, UsageReported
from hermes.core.model import FellBack, ReasoningDelta, Retrying, TextDelta


class CallSpans:
    """One at a time."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._span: Span | None = None
        self._text = ""
        self._waiting_since: float | None = None
        """Set until the reply begins."""
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
        self.close(names.NO_REPLY)
        scene = self._scene
        about = {
            names.OPERATION_NAME: names.CHAT,
            names.ITERATION: event.iteration,
            **scene.about_model(),
        }
        self._span = scene.start(f"{names.CHAT} {scene.model}", about, SpanKind.CLIENT)
        self._waiting_since, self._text = time.monotonic(), ""

    def _begun(self, _event: TextDelta | ReasoningDelta) -> None:
        if self._span is not None and self._waiting_since is not None:
            waited = round(time.monotonic() - self._waiting_since, 6)
            self._span.set_attribute(names.TIME_TO_FIRST_CHUNK, waited)
        self._waiting_since = None

    def _retrying(self, event: Retrying) -> None:
        about = {
            names.ATTEMPT: event.attempt,
            names.SECONDS: event.seconds,
            names.ERROR: self._scene.content.safe(event.error),
        }
        self._scene.note(self._span, names.RETRIED, about)

    def _fell_back(self, event: FellBack) -> None:
        self._scene.model, self._scene.provider = event.model, event.provider
        about = {**self._scene.about_model(), names.ERROR: self._scene.content.safe(event.error)}
        self._scene.note(self._span, names.FELL_BACK, about)

    def _said(self, event: TextFinished) -> None:
        self._text = event.text

    def _answered(self, event: UsageReported) -> None:
        if self._span is None:
            return
        known = {
            names.RESPONSE_MODEL: event.model,
            names.PROVIDER_NAME: names.provider_name(event.provider),
            names.FINISH_REASONS: [event.finish_reason] if event.finish_reason else None,
            names.COST_USD: event.cost_usd,
        }
        told = {name: value for name, value in known.items() if value not in (None, "")}
        said = self._scene.content.reply(self._text, event.finish_reason)
        self._span.set_attributes({**names.usage_attributes(event.usage), **told, **said})
        self.close("")
