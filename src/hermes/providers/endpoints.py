"""The model endpoints Hermes knows, as data. A new provider is one record here."""

import msgspec

from hermes.core.usage import FREE
from hermes.providers.profile import Profile


class Endpoint(msgspec.Struct, frozen=True):
    id: str
    label: str
    base_url: str = ""
    """Empty when the user must name one."""
    key_vars: tuple[str, ...] = ()
    """Variables that may hold the key, best first."""
    base_url_vars: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    needs_key: bool = True
    default_model: str = ""
    profile: Profile = Profile()


ENDPOINTS = (
    Endpoint(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        key_vars=("OPENROUTER_API_KEY",),
        base_url_vars=("OPENROUTER_BASE_URL",),
        default_model="anthropic/claude-sonnet-4.5",
    ),
    Endpoint(
        "openai",
        "OpenAI",
        "https://api.openai.com/v1",
        key_vars=("OPENAI_API_KEY",),
        default_model="gpt-5-mini",
    ),
    Endpoint(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com/v1",
        key_vars=("DEEPSEEK_API_KEY",),
        base_url_vars=("DEEPSEEK_BASE_URL",),
        default_model="deepseek-chat",
        profile=Profile(thinking_field="reasoning_content"),
    ),
    Endpoint(
        "mistral",
        "Mistral",
        "https://api.mistral.ai/v1",
        key_vars=("MISTRAL_API_KEY",),
        default_model="mistral-large-latest",
    ),
    Endpoint(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        key_vars=("GROQ_API_KEY",),
        base_url_vars=("GROQ_BASE_URL",),
        default_model="openai/gpt-oss-120b",
    ),
    Endpoint(
        "xai",
        "xAI",
        "https://api.x.ai/v1",
        key_vars=("XAI_API_KEY",),
        base_url_vars=("XAI_BASE_URL",),
        aliases=("grok",),
        default_model="grok-4",
    ),
    Endpoint(
        "ollama",
        "Ollama on this machine",
        "http://127.0.0.1:11434/v1",
        needs_key=False,
        profile=Profile(price=FREE),
    ),
    Endpoint(
        "lmstudio",
        "LM Studio on this machine",
        "http://127.0.0.1:1234/v1",
        needs_key=False,
        profile=Profile(price=FREE),
    ),
    Endpoint(
        "vllm",
        "vLLM on this machine",
        "http://127.0.0.1:8000/v1",
        needs_key=False,
        profile=Profile(price=FREE),
    ),
    Endpoint(
        "custom",
        "any OpenAI-compatible endpoint",
        key_vars=("OPENAI_API_KEY",),
        base_url_vars=("OPENAI_BASE_URL",),
        needs_key=False,
    ),
    Endpoint(
        "local",
        "the embedded starter model",
        needs_key=False,
        profile=Profile(price=FREE, small=True, keep_alive=False),
    ),
)


def find(name: str) -> Endpoint | None:
    """The endpoint with this id or alias."""
    return next((e for e in ENDPOINTS if name == e.id or name in e.aliases), None)
