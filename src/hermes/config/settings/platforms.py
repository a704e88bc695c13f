"""Messaging platforms: how the agent behaves on each."""

from typing import Any, Literal

from hermes.config.settings.base import (
    ChatTerminalName,
    Count,
    Dollars,
    LeaseSeconds,
    PlatformBehaviour,
    PlatformConnectionSettings,
    Port,
    Positive,
    Seconds,
    Section,
)
from hermes.config.settings.reserved import (
    DingtalkPlatform,
    FeishuPlatform,
    HomeAssistantPlatform,
    WecomCallbackPlatform,
    WeixinPlatform,
)

# What single messaging platforms have in their `extra` block.


class WebhookExtra(Section, frozen=True):
    host: str = "127.0.0.1"  #: Address it listens on; `0.0.0.0` lets other machines call.
    port: Port = 8644  #: Port it listens on.
    secret: str = ""  #: Secret of routes that have none of their own.
    rate_limit: Count = 30  #: Calls a minute for one route.
    max_body_bytes: Positive = 1_048_576  #: Largest body taken.
    routes: dict[str, dict[str, Any]] = {}  #: Routes, by name.


class ApiServerExtra(Section, frozen=True):
    key: str = ""
    """Key that clients have to give; empty is API_SERVER_KEY, which is generated if missing."""
    host: str = ""  #: Address it listens on; empty is API_SERVER_HOST, or 127.0.0.1.
    port: Port | None = None  #: Port it listens on; unset is API_SERVER_PORT, or 8642.
    cors_origins: tuple[str, ...] = ()
    """Web pages that may use it; empty is API_SERVER_CORS_ORIGINS, or none."""
    model_name: str = ""
    """What clients see as the model; empty is API_SERVER_MODEL_NAME, or hermes."""


Role = Literal["owner", "member", "guest"]


class WhatsAppSettings(PlatformBehaviour, frozen=True):
    reply_prefix: str = ""  #: Text before each answer.


class MattermostSettings(PlatformBehaviour, frozen=True):
    require_mention: bool = True  #: Answer in channels only when mentioned.
    free_response_channels: tuple[str, ...] = ()  #: Channels where no mention is needed.
    reply_mode: str = ""  #: `thread` answers in a thread; empty in the channel.
    channel_prompts: dict[str, str] = {}  #: Further instructions for single channels, by id.


class Platform(PlatformConnectionSettings, frozen=True):
    extra: dict[str, Any] = {}  #: What only this platform has.


class WebhookPlatform(PlatformConnectionSettings, frozen=True):
    extra: WebhookExtra = WebhookExtra()


class ApiServerPlatform(PlatformConnectionSettings, frozen=True):
    extra: ApiServerExtra = ApiServerExtra()


class PlatformsSettings(Section, frozen=True):
    """Platforms that are part of the gateway, and documented ones that do not exist yet."""

    whatsapp: Platform = Platform()
    signal: Platform = Platform()
    mattermost: Platform = Platform()
    sms: Platform = Platform()
    dingtalk: DingtalkPlatform = DingtalkPlatform()
    feishu: FeishuPlatform = FeishuPlatform()
    wecom: Platform = Platform()
    wecom_callback: WecomCallbackPlatform = WecomCallbackPlatform()
    weixin: WeixinPlatform = WeixinPlatform()
    bluebubbles: Platform = Platform()
    qq: Platform = Platform()
    homeassistant: HomeAssistantPlatform = HomeAssistantPlatform()
    webhook: WebhookPlatform = WebhookPlatform()
    api_server: ApiServerPlatform = ApiServerPlatform()
    local: Platform = Platform()


class GatewaySettings(Section, frozen=True):
    proxy_url: str = ""  #: Hermes API server that does the work instead of this machine.
    cwd: str = "~"  #: Folder commands start in when a chat asks.
    terminal: ChatTerminalName = "auto"
    """Where commands of chats run; `auto` is terminal.backend, but a sandbox instead of `local`."""
    owners: tuple[str, ...] = ()  #: Users with every right, as `telegram:12345`.
    roles: dict[str, Role] = {}  #: Roles of single users, by `telegram:12345`.
    open_role: Role = "guest"  #: Role of those who are let in only because everybody is.
    role_toolsets: dict[str, tuple[str, ...]] = {}
    """Toolsets of a role, by role; unset are ours: all for owners and members, few for guests."""
    role_commands: dict[str, tuple[str, ...]] = {}
    """Slash commands of a role, by role; unset are ours."""
    user_day_usd: Dollars | None = None
    """Most one user may cost in a day, in US dollars; unset means no limit. Owners are exempt."""
    live_agents: Positive = 64  #: Conversations kept ready in memory.
    drain_seconds: Seconds = 30
    """Seconds that running turns get to end when the gateway stops; the rest goes on later."""
    lease_seconds: LeaseSeconds = 5
    """With a shared store: seconds without a sign of life after which another gateway takes over
    the work of this one. Three times in this period it tells the store that it is alive."""
    min_free_mb: Count = 100
    """Free disk space of the home in megabytes below which the gateway reports that it is not
    ready; 0 checks nothing."""
    stuck_minutes: Positive = 30  #: Minutes without any sign of life after which a turn is stopped.
    media_max_bytes: Positive = 20_000_000  #: Largest file taken from a chat.
    media_keep_days: Positive = 7  #: Days that files from chats are kept.
    keep_days: Positive = 30
    """Days that messages which are done are remembered, so that they are not taken twice."""
    metrics_port: Port = 0
    """Port on this machine for Prometheus; 0 is none. The API server has /metrics too."""
