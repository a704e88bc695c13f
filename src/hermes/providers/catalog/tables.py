"""Families of models by their names: what all of a family have in common. Data only.

Names are compared in lower case, without the maker in front and with `-` for `.` and `:`. The first
row that fits counts, so the narrow ones come first.
"""

from typing import Any

import msgspec

from hermes.core.usage import LongPrompts, Price
from hermes.providers.endpoints import ReasoningForm

MILLION = 1_000_000
ANTHROPIC = ("anthropic",)
OPENAI = ("openai", "openai-codex", "copilot", "custom")
GLM = ("zai",)
KIMI = ("kimi-coding", "kimi-coding-cn")
MINIMAX = ("minimax", "minimax-cn")


class Family(msgspec.Struct, frozen=True, kw_only=True):
    pattern: str
    """Where the name must begin to fit."""
    home: tuple[str, ...] = ()
    """The makers' own providers, where `form` and `max_tokens_field` hold."""
    context: int | None = None
    output: int | None = None
    images: bool | None = None
    tools: bool | None = None
    thinks: bool | None = None
    form: ReasoningForm = ""
    """How its maker is asked for effort, when not as all models of that endpoint are."""
    developer_role: bool = False
    max_tokens_field: str = ""
    temperature: bool = True
    cache_marks: bool = False
    cache_read: float = 1.0
    """Price of a token from the cache, as a part of the price of one read."""
    cache_write: float = 1.0
    language: bool = True


_REASONING_GPT = Family(
    pattern="",
    home=OPENAI,
    thinks=True,
    max_tokens_field="max_completion_tokens",
    temperature=False,
    cache_read=0.1,
)
_CLAUDE = Family(
    pattern="",
    home=ANTHROPIC,
    images=True,
    tools=True,
    cache_marks=True,
    cache_read=0.1,
    cache_write=1.25,
)


def _like(base: Family, **own: Any) -> Family:
    return msgspec.structs.replace(base, **own)


