"""Tokens used and what they cost."""

from typing import Self

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one call or of many. `input` does not contain the two cache counts."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    """Part of `output`."""

    @property
    def prompt(self) -> int:
        """Everything the model read."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        return self.prompt + self.output

    @property
    def hits(self) -> float:
        """Share of what the model read that its cache had."""
        return self.cache_read / self.prompt if self.prompt else 0.0

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.reasoning + other.reasoning,
        )


class LongPrompts(msgspec.Struct, frozen=True):
    """How much more a call costs whose prompt has more than `over` tokens."""

    over: int
    input: float
    """Everything that is read costs so many times as much ..."""
    output: float
    """... and everything that is written so many times."""


class Price(msgspec.Struct, frozen=True):
    """US dollars for a million tokens, as published on `date`."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    date: str = ""
    long: LongPrompts | None = None

    def cost(self, usage: Usage) -> float:
        price = self.for_prompt(usage.prompt)
        return (
            usage.input * price.input
            + usage.output * price.output
            + usage.cache_read * price.cache_read
            + usage.cache_write * price.cache_write
        ) / 1_000_000

    def for_prompt(self, tokens: int) -> "Price":
        """What holds for a prompt of so many tokens."""
        long = self.long
        if long is None or tokens <= long.over:
            return self
        return Price(
            self.input * long.input,
            self.output * long.output,
            self.cache_read * long.input,
            self.cache_write * long.input,
            self.date,
        )


FREE = Price(0, 0, 0, 0)


class ModelCall(msgspec.Struct, frozen=True):
    """One call of a model, as it is accounted for."""

    usage: Usage
    model: str = ""
    provider: str = ""
    cost_usd: float | None = None
    """None: the price is not known."""
    task: str = "main"
    """`main`, or the auxiliary task the call was made for."""
    tool: str = ""
    """The tool that made the call, or empty."""
    seconds: float = 0.0
    """From the request to the end of the reply."""
