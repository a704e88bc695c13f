"""Which IP addresses belong to the public internet."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network

Address = IPv4Address | IPv6Address

_METADATA = "answers with the credentials of this machine"

RESERVED: dict[str, str] = {
    "169.254.169.254/32": _METADATA,
    "169.254.170.2/32": _METADATA,
    "100.100.100.200/32": _METADATA,
    "192.0.0.192/32": _METADATA,
    "168.63.129.16/32": _METADATA,
    "fd00:ec2::254/128": _METADATA,
    "fd20:ce::254/128": _METADATA,
    "0.0.0.0/8": "stands for this machine",
    "127.0.0.0/8": "is this machine",
    "::/128": "stands for this machine",
    "::1/128": "is this machine",
    "10.0.0.0/8": "is in a private network",
    "172.16.0.0/12": "is in a private network",
    "192.168.0.0/16": "is in a private network",
    "100.64.0.0/10": "is in a carrier's private network",
    "fc00::/7": "is in a private network",
    "fec0::/10": "is in a private network",
    "169.254.0.0/16": "is link-local",
    "fe80::/10": "is link-local",
    "192.0.0.0/24": "is reserved",
    "192.88.99.0/24": "is reserved",
    "240.0.0.0/4": "is reserved",
    "2001::/32": "is a Teredo tunnel",
    "2001::/23": "is reserved",
    "2002::/16": "is a 6to4 tunnel",
    "64:ff9b:1::/48": "is translated within a private network",
    "192.0.2.0/24": "is for documentation",
    "198.51.100.0/24": "is for documentation",
    "203.0.113.0/24": "is for documentation",
    "2001:db8::/32": "is for documentation",
    "3fff::/20": "is for documentation",
    "198.18.0.0/15": "is for benchmarks",
    "224.0.0.0/4": "is multicast",
    "ff00::/8": "is multicast",
}
"""Networks nobody on the internet has, and what to say about them. The first that fits counts."""

_NETWORKS = tuple((ip_network(network), reason) for network, reason in RESERVED.items())
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_MAPPED, _COMPATIBLE = IPv6Network("::ffff:0:0/96"), IPv6Network("::/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = (0x5EFE, 0x0200_5EFE)
_LOW_32 = 0xFFFF_FFFF


def why_not_public(address: Address) -> str:
    """What speaks against connecting to `address`; empty for a public one."""
    if isinstance(address, IPv6Address):
        if address.scope_id:
            return "is link-local"
        inner = embedded(address)
        if inner is not None and (reason := why_not_public(inner)):
            return f"leads to {inner}, which {reason}"
        if inner is not None and address in _NAT64:
            return ""  # How an IPv6-only network reaches the IPv4 internet.
    for network, reason in _NETWORKS:
        if address in network:
            return reason
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return "is not a public address"
    return "" if address.is_global else "is not a public address"


def embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that this one leads to: mapped, compatible, NAT64 or ISATAP."""
    number = int(address)
    within = any(address in network for network in (_MAPPED, _COMPATIBLE, _NAT64))
    if (within and number > 1) or (number >> 32) & _LOW_32 in _ISATAP:
        return IPv4Address(number & _LOW_32)
    return None


def as_ipv4(host: str) -> IPv4Address | None:
    """The address a host written in numbers stands for, as `inet_aton` reads it.

    One to four parts, decimal, octal (`0177`) or hexadecimal (`0x7f`); the last part fills the
    rest. None when it is no such number, or too large.
    """
    parts = host.split(".")
    if len(parts) > 4:
        return None
    numbers = [_number(part) for part in parts]
    *first, last = numbers
    room = 256 ** (4 - len(first))
    if last is None or last >= room or any(part is None or part > 255 for part in first):
        return None
    value = last
    for position, part in enumerate(first):
        value += (part or 0) * 256 ** (3 - position)
    return IPv4Address(value)


def _number(text: str) -> int | None:
    lower = text.lower()
    base = 16 if lower.startswith("0x") else 8 if lower.startswith("0") and len(lower) > 1 else 10
    digits = lower[2:] if base == 16 else lower
    if base == 16 and not digits:
        return 0
    allowed = "0123456789abcdef"[:base]
    return int(digits, base) if digits and all(digit in allowed for digit in digits) else None


def is_numeric(host: str) -> bool:
    """Whether a resolver could take `host` for an IPv4 address: its last part is a number."""
    last = host.rpartition(".")[2].lower()
    return last.isdecimal() or (
        last.startswith("0x") and all(digit in "0123456789abcdef" for digit in last[2:])
    )
