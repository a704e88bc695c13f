"""Hosts as servers and addresses name them."""

import ipaddress

FROM_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
"""How this machine reaches a server that listens everywhere."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    bare = host.strip("[]").lower()
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return bare == "localhost"


def from_here(host: str) -> str:
    """What to connect to, for a server of this machine."""
    bare = host.strip("[]")
    return FROM_HERE.get(bare, bare)


def http_address(host: str, port: int) -> str:
    """Of a server without TLS; an address of IPv6 has brackets there."""
    bare = host.strip("[]")
    return f"http://{f'[{bare}]' if ':' in bare else bare}:{port}"
