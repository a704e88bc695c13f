"""Where a person can log in instead of pasting a key, as data.

Only logins whose protocol is public are here. Nous Portal has one too, but it is not documented:
its users make an API key on the portal.
"""

from hermes.providers.endpoint import Login

CODEX = Login(
    client_id="app_EMoamEEZ73f0CkXaXp7hrann",
    device_url="https://auth.openai.com/api/accounts/deviceauth/usercode",
    token_url="https://auth.openai.com/oauth/token",
    scope="openid profile email offline_access",
    flow="codex",
)
"""A ChatGPT subscription, the way the Codex CLI logs in on a machine without a browser."""

COPILOT = Login(
    client_id="Iv1.b507a08c87ecfe98",
    device_url="https://github.com/login/device/code",
    token_url="https://github.com/login/oauth/access_token",
    scope="read:user",
    exchange_url="https://api.github.com/copilot_internal/v2/token",
)
"""A GitHub account with Copilot, by the client id editors use."""

GOOGLE = Login(
    client_id="", device_url="", token_url="https://oauth2.googleapis.com/token", flow="google"
)
"""A Google account, by the OAuth client in HERMES_GEMINI_CLIENT_ID and _SECRET."""

QWEN = Login(
    client_id="f0304373b74a44d2b584a3fb70ca9e56",
    device_url="https://chat.qwen.ai/api/v1/oauth2/device/code",
    token_url="https://chat.qwen.ai/api/v1/oauth2/token",
    scope="openid profile email model.completion",
    pkce=True,
)
"""A Qwen account, the way Qwen Code logs in."""
