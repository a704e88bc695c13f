"""OAuth 2.1 for MCP servers over HTTP: sign in, renew tokens, sign out.

`login` needs a user; `stored_authorizer` uses and renews the stored login without one; `logout`
revokes and deletes it.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.mcp.oauth.flow import LoginOptions, McpLoginPrompt, login, logout
    from hermes.mcp.oauth.logins import (
        LoginStore, McpLogin, StoredLoginAuthorizer, may_carry_tokens, stored_authorizer,
    )
    # fmt: on
    # isort: on

__all__ = [
    "LoginOptions", "LoginStore", "McpLogin", "McpLoginPrompt", "StoredLoginAuthorizer",
    "login", "logout", "may_carry_tokens", "stored_authorizer",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
