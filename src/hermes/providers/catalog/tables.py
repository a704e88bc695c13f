"""Model families and single models: data only.

Names are compared in lower case, without the maker and with `-` for `.` and `:`. The first matching
family counts, so narrow patterns come first.
"""

from typing import Any

import msgspec

from hermes.core.model import LongPrompts, Price
from hermes.providers.endpoints import ReasoningFormat

MILLION = 1_000_000
ANTHROPIC = ("anthropic",)
OPENAI = ("openai", "openai-codex", "copilot", "custom")
GLM = ("zai",)
KIMI = ("kimi-coding", "kimi-coding-cn")
MINIMAX = ("minimax", "minimax-cn")


class Family(msgspec.Struct, frozen=True, kw_only=True):
    pattern: str  #: Regular expression for the beginning of the name.
    makers: tuple[str, ...] = ()
    """Provider ids of the makers, where `reasoning_format` and `max_tokens_field` apply."""
    context: int | None = None
    output: int | None = None
    images: bool | None = None
    tools: bool | None = None
    reasoning: bool | None = None
    reasoning_format: ReasoningFormat = ""
    """How its maker takes the effort, when not as the endpoint's profile says."""
    developer_role: bool = False
    max_tokens_field: str = ""
    temperature: bool = True
    cache_marks: bool = False
    cache_read: float = 1.0  #: Price of a cached input token, as a fraction of the input price.
    cache_write: float = 1.0
    language: bool = True


_REASONING_GPT = Family(
    pattern="",
    makers=OPENAI,
    reasoning=True,
    max_tokens_field="max_completion_tokens",
    temperature=False,
    cache_read=0.1,
)
_CLAUDE = Family(
    pattern="",
    makers=ANTHROPIC,
    images=True,
    tools=True,
    cache_marks=True,
    cache_read=0.1,
    cache_write=1.25,
)


def _variant(base: Family, **own: Any) -> Family:
    return msgspec.structs.replace(base, **own)


