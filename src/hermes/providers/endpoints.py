"""The model endpoints as data, and which hosts may receive which key.

A new provider is one record in `ENDPOINTS`. How to reach an API is code in `hermes.providers.wire`;
a quirk of a provider or model is a field of `ModelProfile`.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import msgspec

from hermes.core.errors import ConfigError
from hermes.core.model import FREE, Price, WireMode
from hermes.util import hosts

if TYPE_CHECKING:
    import httpx2

ReasoningFormat = Literal["", "effort", "object", "budget", "adaptive", "switch", "enable_thinking"]
"""How a request asks for reasoning effort: not at all; `reasoning_effort: "low"`; `reasoning:
{"effort": "low"}`; Anthropic's `thinking` with a token budget; the same without a budget, with
`output_config.effort`; `thinking: {"type": "enabled"}`; `enable_thinking: true`."""


class ModelProfile(msgspec.Struct, frozen=True):
    context_length: int = 128_000
    max_output: int | None = None  #: Longest reply in tokens; None when unknown.
    price: Price | None = None  #: None when unknown.
    images: bool | None = None  #: Whether it accepts images; None when unknown.
    tools: bool = True
    reasoning: ReasoningFormat = ""
    developer_role: bool = False  #: Send the system message with the role `developer`.
    thinking_field: str = ""  #: Field in which earlier reasoning is sent back; empty for none.
    cache_marks: bool = False  #: The endpoint caches only prefixes marked with `cache_control`.
    max_tokens_field: str = "max_tokens"
    temperature: bool = True  #: False where the endpoint refuses a temperature.
    streaming: Literal["both", "always", "never"] = "both"
    """Which of streamed and whole replies the endpoint supports."""
    stream_usage: bool = True  #: False where the endpoint refuses `stream_options`.
    strict: bool = False
    """The endpoint refuses unknown fields in messages, such as those of another provider."""
    nine_letter_ids: bool = False  #: Ids of tool calls must have nine letters or digits.
    small: bool = False  #: Too small for native tool calls; wrapped in `providers.small_model`.
    is_agent: bool = False
    """The model is an agent: it acts before it answers, so a request must not be repeated."""
    extra_body: dict[str, object] = {}  #: Fields added to every request.
    keep_alive: bool = True  #: False where the server may close a connection between two requests.


AuthScheme = Literal["bearer", "x-api-key", "aws"]
"""`aws` signs each request with AWS Signature 4, or sends a Bedrock API key as a bearer token."""


class LoginSpec(msgspec.Struct, frozen=True):
    """How the user logs in instead of adding a key; the device flow of RFC 8628 by default."""

    client_id: str
    device_url: str
    token_url: str
    scope: str = ""
    flow: Literal["device", "codex", "google"] = "device"
    """`codex` is OpenAI's variant of the device flow; `google` needs an OAuth client of the user
    and a browser redirect to this machine."""
    pkce: bool = False
    exchange_url: str = ""
    """Where the token is exchanged for a short-lived one that is sent to the endpoint."""


class Endpoint(msgspec.Struct, frozen=True):
    id: str
    label: str
    base_url: str = ""
    """Empty when the user must set one. `{region}` is replaced by `bedrock.region`."""
    api_mode: WireMode = "chat_completions"
    custom_url_api_mode: WireMode | None = None
    """API of another base URL set in place of its own; None: the same API."""
    auth: AuthScheme = "bearer"
    key_vars: tuple[str, ...] = ()  #: Variables that may hold the key, best first.
    shared_key_vars: tuple[str, ...] = ()
    """Those of `key_vars` that are often set for other programs; `auto` ignores them."""
    base_url_vars: tuple[str, ...] = ()
    key_hosts: tuple[str, ...] = ()
    """Further hosts that may receive its key; `*` matches one label of a host name."""
    aliases: tuple[str, ...] = ()
    needs_key: bool = True
    default_model: str = ""
    small_model: str = ""  #: Cheap and fast model for auxiliary tasks. Empty: the default model.
    models_path: str = "/models"
    """Path of the model list after `base_url`; empty when there is none."""
    headers: dict[str, str] = {}  #: Sent with every request.
    login: LoginSpec | None = None
    request_seconds: float | None = None
    """Longest duration of one request; None: `timeouts.request_seconds`."""
    profile: ModelProfile = ModelProfile()
    """Applies to all its models unless the facts of a model differ."""


# Logins. Only logins with a public protocol are listed. Nous Portal has one too, but it is not
# documented; its users create an API key on the portal.

CODEX_LOGIN = LoginSpec(
    client_id="app_EMoamEEZ73f0CkXaXp7hrann",
    device_url="https://auth.openai.com/api/accounts/deviceauth/usercode",
    token_url="https://auth.openai.com/oauth/token",
    scope="openid profile email offline_access",
    flow="codex",
)
"""A ChatGPT subscription, as the Codex CLI logs in on a machine without a browser."""

COPILOT_LOGIN = LoginSpec(
    client_id="Iv1.b507a08c87ecfe98",
    device_url="https://github.com/login/device/code",
    token_url="https://github.com/login/oauth/access_token",
    scope="read:user",
    exchange_url="https://api.github.com/copilot_internal/v2/token",
)
"""A GitHub account with Copilot, with the client id that editors use."""

GOOGLE_LOGIN = LoginSpec(
    client_id="", device_url="", token_url="https://oauth2.googleapis.com/token", flow="google"
)
"""A Google account, with the OAuth client in HERMES_GEMINI_CLIENT_ID and _SECRET."""

QWEN_LOGIN = LoginSpec(
    client_id="f0304373b74a44d2b584a3fb70ca9e56",
    device_url="https://chat.qwen.ai/api/v1/oauth2/device/code",
    token_url="https://chat.qwen.ai/api/v1/oauth2/token",
    scope="openid profile email model.completion",
    pkce=True,
)
"""A Qwen account, as Qwen Code logs in."""


# The endpoints, in the order of `auto`: the first one with a key of its own is used. Facts about
# single models are in `hermes.providers.catalog`; a profile here applies to every model of its
# endpoint.

_CODEX_PROFILE = ModelProfile(
    reasoning="object", streaming="always", max_tokens_field="", temperature=False
)
_REASONING_FIELD = "reasoning_content"
"""The field in which makers of open models send reasoning and expect it back."""

# fmt: off
ENDPOINTS = (
    Endpoint("openrouter", "OpenRouter", "https://openrouter.ai/api/v1",
        key_vars=("OPENROUTER_API_KEY",), base_url_vars=("OPENROUTER_BASE_URL",),
        default_model="anthropic/claude-sonnet-5.5", small_model="openai/gpt-6-luna",
        profile=ModelProfile(reasoning="object", cache_marks=True)),
    Endpoint("nous", "Nous Portal", "https://inference-api.nousresearch.com/v1",
        key_vars=("NOUS_API_KEY",), base_url_vars=("NOUS_INFERENCE_BASE_URL", "NOUS_BASE_URL"),
        aliases=("nousresearch", "nous-portal"), default_model="Hermes-4-405B",
        small_model="Hermes-4-70B"),
    Endpoint("ai-gateway", "Vercel AI Gateway", "https://ai-gateway.vercel.sh/v1",
        key_vars=("AI_GATEWAY_API_KEY",), base_url_vars=("AI_GATEWAY_BASE_URL",),
        aliases=("vercel",), default_model="anthropic/claude-sonnet-5.5",
        small_model="openai/gpt-6-luna",
        profile=ModelProfile(reasoning="object", cache_marks=True)),
    Endpoint("anthropic", "Anthropic", "https://api.anthropic.com/v1",
        api_mode="anthropic_messages", auth="x-api-key",
        key_vars=("ANTHROPIC_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY"),
        aliases=("claude",), default_model="claude-sonnet-5-5", small_model="claude-haiku-5-5",
        request_seconds=900, profile=ModelProfile(cache_marks=True, images=True)),
    # Newer models refuse tools on chat completions, so agents use the responses API.
    Endpoint("openai", "OpenAI", "https://api.openai.com/v1",
        api_mode="codex_responses", custom_url_api_mode="chat_completions",
        key_vars=("OPENAI_API_KEY",), default_model="gpt-6-sol", small_model="gpt-6-luna",
        profile=ModelProfile(reasoning="object")),
    Endpoint("gemini", "Google Gemini", "https://generativelanguage.googleapis.com/v1beta/openai",
        key_vars=("GOOGLE_API_KEY", "GEMINI_API_KEY"), base_url_vars=("GEMINI_BASE_URL",),
        aliases=("google", "google-gemini"), default_model="gemini-3.8-flash",
        small_model="gemini-3.1-flash-lite", profile=ModelProfile(reasoning="effort")),
    Endpoint("xai", "xAI", "https://api.x.ai/v1",
        key_vars=("XAI_API_KEY",), base_url_vars=("XAI_BASE_URL",), aliases=("grok", "x-ai"),
        default_model="grok-4.7", models_path="/language-models",
        profile=ModelProfile(reasoning="effort")),
    Endpoint("deepseek", "DeepSeek", "https://api.deepseek.com/v1",
        key_vars=("DEEPSEEK_API_KEY",), base_url_vars=("DEEPSEEK_BASE_URL",),
        default_model="deepseek-v4-pro", small_model="deepseek-flash",
        profile=ModelProfile(reasoning="effort", thinking_field=_REASONING_FIELD)),
    Endpoint("mistral", "Mistral", "https://api.mistral.ai/v1",
        key_vars=("MISTRAL_API_KEY",), aliases=("mistralai",), default_model="mistral-large-latest",
        small_model="mistral-small-latest",
        profile=ModelProfile(strict=True, nine_letter_ids=True)),
    Endpoint("groq", "Groq", "https://api.groq.com/openai/v1",
        key_vars=("GROQ_API_KEY",), base_url_vars=("GROQ_BASE_URL",),
        default_model="openai/gpt-oss-120b", small_model="openai/gpt-oss-20b",
        profile=ModelProfile(reasoning="effort", strict=True)),
    Endpoint("zai", "Z.ai", "https://api.z.ai/api/paas/v4",
        key_vars=("GLM_API_KEY", "ZAI_API_KEY", "Z_AI_API_KEY"), base_url_vars=("GLM_BASE_URL",),
        key_hosts=("open.bigmodel.cn",), aliases=("glm", "z-ai", "zhipu"), default_model="glm-5.3",
        small_model="glm-5.3-flash",
        profile=ModelProfile(reasoning="switch", thinking_field=_REASONING_FIELD)),
    Endpoint("kimi-coding", "Moonshot Kimi", "https://api.moonshot.ai/v1",
        key_vars=("KIMI_API_KEY",), base_url_vars=("KIMI_BASE_URL",), key_hosts=("api.kimi.com",),
        aliases=("kimi", "moonshot", "moonshotai"), default_model="kimi-k3",
        small_model="kimi-k2.5",
        profile=ModelProfile(reasoning="switch", thinking_field=_REASONING_FIELD)),
    Endpoint("kimi-coding-cn", "Moonshot Kimi (China)", "https://api.moonshot.cn/v1",
        key_vars=("KIMI_CN_API_KEY",), aliases=("kimi-cn", "moonshot-cn"), default_model="kimi-k3",
        small_model="kimi-k2.5",
        profile=ModelProfile(reasoning="switch", thinking_field=_REASONING_FIELD)),
    Endpoint("minimax", "MiniMax", "https://api.minimax.io/v1",
        key_vars=("MINIMAX_API_KEY",), base_url_vars=("MINIMAX_BASE_URL",),
        default_model="MiniMax-M3", profile=ModelProfile(extra_body={"reasoning_split": True})),
    Endpoint("minimax-cn", "MiniMax (China)", "https://api.minimaxi.com/v1",
        key_vars=("MINIMAX_CN_API_KEY",), base_url_vars=("MINIMAX_CN_BASE_URL",),
        default_model="MiniMax-M3", profile=ModelProfile(extra_body={"reasoning_split": True})),
    # aliyuncs.com also hosts buckets of other customers, so only these exact names.
    Endpoint("alibaba", "Alibaba DashScope",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        key_vars=("DASHSCOPE_API_KEY",), base_url_vars=("DASHSCOPE_BASE_URL",),
        key_hosts=("dashscope.aliyuncs.com", "dashscope-us.aliyuncs.com",
            "coding.dashscope.aliyuncs.com", "coding-intl.dashscope.aliyuncs.com"),
        aliases=("dashscope", "qwen", "alibaba-cloud"), default_model="qwen3.7-plus",
        small_model="qwen-flash",
        profile=ModelProfile(reasoning="enable_thinking", thinking_field=_REASONING_FIELD)),
    Endpoint("xiaomi", "Xiaomi MiMo", "https://api.xiaomimimo.com/v1",
        key_vars=("XIAOMI_API_KEY",), base_url_vars=("XIAOMI_BASE_URL",),
        aliases=("mimo", "xiaomi-mimo"), default_model="mimo-v2.6-pro",
        small_model="mimo-v2.6-flash",
        profile=ModelProfile(reasoning="switch", thinking_field=_REASONING_FIELD)),
    Endpoint("arcee", "Arcee AI", "https://api.arcee.ai/api/v1",
        key_vars=("ARCEEAI_API_KEY",), base_url_vars=("ARCEE_BASE_URL",),
        aliases=("arcee-ai", "arceeai"), default_model="trinity-large-thinking",
        small_model="trinity-mini"),
    Endpoint("nvidia", "NVIDIA", "https://integrate.api.nvidia.com/v1",
        key_vars=("NVIDIA_API_KEY",), base_url_vars=("NVIDIA_BASE_URL",), aliases=("nim",),
        default_model="nvidia/nemotron-3-super-120b-a12b",
        small_model="nvidia/nemotron-3-nano-30b-a3b"),
    Endpoint("kilocode", "Kilo Gateway", "https://api.kilo.ai/api/gateway",
        key_vars=("KILOCODE_API_KEY",), base_url_vars=("KILOCODE_BASE_URL",),
        aliases=("kilo", "kilo-code"), default_model="kilo/auto",
        profile=ModelProfile(reasoning="object", cache_marks=True)),
    # Both OpenCode gateways serve Claude and GPT models through other APIs; the defaults are models
    # that chat completions can reach.
    Endpoint("opencode-zen", "OpenCode Zen", "https://opencode.ai/zen/v1",
        key_vars=("OPENCODE_ZEN_API_KEY",), base_url_vars=("OPENCODE_ZEN_BASE_URL",),
        aliases=("opencode", "zen"), default_model="deepseek-v4-pro",
        small_model="deepseek-v4.1-flash"),
    Endpoint("opencode-go", "OpenCode Go", "https://opencode.ai/zen/go/v1",
        key_vars=("OPENCODE_GO_API_KEY",), base_url_vars=("OPENCODE_GO_BASE_URL",),
        default_model="kimi-k3", small_model="deepseek-v4.1-flash",
        headers={"x-opencode-session": "hermes"}),
    Endpoint("ollama-cloud", "Ollama Cloud", "https://ollama.com/v1",
        key_vars=("OLLAMA_API_KEY",), base_url_vars=("OLLAMA_BASE_URL",), default_model="glm-5.3",
        small_model="gpt-oss:20b", profile=ModelProfile(reasoning="effort", strict=True)),
    Endpoint("openai-codex", "ChatGPT subscription (Codex)",
        "https://chatgpt.com/backend-api/codex",
        api_mode="codex_responses", aliases=("codex", "chatgpt"), default_model="gpt-6-sol",
        small_model="gpt-6-luna", models_path="", login=CODEX_LOGIN, profile=_CODEX_PROFILE),
    Endpoint("qwen-oauth", "Qwen account", "https://portal.qwen.ai/v1",
        base_url_vars=("HERMES_QWEN_BASE_URL",), key_hosts=("dashscope.aliyuncs.com",),
        aliases=("qwen-portal", "qwen-code"), default_model="coder-model", models_path="",
        login=QWEN_LOGIN, profile=ModelProfile(thinking_field=_REASONING_FIELD)),
    # From here on the variables are often set for other programs.
    Endpoint("huggingface", "Hugging Face", "https://router.huggingface.co/v1",
        key_vars=("HF_TOKEN",), shared_key_vars=("HF_TOKEN",), base_url_vars=("HF_BASE_URL",),
        aliases=("hf", "hugging-face"), default_model="zai-org/GLM-5.3",
        small_model="openai/gpt-oss-120b"),
    Endpoint("copilot", "GitHub Copilot", "https://api.githubcopilot.com",
        key_vars=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
        shared_key_vars=("GH_TOKEN", "GITHUB_TOKEN"), key_hosts=("api.*.githubcopilot.com",),
        aliases=("github-copilot", "github"), default_model="claude-sonnet-5",
        small_model="gpt-5-mini",
        headers={"Copilot-Integration-Id": "vscode-chat", "Editor-Version": "vscode/1.107.0",
            "Openai-Intent": "conversation-edits"}, login=COPILOT_LOGIN),
    Endpoint("bedrock", "Amazon Bedrock",
        "https://bedrock-runtime.{region}.amazonaws.com/openai/v1",
        auth="aws", key_vars=("AWS_BEARER_TOKEN_BEDROCK",),
        shared_key_vars=("AWS_ACCESS_KEY_ID", "AWS_PROFILE"), base_url_vars=("BEDROCK_BASE_URL",),
        key_hosts=("bedrock-runtime.*.amazonaws.com", "bedrock-mantle.*.api.aws"),
        aliases=("aws", "amazon-bedrock"), default_model="openai.gpt-oss-120b-1:0",
        small_model="openai.gpt-oss-20b-1:0", models_path="",
        profile=ModelProfile(reasoning="effort")),
    # A program on this machine with its own login; see `providers.acp`.
    Endpoint("copilot-acp", "GitHub Copilot CLI", "acp://copilot",
        api_mode="acp", needs_key=False, default_model="default", models_path="",
        profile=ModelProfile(price=FREE)),
    Endpoint("google-gemini-cli", "Gemini CLI login",
        "https://cloudcode-pa.googleapis.com/v1internal",
        api_mode="code_assist", aliases=("gemini-cli",), default_model="gemini-3-flash-preview",
        small_model="gemini-2.5-flash-lite", models_path="", login=GOOGLE_LOGIN,
        profile=ModelProfile(reasoning="effort", streaming="always")),
    Endpoint("ollama", "Ollama on this machine", "http://127.0.0.1:11434/v1",
        needs_key=False, profile=ModelProfile(price=FREE, reasoning="effort")),
    Endpoint("lmstudio", "LM Studio on this machine", "http://127.0.0.1:1234/v1",
        needs_key=False, aliases=("lm-studio",), models_path="/../api/v0/models",
        profile=ModelProfile(price=FREE)),
    Endpoint("vllm", "vLLM on this machine", "http://127.0.0.1:8000/v1",
        needs_key=False, profile=ModelProfile(price=FREE, reasoning="effort")),
    Endpoint("llamacpp", "llama.cpp on this machine", "http://127.0.0.1:8080/v1",
        needs_key=False, aliases=("llama.cpp", "llama-cpp", "llama-server"),
        profile=ModelProfile(price=FREE)),
    Endpoint("custom", "any OpenAI-compatible endpoint",
        key_vars=("OPENAI_API_KEY",), base_url_vars=("OPENAI_BASE_URL",), needs_key=False,
        profile=ModelProfile(reasoning="effort")),
    Endpoint("local", "the embedded starter model",
        needs_key=False, models_path="",
        profile=ModelProfile(price=FREE, small=True, keep_alive=False)),
)
# fmt: on


def find_endpoint(name: str) -> Endpoint | None:
    """Return the endpoint with this id or alias."""
    return next((e for e in ENDPOINTS if name == e.id or name in e.aliases), None)


def own_key_variables() -> frozenset[str]:
    """Return the variables with model keys, without those that other programs share."""
    return frozenset(
        name for each in ENDPOINTS for name in each.key_vars if name not in each.shared_key_vars
    )


# Hosts and keys. A key is sent to its own provider over TLS and to no other host: not to a base URL
# that replaces the provider's, not to a look-alike name, not along a redirect (the HTTP client
# follows none). URLs are parsed by the library that sends the request, so that both see the same
# host.

_UNSAFE_CHARACTERS = re.compile(r"[\s\\\x00-\x1f\x7f]")
_HTTPS_PORT = 443


def may_receive_key(endpoint: Endpoint, url: str) -> bool:
    """Return whether the keys of `endpoint` may be sent to `url`."""
    parsed = _parse_url(url)
    if parsed is None:
        return False
    own = _parse_url(endpoint.base_url)
    if own is not None and _origin(parsed) == _origin(own):
        return True
    if parsed.scheme != "https" or parsed.port not in (None, _HTTPS_PORT):
        return False
    return any(_host_matches(pattern, parsed.raw_host.decode()) for pattern in endpoint.key_hosts)


@lru_cache(maxsize=256)
def endpoint_of_host(url: str) -> Endpoint | None:
    """Return the endpoint that this host belongs to, or None."""
    return next(
        (e for e in ENDPOINTS if (e.base_url or e.key_hosts) and may_receive_key(e, url)), None
    )


def is_loopback(url: str) -> bool:
    """Return whether `url` is an HTTP address on this machine."""
    parsed = _parse_url(url)
    return parsed is not None and hosts.is_loopback(parsed.host)


def check_base_url(url: str, source: str) -> str:
    """Return `url` without a trailing slash. Raises `ConfigError` when it is not usable.

    `source` names the setting or variable it came from.
    """
    parsed = _parse_url(url)
    if (
        parsed is not None
        and parsed.host
        and not (parsed.userinfo or parsed.query or parsed.fragment)
    ):
        return url.rstrip("/")
    hint = "an example of an address: http://127.0.0.1:8080/v1"
    if parsed is not None and parsed.userinfo:
        hint = "leave out the part before @; a key goes into model.api_key"
        url = f"{parsed.scheme}://…@{parsed.host}"
    raise ConfigError(f"{source}: {url!r} is not a valid address", hint=hint)


def _origin(url: "httpx2.URL") -> tuple[str, str, int | None]:
    return url.scheme, url.raw_host.decode(), url.port


@lru_cache(maxsize=256)
def _parse_url(url: str) -> "httpx2.URL | None":
    if _UNSAFE_CHARACTERS.search(url) or not url.startswith(("http://", "https://")):
        return None
    import httpx2  # slow to load; the tables above are read without it

    try:
        return httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError):
        return None


def _host_matches(pattern: str, host: str) -> bool:
    """Match host names; `*` stands for exactly one label, so a pattern covers no other domain."""
    wanted, labels = pattern.split("."), host.split(".")
    return len(wanted) == len(labels) and all(
        want in ("*", label) for want, label in zip(wanted, labels, strict=True)
    )
