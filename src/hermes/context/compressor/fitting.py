"""Whether a conversation fits the window, and the last resort when nothing made it fit."""

from hermes.context.compressor.prune import with_results_cut, with_short_arguments
from hermes.context.engine import Dicts
from hermes.context.rough import estimate_messages_tokens_rough

LAST_RESORT = (8_000, 3_000, 1_000, 400)
"""Characters to which results are cut, in turn, while the whole does not fit."""


class Fit:
    """Judges what became of a conversation of which the size is known."""

    def __init__(self, estimate: int, current_tokens: int | None, limit: int) -> None:
        """`estimate` is that of the messages as they were, `current_tokens` what their whole
        request really has, if known. Below `limit` a request fits."""
        self._before, self._limit = estimate, limit
        self._current = estimate if current_tokens is None else current_tokens
        self._factor = min(1.0, self._current / estimate) if estimate else 1.0

    def __call__(self, messages: Dicts) -> bool:
        saved = self._before - estimate_messages_tokens_rough(messages)
        return self._current - saved * self._factor < self._limit

    def forced(self, messages: Dicts) -> Dicts:
        """`messages` themselves when they fit, else with the results of tools cut."""
        for chars in LAST_RESORT:
            if self(messages):
                return messages
            messages = with_results_cut(messages, chars)
        return messages if self(messages) else [with_short_arguments(each) for each in messages]
