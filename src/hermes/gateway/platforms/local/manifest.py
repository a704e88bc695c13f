"""The manifest of the local platform."""

from hermes.sdk.platforms import (
    ALL_MEDIA,
    Capabilities,
    CredentialField,
    PlatformManifest,
    RateLimit,
)

HERE = "-"  #: The value of LOCAL_SOCKET for the terminal the gateway runs in.

MANIFEST = PlatformManifest(
    name="local",
    label="Local",
    adapter="hermes.gateway.platforms.local.adapter:LocalAdapter",
    capabilities=Capabilities(
        max_chars=4000,
        dialect="markdown",
        edits=True,
        typing=True,
        reactions=True,
        threads=True,
        buttons=True,
        media_in=ALL_MEDIA,
        media_out=ALL_MEDIA,
        checks_delivery=True,
        per_chat=RateLimit(1000, 1.0),
        per_platform=RateLimit(5000, 1.0),
    ),
    credentials=(
        CredentialField(
            "LOCAL_SOCKET",
            "Socket",
            "the Unix socket of a local platform, or - for this terminal",
            secret=False,
        ),
        CredentialField("LOCAL_TOKEN", "Token", "when the platform wants one", required=False),
    ),
    env_prefix="LOCAL",
    setup_help=(
        "For trying things out: with LOCAL_SOCKET=- the chat is in the terminal of the gateway."
        " A platform for scripts and tests is in the checkout:"
        " `python -m tests.fakes.local.server --socket PATH --journal PATH`."
    ),
)
