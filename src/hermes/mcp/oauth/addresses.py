"""Which addresses may be visited for a login, and where its metadata are found.

Everything but the address of the MCP server comes from other people: the server names a login
server, and that one names its pages. Tokens travel over TLS, or do not leave this machine; and a
server elsewhere cannot send us to an address on this machine.
"""

import re
from urllib.parse import SplitResult, urlsplit

from hermes.mcp.oauth.failures import LoginFailed
from hermes.util.hosts import is_loopback

LONGEST = 2_000
PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
OAUTH_SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
_PORTS = {"http": 80, "https": 443}
_ODD = re.compile(r"[\s\x00-\x1f\x7f\"<>\\^`{|}]")


def may_carry_tokens(url: str) -> bool:
    """Whether nobody on the way can read what is sent there."""
    parts = _split(url)
    if parts is None:
        return False
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def checked(address: str, what: str, server: str) -> str:
    """`address`, when it may be visited to sign in to the MCP server at `server`. Raises
    `LoginFailed`; `what` says what it was to be."""
    parts = _split(address)
    if parts is None or parts.username is not None or parts.fragment or _ODD.search(address):
        raise LoginFailed(f"{what} is no usable address: {shown(address)}")
    here = is_loopback(parts.hostname or "")
    if here and not is_loopback(urlsplit(server).hostname or ""):
        raise LoginFailed(f"{what} is an address on this machine, which is not visited for others")
    if not here and parts.scheme != "https":
        raise LoginFailed(f"{what} is not protected by TLS: {shown(address)}")
    return address


def canonical(url: str) -> str:
    """The server's address as its identifier (RFC 8707): without query, fragment and final `/`."""
    parts = urlsplit(url)
    path = "" if parts.path == "/" else parts.path
    return f"{_origin(parts)}{path}"


def covers(resource: str, url: str) -> bool:
    """Whether the identifier `resource` stands for the server at `url`: the same or above it."""
    theirs, ours = _split(resource), urlsplit(url)
    if theirs is None or _origin(theirs) != _origin(ours):
        return False
    above, below = theirs.path.rstrip("/"), ours.path.rstrip("/")
    return below == above or below.startswith(f"{above}/")


def same_issuer(one: str, other: str) -> bool:
    """A final `/` is no difference: many programs add one."""
    return bool(one) and one.removesuffix("/") == other.removesuffix("/")


def origin_of(url: str) -> str:
    return _origin(urlsplit(url))


def resource_places(url: str) -> list[str]:
    """Where a server describes itself (RFC 9728), the most likely first."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    root = f"{_origin(parts)}{PROTECTED_RESOURCE}"
    return [f"{root}{path}", root] if path else [root]


def issuer_places(issuer: str) -> list[str]:
    """Where a login server describes itself (RFC 8414, OpenID Connect Discovery)."""
    parts = urlsplit(issuer)
    origin, path = _origin(parts), parts.path.rstrip("/")
    places = [f"{origin}{OAUTH_SERVER}{path}", f"{origin}{OPENID}{path}"]
    return [*places, f"{origin}{path}{OPENID}"] if path else places


def shown(address: str) -> str:
    """For a message: one line, and not without an end."""
    return repr(address[:120])


def _split(address: str) -> SplitResult | None:
    """None when it is no address of the web."""
    if len(address) > LONGEST:
        return None
    try:
        parts = urlsplit(address)
        usable = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def _origin(parts: SplitResult) -> str:
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    port = parts.port or _PORTS.get(parts.scheme)
    return f"{parts.scheme}://{host}" + ("" if port == _PORTS.get(parts.scheme) else f":{port}")
