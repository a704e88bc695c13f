"""The manifest of the API server."""

from hermes.sdk.platforms import Capabilities, CredentialField, PlatformManifest

MANIFEST = PlatformManifest(
    name="api_server",
    label="API server",
    adapter="hermes.gateway.platforms.api_server.adapter:ApiServer",
    capabilities=Capabilities(max_chars=1_000_000, dialect="markdown"),
    credentials=(
        CredentialField(
            "API_SERVER_KEY",
            "Key that clients have to give",
            "at least 16 characters; `openssl rand -hex 24` makes one",
            required=False,
        ),
    ),
    needs=("starlette", "uvicorn"),
    env_prefix="API_SERVER",
    chats=False,
    setup_help=(
        "Programs that can talk to OpenAI talk to Hermes at http://127.0.0.1:8642/v1. Without a key"
        " only programs of this machine may; API_SERVER_HOST lets others in, who need the key."
    ),
)
