"""Logins with an account instead of a key: OAuth flows, stored tokens and their renewal.

`oauth` has what providers and MCP servers (`hermes.mcp.oauth`) share.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.providers.login.flows import (
        LoginPrompt,
        ShowPrompt,
        codex_login,
        device_code_login,
        google_login,
        read_codex_cli_tokens,
    )
    from hermes.providers.login.oauth import ReadPaste
    from hermes.providers.login.tokens import StoredLogin, Tokens, require_google_client

__all__ = [
    "LoginPrompt", "ReadPaste", "ShowPrompt", "StoredLogin", "Tokens", "codex_login",
    "device_code_login", "google_login", "read_codex_cli_tokens", "require_google_client",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
