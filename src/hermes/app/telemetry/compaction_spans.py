"""The span of a compaction."""

import time

from opentelemetry.trace import Span

from hermes.app.telemetry import attributes as names
from hermes.app.telemetry.scene import Handlers, Scene, Values, end
from hermes.core.events import Compacted, CompactionStarted


class CompactionSpans:
    """One at a time."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._span: Span | None = None
        self.handlers: Handlers = {CompactionStarted: self._started, Compacted: self._done}

    def close(self, error: str) -> None:
        """End one that brought nothing: with `error` when the turn ended over it, else because
        the conversation goes on as it was."""
        if self._span is not None:
            self._span.set_attribute(names.COMPACTED, False)
        end(self._span, error)
        self._span = None

    def _started(self, event: CompactionStarted) -> None:
        self.close("")
        about = {names.TOKENS_BEFORE: event.tokens, names.COMPACTION_THRESHOLD: event.threshold}
        self._span = self._scene.start(names.COMPACT, about)

    def _done(self, event: Compacted) -> None:
        """One that was not seen starting was made beside the conversation."""
        began = time.time_ns() - int(event.seconds * 1e9)
        span = self._span or self._scene.start(names.COMPACT, {}, began=began)
        about: Values = {
            names.COMPACTED: True,
            names.MESSAGES_BEFORE: event.messages_before,
            names.MESSAGES_AFTER: event.messages_after,
            names.TOKENS_BEFORE: event.tokens_before,
            names.TOKENS_AFTER: event.tokens_after,
            names.SUMMARY_MODEL: event.summary_model,
            names.SECONDS: event.seconds,
        }
        span.set_attributes(about)
        end(span)
        self._span, self._scene.session = None, event.session_id
