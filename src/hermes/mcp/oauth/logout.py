"""Signing out of an MCP server."""

from pathlib import Path

from hermes.core.errors import HermesError
from hermes.mcp.oauth.exchange import revoked
from hermes.mcp.oauth.failures import LoginNeeded
from hermes.mcp.oauth.logins import LoginStore
from hermes.mcp.oauth.web import Web


async def logout(name: str, folder: Path) -> str | None:
    """Forget the login, and have the login server forget it too.

    None when there was none; else what could not be done, or nothing. Raises `ConfigError`.
    """
    store = LoginStore(folder, name)
    if not store.path.exists():
        return None
    async with store.alone():
        try:
            login = store.load()
        except LoginNeeded:  # damaged: there is nothing to revoke
            login = None
        store.remove()
    if login is None or login.gone:
        return ""
    if not login.revocation_endpoint:
        return "its login server offers no way to end a login, so the tokens last until they expire"
    try:
        async with Web(name, login.url) as web:
            await revoked(web, login)
    except HermesError as error:
        return f"{error}; the tokens last until they expire"
    return ""
