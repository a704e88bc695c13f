"""What webhooks are."""

from hermes.gateway.platforms.kit.contract import Capabilities, Credential, Manifest, Rate

MANIFEST = Manifest(
    name="webhook",
    label="Webhook",
    adapter="hermes.gateway.platforms.webhook.adapter:WebhookAdapter",
    capabilities=Capabilities(
        max_chars=60_000,  # a GitHub comment holds 65,536
        dialect="markdown",
        finds_sent=True,
        per_chat=Rate(60, 60.0),
    ),
    credentials=(
        Credential(
            "WEBHOOK_SECRET",
            "Secret for signatures",
            "what callers sign with when their route has no secret of its own",
            required=False,
        ),
        Credential("WEBHOOK_PORT", "Port", "8644 when empty", secret=False, required=False),
        Credential(
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
