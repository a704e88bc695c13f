"""OAuth 2.1 for MCP servers over HTTP: sign in, renew tokens, sign out.

`login` needs a user; `stored_authorizer` uses and renews the stored login without one; `logout`
revokes and deletes it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.mcp.oauth.addresses import may_carry_tokens
    from hermes.mcp.oauth.flow import LoginOptions, McpLoginPrompt, login, logout
    from hermes.mcp.oauth.logins import (
        LoginStore,
        McpLogin,
        StoredLoginAuthorizer,
        stored_authorizer,
    )

__all__ = [
    "LoginOptions",
    "LoginStore",
    "McpLogin",
    "McpLoginPrompt",
    "StoredLoginAuthorizer",
    "login",
    "logout",
    "may_carry_tokens",
    "stored_authorizer",
]  # fmt: skip

_MODULES = {
    "addresses": ("may_carry_tokens",),
    "flow": ("LoginOptions", "McpLoginPrompt", "login", "logout",),
    "logins": ("LoginStore", "McpLogin", "StoredLoginAuthorizer", "stored_authorizer",),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import on first use: reading stored logins must not load the HTTP client."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
