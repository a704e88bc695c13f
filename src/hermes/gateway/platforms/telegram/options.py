"""What the adapter is told by config.yaml and by variables."""

import re
from typing import Any

import msgspec

from hermes.gateway.platforms.base import AdapterContext, CredentialsRefused

API = "https://api.telegram.org"
TOKEN_HINT = "Write /newbot or /token to @BotFather and set TELEGRAM_BOT_TOKEN."
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")


class Topic(msgspec.Struct, frozen=True):
    name: str
    thread_id: int | None = None
    icon_color: int | None = None


class ChatTopics(msgspec.Struct, frozen=True):
    chat_id: int
    topics: tuple[Topic, ...] = ()


class Options(msgspec.Struct, frozen=True):
    token: str
    base_url: str = API
    """Where the Bot API is; TELEGRAM_API_BASE_URL names one's own server."""
    proxy: str = ""
    fallback_ips: tuple[str, ...] = ()
    webhook_url: str = ""
    """Empty is long polling."""
    webhook_port: int = 8443
    webhook_secret: str = ""
    reactions: bool = False
    dm_topics: tuple[ChatTopics, ...] = ()
    group_topics: tuple[ChatTopics, ...] = ()


def options_from(context: AdapterContext) -> Options:
    """Raises `CredentialsRefused` without a token, or for values that cannot be."""
    extra = getattr(context.connection, "extra", None)
    token = getattr(context.connection, "token", "") or context.variable("TELEGRAM_BOT_TOKEN")
    if not token:
        raise CredentialsRefused("Telegram has no bot token", hint=TOKEN_HINT)
    base = context.extra.get("base_url") or context.variable("TELEGRAM_API_BASE_URL") or API
    return Options(
        token=token.strip(),
        base_url=str(base).rstrip("/"),
        proxy=getattr(context.settings, "proxy_url", "")
        or context.variable("TELEGRAM_PROXY")
        or "",
        fallback_ips=tuple(getattr(extra, "fallback_ips", ())),
        webhook_url=context.variable("TELEGRAM_WEBHOOK_URL") or "",
        webhook_port=_port(context.variable("TELEGRAM_WEBHOOK_PORT")),
        webhook_secret=_secret(context.variable("TELEGRAM_WEBHOOK_SECRET") or ""),
        reactions=bool(getattr(context.settings, "reactions", False)),
        dm_topics=_topics("dm_topics", getattr(extra, "dm_topics", ())),
        group_topics=_topics("group_topics", getattr(extra, "group_topics", ())),
    )


def _port(value: str | None) -> int:
    if not value:
        return Options.webhook_port
    if not value.isascii() or not value.isdecimal() or int(value) > 65535:
        raise CredentialsRefused(f"TELEGRAM_WEBHOOK_PORT is no port: {value}", hint="8443 is usual")
    return int(value)


def _secret(value: str) -> str:
    if value and not _SECRET.fullmatch(value):
        raise CredentialsRefused(
            "TELEGRAM_WEBHOOK_SECRET has characters that Telegram does not take",
            hint="use up to 256 letters, digits, _ and -",
        )
    return value


def _topics(name: str, value: Any) -> tuple[ChatTopics, ...]:
    try:
        return msgspec.convert(value, tuple[ChatTopics, ...], strict=False)
    except msgspec.ValidationError as error:
        raise CredentialsRefused(
            f"platforms.telegram.extra.{name}: {error}",
            hint="each entry has a chat_id and topics, each of which has a name",
        ) from None
