"""HTTP requests other than model calls: limited in time and size, redirects only where checked.

`fetch` and `fetch_blocking` raise `HttpError`, and every caller turns it into an error of its own.
The HTTP library is imported at first use, and certificates are read at the first handshake:
loading both takes longer than starting the program.
"""

import asyncio
import os
import ssl
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, TypedDict, Unpack
from urllib.parse import urlsplit

import msgspec

from hermes.util.lazy import late_pattern

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 30.0  #: Longest pause between two pieces of a response.
MAX_BYTES = 8 * 1024**2
MAX_REDIRECTS = 5

CheckRedirect = Callable[[str, str], None]
"""Takes the present and the next address; raises to refuse the redirect."""


class HttpError(Exception):
    """There is no complete response.

    The text is a predicate such as "did not answer in time", to follow the name of the server. The
    error of the library is `__cause__`.
    """

    def __init__(
        self,
        kind: Literal["address", "unreachable", "timeout", "too_large", "redirects", "not_json"],
        text: str,
    ) -> None:
        super().__init__(text)
        self.kind = kind


class HttpResponse(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]  #: Names are compared without case.
    body: bytes
    url: str  #: The address after redirects.
    charset: str = ""  #: From the `Content-Type`.
    is_cut: bool = False  #: The body is longer than the limit.

    def json(self) -> Any:
        """Decode the body. Raises `HttpError`."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise HttpError("not_json", f"did not answer with JSON: {error}") from error

    def json_object(self) -> dict[str, Any]:
        """Decode a JSON object; an empty one for anything else."""
        return json_object(self.body)


def json_object(data: bytes) -> dict[str, Any]:
    """Decode a JSON object; an empty one for anything else."""
    try:
        fields = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


class RequestContent(TypedDict, total=False):
    """What `httpx2` accepts as the content of a request."""

    headers: Mapping[str, str]
    params: Mapping[str, Any] | None
    content: bytes | None
    data: Mapping[str, Any] | None
    json: Any


def make_client(
    transport: "httpx2.AsyncBaseTransport | None" = None, *, trust_env: bool = True
) -> "httpx2.AsyncClient":
    """Make a client without cookies that reads certificates late."""
    from http.cookiejar import DefaultCookiePolicy

    import httpx2

    client = httpx2.AsyncClient(transport=transport, trust_env=trust_env, verify=LateTls())
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))
    return client


class LateClient:
    """Makes the client for the first request, because loading its library is slow and most
    processes send none."""

    def __init__(self) -> None:
        self._client: httpx2.AsyncClient | None = None

    def __call__(self) -> "httpx2.AsyncClient":
        if self._client is None:
            self._client = make_client()
        return self._client

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()


AnyClient: TypeAlias = "httpx2.AsyncClient | LateClient"


async def fetch(
    client: AnyClient,
    method: str,
    url: str,
    *,
    seconds: float = SILENCE_SECONDS,
    max_bytes: int = MAX_BYTES,
    truncate: bool = False,
    check_redirect: CheckRedirect | None = None,
    max_redirects: int = MAX_REDIRECTS,
    check_response: "Callable[[httpx2.Response], None] | None" = None,
    **content: Unpack[RequestContent],
) -> HttpResponse:
    """Return the response of any status. Raises `HttpError`.

    `seconds` limits the whole exchange. A body over `max_bytes`, counted after decompression, is an
    error, or is cut with `truncate`; 0 reads no body. Redirects are returned, or followed if
    `check_redirect` accepts them; `Authorization` is not sent to another origin. `check_response`
    is called before the body is read and may raise.
    """
    if isinstance(client, LateClient):
        client = client()
    with _http_errors():
        request = client.build_request(method, url, timeout=_timeout(seconds), **content)
        async with asyncio.timeout(seconds):
            for _ in range(max_redirects + 1):
                response = await client.send(request, stream=True, follow_redirects=False)
                async with aclosing(response):
                    following = response.next_request
                    if following is None or check_redirect is None:
                        if check_response is not None:
                            check_response(response)
                        return await _read(response, max_bytes, truncate=truncate)
                check_redirect(str(request.url), str(following.url))
                request = following
    raise HttpError("redirects", f"redirects more than {max_redirects} times")


async def _read(response: "httpx2.Response", max_bytes: int, *, truncate: bool) -> HttpResponse:
    data = bytearray()
    if max_bytes:
        async for piece in response.aiter_bytes():
            data += piece
            if len(data) > max_bytes:
                break
    return _response(response, data, max_bytes, truncate=truncate)


def fetch_blocking(
    client: "httpx2.Client",
    method: str,
    url: str,
    *,
    seconds: float = SILENCE_SECONDS,
    max_bytes: int = MAX_BYTES,
    **content: Unpack[RequestContent],
) -> HttpResponse:
    """Like `fetch`, for code that runs in a thread. Redirects are returned."""
    end, data = time.monotonic() + seconds, bytearray()
    with (
        _http_errors(),
        client.stream(
            method, url, timeout=_timeout(seconds), follow_redirects=False, **content
        ) as response,
    ):
        for piece in response.iter_bytes():
            data += piece
            if len(data) > max_bytes:
                break
            if time.monotonic() > end:
                raise TimeoutError
        return _response(response, data, max_bytes, truncate=False)


def _timeout(seconds: float) -> "httpx2.Timeout":
    import httpx2

    return httpx2.Timeout(min(seconds, SILENCE_SECONDS), connect=min(seconds, CONNECT_SECONDS))


def _response(
    response: "httpx2.Response", data: bytearray, max_bytes: int, *, truncate: bool
) -> HttpResponse:
    is_cut = len(data) > max_bytes
    if is_cut and not truncate:
        raise HttpError("too_large", f"sent more than {max_bytes:,} bytes")
    return HttpResponse(
        response.status_code,
        response.headers,
        bytes(data[:max_bytes]),
        str(response.url),
        response.charset_encoding or "",
        is_cut,
    )


@contextmanager
def _http_errors() -> Iterator[None]:
    import httpx2

    try:
        yield
    except (TimeoutError, httpx2.TimeoutException) as error:
        raise HttpError("timeout", "did not answer in time") from error
    except httpx2.InvalidURL as error:
        raise HttpError("address", f"has an invalid address: {error}") from error
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        reason = system_error(error) or str(error) or type(error).__name__
        raise HttpError("unreachable", f"cannot be reached: {reason}") from error


def system_error(error: BaseException) -> str:
    """Return the text of the system for the failed connection behind `error`, such as `connection
    refused`; "" if the system gave no reason."""
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        # The number of an `ssl.SSLError` is not one of the system.
        if isinstance(one, OSError) and one.errno and not isinstance(one, ssl.SSLError):
            text = os.strerror(one.errno) if one.errno > 0 else one.strerror or ""
            return text[:1].lower() + text[1:]
        if one is not None:
            pending += (one.__context__, one.__cause__, *getattr(one, "exceptions", ()))
    return ""


def is_header_value(value: str) -> bool:
    """Return whether `value` may be sent as a header value."""
    return value.isascii() and value.isprintable()


class LateTls(ssl.SSLContext):
    """A TLS context that reads the certificates at the first handshake.

    Until then it trusts no certificate, so a use that is not covered here fails.
    """

    def __new__(cls) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self) -> None:
        self._context: ssl.SSLContext | None = None
        # Handshakes run in threads, several at a time.
        self._lock = Lock()
        self._alpn: list[str] = []

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        self._alpn = list(alpn_protocols)

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        with self._lock:
            if self._context is None:
                self._context = _make_context()
            if self._alpn:
                self._context.set_alpn_protocols(self._alpn)
        return self._context.wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def _make_context() -> ssl.SSLContext:
    """Do the work of `httpx2.create_ssl_context()`, where possible without loading httpx2."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile and paths.cafile != paths.openssl_cafile:  # SSL_CERT_FILE
        return ssl.create_default_context(cafile=paths.cafile)
    own_folder = paths.capath != paths.openssl_capath  # SSL_CERT_DIR, or there is no folder
    if sys.platform != "linux" or not paths.cafile or own_folder:
        import httpx2  # uses the certificates of the system, and knows where distributions put them

        return httpx2.create_ssl_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(paths.cafile, paths.capath)
    return context


