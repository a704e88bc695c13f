"""Which URLs a tool may fetch: those of the public internet, and nothing behind the firewall.

A URL is checked as the HTTP client has parsed it, so both mean the same host. A name is resolved
once; all its addresses must be public, and `GuardedTransport` connects to one of the checked
addresses, so a different second answer of the name server has no effect.
"""

import asyncio
import logging
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Protocol

import httpx2
import msgspec

from hermes.core.errors import ToolDenied, ToolError
from hermes.core.tool import Concern
from hermes.util.concurrency import in_thread
from hermes.util.lazy import late_pattern

# Which IP addresses belong to the public internet.

Address = IPv4Address | IPv6Address

RESERVED: dict[str, str] = {
    "answers with the credentials of this machine":
        "169.254.169.254/32 169.254.170.2/32 100.100.100.200/32 192.0.0.192/32 168.63.129.16/32 "
        "fd00:ec2::254/128 fd20:ce::254/128",
    "stands for this machine": "0.0.0.0/8 ::/128",
    "is this machine": "127.0.0.0/8 ::1/128",
    "is in a private network": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10",
    "is in a carrier's private network": "100.64.0.0/10",
    "is link-local": "169.254.0.0/16 fe80::/10",
    "is a Teredo tunnel": "2001::/32",
    "is reserved": "192.0.0.0/24 192.88.99.0/24 240.0.0.0/4 2001::/23",
    "is a 6to4 tunnel": "2002::/16",
    "is translated within a private network": "64:ff9b:1::/48",
    "is for documentation":
        "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20",
    "is for benchmarks": "198.18.0.0/15",
    "is multicast": "224.0.0.0/4 ff00::/8",
}  # fmt: skip
"""Networks that are not part of the internet, by the reason to give. The first match counts."""

