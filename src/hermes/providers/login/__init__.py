"""Logins with an account instead of a key: OAuth flows, stored tokens and their renewal."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.providers.login.flows import (
        LoginPrompt,
        ReadPaste,
        ShowPrompt,
        codex_login,
        device_code_login,
        google_login,
        read_codex_cli_tokens,
        require_google_client,
    )
    from hermes.providers.login.oauth import Tokens
    from hermes.providers.login.tokens import StoredLogin

__all__ = [
    "LoginPrompt", "ReadPaste", "ShowPrompt", "StoredLogin", "Tokens", "codex_login",
    "device_code_login", "google_login", "read_codex_cli_tokens", "require_google_client",
]  # fmt: skip

_MODULES = {
    "flows": (
        "LoginPrompt ReadPaste ShowPrompt codex_login device_code_login google_login "
        "read_codex_cli_tokens require_google_client"
    ),
    "oauth": "Tokens",
    "tokens": "StoredLogin",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import `name` from its module on first use: most processes need only a few of them."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
