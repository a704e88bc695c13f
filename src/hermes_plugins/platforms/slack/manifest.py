"""The manifest of the Slack platform."""

import re
from functools import partial
from html import escape

from msgspec import field

from hermes.sdk.platforms import (
    ALL_MEDIA,
    Capabilities,
    CredentialField,
    MessageDialect,
    PlatformBehaviour,
    PlatformConnectionSettings,
    PlatformManifest,
    RateLimit,
    Section,
    UserIdFormat,
)


class SlackExtra(Section, frozen=True):
    reply_in_thread: bool = True  #: Answer in the thread.
    reply_broadcast: bool = False  #: Show the answer in the channel too.


class SlackSettings(PlatformBehaviour, frozen=True):
    require_mention: bool = True  #: Answer in channels only when mentioned.
    mention_patterns: tuple[str, ...] = ()  #: Patterns that count as a mention.
    reply_prefix: str = ""  #: Text before each answer.
    channel_prompts: dict[str, str] = field(default_factory=dict)
    """Further instructions for single channels, by id."""


class SlackPlatform(PlatformConnectionSettings, frozen=True):
    extra: SlackExtra = SlackExtra()


_ZERO_WIDTH_SPACE = "\u200b"
escape_text = partial(escape, quote=False)
_MARK = re.compile(r"(?<!\w)([*_~])(?=\S)|(`)")
_QUOTE_LINE = re.compile(r"^([^\S\n]*)(?=&gt;)", re.MULTILINE)


def _url(url: str) -> str:
    return escape_text(url).replace("|", "%7C")


def _fence(_language: str, code: str) -> str:  # Slack would show the language as code
    return f"```\n{escape_text(code).replace('```', _ZERO_WIDTH_SPACE.join('```'))}\n```"


DIALECT = MessageDialect(
    text=lambda text: _MARK.sub(lambda mark: mark[0] + _ZERO_WIDTH_SPACE, escape_text(text)),
    strong=("*", "*"),
    em=("_", "_"),
    s=("~", "~"),
    code=lambda code: f"`{escape_text(code).replace('`', 'ˋ')}`",
    link=lambda label, url: f"<{_url(url)}|{label.replace('|', '¦')}>",
    url=lambda url: f"<{_url(url)}>",
    fence=_fence,
    heading=lambda _level, label: f"*{label.replace('*', '')}*" if label else "",
    quote=lambda text: "> " + text.replace("\n", "\n> "),
    paragraph=lambda text: _QUOTE_LINE.sub(rf"\1{_ZERO_WIDTH_SPACE}", text),
    bullet="• ",
)

MANIFEST = PlatformManifest(
    name="slack",
    label="Slack",
    adapter="hermes_plugins.platforms.slack.adapter:SlackAdapter",
    capabilities=Capabilities(
        max_chars=3900,  # 4,000 is what an edit may have
        counts="utf16",
        dialect=DIALECT,
        edits=True,
        typing=True,
        reactions=True,
        threads=True,
        buttons=True,
        media_in=ALL_MEDIA,
        media_out=ALL_MEDIA,
        max_upload_bytes=100_000_000,
        checks_delivery=True,
        per_chat=RateLimit(5, 5.0),
        per_platform=RateLimit(100, 60.0),
    ),
    credentials=(
        CredentialField(
            "SLACK_BOT_TOKEN",
            "Bot token (xoxb-…)",
            "api.slack.com/apps → your app → OAuth & Permissions; several workspaces by commas",
        ),
        CredentialField(
            "SLACK_APP_TOKEN",
            "App-level token (xapp-…)",
            "api.slack.com/apps → your app → Basic Information → App-Level Tokens, with the scope"
            " connections:write",
        ),
    ),
    needs=("slack_sdk", "aiohttp"),
    env_prefix="SLACK",
    users=UserIdFormat(
        "([TE][A-Z0-9]+/)?[UWB][A-Z0-9]+",
        "a member id such as U012AB3CD, of another workspace T024BE7LD/U012AB3CD",
    ),
    knows_groups=True,
    settings=SlackSettings,
    connection=SlackPlatform,
    prompt_hint="You are in a Slack chat. Markdown renders, tables do not.",
    setup_help=(
        "Make an app at api.slack.com/apps and switch on Socket Mode. Bot scopes:"
        " app_mentions:read, channels:history, channels:read, chat:write, commands, files:read,"
        " files:write, groups:history, groups:read, im:history, im:read, im:write, mpim:history,"
        " mpim:read, reactions:write, users:read. Events: app_mention, message.channels,"
        " message.groups, message.im, message.mpim. Add the slash command /hermes, allow"
        " messages in the app's Messages tab, install the app, and invite it to channels"
        " with /invite."
    ),
)