# One or two lines for each family.
# fmt: off
FAMILIES = (
    Family(
        pattern=r".*(embed|rerank|whisper|transcrib|moderation|-tts|tts-|-asr|-ocr|realtime"
        r"|-live|-image|image-|imagine|content-safety|guard)|(dall-e|sora|veo|imagen|lyria|flux"
        r"|stable-diffusion|bge-|aqa|gpt-audio|nano-banana|native-audio|voxtral)",
        language=False,
        reasoning=False,
        tools=False,
    ),
    # Anthropic. From Opus 4.7 on a temperature is refused and thinking has no budget.
    _variant(_CLAUDE, pattern=r"claude-(opus-4-[7-9]|[a-z]+-[5-9])", context=MILLION,
             output=128_000, reasoning=True, reasoning_format="adaptive", temperature=False),
    _variant(_CLAUDE, pattern=r"claude-(opus|sonnet)-4-6", context=MILLION, output=64_000,
             reasoning=True, reasoning_format="adaptive"),
    _variant(_CLAUDE, pattern=r"claude-(3-7|[a-z]+-4)", context=200_000, output=32_000,
             reasoning=True, reasoning_format="budget"),
    _variant(_CLAUDE, pattern=r"claude", context=200_000, output=4096, reasoning=False),
    # OpenAI.
    Family(pattern=r"gpt-5(-\d)?-(chat|instant)", makers=OPENAI, context=128_000, output=16_384,
           images=True, reasoning=False, developer_role=True,
           max_tokens_field="max_completion_tokens", cache_read=0.1),
    _variant(_REASONING_GPT, pattern=r"gpt-(5-[4-9]|[6-9])", context=1_050_000, output=128_000,
             images=True, developer_role=True, cache_write=1.25),
    _variant(_REASONING_GPT, pattern=r"gpt-5|codex", context=400_000, output=128_000, images=True,
             developer_role=True),
    _variant(_REASONING_GPT, pattern=r"o[134](-|$)", context=200_000, output=100_000),
    Family(pattern=r"gpt-oss", context=131_072, images=False, tools=True, reasoning=True),
    Family(pattern=r"gpt-4-1", makers=OPENAI, context=1_047_576, output=32_768, images=True,
           reasoning=False, cache_read=0.25),
    Family(pattern=r"gpt-4o", makers=OPENAI, context=128_000, output=16_384, images=True,
           reasoning=False, cache_read=0.5),
    # Google.
    Family(pattern=r"gemini-(2-5|[3-9]|pro|flash)", makers=("gemini",), context=1_048_576,
           output=65_536, images=True, tools=True, reasoning=True, cache_read=0.1),
    Family(pattern=r"gemini", makers=("gemini",), context=1_048_576, output=8192, images=True),
    Family(pattern=r"gemma-?[34]", context=131_072, images=True),
    # xAI.
    Family(pattern=r"grok-(2|3(?!-mini))", makers=("xai",), context=131_072, reasoning=False),
    Family(pattern=r".*non-reasoning", reasoning=False),
    Family(pattern=r"grok", makers=("xai",), context=256_000, tools=True, reasoning=True,
           cache_read=0.25),
    # DeepSeek.
    Family(pattern=r"deepseek-(flash|v4)", makers=("deepseek",), context=MILLION, output=384_000,
           tools=True, reasoning=True, cache_read=0.1),
    Family(pattern=r"deepseek-(r\d|reasoner|v3-[12])", makers=("deepseek",), context=128_000,
           reasoning=True),
    Family(pattern=r"deepseek", makers=("deepseek",), context=128_000, images=False,
           reasoning=False),
    # Qwen.
    Family(pattern=r"qwen-?3-[5-9]-(max|plus|flash)", makers=("alibaba",), context=MILLION,
           output=65_536, tools=True, reasoning=True),
    Family(pattern=r"qwen-?3-[5-9]", context=262_144, images=True, tools=True, reasoning=True),
    Family(pattern=r"qwen-?3-coder", context=262_144, output=65_536, tools=True, reasoning=False),
    Family(pattern=r"qwen-?3.*instruct", context=262_144, tools=True, reasoning=False),
    Family(pattern=r"qwen-?3|qwq", context=131_072, tools=True, reasoning=True),
    Family(pattern=r"qwen-(plus|flash|turbo)", makers=("alibaba",), context=MILLION,
           reasoning=True),
    Family(pattern=r"qwen", context=131_072, reasoning=False),
    # Z.ai. From GLM-5.3 on thinking cannot be switched off, only made shorter.
    Family(pattern=r"glm-5-[3-9]", makers=GLM, context=MILLION, output=131_072, tools=True,
           reasoning=True, reasoning_format="effort"),
    Family(pattern=r"glm-5-2", makers=GLM, context=MILLION, output=131_072, tools=True,
           reasoning=True),
    Family(pattern=r"glm-(5|4-[67])", makers=GLM, context=200_000, output=131_072, tools=True,
           reasoning=True),
    Family(pattern=r"glm-4-5", makers=GLM, context=131_072, output=98_304, tools=True,
           reasoning=True),
    Family(pattern=r"glm", makers=GLM, context=128_000),
    # Moonshot.
    Family(pattern=r"kimi-k3", makers=KIMI, context=1_048_576, output=262_144, images=True,
           tools=True, reasoning=True, cache_read=0.1),
    Family(pattern=r"kimi-(k2-([5-9]|thinking)|for-coding)", makers=KIMI, context=262_144,
           tools=True, reasoning=True),
    Family(pattern=r"kimi", makers=KIMI, context=262_144, images=False, tools=True,
           reasoning=False),
    # The others.
    Family(pattern=r"minimax-m[3-9]", makers=MINIMAX, context=MILLION, output=131_072,
           reasoning=True),
    Family(pattern=r"minimax-m2", makers=MINIMAX, context=204_800, output=131_072, images=False,
           reasoning=True),
    Family(pattern=r"mimo", makers=("xiaomi",), context=1_048_576, output=131_072, reasoning=True),
    Family(pattern=r"mistral-(large|medium)", makers=("mistral",), context=262_144, images=True),
    Family(pattern=r"(magistral|mistral-small)", makers=("mistral",), context=131_072, images=True),
    Family(pattern=r"(codestral|devstral)", makers=("mistral",), context=262_144, images=False),
    Family(pattern=r"(mistral|mixtral|ministral)", makers=("mistral",), context=131_072),
    Family(pattern=r"llama-?4", context=MILLION, images=True, reasoning=False),
    Family(pattern=r"(meta-)?llama-?3-2.*vision", context=131_072, images=True, reasoning=False),
    Family(pattern=r"(meta-)?llama-?3-[123]", context=131_072, images=False, reasoning=False),
    Family(pattern=r"(nous-)?hermes-[34]", makers=("nous",), context=131_072, images=False),
    Family(pattern=r"trinity-large-thinking", makers=("arcee",), context=262_144, images=False,
           reasoning=True),
    Family(pattern=r"trinity", makers=("arcee",), context=131_072, images=False, reasoning=False),
    Family(pattern=r"nemotron-3", makers=("nvidia",), context=MILLION, tools=True, reasoning=True),
)
# fmt: on


