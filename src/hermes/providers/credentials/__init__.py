"""Keys and logins: where they are stored, which one is used next, and when they rest.

`Keyring` finds the credentials of an endpoint and makes the pools that hand them out.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.providers.credentials.auth_file import (
        AuthFile,
        KeyEntry,
        count_invalid_entries,
        entries_of,
        put_entry,
        remove_entries,
        stored_providers,
    )
    from hermes.providers.credentials.pool import CredentialStatus, Keyring, PoolState
    from hermes.providers.credentials.sources import ANTHROPIC, CredentialSources

__all__ = [
    "ANTHROPIC", "AuthFile", "CredentialSources", "CredentialStatus", "KeyEntry", "Keyring",
    "PoolState", "count_invalid_entries", "entries_of", "put_entry", "remove_entries",
    "stored_providers",
]  # fmt: skip

_MODULES = {
    "auth_file": (
        "AuthFile KeyEntry count_invalid_entries entries_of put_entry remove_entries "
        "stored_providers"
    ),
    "pool": "CredentialStatus Keyring PoolState",
    "sources": "ANTHROPIC CredentialSources",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import `name` from its module on first use: most processes need only a few of them."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
