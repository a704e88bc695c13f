"""Environment variables and what they set. They count only where config.yaml is silent."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hermes.config.keys import Parts, split_key
from hermes.config.masking import is_secret_variable

_TRUE = frozenset({"1", "true", "yes", "on", "y"})


class Variable(NamedTuple):
    """One variable that sets a key."""

    name: str
    key: str
    flag: str = ""
    """When given, a true value of the variable means this value of the key."""
    only_for: tuple[str, ...] = ()
    """When given, the variable counts only for these values of model.provider."""

    @property
    def parts(self) -> Parts:
        return split_key(self.key)

    def meaning(self, text: str) -> str | None:
        """The value `text` gives the key, or None when it says nothing."""
        if self.flag:
            return self.flag if text.strip().lower() in _TRUE else None
        return text


def _group(prefix: str, section: str, names: str) -> Iterator[Variable]:
    """`TERMINAL_` + `SSH_HOST` sets `terminal.ssh_host`, for each of `names`."""
    for name in names.split():
        yield Variable(f"{prefix}{name}", f"{section}.{name.lower()}")


VARIABLES: tuple[Variable, ...] = (
    Variable("HERMES_MODEL", "model.default"),
    Variable("HERMES_INFERENCE_PROVIDER", "model.provider"),
    Variable("OPENAI_BASE_URL", "model.base_url", only_for=("", "auto", "custom")),
    Variable("AWS_REGION", "bedrock.region"),
    Variable("AWS_PROFILE", "bedrock.profile"),
    Variable("HERMES_API_TIMEOUT", "timeouts.request_seconds"),
    Variable("HERMES_API_CALL_STALE_TIMEOUT", "timeouts.stale_seconds"),
    Variable("HERMES_STREAM_READ_TIMEOUT", "timeouts.stream_read_seconds"),
    Variable("HERMES_STREAM_STALE_TIMEOUT", "timeouts.stream_stale_seconds"),
    *_group("AUXILIARY_VISION_", "auxiliary.vision", "PROVIDER MODEL BASE_URL API_KEY"),
    *_group("AUXILIARY_WEB_EXTRACT_", "auxiliary.web_extract", "PROVIDER MODEL BASE_URL API_KEY"),
    Variable("HERMES_MAX_ITERATIONS", "agent.max_turns"),
    Variable("HERMES_PREFILL_MESSAGES_FILE", "agent.prefill_messages_file"),
    Variable("HERMES_EPHEMERAL_SYSTEM_PROMPT", "agent.ephemeral_system_prompt"),
    Variable("HERMES_YOLO_MODE", "approvals.mode", flag="off"),
    Variable("HERMES_ACCEPT_HOOKS", "hooks_auto_accept"),
    Variable("HERMES_ENABLE_PROJECT_PLUGINS", "plugins.project"),
    Variable("HERMES_DUMP_REQUESTS", "logging.dump_requests"),
    Variable("DELEGATION_MAX_CONCURRENT_CHILDREN", "delegation.max_concurrent_children"),
    Variable("HERMES_TIMEZONE", "timezone"),
    Variable("HERMES_CRON_TIMEOUT", "cron.timeout_seconds"),
    Variable("HERMES_CRON_SCRIPT_TIMEOUT", "cron.script_timeout_seconds"),
    Variable("SESSION_IDLE_MINUTES", "session_reset.idle_minutes"),
    Variable("SESSION_RESET_HOUR", "session_reset.at_hour"),
    Variable("TERMINAL_ENV", "terminal.backend"),
    *_group(
        "TERMINAL_",
        "terminal",
        "DOCKER_IMAGE DOCKER_FORWARD_ENV DOCKER_VOLUMES DOCKER_MOUNT_CWD_TO_WORKSPACE"
        " SINGULARITY_IMAGE MODAL_IMAGE DAYTONA_IMAGE TIMEOUT LIFETIME_SECONDS CWD SSH_HOST"
        " SSH_USER SSH_PORT SSH_KEY SSH_PERSISTENT CONTAINER_CPU CONTAINER_MEMORY CONTAINER_DISK"
        " CONTAINER_PERSISTENT SANDBOX_DIR SCRATCH_DIR PERSISTENT_SHELL LOCAL_PERSISTENT",
    ),
    Variable("BROWSER_CDP_URL", "browser.cdp_url"),
    Variable("BROWSER_INACTIVITY_TIMEOUT", "browser.inactivity_timeout"),
    Variable("CAMOFOX_URL", "browser.camofox.url"),
    Variable("STT_GROQ_MODEL", "stt.groq.model"),
    Variable("STT_OPENAI_MODEL", "stt.openai.model"),
    Variable("STT_OPENAI_BASE_URL", "stt.openai.base_url"),
    Variable("HERMES_LOCAL_STT_COMMAND", "stt.local.command"),
    Variable("HERMES_LOCAL_STT_LANGUAGE", "stt.local.language"),
    Variable("HERMES_TOOL_PROGRESS_MODE", "display.tool_progress"),
    Variable("HERMES_TOOL_PROGRESS", "display.tool_progress"),
    Variable("HERMES_BACKGROUND_NOTIFICATIONS", "display.background_process_notifications"),
    *_group("HERMES_HUMAN_DELAY_", "human_delay", "MODE MIN_MS MAX_MS"),
    Variable("GATEWAY_PROXY_URL", "gateway.proxy_url"),
    Variable("MESSAGING_CWD", "gateway.cwd"),
    *_group(
        "DISCORD_",
        "discord",
        "REQUIRE_MENTION FREE_RESPONSE_CHANNELS AUTO_THREAD REACTIONS IGNORED_CHANNELS"
        " NO_THREAD_CHANNELS ALLOWED_CHANNELS",
    ),
    *_group(
        "DISCORD_ALLOW_MENTION_", "discord.allow_mentions", "EVERYONE ROLES USERS REPLIED_USER"
    ),
    Variable("DISCORD_REPLY_TO_MODE", "platforms.discord.reply_to_mode"),
    *_group("TELEGRAM_", "telegram", "REACTIONS IGNORED_THREADS"),
    Variable("TELEGRAM_PROXY", "telegram.proxy_url"),
    Variable("TELEGRAM_REPLY_TO_MODE", "platforms.telegram.reply_to_mode"),
    *_group(
        "MATRIX_",
        "matrix",
        "REQUIRE_MENTION FREE_RESPONSE_ROOMS AUTO_THREAD DM_MENTION_THREADS REACTIONS",
    ),
    *_group("MATTERMOST_", "mattermost", "REQUIRE_MENTION FREE_RESPONSE_CHANNELS REPLY_MODE"),
    Variable("WEBHOOK_PORT", "platforms.webhook.extra.port"),
    Variable("WEBHOOK_SECRET", "platforms.webhook.extra.secret"),
    *_group("WEIXIN_", "platforms.weixin.extra", "DM_POLICY GROUP_POLICY"),
    *_group("WECOM_CALLBACK_", "platforms.wecom_callback.extra", "HOST PORT"),
)
"""For two variables of one key the first one that is set counts."""

_KNOWN = re.compile(
    r"(?:"
    r"HERMES|TERMINAL|OPENROUTER|NOUS|AI_GATEWAY|OPENAI|COPILOT|GLM|ZAI|Z_AI|KIMI|"
    r"ARCEE|ARCEEAI|MINIMAX|KILOCODE|XIAOMI|HF|GOOGLE|GEMINI|ANTHROPIC|CLAUDE_CODE|"
    r"DASHSCOPE|DEEPSEEK|NVIDIA|OLLAMA|XAI|MISTRAL|AWS|BEDROCK|OPENCODE|GROQ|"
    r"VOICE_TOOLS|PARALLEL|FIRECRAWL|TAVILY|EXA|BRAVE|SEARXNG|BROWSERBASE|BROWSER|CAMOFOX|FAL|"
    r"ELEVENLABS|STT|HONCHO|SUPERMEMORY|TINKER|WANDB|DAYTONA|MODAL|TOOL_GATEWAY|"
    r"TELEGRAM|DISCORD|SLACK|WHATSAPP|SIGNAL|TWILIO|SMS|EMAIL|DINGTALK|FEISHU|WECOM|"
    r"WEIXIN|QQ|QQBOT|BLUEBUBBLES|MATTERMOST|MATRIX|HASS|WEBHOOK|API_SERVER|GATEWAY|"
    r"LOCAL|MESSAGING|DELEGATION|SESSION|AUXILIARY|GITHUB|GH|SUDO"
    r")_[A-Z0-9_]+"
)
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


def is_variable_name(name: str) -> bool:
    """Whether `name` is written like a variable and not like a key of config.yaml."""
    return bool(_NAME.fullmatch(name))


def is_known_variable(name: str) -> bool:
    """Whether `name` belongs to something Hermes works with."""
    return bool(_KNOWN.fullmatch(name)) or is_secret_variable(name)


def key_of(name: str) -> str:
    """The key a variable sets, or nothing."""
    return next((variable.key for variable in VARIABLES if variable.name == name), "")


class Setting(NamedTuple):
    """A value that came from a variable."""

    value: str
    name: str
    saved: bool
    """From .env; else from the environment of the process."""


def from_variables(
    saved: Mapping[str, str], environ: Mapping[str, str], provider: str
) -> dict[Parts, Setting]:
    """What the variables set. A saved choice beats a stale export; an empty value says nothing.

    `provider` is the provider config.yaml or the command line names, or "".
    """
    found: dict[Parts, Setting] = {}
    for variable in VARIABLES:
        text = saved.get(variable.name) or environ.get(variable.name)
        meaning = variable.meaning(text) if text else None
        if meaning is None or variable.parts in found:
            continue
        if variable.only_for:
            named = found.get(("model", "provider"))
            if (provider or (named.value if named else "")) not in variable.only_for:
                continue
        found[variable.parts] = Setting(meaning, variable.name, bool(saved.get(variable.name)))
    return found
