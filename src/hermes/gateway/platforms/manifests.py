"""Manifests of the platforms in this package."""

from hermes.sdk.platforms import (
    ALL_MEDIA,
    Capabilities,
    CredentialField,
    PlatformManifest,
    RateLimit,
)

LOCAL = PlatformManifest(
    name="local",
    label="Local",
    adapter="hermes.gateway.platforms.local:LocalAdapter",
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

WEBHOOK = PlatformManifest(
    name="webhook",
    label="Webhook",
    adapter="hermes.gateway.platforms.webhook.adapter:WebhookAdapter",
    capabilities=Capabilities(
        max_chars=60_000,  # a GitHub comment holds 65,536
        dialect="markdown",
        checks_delivery=True,
        per_chat=RateLimit(60, 60.0),
    ),
    credentials=(
        CredentialField(
            "WEBHOOK_SECRET",
            "Secret for signatures",
            "what callers sign with when their route has no secret of its own",
            required=False,
        ),
        CredentialField("WEBHOOK_PORT", "Port", "8644 when empty", secret=False, required=False),
        CredentialField(
            "GITHUB_TOKEN",
            "GitHub token",
            "for answers as comments on issues and pull requests",
            required=False,
        ),
    ),
    needs=("starlette", "uvicorn"),
    checks_callers=True,
    env_prefix="WEBHOOK",
    setup_help="Set WEBHOOK_ENABLED=true, then add a route: hermes webhook subscribe NAME",
)

API_SERVER = PlatformManifest(
    name="api_server",
    label="API server",
    adapter="hermes.gateway.platforms.api_server.adapter:ApiServer",
    capabilities=Capabilities(max_chars=1_000_000, dialect="markdown"),
    credentials=(
        CredentialField(
            "API_SERVER_KEY",
            "Key that clients have to give",
            "at least 16 characters; generated when empty",
            required=False,
        ),
    ),
    needs=("starlette", "uvicorn"),
    env_prefix="API_SERVER",
    chats=False,
    setup_help=(
        "Programs that can talk to OpenAI talk to Hermes at http://127.0.0.1:8642/v1. They send the"
        " key, which is generated at the first start and stored as API_SERVER_KEY in .env."
    ),
)
