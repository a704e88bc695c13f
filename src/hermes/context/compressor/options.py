"""What the user may set, and the sizes that follow from it."""

import msgspec

NEAR_WINDOW = 0.85
"""Part of the context length up to which a conversation counts as fitting: the rest is for the
reply and for what estimates get wrong."""
LEAST_SUMMARY, MOST_SUMMARY = 2_000, 12_000
"""Tokens of a summary."""
SUMMARY_SHARE = 0.20
"""Of the tokens it stands for."""
SUMMARY_OF_WINDOW = 0.05
SOFT = 1.5
"""How far the tail may go over its budget."""


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


class Sizes(msgspec.Struct, frozen=True):
    """Budgets in tokens."""

    threshold: int
    tail: int
    summary: int
    """The most a summary may have."""
    facts: int
    """For what is put beside the model's text: user messages, constraints and file paths."""
    request: int
    """For a request of the user that has to be repeated because it lies too far back."""
    fits: int
    """A conversation below this fits the window."""
    least: int
    """Less than this is not worth a summary."""

    @property
    def ceiling(self) -> int:
        return int(self.tail * SOFT)

    def summary_of(self, tokens: int) -> int:
        """For a summary of so many tokens. A cap below the least size wins."""
        return min(max(int(tokens * SUMMARY_SHARE), LEAST_SUMMARY), self.summary)


def sizes_for(context_length: int, options: CompressionOptions) -> Sizes:
    threshold = int(context_length * options.threshold)
    tail = int(threshold * min(max(options.target_ratio, 0.10), 0.80))
    summary = min(int(context_length * SUMMARY_OF_WINDOW), MOST_SUMMARY)
    return Sizes(
        threshold=threshold,
        tail=tail,
        summary=summary,
        # A small window gets more than its share: without the task there is nothing to go on with.
        facts=max(summary // 2, min(1_500, context_length // 8)),
        request=max(tail, context_length // 8),
        fits=int(context_length * NEAR_WINDOW),
        least=min(500, context_length // 16),
    )
