"""The OAuth client a Google login is given to, which alone can renew it."""

from collections.abc import Callable

import msgspec

from hermes.core.errors import CredentialMissing

CLIENT_ID = "HERMES_GEMINI_CLIENT_ID"
CLIENT_SECRET = "HERMES_GEMINI_CLIENT_SECRET"
PROJECT_ID = "HERMES_GEMINI_PROJECT_ID"

SCOPES = (
    "https://www.googleapis.com/auth/cloud-platform",
    "https://www.googleapis.com/auth/userinfo.email",
    "https://www.googleapis.com/auth/userinfo.profile",
)

Lookup = Callable[[str], str | None]
"""Gives the value of a variable; empty is not set."""


class GoogleClient(msgspec.Struct, frozen=True):
    """A client of the type "desktop app"; Google gives it a secret, and wants it back."""

    id: str
    secret: str
    auth_url: str = "https://accounts.google.com/o/oauth2/v2/auth"
    token_url: str = "https://oauth2.googleapis.com/token"

    def __repr__(self) -> str:
        return f"GoogleClient({self.id!r})"


def google_client(variable: Lookup) -> GoogleClient | None:
    """The client of the user's own, or None."""
    held = [(variable(name) or "").strip() for name in (CLIENT_ID, CLIENT_SECRET)]
    return GoogleClient(*held) if all(held) else None


def needed_client(variable: Lookup, provider: str) -> GoogleClient:
    """The client to log in with. Raises `CredentialMissing`."""
    client = google_client(variable)
    if client is not None:
        return client
    raise CredentialMissing(
        f"logging in for {provider} needs an OAuth client of your own",
        provider=provider,
        hint=f'make one of the type "Desktop app" at console.cloud.google.com/apis/credentials and'
        f" set {CLIENT_ID} and {CLIENT_SECRET}; or log in with the Gemini CLI (`gemini`) and Hermes"
        " uses its login",
    )
