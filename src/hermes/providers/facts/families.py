"""Families of models by their names: what all of a family have in common. Data only.

Names are compared in lower case, without the maker in front and with `-` for `.` and `:`. The first
row that fits counts, so the narrow ones come first.
"""

from typing import Any

import msgspec

from hermes.providers.profile import ReasoningForm

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
