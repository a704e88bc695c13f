"""What single messaging platforms have in their `extra` block."""

from typing import Any

from msgspec import field

from hermes.config.settings.base import Count, Port, Positive, Seconds, Section


class TelegramExtra(Section, frozen=True):
    dm_topics: tuple[Any, ...] = ()
    """Topics made in direct chats."""
    group_topics: tuple[Any, ...] = ()
    """Topics of groups and what they are for."""
    fallback_ips: tuple[str, ...] = ()
    """Addresses tried when the name cannot be looked up."""


class SlackExtra(Section, frozen=True):
    reply_in_thread: bool = True
    """Answer in the thread."""
    reply_broadcast: bool = False
    """Show the answer in the channel too."""


class FeishuRule(Section, frozen=True):
    policy: str = ""
    """Who is answered in this group."""
    allowlist: tuple[str, ...] = ()
    """Who may talk to the agent."""
    blacklist: tuple[str, ...] = ()
    """Who may not."""


class FeishuExtra(Section, frozen=True):
    ws_reconnect_interval: Seconds = 120
    """Seconds between attempts to connect again."""
    ws_ping_interval: Seconds = 30
    """Seconds between signs of life."""
    default_group_policy: str = ""
    """Who is answered in groups without a rule."""
    admins: tuple[str, ...] = ()
    """Who may always talk to the agent."""
    group_rules: dict[str, FeishuRule] = field(default_factory=dict)
    """Rules for single groups, by id."""


class HomeAssistantExtra(Section, frozen=True):
    watch_domains: tuple[str, ...] = ()
    """Kinds of entities whose changes are reported."""
    watch_entities: tuple[str, ...] = ()
    """Entities whose changes are reported."""
    watch_all: bool = False
    """Report every change."""
    ignore_entities: tuple[str, ...] = ()
    """Entities that are never reported."""
    cooldown_seconds: Seconds = 30
    """Seconds between two reports of one entity."""


class WeixinExtra(Section, frozen=True):
    dm_policy: str = "open"
    """Who is answered in direct chats."""
    group_policy: str = "disabled"
    """Who is answered in groups."""
    allow_from: tuple[str, ...] = ()
    """Who may talk to the agent."""
    group_allow_from: tuple[str, ...] = ()
    """Groups it answers in."""
    groups: dict[str, Any] = field(default_factory=dict)
    """Rules for single groups, by id."""
    split_multiline_messages: bool = False
    """Send each line as a message of its own."""


class WecomCallbackExtra(Section, frozen=True):
    host: str = "0.0.0.0"
    """Address it listens on."""
    port: Port = 8645
    """Port it listens on."""
    apps: tuple[Any, ...] = ()
    """The applications it serves."""


class WebhookExtra(Section, frozen=True):
    host: str = "0.0.0.0"
    """Address it listens on."""
    port: Port = 8644
    """Port it listens on."""
    secret: str = ""
    """Secret of routes that have none of their own."""
    rate_limit: Count = 30
    """Calls a minute for one route."""
    max_body_bytes: Positive = 1_048_576
    """Largest body taken."""
    routes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Routes, by name."""


class ApiServerExtra(Section, frozen=True):
    key: str = ""
    """Key that clients have to give; empty is API_SERVER_KEY."""
    host: str = ""
    """Address it listens on; empty is API_SERVER_HOST, or 127.0.0.1."""
    port: Port | None = None
    """Port it listens on; unset is API_SERVER_PORT, or 8642."""
    cors_origins: tuple[str, ...] = ()
    """Web pages that may use it; empty is API_SERVER_CORS_ORIGINS, or none."""
    model_name: str = ""
    """What clients see as the model; empty is API_SERVER_MODEL_NAME, or hermes."""


class DingtalkExtra(Section, frozen=True):
    card_template_id: str = ""
    """Card that answers are shown in."""
