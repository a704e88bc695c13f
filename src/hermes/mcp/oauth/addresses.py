"""Addresses that may be visited for a login, locations of metadata, and login challenges.

Everything but the address of the MCP server comes from other people: the server names a login
server, and that one names its pages. Tokens travel over TLS, or do not leave this machine; and a
server elsewhere cannot send us to an address on this machine.
"""

import re
from urllib.parse import SplitResult, urlsplit

from hermes.mcp.errors import LoginFailed
from hermes.util.http import is_loopback

MAX_ADDRESS_CHARS = 2_000
PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
OAUTH_SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
_PORTS = {"http": 80, "https": 443}
_ODD = re.compile(r"[\s\x00-\x1f\x7f\"<>\\^`{|}]")


def may_carry_tokens(url: str) -> bool:
    """Return whether the connection is protected: TLS, or on this machine."""
    parts = _split(url)
    if parts is None:
        return False
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def check_address(address: str, what: str, server: str) -> str:
    """Return `address` if it may be visited to sign in to the MCP server at `server`.

    Raises `LoginFailed`, which names the address `what`.
    """
    parts = _split(address)
    if parts is None or parts.username is not None or parts.fragment or _ODD.search(address):
        raise LoginFailed(f"{what} is not a usable address: {quote_address(address)}")
    here = is_loopback(parts.hostname or "")
    if here and not is_loopback(urlsplit(server).hostname or ""):
        raise LoginFailed(f"{what} is an address on this machine, which is not visited for others")
    if not here and parts.scheme != "https":
        raise LoginFailed(f"{what} is not protected by TLS: {quote_address(address)}")
    return address


def canonical_url(url: str) -> str:
    """Return the server's resource identifier (RFC 8707): no query, fragment or final `/`."""
    parts = urlsplit(url)
    path = "" if parts.path == "/" else parts.path
    return f"{_origin(parts)}{path}"


def covers_url(resource: str, url: str) -> bool:
    """Return whether the identifier `resource` is the server at `url` or a parent of it."""
    theirs, ours = _split(resource), urlsplit(url)
    if theirs is None or _origin(theirs) != _origin(ours):
        return False
    above, below = theirs.path.rstrip("/"), ours.path.rstrip("/")
    return below == above or below.startswith(f"{above}/")


def same_issuer(one: str, other: str) -> bool:
    """Compare two issuers, ignoring a final `/`, which many servers add."""
    return bool(one) and one.removesuffix("/") == other.removesuffix("/")


def origin_of(url: str) -> str:
    return _origin(urlsplit(url))


def resource_metadata_urls(url: str) -> list[str]:
    """Return the addresses of a server's metadata (RFC 9728), most likely first."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    root = f"{_origin(parts)}{PROTECTED_RESOURCE}"
    return [f"{root}{path}", root] if path else [root]


def issuer_metadata_urls(issuer: str) -> list[str]:
    """Return the addresses of a login server's metadata (RFC 8414, OpenID Connect Discovery)."""
    parts = urlsplit(issuer)
    origin, path = _origin(parts), parts.path.rstrip("/")
    places = [f"{origin}{OAUTH_SERVER}{path}", f"{origin}{OPENID}{path}"]
    return [*places, f"{origin}{path}{OPENID}"] if path else places


def quote_address(address: str) -> str:
    """Return the quoted address for a message, shortened."""
    return repr(address[:120])


def _split(address: str) -> SplitResult | None:
    """Return the parts of an HTTP address, or None."""
    if len(address) > MAX_ADDRESS_CHARS:
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


# The header `WWW-Authenticate` of a refused request.

MAX_CHALLENGE_CHARS = 4_000
MAX_SCOPE_CHARS = 1_000
_PARAMETER = re.compile(
    r"""([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))"""
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9-]*)(?=[\s,]|$)")
_GAP, _OTHER = re.compile(r"[\s,]*"), re.compile(r"[^\s,]*")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def parse_bearer_challenge(header: str) -> dict[str, str]:
    """Return the parameters of the first `Bearer` challenge, with names in lower case."""
    text, position, scheme = header[:MAX_CHALLENGE_CHARS], 0, ""
    found: dict[str, str] = {}
    while (position := _end(_GAP, text, position)) < len(text):
        if parameter := _PARAMETER.match(text, position):
            if scheme == "bearer":
                name, quoted, plain = parameter.groups()
                value = re.sub(r"\\(.)", r"\1", quoted) if plain is None else plain
                found.setdefault(name.lower(), value)
            position = parameter.end()
        elif word := _SCHEME.match(text, position):
            if scheme == "bearer":
                break
            scheme, position = word[1].lower(), word.end()
        else:
            position = _end(_OTHER, text, position)
    return found


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def join_scopes(*texts: str) -> str:
    """Return the distinct scopes of all texts, in order; invalid ones are dropped."""
    words = [word for text in texts for word in text.split() if _SCOPE.fullmatch(word)]
    joined = ""
    for word in dict.fromkeys(words):
        if len(joined) + len(word) < MAX_SCOPE_CHARS:
            joined = f"{joined} {word}".lstrip()
    return joined
