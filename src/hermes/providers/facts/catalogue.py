"""Single models with what their makers publish: limits, and prices with the day they were read.

Where a price rises with the length of the prompt both are here; where it changes with the hour it
is the higher one. A model that is not here has no bundled price.
"""

import msgspec

from hermes.core.usage import LongPrompts, Price


class Entry(msgspec.Struct, frozen=True):
    name: str
    """The id at its maker's own endpoint."""
    price: Price | None = None
    context: int | None = None
    """None in these: as its family."""
    output: int | None = None
    images: bool | None = None


_GPT = LongPrompts(272_000, 2, 1.5)
_GEMINI = LongPrompts(200_000, 2, 1.5)
_SONNET = LongPrompts(200_000, 2, 1.5)
_HAIKU = LongPrompts(100_000, 5, 5)


def _at(
    date: str,
    reading: float,
    writing: float,
    cached: float,
    caching: float | None = None,
    long: LongPrompts | None = None,
) -> Price:
    """US dollars for a million tokens; without a price for caching it costs as much as reading."""
    return Price(reading, writing, cached, reading if caching is None else caching, date, long)


CATALOGUE = (
    Entry("claude-fable-5-1", _at("2026-10-07", 10, 50, 1, 12.5)),
    Entry("claude-fable-5", _at("2026-10-07", 10, 50, 1, 12.5)),
    Entry("claude-opus-5-5", _at("2026-10-03", 4, 20, 0.2, 5)),
    Entry("claude-sonnet-5-5", _at("2026-10-03", 2, 10, 0.1, 2.5)),
    Entry("claude-haiku-5-5", _at("2026-10-07", 0.1, 0.5, 0.01, 0.125, long=_HAIKU)),
    Entry("claude-opus-5", _at("2026-10-07", 5, 25, 0.5, 6.25)),
    Entry("claude-sonnet-5", _at("2026-10-07", 2, 10, 0.2, 2.5)),
    Entry("claude-opus-4-8", _at("2026-07-24", 5, 25, 0.5, 6.25)),
    Entry("claude-opus-4-7", _at("2026-07-24", 5, 25, 0.5, 6.25)),
    Entry("claude-opus-4-6", _at("2026-03-13", 5, 25, 0.5, 6.25), output=128_000),
    Entry("claude-sonnet-4-6", _at("2026-03-13", 3, 15, 0.3, 3.75)),
    Entry("claude-haiku-4-5", _at("2026-10-07", 1, 5, 0.1, 1.25), output=64_000),
    Entry("claude-opus-4-5", _at("2025-11-24", 5, 25, 0.5, 6.25), output=64_000),
    Entry("claude-sonnet-4-5", _at("2025-09-29", 3, 15, 0.3, 3.75, long=_SONNET), output=64_000),
    Entry("claude-opus-4-1", _at("2025-08-05", 15, 75, 1.5, 18.75)),
    Entry("gpt-6-astra", _at("2026-09-05", 10, 50, 1, 12.5, long=_GPT)),
    Entry("gpt-6.1-sol", _at("2026-09-30", 2, 10, 0.1, long=_GPT)),
    Entry("gpt-6-sol", _at("2026-09-22", 2, 10, 0.2, 2.5, long=_GPT)),
    Entry("gpt-6-luna", _at("2026-09-22", 0.1, 0.5, 0.01, 0.125, long=_GPT)),
    Entry("gpt-5.6-sol", _at("2026-09-22", 4, 20, 0.4, 5, long=_GPT)),
    Entry("gpt-5.6-terra", _at("2026-08-01", 2, 12, 0.2, 2.5, long=_GPT)),
    Entry("gpt-5.6-luna", _at("2026-08-01", 0.2, 1.2, 0.02, 0.25, long=_GPT)),
    Entry("gpt-5.5", _at("2026-04-23", 5, 30, 0.5, long=_GPT)),
    Entry("gpt-5.4", _at("2026-03-05", 2.5, 15, 0.25, long=_GPT)),
    Entry("gpt-5.4-mini", context=400_000),
    Entry("gpt-5.4-nano", context=400_000),
    Entry("gpt-5.3-codex", _at("2026-02-05", 1.75, 14, 0.175)),
    Entry("gpt-5.2-codex", _at("2025-12-11", 1.75, 14, 0.175)),
    Entry("gpt-5.2", _at("2025-12-11", 1.75, 14, 0.175)),
    Entry("gpt-5.1", _at("2025-11-13", 1.25, 10, 0.125)),
    Entry("gpt-5.1-codex", _at("2025-11-13", 1.25, 10, 0.125)),
    Entry("gpt-5", _at("2025-08-07", 1.25, 10, 0.125)),
    Entry("gpt-5-mini", _at("2025-08-07", 0.25, 2, 0.025)),
    Entry("gpt-5-nano", _at("2025-08-07", 0.05, 0.4, 0.005)),
    Entry("o3", _at("2025-06-10", 2, 8, 0.5), images=True),
    Entry("o4-mini", _at("2025-04-16", 1.1, 4.4, 0.275), images=True),
    Entry("o3-mini", _at("2025-01-31", 1.1, 4.4, 0.55), images=False),
    Entry("gpt-4.1", _at("2025-04-14", 2, 8, 0.5)),
    Entry("gpt-4.1-mini", _at("2025-04-14", 0.4, 1.6, 0.1)),
    Entry("gpt-4.1-nano", _at("2025-04-14", 0.1, 0.4, 0.025)),
    Entry("gpt-4o", _at("2024-10-01", 2.5, 10, 1.25)),
    Entry("gpt-4o-mini", _at("2024-10-01", 0.15, 0.6, 0.075)),
    Entry("gemini-3.8-flash", _at("2026-10-07", 0.75, 3.75, 0.075)),
    Entry("gemini-3.7-flash"),
    Entry("gemini-3.5-flash"),
    Entry("gemini-3.1-pro-preview", _at("2026-02-19", 2, 12, 0.2, long=_GEMINI)),
    Entry("gemini-3.1-flash-lite"),
    Entry("gemini-3-flash-preview", _at("2025-12-17", 0.5, 3, 0.05)),
    Entry("gemini-2.5-pro", _at("2025-06-17", 1.25, 10, 0.125, long=_GEMINI)),
    Entry("gemini-2.5-flash", _at("2025-06-17", 0.3, 2.5, 0.03)),
    Entry("gemini-2.5-flash-lite", _at("2025-07-22", 0.1, 0.4, 0.01)),
    Entry("grok-4.7", _at("2026-09-21", 2, 6, 0.5), 500_000, 500_000, images=True),
    Entry("grok-4.1-fast", _at("2025-11-19", 0.2, 0.5, 0.05), 2_000_000, 30_000, images=True),
    Entry("grok-4", _at("2025-07-09", 3, 15, 0.75), images=True),
    Entry("grok-code-fast-1", _at("2025-08-28", 0.2, 1.5, 0.02), images=False),
    Entry("deepseek-v4-pro", _at("2026-08-17", 1.32, 3.96, 0.044), images=False),
    Entry("deepseek-flash", _at("2026-09-10", 0.3, 1.2, 0.006), images=True),
    Entry("deepseek-v4.1-flash", _at("2026-09-10", 0.3, 1.2, 0.006), images=True),
    Entry("qwen3.7-plus", _at("2026-06-04", 0.4, 1.6, 0.08, 0.5), images=True),
    Entry("qwen3.7-max", _at("2026-06-04", 1.65, 4.951, 0.33, 1.65)),
    Entry("glm-5.3", _at("2026-08-19", 1.4, 4.4, 0.26), images=False),
    Entry("glm-5.3-flash", images=True),
    Entry("glm-5.2", _at("2026-08-19", 1.4, 4.4, 0.26), images=False),
    Entry("glm-5.1", _at("2026-08-19", 1.4, 4.4, 0.26), images=False),
    Entry("glm-5", _at("2026-03-01", 1, 3.2, 0.2), images=False),
    Entry("glm-4.7", _at("2026-03-01", 0.6, 2.2, 0.11), images=False),
    Entry("glm-4.6", _at("2026-03-01", 0.6, 2.2, 0.11), images=False),
    Entry("glm-4.5", _at("2026-03-01", 0.6, 2.2, 0.11), images=False),
    Entry("glm-4.5-air", _at("2026-03-01", 0.2, 1.1, 0.03), images=False),
    Entry("kimi-k3", _at("2026-07-17", 3, 15, 0.3)),
    Entry("kimi-k2.6", _at("2026-05-07", 0.95, 4, 0.16), images=True),
    Entry("kimi-k2.5", _at("2026-05-07", 0.6, 3, 0.1), images=True),
    Entry("MiniMax-M3", images=True),
    Entry("MiniMax-M2.7"),
    Entry("mimo-v2.6-pro", _at("2026-09-22", 0.435, 0.87, 0.0036), images=True),
    Entry("mimo-v2.6-flash", _at("2026-09-22", 0.14, 0.28, 0.0028), images=True),
    Entry("mistral-large-4", _at("2026-10-06", 1.36, 4.18, 0.14)),
    Entry("mistral-large-latest"),
    Entry("mistral-medium-3.5", _at("2026-08-27", 1.5, 7.5, 1.5)),
    Entry("mistral-small-latest"),
    Entry("Hermes-4-405B"),
    Entry("Hermes-4-70B"),
    Entry("trinity-large-thinking", _at("2026-05-07", 0.25, 0.9, 0.25)),
    Entry("trinity-mini", _at("2026-05-07", 0.045, 0.15, 0.045)),
)