class HttpUrl(NamedTuple):
    scheme: str
    host: str  #: In lower case; a name with other letters as `xn--`.
    port: int
    path: str
    query: str
    fragment: str
    has_login: bool  #: Whether a user name or password precedes the host.

    @property
    def origin(self) -> tuple[str, str, int]:
        return self[:3]


_UNSAFE_CHARACTERS = late_pattern(r"[\s\\\x00-\x1f\x7f]")
_HOST_NAME = late_pattern(r"[a-z0-9._-]+|[0-9a-f.]*:[0-9a-f:.]+")


@lru_cache(maxsize=256)
def parse_http_url(url: str) -> HttpUrl | None:
    """Return None for anything but an http or https URL about whose host all parsers agree."""
    if _UNSAFE_CHARACTERS.search(url) or not url.startswith(("http://", "https://")):
        return None
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        return None
    login, at, site = parts.netloc.rpartition("@")
    shown = f"[{host}]" if ":" in host else host
    if "@" in login or site.lower() not in (shown, f"{shown}:", f"{shown}:{port}"):
        return None
    if not host.isascii():
        host = _ascii_host(url)
    if not _HOST_NAME.fullmatch(host):
        return None
    default = 443 if parts.scheme == "https" else 80
    found = default if port is None else port
    return HttpUrl(parts.scheme, host, found, parts.path, parts.query, parts.fragment, bool(at))


def _ascii_host(url: str) -> str:
    import httpx2  # slow to load, and such names are rare

    try:
        return httpx2.URL(url).raw_host.decode()
    except (httpx2.InvalidURL, ValueError):
        return ""


FROM_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
"""Where this machine reaches a server that listens on all addresses."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    import ipaddress  # a start does not need it

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