# Single models with the limits and prices their makers publish; the date is the day they were read.
# A price that rises with the prompt length is listed with both levels, one that changes with the
# hour with the higher one. A model that is missing here has no bundled price.


class ModelEntry(msgspec.Struct, frozen=True):
    name: str  #: The id at its maker's own endpoint.
    price: Price | None = None
    context: int | None = None  #: None here and below: as its family.
    output: int | None = None
    images: bool | None = None


_GPT = LongPrompts(272_000, 2, 1.5)
_GEMINI = LongPrompts(200_000, 2, 1.5)
_SONNET = LongPrompts(200_000, 2, 1.5)
_HAIKU = LongPrompts(100_000, 5, 5)


def _price(
    date: str,
    reading: float,
    writing: float,
    cached: float,
    caching: float | None = None,
    long: LongPrompts | None = None,
) -> Price:
    """US dollars per million tokens; without a cache price caching costs as much as input."""
    return Price(reading, writing, cached, reading if caching is None else caching, date, long)


MODELS = (
    ModelEntry("claude-fable-5-1", _price("2026-10-07", 10, 50, 1, 12.5)),
    ModelEntry("claude-fable-5", _price("2026-10-07", 10, 50, 1, 12.5)),
    ModelEntry("claude-opus-5-5", _price("2026-10-03", 4, 20, 0.2, 5)),
    ModelEntry("claude-sonnet-5-5", _price("2026-10-03", 2, 10, 0.1, 2.5)),
    ModelEntry("claude-haiku-5-5", _price("2026-10-07", 0.1, 0.5, 0.01, 0.125, long=_HAIKU)),
    ModelEntry("claude-opus-5", _price("2026-10-07", 5, 25, 0.5, 6.25)),
    ModelEntry("claude-sonnet-5", _price("2026-10-07", 2, 10, 0.2, 2.5)),
    ModelEntry("claude-opus-4-8", _price("2026-07-24", 5, 25, 0.5, 6.25)),
    ModelEntry("claude-opus-4-7", _price("2026-07-24", 5, 25, 0.5, 6.25)),
    ModelEntry("claude-opus-4-6", _price("2026-03-13", 5, 25, 0.5, 6.25), output=128_000),
    ModelEntry("claude-sonnet-4-6", _price("2026-03-13", 3, 15, 0.3, 3.75)),
    ModelEntry("claude-haiku-4-5", _price("2026-10-07", 1, 5, 0.1, 1.25), output=64_000),
    ModelEntry("claude-opus-4-5", _price("2025-11-24", 5, 25, 0.5, 6.25), output=64_000),
    ModelEntry(
        "claude-sonnet-4-5", _price("2025-09-29", 3, 15, 0.3, 3.75, long=_SONNET), output=64_000
    ),
    ModelEntry("claude-opus-4-1", _price("2025-08-05", 15, 75, 1.5, 18.75)),
    ModelEntry("gpt-6-astra", _price("2026-09-05", 10, 50, 1, 12.5, long=_GPT)),
    ModelEntry("gpt-6.1-sol", _price("2026-09-30", 2, 10, 0.1, long=_GPT)),
    ModelEntry("gpt-6-sol", _price("2026-09-22", 2, 10, 0.2, 2.5, long=_GPT)),
    ModelEntry("gpt-6-luna", _price("2026-09-22", 0.1, 0.5, 0.01, 0.125, long=_GPT)),
    ModelEntry("gpt-5.6-sol", _price("2026-09-22", 4, 20, 0.4, 5, long=_GPT)),
    ModelEntry("gpt-5.6-terra", _price("2026-08-01", 2, 12, 0.2, 2.5, long=_GPT)),
    ModelEntry("gpt-5.6-luna", _price("2026-08-01", 0.2, 1.2, 0.02, 0.25, long=_GPT)),
    ModelEntry("gpt-5.5", _price("2026-04-23", 5, 30, 0.5, long=_GPT)),
    ModelEntry("gpt-5.4", _price("2026-03-05", 2.5, 15, 0.25, long=_GPT)),
    ModelEntry("gpt-5.4-mini", context=400_000),
    ModelEntry("gpt-5.4-nano", context=400_000),
    ModelEntry("gpt-5.3-codex", _price("2026-02-05", 1.75, 14, 0.175)),
    ModelEntry("gpt-5.2-codex", _price("2025-12-11", 1.75, 14, 0.175)),
    ModelEntry("gpt-5.2", _price("2025-12-11", 1.75, 14, 0.175)),
    ModelEntry("gpt-5.1", _price("2025-11-13", 1.25, 10, 0.125)),
    ModelEntry("gpt-5.1-codex", _price("2025-11-13", 1.25, 10, 0.125)),
    ModelEntry("gpt-5", _price("2025-08-07", 1.25, 10, 0.125)),
    ModelEntry("gpt-5-mini", _price("2025-08-07", 0.25, 2, 0.025)),
    ModelEntry("gpt-5-nano", _price("2025-08-07", 0.05, 0.4, 0.005)),
    ModelEntry("o3", _price("2025-06-10", 2, 8, 0.5), images=True),
    ModelEntry("o4-mini", _price("2025-04-16", 1.1, 4.4, 0.275), images=True),
    ModelEntry("o3-mini", _price("2025-01-31", 1.1, 4.4, 0.55), images=False),
    ModelEntry("gpt-4.1", _price("2025-04-14", 2, 8, 0.5)),
    ModelEntry("gpt-4.1-mini", _price("2025-04-14", 0.4, 1.6, 0.1)),
    ModelEntry("gpt-4.1-nano", _price("2025-04-14", 0.1, 0.4, 0.025)),
    ModelEntry("gpt-4o", _price("2024-10-01", 2.5, 10, 1.25)),
    ModelEntry("gpt-4o-mini", _price("2024-10-01", 0.15, 0.6, 0.075)),
    ModelEntry("gemini-3.8-flash", _price("2026-10-07", 0.75, 3.75, 0.075)),
    ModelEntry("gemini-3.7-flash"),
    ModelEntry("gemini-3.5-flash"),
    ModelEntry("gemini-3.1-pro-preview", _price("2026-02-19", 2, 12, 0.2, long=_GEMINI)),
    ModelEntry("gemini-3.1-flash-lite"),
    ModelEntry("gemini-3-flash-preview", _price("2025-12-17", 0.5, 3, 0.05)),
    ModelEntry("gemini-2.5-pro", _price("2025-06-17", 1.25, 10, 0.125, long=_GEMINI)),
    ModelEntry("gemini-2.5-flash", _price("2025-06-17", 0.3, 2.5, 0.03)),
    ModelEntry("gemini-2.5-flash-lite", _price("2025-07-22", 0.1, 0.4, 0.01)),
    ModelEntry("grok-4.7", _price("2026-09-21", 2, 6, 0.5), 500_000, 500_000, images=True),
    ModelEntry(
        "grok-4.1-fast", _price("2025-11-19", 0.2, 0.5, 0.05), 2_000_000, 30_000, images=True
    ),
    ModelEntry("grok-4", _price("2025-07-09", 3, 15, 0.75), images=True),
    ModelEntry("grok-code-fast-1", _price("2025-08-28", 0.2, 1.5, 0.02), images=False),
    ModelEntry("deepseek-v4-pro", _price("2026-08-17", 1.32, 3.96, 0.044), images=False),
    ModelEntry("deepseek-flash", _price("2026-09-10", 0.3, 1.2, 0.006), images=True),
    ModelEntry("deepseek-v4.1-flash", _price("2026-09-10", 0.3, 1.2, 0.006), images=True),
    ModelEntry("qwen3.7-plus", _price("2026-06-04", 0.4, 1.6, 0.08, 0.5), images=True),
    ModelEntry("qwen3.7-max", _price("2026-06-04", 1.65, 4.951, 0.33, 1.65)),
    ModelEntry("glm-5.3", _price("2026-08-19", 1.4, 4.4, 0.26), images=False),
    ModelEntry("glm-5.3-flash", images=True),
    ModelEntry("glm-5.2", _price("2026-08-19", 1.4, 4.4, 0.26), images=False),
    ModelEntry("glm-5.1", _price("2026-08-19", 1.4, 4.4, 0.26), images=False),
    ModelEntry("glm-5", _price("2026-03-01", 1, 3.2, 0.2), images=False),
    ModelEntry("glm-4.7", _price("2026-03-01", 0.6, 2.2, 0.11), images=False),
    ModelEntry("glm-4.6", _price("2026-03-01", 0.6, 2.2, 0.11), images=False),
    ModelEntry("glm-4.5", _price("2026-03-01", 0.6, 2.2, 0.11), images=False),
    ModelEntry("glm-4.5-air", _price("2026-03-01", 0.2, 1.1, 0.03), images=False),
    ModelEntry("kimi-k3", _price("2026-07-17", 3, 15, 0.3)),
    ModelEntry("kimi-k2.6", _price("2026-05-07", 0.95, 4, 0.16), images=True),
    ModelEntry("kimi-k2.5", _price("2026-05-07", 0.6, 3, 0.1), images=True),
    ModelEntry("MiniMax-M3", images=True),
    ModelEntry("MiniMax-M2.7"),
    ModelEntry("mimo-v2.6-pro", _price("2026-09-22", 0.435, 0.87, 0.0036), images=True),
    ModelEntry("mimo-v2.6-flash", _price("2026-09-22", 0.14, 0.28, 0.0028), images=True),
    ModelEntry("mistral-large-4", _price("2026-10-06", 1.36, 4.18, 0.14)),
    ModelEntry("mistral-large-latest"),
    ModelEntry("mistral-medium-3.5", _price("2026-08-27", 1.5, 7.5, 1.5)),
    ModelEntry("mistral-small-latest"),
    ModelEntry("Hermes-4-405B"),
    ModelEntry("Hermes-4-70B"),
    ModelEntry("trinity-large-thinking", _price("2026-05-07", 0.25, 0.9, 0.25)),
    ModelEntry("trinity-mini", _price("2026-05-07", 0.045, 0.15, 0.045)),
)
