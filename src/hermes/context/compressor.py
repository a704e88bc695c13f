"""The built-in context engine."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hermes.context.engine import BuiltinEngine, Dicts, SummaryModel

NEAR_WINDOW = 0.85
"""Part of the context length up to which a conversation fits. The rest is for the reply and for
errors of the estimate."""
LEAST_SUMMARY, MOST_SUMMARY = 2_000, 12_000  #: Tokens of a summary.
SUMMARY_SHARE = 0.20  #: Part of the tokens that the summary replaces.
SUMMARY_OF_WINDOW = 0.05
SOFT = 1.5  #: Factor by which the tail may exceed its budget.


class CompressionOptions(msgspec.Struct, frozen=True):
    """The settings `compression.*`."""

    threshold: float = 0.50
    """`compression.threshold`: part of the context length from which to compact."""
    target_ratio: float = 0.20
    """`compression.target_ratio`: part of the threshold kept at the end; 0.10 to 0.80."""
    protect_last_n: int = 20
    """`compression.protect_last_n`: messages kept at the end when they are small enough."""
    protect_first_n: int = 3
    """Messages kept at the start: the system prompt and the first exchange. Not a setting."""


class CompressionSizes(msgspec.Struct, frozen=True):
    """Budgets in tokens."""

    threshold: int
    tail: int
    summary: int  #: The most a summary may have.
    facts: int
    """For facts that are added to the model's text: user messages, rules and file paths."""
    request: int  #: For a user request that has to be repeated because it is too far back.
    fits: int  #: A smaller conversation fits the context.
    least: int  #: A smaller part is not worth a summary.

    @property
    def ceiling(self) -> int:
        return int(self.tail * SOFT)

    def summary_of(self, tokens: int) -> int:
        """Return the tokens for a summary of `tokens`. The maximum wins over the minimum."""
        return min(max(int(tokens * SUMMARY_SHARE), LEAST_SUMMARY), self.summary)


def compute_sizes(context_length: int, options: CompressionOptions) -> CompressionSizes:
    threshold = int(context_length * options.threshold)
    tail = int(threshold * min(max(options.target_ratio, 0.10), 0.80))  # scripts may give any
    summary = min(int(context_length * SUMMARY_OF_WINDOW), MOST_SUMMARY)
    return CompressionSizes(
        threshold=threshold,
        tail=tail,
        summary=summary,
        # A small context gets more than its share: without the task the model cannot continue.
        facts=max(summary // 2, min(1_500, context_length // 8)),
        request=max(tail, context_length // 8),
        fits=int(context_length * NEAR_WINDOW),
        least=min(500, context_length // 16),
    )


class ContextCompressor(BuiltinEngine):
    """Prunes, keeps the head and the tail, and puts notes in the place of the rest.

    The notes come from the first summariser that writes usable ones. While none does, models are
    left alone for a while; the conversation is then kept pruned, or, if that does not fit the
    window, its middle is listed without a model. `compress` has changed nothing when it raises.
    """

    def __init__(
        self,
        context_length: int,
        options: CompressionOptions = CompressionOptions(),  # noqa: B008 - frozen
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options, self._clock = options, clock
        self.protect_first_n, self.protect_last_n = options.protect_first_n, options.protect_last_n
        self._summarisers: Sequence[SummaryModel] = ()
        self._paused_until = 0.0
        self._model = ""
        self.context_length = context_length
        self._measure()

    def _measure(self) -> None:
        self._sizes = compute_sizes(self.context_length, self._options)
        self.threshold_tokens = self._sizes.threshold
        self.tail_token_budget = self._sizes.tail
        self.max_summary_tokens = self._sizes.summary

    @property
    def name(self) -> str:
        return "compressor"

    def on_session_start(self, session_id: str, **kw: Any) -> None:  # noqa: ARG002 - any session
        if (summarisers := kw.get("summarisers")) is not None:
            self._summarisers = summarisers
        # After a compaction the window may be known to be smaller than the model's list says.
        window = None if kw.get("parent_session_id") else kw.get("context_length")
        if window:
            self.context_length = window
            self._measure()

    def on_session_reset(self) -> None:
        super().on_session_reset()
        self.summary_model = ""
        self._paused_until = 0.0

    def update_model(self, model: str, context_length: int, **_kw: Any) -> None:
        """A new model may be on another provider, so the pause after failures ends."""
        self.context_length = context_length
        self._measure()
        if model and model != self._model:
            self._model, self._paused_until = model, 0.0

    @property
    def rest(self) -> float:
        """Seconds for which no model is asked, after failures."""
        return max(0.0, self._paused_until - self._clock())

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        near = max(self.threshold_tokens, self._sizes.fits) if self.rest else self.threshold_tokens
        return tokens >= near > 0

    def compress(
        self, messages: Dicts, current_tokens: int | None = None, focus_topic: str = ""
    ) -> Dicts:
        """See `ContextEngine.compress`. `current_tokens` is the size of the whole request, if that
        is known better than by an estimate of the messages."""
        # Loaded with the first compaction: most conversations never need it.
        from hermes.context.compression import CompressionPlan, compress

        resting = bool(self.rest)
        plan = CompressionPlan(
            self._sizes,
            self._options,
            self.context_length,
            current_tokens,
            focus_topic,
            None if resting else self._summarisers,
        )
        made = compress(messages, plan)
        if made.rest and not resting:
            self._paused_until = self._clock() + made.rest
        self.compression_count += made.replaced
        self.summary_model = made.model
        return made.messages
