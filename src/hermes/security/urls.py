"""Which URLs a tool may fetch: those of the public internet, and nothing behind the firewall.

A URL is judged as the HTTP client has parsed it, so both mean the same host. A name is looked up
once; every address it has must be public, and the connection goes to an address that was judged
(`url_transport`), so a second answer of the name server changes nothing.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address

import httpx2
import msgspec

from hermes.core.errors import ToolDenied, ToolError
from hermes.core.tool import Concern
from hermes.security.url_addresses import Address, why_not_public
from hermes.security.url_blocklist import Blocklist
from hermes.security.url_hosts import Host, understand, why_name_is_private
from hermes.security.url_resolver import Resolver, system_resolver

PORTS = {"http": 80, "https": 443}
ANY_PORT = 0
LONGEST_URL = 8_000

PUBLIC_ONLY = (
    "only public web addresses can be fetched; "
    "the user can open a host in the setting security.allow_private_urls"
)

_AUTHORITY = re.compile(r"[a-z]+://([^/?#]*)", re.IGNORECASE)
_ODD = re.compile(r"[\s\\\x00-\x1f\x7f]")


class Vetted(msgspec.Struct, frozen=True):
    """A URL that may be fetched, by connecting to one of `addresses`."""

    url: httpx2.URL
    host: str
    port: int
    addresses: tuple[str, ...]


class UrlGuard:
    """Judges URLs for one session. Raises `ToolDenied` for what must not be fetched."""

    def __init__(
        self,
        resolver: Resolver = system_resolver,
        *,
        blocklist: Blocklist | None = None,
        allowed: frozenset[tuple[str, int]] = frozenset(),
    ) -> None:
        """`blocklist` is `security.website_blocklist`; `allowed` are hosts and ports that may be
        private (`security.allow_private_urls`, read by `allowed_places`)."""
        self._resolver, self._blocklist, self._allowed = resolver, blocklist, allowed

    def check(self, url: str) -> httpx2.URL:
        """The URL, judged by its looks: form, host and blocklist. Nothing is sent, not even a
        question to a name server."""
        return self._judge(url)[0]

    def examine(self, url: str) -> Concern | None:
        """What `check` has against a URL."""
        try:
            self.check(url)
        except ToolDenied as refusal:
            return Concern("blocked URL", shown(url), str(refusal), refused=True)
        return None

    async def vet(self, url: str | httpx2.URL) -> Vetted:
        """The URL with the addresses to connect to. A name without an address is a `ToolError`."""
        parsed, host, port, private = self._judge(url)
        addresses = [host.address] if host.address else await self._addresses(host.name, port)
        if not private:
            for address in addresses:
                if reason := why_not_public(address):
                    raise _refused(parsed, f"{_of(host, address)} {reason}", PUBLIC_ONLY)
        return Vetted(parsed, host.name, port, tuple(str(address) for address in addresses))

    def _judge(self, url: str | httpx2.URL) -> tuple[httpx2.URL, Host, int, bool]:
        """The parsed URL, its host and port, and whether they may be private."""
        parsed = _parsed(url)
        if parsed.scheme not in PORTS:
            what = f"{parsed.scheme}: is not fetched" if parsed.scheme else "it names no scheme"
            raise _refused(url, what, "write the whole address, with https:// or http://")
        if parsed.userinfo:
            raise _refused(url, "it carries a user name or password", "leave out the part before @")
        host = understand(parsed.raw_host.decode("ascii"))
        if isinstance(host, str):
            raise _refused(url, host, "write the host as https://example.com/")
        port = parsed.port if parsed.port is not None else PORTS[parsed.scheme]
        if not 0 < port < 65_536:
            raise _refused(url, f"{port} is not a port")
        if self._blocklist and (rule := self._blocklist.rule_for(host.name)):
            raise _refused(url, f"{rule} is on the user's blocklist", "use another source")
        private = bool({(host.name, port), (host.name, ANY_PORT)} & self._allowed)
        if not private:
            reason = (
                why_not_public(host.address) if host.address else why_name_is_private(host.name)
            )
            if reason:
                raise _refused(url, f"{host.name} {reason}", PUBLIC_ONLY)
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


def allowed_places(entries: Iterable[str]) -> frozenset[tuple[str, int]]:
    """`security.allow_private_urls`: `nas.local`, `192.168.1.5:8080`, `[fd00::5]:80`; a host
    without a port is open on all of them. Raises `ValueError` for what is no host."""
    return frozenset(_place(entry) for entry in entries)


def shown(url: str | httpx2.URL) -> str:
    """A URL for a message: without a password, on one line, not too long."""
    text = re.sub(r"//[^/?#]*@", "//…@", str(url))
    text = "".join(char if char.isprintable() else "�" for char in text)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _parsed(url: str | httpx2.URL) -> httpx2.URL:
    if isinstance(url, httpx2.URL):
        return url
    text = url.strip()
    if len(text) > LONGEST_URL:
        raise _refused(text, "it is too long")
    authority = _AUTHORITY.match(text)
    if authority is None:
        raise _refused(text, "it is not a web address", "begin it with https:// or http://")
    if _ODD.search(authority[1]):
        raise _refused(text, "its host has a space, backslash or control character in it")
    try:
        return httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError) as error:
        raise _refused(text, str(error).rstrip(".")) from error


def _place(entry: str) -> tuple[str, int]:
    try:
        url = httpx2.URL(f"any://{entry.strip()}")
        host = understand(url.raw_host.decode("ascii"))
    except httpx2.InvalidURL as error:
        raise ValueError(f"{entry!r} is not a host: {error}") from error
    if isinstance(host, str) or url.userinfo or url.raw_path not in (b"", b"/"):
        raise ValueError(f"{entry!r} is not a host or host:port")
    return host.name, url.port or ANY_PORT


def _of(host: Host, address: Address) -> str:
    return host.name if host.address else f"{host.name} has the address {address}, which"


def _refused(url: str | httpx2.URL, reason: str, hint: str = "") -> ToolDenied:
    return ToolDenied(f"{shown(url)} must not be fetched: {reason}", hint=hint)
