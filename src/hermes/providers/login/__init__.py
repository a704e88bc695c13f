"""Logins with an account instead of a key: OAuth flows, stored tokens and their renewal.

`oauth` has what providers and MCP servers (`hermes.mcp.oauth`) share.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.providers.login.flows import (
        LoginPrompt, ShowPrompt, codex_login, device_code_login, google_login,
        read_codex_cli_tokens,
    )
    from hermes.providers.login.oauth import (
        AUTH_BASIC, AUTH_METHODS, AUTH_NONE, AUTH_POST, PASTE_HINT, BrowserLogin, OAuthClient,
        ReadPaste, RedirectResult, TokenRefresher, TokenResponse, TokenStore, browser_login,
        code_grant, refresh_grant,
    )
    from hermes.providers.login.tokens import StoredLogin, Tokens, require_google_client
    # fmt: on
    # isort: on

__all__ = [
    "AUTH_BASIC", "AUTH_METHODS", "AUTH_NONE", "AUTH_POST", "PASTE_HINT", "BrowserLogin",
    "LoginPrompt", "OAuthClient", "ReadPaste", "RedirectResult", "ShowPrompt", "StoredLogin",
    "TokenRefresher", "TokenResponse", "TokenStore", "Tokens", "browser_login", "code_grant",
    "codex_login", "device_code_login", "google_login", "read_codex_cli_tokens", "refresh_grant",
    "require_google_client",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
