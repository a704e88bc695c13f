"""The manifest of the Discord platform."""

import re

from msgspec import field

from hermes.sdk.platforms import (
    ALL_MEDIA,
    Capabilities,
    CredentialField,
    MessageDialect,
    PlatformBehaviour,
    PlatformManifest,
    RateLimit,
    Section,
    UserIdFormat,
    Variable,
    variable_group,
)


class AllowedMentions(Section, frozen=True):
    everyone: bool = False  #: Whether answers may ping @everyone.
    roles: bool = False  #: Whether answers may ping roles.
    users: bool = True  #: Whether answers may ping users.
    replied_user: bool = True  #: Whether an answer pings the one it answers.


class DiscordSettings(PlatformBehaviour, frozen=True):
    require_mention: bool = True  #: Answer in servers only when mentioned.
    free_response_channels: tuple[str, ...] = ()  #: Channels where no mention is needed.
    auto_thread: bool = True  #: Open a thread for each conversation.
    reactions: bool = True  #: Show progress by reactions.
    ignored_channels: tuple[str, ...] = ()  #: Channels the agent never answers in.
    no_thread_channels: tuple[str, ...] = ()  #: Channels where no thread is opened.
    allowed_channels: tuple[str, ...] = ()  #: The only channels the agent answers in; empty is all.
    channel_prompts: dict[str, str] = field(default_factory=dict)
    """Further instructions for single channels, by id."""
    allow_mentions: AllowedMentions = AllowedMentions()


_ZERO_WIDTH_SPACE = "\u200b"
_SPECIAL = re.compile(r"([\\*_~`|\[\]])")
_LINE_START = re.compile(r"^([^\S\n]*)((?:-#|#{1,3}|>{1,3}|[-+])(?=\s))", re.MULTILINE)
_NUMBER = re.compile(r"^([^\S\n]*\d+)(?=\.\s)", re.MULTILINE)


def _code(code: str) -> str:
    marks = "``" if "`" in code else "`"
    padding = " " if code.startswith("`") or code.endswith("`") else ""
    return f"{marks}{padding}{code.replace('``', _ZERO_WIDTH_SPACE.join('``'))}{padding}{marks}"


def _fence(language: str, code: str) -> str:
    return f"```{language}\n{code.replace('```', _ZERO_WIDTH_SPACE.join('```'))}\n```"


def _heading(level: int, label: str) -> str:
    if not label:
        return ""
    return f"{'#' * level} {label}" if level <= 3 else f"**{label.replace('**', '')}**"


DIALECT = MessageDialect(
    text=lambda text: _SPECIAL.sub(r"\\\1", text),
    strong=("**", "**"),
    em=("*", "*"),
    s=("~~", "~~"),
    code=_code,
    link=lambda label, url: f"[{label}]({url.replace('(', '%28').replace(')', '%29')})",
    fence=_fence,
    heading=_heading,
    quote=lambda text: "> " + text.replace("\n", "\n> "),
    quotes_nest=False,
    paragraph=lambda text: _NUMBER.sub(r"\1\\", _LINE_START.sub(r"\1\\\2", text)),
)

MANIFEST = PlatformManifest(
    name="discord",
    label="Discord",
    adapter="hermes_plugins.platforms.discord.adapter:DiscordAdapter",
    capabilities=Capabilities(
        max_chars=2000,
        counts="utf16",  # Discord counts code points; this never counts fewer
        dialect=DIALECT,
        edits=True,
        typing=True,
        reactions=True,
        threads=True,
        buttons=True,
        media_in=ALL_MEDIA,
        media_out=ALL_MEDIA,
        max_upload_bytes=10_000_000,
        checks_delivery=True,
        per_chat=RateLimit(5, 5.0),
        per_platform=RateLimit(45, 1.0),
    ),
    credentials=(
        CredentialField(
            "DISCORD_BOT_TOKEN",
            "Bot token",
            "discord.com/developers/applications → your application → Bot → Reset Token",
        ),
    ),
    needs=("discord",),
    env_prefix="DISCORD",
    users=UserIdFormat("[0-9]+", "a number such as 80351110224678912, not a name"),
    knows_groups=True,
    settings=DiscordSettings,
    variables=(
        *variable_group(
            "DISCORD_",
            "discord",
            "REQUIRE_MENTION FREE_RESPONSE_CHANNELS AUTO_THREAD REACTIONS IGNORED_CHANNELS"
            " NO_THREAD_CHANNELS ALLOWED_CHANNELS",
        ),
        *variable_group(
            "DISCORD_ALLOW_MENTION_", "discord.allow_mentions", "EVERYONE ROLES USERS REPLIED_USER"
        ),
        Variable("DISCORD_REPLY_TO_MODE", "platforms.discord.reply_to_mode"),
    ),
    prompt_hint="You are in a Discord chat. Markdown renders, tables do not.",
    setup_help=(
        "Make an application at discord.com/developers/applications. Under Bot, switch on the"
        " Message Content Intent and copy the token. Under OAuth2, make a link with the scopes bot"
        " and applications.commands and the permissions to view channels, send messages, create and"
        " write in threads, attach files, add reactions and read the history; open it to invite the"
        " bot."
    ),
)
