"""What one source says of one model."""

import msgspec

from hermes.core.usage import Price


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """None: this source says nothing of it."""

    id: str
    aliases: tuple[str, ...] = ()
    """Other names the endpoint takes for it."""
    label: str | None = None
    context_length: int | None = None
    max_output: int | None = None
    price: Price | None = None
    images: bool | None = None
    """Whether it sees images."""
    tools: bool | None = None
    reasoning: bool | None = None
    language: bool | None = None
    """False for models that embed, speak, listen or draw."""
    deprecated: bool | None = None

    def answers_to(self, name: str) -> bool:
        return name == self.id or name in self.aliases


MERGED = (
    "label",
    "context_length",
    "max_output",
    "price",
    "images",
    "tools",
    "reasoning",
    "language",
    "deprecated",
)
"""The fields of which the best source wins, each for itself."""