_NETWORKS = tuple(
    (ip_network(each), why) for why, some in RESERVED.items() for each in some.split()
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_MAPPED, _COMPATIBLE = IPv6Network("::ffff:0:0/96"), IPv6Network("::/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = (0x5EFE, 0x0200_5EFE)
_LOW_32 = 0xFFFF_FFFF


def non_public_reason(address: Address) -> str:
    """Return why `address` is not public; empty if it is."""
    if isinstance(address, IPv6Address):
        if address.scope_id:
            return "is link-local"
        inner = embedded_ipv4(address)
        if inner is not None and (reason := non_public_reason(inner)):
            return f"leads to {inner}, which {reason}"
        if inner is not None and address in _NAT64:
            return ""  # how an IPv6-only network reaches the IPv4 internet
    for network, reason in _NETWORKS:
        if address in network:
            return reason
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return "is not a public address"
    return "" if address.is_global else "is not a public address"


def embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that this one leads to: mapped, compatible, NAT64 or ISATAP."""
    number = int(address)
    within = any(address in network for network in (_MAPPED, _COMPATIBLE, _NAT64))
    if (within and number > 1) or (number >> 32) & _LOW_32 in _ISATAP:
        return IPv4Address(number & _LOW_32)
    return None


def parse_numeric_host(host: str) -> IPv4Address | None:
    """Return the address of a host written in numbers, as `inet_aton` parses it.

    One to four parts, decimal, octal (`0177`) or hexadecimal (`0x7f`); the last part fills the
    rest. None if it is not such a number, or too large.
    """
    parts = host.split(".")
    if len(parts) > 4:
        return None
    numbers = [_parse_number(part) for part in parts]
    *first, last = numbers
    room = 256 ** (4 - len(first))
    if last is None or last >= room or any(part is None or part > 255 for part in first):
        return None
    value = last
    for position, part in enumerate(first):
        value += (part or 0) * 256 ** (3 - position)
    return IPv4Address(value)


def _parse_number(text: str) -> int | None:
    lower = text.lower()
    base = 16 if lower.startswith("0x") else 8 if lower.startswith("0") and len(lower) > 1 else 10
    digits = lower[2:] if base == 16 else lower
    if base == 16 and not digits:
        return 0
    allowed = "0123456789abcdef"[:base]
    return int(digits, base) if digits and all(digit in allowed for digit in digits) else None


def is_numeric(host: str) -> bool:
    """Return whether a resolver could take `host` for an IPv4 address: its last part is a
    number."""
    last = host.rpartition(".")[2].lower()
    return last.isdecimal() or (
        last.startswith("0x") and all(digit in "0123456789abcdef" for digit in last[2:])
    )


# Web sites that the user has blocked: `security.website_blocklist`.

log = logging.getLogger(__name__)

KEPT_SECONDS = 30.0  #: Seconds for which the contents of the shared files are cached.


class Blocklist:
    """Matches hosts: `example.com` is the site and everything below it, `*.example.com` only
    below."""

    def __init__(
        self,
        domains: Iterable[str] = (),
        files: Iterable[Path] = (),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`domains` and `files` are the settings; a file has one site per line and `#` comments."""
        self._domains, self._files, self._now = tuple(domains), tuple(files), now
        self._rules: frozenset[str] = frozenset()
        self._read_at: float | None = None

    def matching_entry(self, host: str) -> str:
        """Return the entry that blocks `host`, or empty."""
        rules = self._current()
        labels = host.lower().rstrip(".").split(".")
        for start in range(len(labels)):
            parent = ".".join(labels[start:])
            if parent in rules:
                return parent
            if start and f"*.{parent}" in rules:
                return f"*.{parent}"
        return ""

    def _current(self) -> frozenset[str]:
        now = self._now()
        if self._read_at is None or now - self._read_at >= KEPT_SECONDS:
            entries = [*self._domains, *_read_entries(self._files)]
            self._rules = frozenset(rule for entry in entries if (rule := _normalize_entry(entry)))
            self._read_at = now
        return self._rules


def _read_entries(files: Iterable[Path]) -> Iterator[str]:
    for path in files:
        try:
            text = path.expanduser().read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            log.warning("the blocklist %s cannot be read: %s", path, error)
            continue
        for line in text.splitlines():
            yield line.partition("#")[0]


def _normalize_entry(entry: str) -> str:
    """Return an entry in the form of hosts: lower case, IDNA, without scheme and path."""
    entry = entry.strip()
    site = entry.partition("://")[2] or entry
    below = site.startswith("*.")
    try:
        host = httpx2.URL(f"http://{site.removeprefix('*.')}").raw_host.decode().rstrip(".")
    except httpx2.InvalidURL:
        log.warning("the blocklist entry %r is not a site", entry)
        return ""
    return f"*.{host}" if below and host else host


# Hosts of URLs, in the form the HTTP client would resolve.

PRIVATE_NAMES = (
    "localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan",
    "home.arpa", "in-addr.arpa", "ip6.arpa", "test", "invalid",
)  # fmt: skip
"""Names, with everything below them, that are resolved inside a network and not on the internet."""

_LABEL = late_pattern(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_LONGEST = 253


class UrlHost(msgspec.Struct, frozen=True):
    """A parsed host."""

    name: str  #: Lower case, IDNA, without a trailing dot; an address in its usual form.
    address: Address | None = None  #: Set if the host is an address.


def parse_host(raw: str) -> UrlHost | str:
    """Return the host, or why it is invalid. `raw` is what the client has parsed, in ASCII."""
    if not raw:
        return "it names no host"
    if "%" in raw:
        return "its host has a % in it (an escape or a network interface)"
    if ":" in raw:
        address = IPv6Address(raw)
        return UrlHost(str(address), address)
    name = raw.lower().removesuffix(".")
    if is_numeric(name):
        return _parse_numeric(name)
    if len(name) > _LONGEST or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        return f"{raw!r} is not a host name"
    return UrlHost(name)


def private_name_reason(name: str) -> str:
    """Return why a name, without resolving it, cannot be on the internet; empty if it can."""
    if "." not in name:
        return "is a name of this machine or its network"
    for private in PRIVATE_NAMES:
        if name == private or name.endswith(f".{private}"):
            return f"is a name of this machine or its network (.{private})"
    return ""


def _parse_numeric(name: str) -> UrlHost | str:
    address = parse_numeric_host(name)
    if address is None:
        return f"{name!r} is not an address"
    if str(address) != name:
        reason = non_public_reason(address)
        meaning = f"{address}, which {reason}" if reason else str(address)
        return f"{name!r} is another spelling of {meaning}"
    return UrlHost(name, ip_address(name))


# From a name to its addresses.

LONGEST_LOOKUP = 10.0  #: Timeout for the name server in seconds.


class AddressResolver(Protocol):
    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return every address of `host`, best first. Raises `OSError` if there is none, also
        after a timeout (`TimeoutError`)."""
        ...


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Ask the operating system."""
    async with asyncio.timeout(LONGEST_LOOKUP):
        found = await in_thread(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(place[0]) for *_, place in found))


PORTS = {"http": 80, "https": 443}
ANY_PORT = 0
MAX_URL_LENGTH = 8_000

PUBLIC_ONLY = (
    "only public web addresses can be fetched; "
    "the user can open a host in the setting security.allow_private_urls"
)

_AUTHORITY = late_pattern(r"[a-z]+://([^/?#]*)", re.IGNORECASE)
_ODD = late_pattern(r"[\s\\\x00-\x1f\x7f]")


class VettedUrl(msgspec.Struct, frozen=True):
    """A URL that may be fetched, by connecting to one of `addresses`."""

    url: httpx2.URL
    host: str
    port: int
    addresses: tuple[str, ...]


class UrlGuard:
    """Checks URLs for one session. Raises `ToolDenied` for URLs that must not be fetched."""

    def __init__(
        self,
        resolver: AddressResolver = system_resolver,
        *,
        blocklist: Blocklist | None = None,
        allowed: frozenset[tuple[str, int]] = frozenset(),
    ) -> None:
        """`blocklist` is `security.website_blocklist`; `allowed` are hosts and ports that may be
        private (`security.allow_private_urls`, parsed by `parse_allowed_hosts`)."""
        self._resolver, self._blocklist, self._allowed = resolver, blocklist, allowed

    def check(self, url: str) -> httpx2.URL:
        """Check form, host and blocklist and return the parsed URL. Nothing is sent, not even a
        DNS query."""
        return self._vet_host(url)[0]

    def examine(self, url: str) -> Concern | None:
        """Return the objection of `check` as a concern."""
        try:
            self.check(url)
        except ToolDenied as refusal:
            return Concern("blocked URL", printable_url(url), str(refusal), refused=True)
        return None

    async def vet(self, url: str | httpx2.URL) -> VettedUrl:
        """Return the URL with the addresses to connect to. A name without an address is a
        `ToolError`."""
        parsed, host, port, private = self._vet_host(url)
        addresses = [host.address] if host.address else await self._addresses(host.name, port)
        if not private:
            for address in addresses:
                if reason := non_public_reason(address):
                    named = f"{host.name} has the address {address}, which"
                    where = host.name if host.address else named
                    raise _denied(parsed, f"{where} {reason}", PUBLIC_ONLY)
        return VettedUrl(parsed, host.name, port, tuple(str(address) for address in addresses))

    def _vet_host(self, url: str | httpx2.URL) -> tuple[httpx2.URL, UrlHost, int, bool]:
        """Return the parsed URL, its host and port, and whether they may be private."""
        parsed = _parse_url(url)
        if parsed.scheme not in PORTS:
            what = f"{parsed.scheme}: is not fetched" if parsed.scheme else "it names no scheme"
            raise _denied(url, what, "write the whole address, with https:// or http://")
        if parsed.userinfo:
            raise _denied(url, "it carries a user name or password", "leave out the part before @")
        host = parse_host(parsed.raw_host.decode("ascii"))
        if isinstance(host, str):
            raise _denied(url, host, "write the host as https://example.com/")
        port = parsed.port if parsed.port is not None else PORTS[parsed.scheme]
        if not 0 < port < 65_536:
            raise _denied(url, f"{port} is not a port")
        if self._blocklist and (rule := self._blocklist.matching_entry(host.name)):
            raise _denied(url, f"{rule} is on the user's blocklist", "use another source")
        private = bool({(host.name, port), (host.name, ANY_PORT)} & self._allowed)
        if not private:
            reason = (
                non_public_reason(host.address) if host.address else private_name_reason(host.name)
            )
            if reason:
                raise _denied(url, f"{host.name} {reason}", PUBLIC_ONLY)
        return parsed, host, port, private

    async def _addresses(self, name: str, port: int) -> list[Address]:
        try:
            found = await self._resolver(name, port)
        except TimeoutError as error:
            raise ToolError(f"the address of {name} could not be found in time") from error
        except (OSError, UnicodeError) as error:
            hint = "check the spelling; web_search finds the right address"
            raise ToolError(f"there is no host {name}", hint=hint) from error
        if not found:
            raise ToolError(f"the host {name} has no address")
        return [ip_address(address) for address in found]


def parse_allowed_hosts(entries: Iterable[str]) -> frozenset[tuple[str, int]]:
    """Parse `security.allow_private_urls`: `nas.local`, `192.168.1.5:8080`, `[fd00::5]:80`; a
    host without a port allows all ports. Raises `ValueError` for an invalid host."""
    return frozenset(_parse_allowed_host(entry) for entry in entries)


def printable_url(url: str | httpx2.URL) -> str:
    """Return a URL for a message: without a password, on one line, not too long."""
    text = re.sub(r"//[^/?#]*@", "//…@", str(url))
    text = "".join(char if char.isprintable() else "�" for char in text)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _parse_url(url: str | httpx2.URL) -> httpx2.URL:
    if isinstance(url, httpx2.URL):
        return url
    text = url.strip()
    if len(text) > MAX_URL_LENGTH:
        raise _denied(text, "it is too long")
    authority = _AUTHORITY.match(text)
    if authority is None:
        raise _denied(text, "it is not a web address", "begin it with https:// or http://")
    if _ODD.search(authority[1]):
        raise _denied(text, "its host has a space, backslash or control character in it")
    try:
        return httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError) as error:
        raise _denied(text, str(error).rstrip(".")) from error


def _parse_allowed_host(entry: str) -> tuple[str, int]:
    try:
        url = httpx2.URL(f"any://{entry.strip()}")
        host = parse_host(url.raw_host.decode("ascii"))
    except httpx2.InvalidURL as error:
        raise ValueError(f"{entry!r} is not a host: {error}") from error
    if isinstance(host, str) or url.userinfo or url.raw_path not in (b"", b"/"):
        raise ValueError(f"{entry!r} is not a host or host:port")
    return host.name, url.port or ANY_PORT


def _denied(url: str | httpx2.URL, reason: str, hint: str = "") -> ToolDenied:
    return ToolDenied(f"{printable_url(url)} must not be fetched: {reason}", hint=hint)


# The HTTP transport that connects only where the guard allows.

MAX_ADDRESSES = 4  #: Number of addresses of one name that are tried.

_ONE_REQUEST = httpx2.Limits(max_connections=1, max_keepalive_connections=0)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Vets every request and connects to a vetted address; `Host` and TLS keep the name.

    No connection is reused: it would be found by its address, under another name. No proxy of the
    environment is used: it would resolve the name again, elsewhere.
    """

    def __init__(self, guard: UrlGuard, context: ssl.SSLContext) -> None:
        self._guard = guard
        self._inner = httpx2.AsyncHTTPTransport(
            verify=context, trust_env=False, limits=_ONE_REQUEST
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        vetted = await self._guard.vet(request.url)
        *others, last = vetted.addresses[:MAX_ADDRESSES]
        for address in others:
            try:
                return await self._inner.handle_async_request(
                    _address_request(request, address, vetted.host)
                )
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return await self._inner.handle_async_request(_address_request(request, last, vetted.host))

    async def aclose(self) -> None:
        await self._inner.aclose()


def _address_request(request: httpx2.Request, address: str, name: str) -> httpx2.Request:
    """Return the same request for the machine at `address`. Its headers already name the host."""
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": name},
    )