FAMILIES = (
    Family(
        pattern=r".*(embed|rerank|whisper|transcrib|moderation|-tts|tts-|-asr|-ocr|realtime"
        r"|-live|-image|image-|imagine|content-safety|guard)|(dall-e|sora|veo|imagen|lyria|flux"
        r"|stable-diffusion|bge-|aqa|gpt-audio|nano-banana|native-audio|voxtral)",
        language=False,
        thinks=False,
        tools=False,
    ),
    # Anthropic. From Opus 4.7 on a temperature is refused and thinking has no budget.
    _like(
        _CLAUDE,
        pattern=r"claude-(opus-4-[7-9]|[a-z]+-[5-9])",
        context=MILLION,
        output=128_000,
        thinks=True,
        form="adaptive",
        temperature=False,
    ),
    _like(
        _CLAUDE,
        pattern=r"claude-(opus|sonnet)-4-6",
        context=MILLION,
        output=64_000,
        thinks=True,
        form="adaptive",
    ),
    _like(
        _CLAUDE,
        pattern=r"claude-(3-7|[a-z]+-4)",
        context=200_000,
        output=32_000,
        thinks=True,
        form="budget",
    ),
    _like(_CLAUDE, pattern=r"claude", context=200_000, output=4096, thinks=False),
    # OpenAI.
    Family(
        pattern=r"gpt-5(-\d)?-(chat|instant)",
        home=OPENAI,
        context=128_000,
        output=16_384,
        images=True,
        thinks=False,
        developer_role=True,
        max_tokens_field="max_completion_tokens",
        cache_read=0.1,
    ),
    _like(
        _REASONING_GPT,
        pattern=r"gpt-(5-[4-9]|[6-9])",
        context=1_050_000,
        output=128_000,
        images=True,
        developer_role=True,
        cache_write=1.25,
    ),
    _like(
        _REASONING_GPT,
        pattern=r"gpt-5|codex",
        context=400_000,
        output=128_000,
        images=True,
        developer_role=True,
    ),
    _like(_REASONING_GPT, pattern=r"o[134](-|$)", context=200_000, output=100_000),
    Family(pattern=r"gpt-oss", context=131_072, images=False, tools=True, thinks=True),
    Family(
        pattern=r"gpt-4-1",
        home=OPENAI,
        context=1_047_576,
        output=32_768,
        images=True,
        thinks=False,
        cache_read=0.25,
    ),
    Family(
        pattern=r"gpt-4o",
        home=OPENAI,
        context=128_000,
        output=16_384,
        images=True,
        thinks=False,
        cache_read=0.5,
    ),
    # Google.
    Family(
        pattern=r"gemini-(2-5|[3-9]|pro|flash)",
        home=("gemini",),
        context=1_048_576,
        output=65_536,
        images=True,
        tools=True,
        thinks=True,
        cache_read=0.1,
    ),
    Family(pattern=r"gemini", home=("gemini",), context=1_048_576, output=8192, images=True),
    Family(pattern=r"gemma-?[34]", context=131_072, images=True),
    # xAI.
    Family(pattern=r"grok-(2|3(?!-mini))", home=("xai",), context=131_072, thinks=False),
    Family(pattern=r".*non-reasoning", thinks=False),
    Family(
        pattern=r"grok", home=("xai",), context=256_000, tools=True, thinks=True, cache_read=0.25
    ),
    # DeepSeek.
    Family(
        pattern=r"deepseek-(flash|v4)",
        home=("deepseek",),
        context=MILLION,
        output=384_000,
        tools=True,
        thinks=True,
        cache_read=0.1,
    ),
    Family(
        pattern=r"deepseek-(r\d|reasoner|v3-[12])", home=("deepseek",), context=128_000, thinks=True
    ),
    Family(pattern=r"deepseek", home=("deepseek",), context=128_000, images=False, thinks=False),
    # Qwen.
    Family(
        pattern=r"qwen-?3-[5-9]-(max|plus|flash)",
        home=("alibaba",),
        context=MILLION,
        output=65_536,
        tools=True,
        thinks=True,
    ),
    Family(pattern=r"qwen-?3-[5-9]", context=262_144, images=True, tools=True, thinks=True),
    Family(pattern=r"qwen-?3-coder", context=262_144, output=65_536, tools=True, thinks=False),
    Family(pattern=r"qwen-?3.*instruct", context=262_144, tools=True, thinks=False),
    Family(pattern=r"qwen-?3|qwq", context=131_072, tools=True, thinks=True),
    Family(pattern=r"qwen-(plus|flash|turbo)", home=("alibaba",), context=MILLION, thinks=True),
    Family(pattern=r"qwen", context=131_072, thinks=False),
    # Z.ai. From GLM-5.3 on thinking cannot be switched off, only made shorter.
    Family(
        pattern=r"glm-5-[3-9]",
        home=GLM,
        context=MILLION,
        output=131_072,
        tools=True,
        thinks=True,
        form="effort",
    ),
    Family(pattern=r"glm-5-2", home=GLM, context=MILLION, output=131_072, tools=True, thinks=True),
    Family(
        pattern=r"glm-(5|4-[67])",
        home=GLM,
        context=200_000,
        output=131_072,
        tools=True,
        thinks=True,
    ),
    Family(pattern=r"glm-4-5", home=GLM, context=131_072, output=98_304, tools=True, thinks=True),
    Family(pattern=r"glm", home=GLM, context=128_000),
    # Moonshot.
    Family(
        pattern=r"kimi-k3",
        home=KIMI,
        context=1_048_576,
        output=262_144,
        images=True,
        tools=True,
        thinks=True,
        cache_read=0.1,
    ),
    Family(
        pattern=r"kimi-(k2-([5-9]|thinking)|for-coding)",
        home=KIMI,
        context=262_144,
        tools=True,
        thinks=True,
    ),
    Family(pattern=r"kimi", home=KIMI, context=262_144, images=False, tools=True, thinks=False),
    # The others.
    Family(pattern=r"minimax-m[3-9]", home=MINIMAX, context=MILLION, output=131_072, thinks=True),
    Family(
        pattern=r"minimax-m2",
        home=MINIMAX,
        context=204_800,
        output=131_072,
        images=False,
        thinks=True,
    ),
    Family(pattern=r"mimo", home=("xiaomi",), context=1_048_576, output=131_072, thinks=True),
    Family(pattern=r"mistral-(large|medium)", home=("mistral",), context=262_144, images=True),
    Family(pattern=r"(magistral|mistral-small)", home=("mistral",), context=131_072, images=True),
    Family(pattern=r"(codestral|devstral)", home=("mistral",), context=262_144, images=False),
    Family(pattern=r"(mistral|mixtral|ministral)", home=("mistral",), context=131_072),
    Family(pattern=r"llama-?4", context=MILLION, images=True, thinks=False),
    Family(pattern=r"(meta-)?llama-?3-2.*vision", context=131_072, images=True, thinks=False),
    Family(pattern=r"(meta-)?llama-?3-[123]", context=131_072, images=False, thinks=False),
    Family(pattern=r"(nous-)?hermes-[34]", home=("nous",), context=131_072, images=False),
    Family(
        pattern=r"trinity-large-thinking",
        home=("arcee",),
        context=262_144,
        images=False,
        thinks=True,
    ),
    Family(pattern=r"trinity", home=("arcee",), context=131_072, images=False, thinks=False),
    Family(pattern=r"nemotron-3", home=("nvidia",), context=MILLION, tools=True, thinks=True),
)


# Single models with what their makers publish: limits, and prices with the day they were read.
#
# Where a price rises with the length of the prompt both are here; where it changes with the hour
# it
# is the higher one. A model that is not here has no bundled price.


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
