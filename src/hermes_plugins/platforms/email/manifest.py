"""The manifest of the email platform."""

from typing import Any

from msgspec import field

from hermes.sdk.platforms import (
    AddressFormat,
    Capabilities,
    CredentialField,
    MessageDialect,
    PlatformConnectionSettings,
    PlatformManifest,
    RateLimit,
    UserIdFormat,
)


class EmailPlatform(PlatformConnectionSettings, frozen=True):
    extra: dict[str, Any] = field(default_factory=dict)  #: What only this platform has.
    skip_attachments: bool = False  #: Leave attachments alone.


def _underline(level: int, label: str) -> str:
    return f"{label}\n{('=' if level == 1 else '-') * min(len(label), 72)}" if label else ""


DIALECT = MessageDialect(
    link="{} <{}>".format,
    fence=lambda _language, code: "\n".join(f"    {line}".rstrip() for line in code.split("\n")),
    heading=_underline,
    rule="-" * 40,
)

MANIFEST = PlatformManifest(
    name="email",
    label="Email",
    adapter="hermes_plugins.platforms.email.adapter:EmailAdapter",
    capabilities=Capabilities(
        max_chars=100_000,
        dialect=DIALECT,
        threads=True,
        media_in=("image", "audio", "video", "document"),
        media_out=("image", "voice", "audio", "video", "document"),
        max_upload_bytes=18_000_000,  # mail is mostly limited to 25 MB, and files grow
        checks_delivery=True,
        per_chat=RateLimit(20, 60.0),
        per_platform=RateLimit(60, 60.0),
    ),
    credentials=(
        CredentialField("EMAIL_ADDRESS", "Address", "the mailbox of the agent", secret=False),
        CredentialField("EMAIL_PASSWORD", "Password", "often a password made for one application"),
        CredentialField("EMAIL_IMAP_HOST", "IMAP server", "such as imap.example.org", secret=False),
        CredentialField("EMAIL_SMTP_HOST", "SMTP server", "such as smtp.example.org", secret=False),
        CredentialField(
            "EMAIL_IMAP_PORT",
            "IMAP port",
            "993 when empty",
            secret=False,
            required=False,
            rare=True,
        ),
        CredentialField(
            "EMAIL_SMTP_PORT",
            "SMTP port",
            "587 when empty",
            secret=False,
            required=False,
            rare=True,
        ),
    ),
    patience=12 * 3600.0,
    needs=("imapclient", "aiosmtplib"),
    env_prefix="EMAIL",
    home_variable="EMAIL_HOME_ADDRESS",
    users=UserIdFormat(
        r"[^\s<>@]+@[^\s<>@]+",
        "an address such as anna@example.org, without a name",
        ignore_case=True,
    ),
    addresses=AddressFormat(thread_mark=""),
    connection=EmailPlatform,
    prompt_hint="You are answering by email: plain text with a clear structure, no Markdown, no"
    " chatter; the subject stays.",
    setup_help=(
        "Give the agent a mailbox of its own. Anyone can write any sender into a mail, so"
        " everyone counts as a guest until your mail server confirms them: name that server in"
        " platforms.email.extra.authserv_id. Set platforms.email.extra.require_authentication to"
        " true to refuse whatever is not confirmed."
    ),
)
