"""What can be set of the engine."""

import msgspec

from hermes.context.compressor.options import CompressionOptions, Sizes, sizes_for


class LcmOptions(msgspec.Struct, frozen=True):
    threshold: float = 0.50
    """Part of the context window that may be used before compacting (`compression.threshold`)."""
    target_ratio: float = 0.20
    """Part of the threshold kept word for word at the end (`compression.target_ratio`)."""
    protect_last_n: int = 20
    """Newest messages that stay, unless they are far too long (`compression.protect_last_n`)."""
    protect_first_n: int = 3
    """Oldest messages that stay: the system prompt and the first exchange."""
    notes_share: float = 0.05
    """Part of the context window that all notes together may take."""
    notes_tokens: int = 12_000
    """The same in tokens; the smaller one counts."""
    leaf_tokens: int = 20_000
    """Tokens of messages one note stands for; a longer stretch gets several."""
    page_chars: int = 12_000
    """Characters of one result of a tool."""

    def sizes(self, context_length: int) -> Sizes:
        """Those of the built-in engine: what is kept word for word is the same here."""
        given = CompressionOptions(threshold=self.threshold, target_ratio=self.target_ratio)
        return sizes_for(context_length, given)

    def notes_budget(self, context_length: int) -> int:
        return min(int(context_length * self.notes_share), self.notes_tokens)
