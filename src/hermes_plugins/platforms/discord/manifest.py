"""The manifest of the Discord platform."""

from msgspec import field

from hermes.sdk.platforms import (
    ALL_MEDIA,
    Capabilities,
    CredentialField,
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


MANIFEST = PlatformManifest(
    name="discord",
    label="Discord",
    adapter="hermes_plugins.platforms.discord.adapter:DiscordAdapter",
    capabilities=Capabilities(
        max_chars=2000,
        counts="utf16",  # Discord counts code points; this never counts fewer
        dialect="discord",
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
