"""Manifest of the webhook platform."""

from hermes.sdk.platforms import Capabilities, CredentialField, PlatformManifest, RateLimit

MANIFEST = PlatformManifest(
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
