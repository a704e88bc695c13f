"""Hosts of URLs, judged in the form the HTTP client would look up."""

import re
from ipaddress import IPv6Address, ip_address

import msgspec

from hermes.security.url_addresses import Address, as_ipv4, is_numeric, why_not_public

PRIVATE_NAMES = (
    "localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan",
    "home.arpa", "in-addr.arpa", "ip6.arpa", "test", "invalid",
)  # fmt: skip
"""Names, with everything below them, that are answered inside a network and not by the internet."""

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_LONGEST = 253


class Host(msgspec.Struct, frozen=True):
    """A host that was understood."""

    name: str
    """Lower case, IDNA, without a dot at the end; an address in its usual form."""
    address: Address | None = None
    """Set when the host is an address."""


def understand(raw: str) -> Host | str:
    """The host, or why it cannot be one. `raw` is what the client has parsed, in ASCII."""
    if not raw:
        return "it names no host"
    if "%" in raw:
        return "its host has a % in it (an escape or a network interface)"
    if ":" in raw:
        address = IPv6Address(raw)
        return Host(str(address), address)
    name = raw.lower().removesuffix(".")
    if is_numeric(name):
        return _numeric(name)
    if len(name) > _LONGEST or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        return f"{raw!r} is not a host name"
    return Host(name)


def why_name_is_private(name: str) -> str:
    """Why a name, before anybody looks it up, cannot be of the internet; empty when it can."""
    if "." not in name:
        return "is a name of this machine or its network"
    for private in PRIVATE_NAMES:
        if name == private or name.endswith(f".{private}"):
            return f"is a name of this machine or its network (.{private})"
    return ""


def _numeric(name: str) -> Host | str:
    address = as_ipv4(name)
    if address is None:
        return f"{name!r} is not an address"
    if str(address) != name:
        reason = why_not_public(address)
        meaning = f"{address}, which {reason}" if reason else str(address)
        return f"{name!r} is another spelling of {meaning}"
    return Host(name, ip_address(name))
