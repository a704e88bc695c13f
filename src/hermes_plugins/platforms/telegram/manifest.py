"""The manifest of the Telegram platform."""

from hermes.sdk.platforms import (
    ALL_MEDIA,
    Capabilities,
    CredentialField,
    PlatformManifest,
    RateLimit,
    UserIdFormat,
)

MANIFEST = PlatformManifest(
    name="telegram",
    label="Telegram",
    adapter="hermes_plugins.platforms.telegram.adapter:TelegramAdapter",
    capabilities=Capabilities(
        max_chars=4060,  # 4096, with room for the mark of a message that is sent again
        counts="utf16",
        dialect="telegram",
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
    users=UserIdFormat("-?[0-9]+", "a number such as 12345678, not an @name"),
    setup_help=(
        "Write /newbot to @BotFather on Telegram and copy the token it gives you. To have the bot"
        " read everything in groups, write /setprivacy to @BotFather and choose Disable."
    ),
)
