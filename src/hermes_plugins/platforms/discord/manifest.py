"""The manifest of the Discord platform."""

from hermes.sdk.platforms import (
    ALL_MEDIA,
    Capabilities,
    CredentialField,
    PlatformManifest,
    RateLimit,
    UserIdFormat,
)

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
    setup_help=(
        "Make an application at discord.com/developers/applications. Under Bot, switch on the"
        " Message Content Intent and copy the token. Under OAuth2, make a link with the scopes bot"
        " and applications.commands and the permissions to view channels, send messages, create and"
        " write in threads, attach files, add reactions and read the history; open it to invite the"
        " bot."
    ),
)
