"""The manifest of the Telegram platform."""

from functools import partial
from html import escape
from typing import Any

from msgspec import field

from hermes.sdk.platforms import (
    ALL_MEDIA,
    WEB_SCHEMES,
    AddressFormat,
    Capabilities,
    CredentialField,
    MessageDialect,
    PlatformBehaviour,
    PlatformConnectionSettings,
    PlatformManifest,
    RateLimit,
    Section,
    UserIdFormat,
    Variable,
    variable_group,
)


class TelegramExtra(Section, frozen=True):
    dm_topics: tuple[Any, ...] = ()  #: Topics made in direct chats.
    group_topics: tuple[Any, ...] = ()  #: Topics of groups and what they are for.
    fallback_ips: tuple[str, ...] = ()  #: Addresses tried when the name cannot be looked up.


class TelegramSettings(PlatformBehaviour, frozen=True):
    proxy_url: str = ""  #: Proxy to Telegram.
    require_mention: bool = False  #: Answer in groups only when mentioned.
    mention_patterns: tuple[str, ...] = ()  #: Patterns that count as a mention.
    ignored_threads: tuple[str, ...] = ()  #: Topics the agent never answers in.
    reactions: bool = False  #: Show progress by reactions.
    channel_prompts: dict[str, str] = field(default_factory=dict)
    """Further instructions for single chats, by id."""


class TelegramPlatform(PlatformConnectionSettings, frozen=True):
    extra: TelegramExtra = TelegramExtra()


_escape = partial(escape, quote=False)


def _fence(language: str, code: str) -> str:
    if language:
        return f'<pre><code class="language-{language}">{_escape(code)}</code></pre>'
    return f"<pre>{_escape(code)}</pre>"


DIALECT = MessageDialect(
    text=_escape,
    strong=("<b>", "</b>"),
    em=("<i>", "</i>"),
    s=("<s>", "</s>"),
    code=lambda code: f"<code>{_escape(code)}</code>",
    link=lambda label, url: f'<a href="{escape(url)}">{label}</a>',
    url=_escape,
    schemes=(*WEB_SCHEMES, "tg://"),
    fence=_fence,
    heading=lambda _level, label: f"<b>{label}</b>" if label else "",
    quote="<blockquote>{}</blockquote>".format,
    quotes_nest=False,
    bullet="• ",
)

MANIFEST = PlatformManifest(
    name="telegram",
    label="Telegram",
    adapter="hermes_plugins.platforms.telegram.adapter:TelegramAdapter",
    capabilities=Capabilities(
        max_chars=4060,  # 4096, with room for the mark of a message that is sent again
        counts="utf16",
        dialect=DIALECT,
        edits=True,
        typing=True,
        reactions=True,
        threads=True,
        buttons=True,
        media_in=ALL_MEDIA,
        media_out=ALL_MEDIA,
        max_upload_bytes=50_000_000,
        per_chat=RateLimit(20, 60.0),
        per_platform=RateLimit(30, 1.0),
    ),
    credentials=(
        CredentialField(
            "TELEGRAM_BOT_TOKEN", "Bot token", "write /newbot to @BotFather on Telegram"
        ),
        CredentialField(
            "TELEGRAM_WEBHOOK_URL",
            "Webhook address",
            "https address that Telegram calls; empty asks Telegram instead",
            secret=False,
            required=False,
            rare=True,
        ),
        CredentialField(
            "TELEGRAM_WEBHOOK_SECRET",
            "Webhook secret",
            "letters, digits, _ and -; empty takes a new one at each start",
            required=False,
            rare=True,
        ),
    ),
    needs=("telegram",),
    env_prefix="TELEGRAM",
    users=UserIdFormat("-?[0-9]+", "a number such as 12345678, not an @name", personal=True),
    addresses=AddressFormat(public_names=r"@[A-Za-z]\w{3,31}"),
    settings=TelegramSettings,
    connection=TelegramPlatform,
    variables=(
        *variable_group("TELEGRAM_", "telegram", "REACTIONS IGNORED_THREADS"),
        Variable("TELEGRAM_PROXY", "telegram.proxy_url"),
        Variable("TELEGRAM_REPLY_TO_MODE", "platforms.telegram.reply_to_mode"),
    ),
    prompt_hint="You are in a Telegram chat. Bold, italic, strike, ||spoiler||, `code`, code"
    " blocks, links and headers render; tables do not.",
    setup_help=(
        "Write /newbot to @BotFather on Telegram and copy the token it gives you. To have the bot"
        " read everything in groups, write /setprivacy to @BotFather and choose Disable."
    ),
)
