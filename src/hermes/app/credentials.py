"""The keys of a home, for requests and for redaction."""

from pathlib import Path

import httpx2

from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.ports import Clock
from hermes.providers.credentials import AuthFile, Keyring, entries_of, stored_providers


def build_keyring(home: Home, loaded: Loaded, client: httpx2.AsyncClient, clock: Clock) -> Keyring:
    """`client` stays the caller's."""
    return Keyring(
        AuthFile(home.auth_file),
        loaded,
        client=client,
        clock=clock,
        user_home=user_home(home),
        strategies=loaded.settings.credential_pool_strategies,
        aws_profile=loaded.settings.bedrock.profile,
    )


TOKENS = ("access_token", "refresh_token", "client_secret")


def stored_secrets(home: Home) -> frozenset[str]:
    """Every secret in auth.json, for redaction."""
    data = AuthFile(home.auth_file).read()
    keys = {e.secret for name in stored_providers(data) for e in entries_of(data, name).values()}
    logins = data.get("providers", {}).values()
    tokens = {login.get(name) for login in logins for name in TOKENS}
    return frozenset(value for value in keys | tokens if isinstance(value, str) and value)


def user_home(home: Home) -> Path:
    """Where other programs keep their logins."""
    try:
        return Path.home()
    except RuntimeError:  # nobody knows where it is: nothing of other programs is found
        return home.root
