"""Host names: loopback, and addresses of servers on this machine."""

import ipaddress

FROM_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
"""Where this machine reaches a server that listens on all addresses."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    bare = host.strip("[]").lower()
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return bare == "localhost"


def from_here(host: str) -> str:
    """Return the host to connect to, for a server on this machine that listens on `host`."""
    bare = host.strip("[]")
    return FROM_HERE.get(bare, bare)


def http_address(host: str, port: int) -> str:
    """Return the URL of a server without TLS; an IPv6 address gets brackets."""
    bare = host.strip("[]")
    return f"http://{f'[{bare}]' if ':' in bare else bare}:{port}"
