"""Keys and logins: where they are stored, which one is used next, and when they rest.

`Keyring` finds the credentials of an endpoint and makes the pools that hand them out.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.providers.credentials.auth_file import (
        AuthFile, KeyEntry, bind_key, count_invalid_entries, entries_of, is_bound, put_entry,
        remove_entries, stored_providers,
    )
    from hermes.providers.credentials.pool import CredentialStatus, Keyring, PoolState
    from hermes.providers.credentials.sources import ANTHROPIC, CredentialSources
    # fmt: on
    # isort: on

__all__ = [
    "ANTHROPIC", "AuthFile", "CredentialSources", "CredentialStatus", "KeyEntry", "Keyring",
    "PoolState", "bind_key", "count_invalid_entries", "entries_of", "is_bound", "put_entry",
    "remove_entries", "stored_providers",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
