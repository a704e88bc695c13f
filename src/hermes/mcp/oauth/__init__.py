"""OAuth 2.1 for servers over HTTP: signing in, keeping the tokens fresh, signing out.

Signing in needs a person: `login.login`. A connection uses what is stored, without one:
`stored_authoriser`. `logout.logout` forgets it.
"""

from pathlib import Path

from hermes.mcp.oauth.logins import LoginStore, StoredLoginAuthorizer
from hermes.util.clock import SystemClock

__all__ = ["stored_authoriser"]


def stored_authoriser(name: str, url: str, folder: Path) -> StoredLoginAuthorizer:
    """Authorises requests to the server `name` at `url` with the login kept in `folder`
    (`<home>/mcp-tokens`)."""
    return StoredLoginAuthorizer(name, url, LoginStore(folder, name), SystemClock())
