"""Requests to a service: with time limits, and failures as one line without secrets."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

import msgspec

from hermes.core.errors import ConfigError, ToolError
from hermes.memory.isolation import describe_error

# A service that fails again and again is left alone for a while.

T = TypeVar("T")

MAX_FAILURES = 3
"""After so many in a row it rests."""
PAUSE, MAX_PAUSE = 60.0, 600.0
"""Seconds. Each further failure doubles the pause."""


class ServiceError(ToolError):
    """A service refused or failed. `pause` is how many seconds it is to be left alone at once; None
    when it may be asked again."""

    def __init__(self, message: str, *, pause: float | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.pause = pause


class ServiceNotFound(ServiceError):
    """What was asked about is not there; the service works."""


class ServicePaused(ServiceError):
    """The service was not asked, because it failed a moment ago."""


class ServiceCircuitBreaker:
    """Counts failures of `service` in a row. It is used from one thread."""

    def __init__(self, service: str, now: Callable[[], float] = time.monotonic) -> None:
        self._service, self._now = service, now
        self._failures = 0
        self._until = 0.0
        self._reason = ""

    def run(self, work: Callable[[], T]) -> T:
        """What `work` returns. Raises `Resting` instead of doing it while the service rests."""
        left = self._until - self._now()
        if left > 0:
            raise ServicePaused(f"{self._service} is asked again in {left:.0f} s; {self._reason}")
        try:
            result = work()
        except ServiceNotFound:
            self._failures = 0
            raise
        except ServiceError as error:
            self._rest(error)
            raise
        self._failures = 0
        return result

    def _rest(self, error: ServiceError) -> None:
        self._failures += 1
        self._reason = describe_error(error)
        pause = error.pause
        if pause is None and self._failures >= MAX_FAILURES:
            pause = PAUSE * 2 ** (self._failures - MAX_FAILURES)
        if pause is not None:
            self._until = self._now() + min(pause, MAX_PAUSE)


WRITE_SECONDS = 30.0
"""For what nobody waits for."""
SLOW_SECONDS = 25.0
"""For answers that a model of the service thinks about; a tool waits 30 s."""
MAX_BYTES = 4 * 1024**2
RATE_PAUSE = 30.0
REFUSED_PAUSE = 600.0
_MAX_REASON_CHARS = 160
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_RETRY_STATUSES = frozenset({502, 503, 504})


class ServiceClient:
    """One service at one address. `secret` never appears in an error; `remedy` is the hint when it
    is refused."""

    def __init__(
        self,
        service: str,
        base_url: str,
        headers: Mapping[str, str],
        *,
        secret: str = "",
        seconds: float = 4,
        remedy: str = "",
    ) -> None:
        base = parse_address(service, base_url)
        if not (secret.isascii() and secret.isprintable()):
            raise ConfigError(
                f"the key of {service} has characters that no key has", hint=remedy or "set it anew"
            )
        self.host = base.netloc.rpartition("@")[2]
        self._service, self._secret, self._remedy = service, secret, remedy
        self._seconds = seconds
        self._circuit = ServiceCircuitBreaker(service)
        self._http: Any = import_module("httpx2")  # slow to load, and so are certificates
        late_tls: Any = import_module("hermes.util.late_tls")
        secure = base.scheme == "https"
        tls = self._http.create_ssl_context() if secure else late_tls.LateTls()
        self._client: Any = self._http.Client(
            base_url=base.geturl(),
            headers={"Accept": "application/json", **headers},
            trust_env=base.hostname not in _LOOPBACK,
            verify=tls,
        )

    def read(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """What the service answers; None when what was asked about is not there. Tried a second
        time when the service could not be reached or was busy. Raises `ServiceError`."""
        limit = seconds or self._seconds
        try:
            return self._circuit.run(lambda: self._twice(method, path, body, params, limit))
        except ServiceNotFound:
            return None

    def write(
        self, method: str, path: str, body: Any = None, *, params: Mapping[str, Any] | None = None
    ) -> Any:
        """Like `read`, but tried once: what was done must not be done again. Raises `NotFound`
        too."""
        return self._circuit.run(lambda: self._once(method, path, body, params, WRITE_SECONDS))

    def close(self) -> None:
        self._client.close()

    def _twice(self, method: str, path: str, body: Any, params: Any, limit: float) -> Any:
        begin = time.monotonic()
        try:
            return self._once(method, path, body, params, limit)
        except _TransientError:
            left = limit - (time.monotonic() - begin)
            if left < limit / 2:
                raise
        return self._once(method, path, body, params, left)

    def _once(self, method: str, path: str, body: Any, params: Any, limit: float) -> Any:
        status, headers, data = self._exchange(method, path, body, params, limit)
        if not 200 <= status < 300:
            raise self._refusal(status, headers, data)
        if not data.strip():
            return None
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ServiceError(f"{self._who} answered something that is no JSON") from error

    def _exchange(
        self, method: str, path: str, body: Any, params: Any, limit: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        http, late = self._http, time.monotonic() + limit
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        data = bytearray()
        try:
            with self._client.stream(
                method, path, content=content, params=params, headers=headers, timeout=limit
            ) as response:
                for piece in response.iter_bytes():
                    data += piece
                    if len(data) > MAX_BYTES:
                        raise ServiceError(f"{self._who} sends more than can be read")
                    if time.monotonic() > late:
                        raise self._late(limit)
                return response.status_code, response.headers, bytes(data)
        except http.ConnectError as error:
            untrusted = "CERTIFICATE" in str(error)
            why = ": its certificate is not trusted" if untrusted else ""
            raise _TransientError(f"{self._who} cannot be reached{why}") from error
        except http.TimeoutException as error:
            raise self._late(limit) from error
        except http.HTTPError as error:
            problem = f"the connection to {self._who} broke ({type(error).__name__})"
            raise _TransientError(problem) from error

    def _late(self, limit: float) -> ServiceError:
        return ServiceError(f"{self._who} did not answer within {limit:g} s")

    def _refusal(self, status: int, headers: Mapping[str, str], data: bytes) -> ServiceError:
        said = self._said(data)
        if status in (401, 403):
            text = f"{self._who} refused the key ({status}{said})"
            return ServiceError(text, pause=REFUSED_PAUSE, hint=self._remedy)
        text = f"{self._who} answered {status}{said}"
        if status == 404:
            return ServiceNotFound(text)
        if status == 429:
            return ServiceError(text, pause=_parse_retry_after(headers.get("retry-after", "")))
        if 300 <= status < 400:
            return ServiceError(text, hint="set base_url to where the service really is")
        return _TransientError(text) if status in _RETRY_STATUSES else ServiceError(text)

    def _said(self, data: bytes) -> str:
        """The beginning of what the service says about a failure."""
        try:
            answer = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            return ""
        text = " ".join(_message(answer).split())
        redaction = import_module("hermes.security.redaction")
        kept: str = redaction.Redactor([self._secret]).redact(text)
        return f": {kept[:_MAX_REASON_CHARS]}" if kept else ""

    @property
    def _who(self) -> str:
        return f"{self._service} at {self.host}"


class _TransientError(ServiceError):
    """Trying once more may help."""


def parse_address(service: str, text: str) -> SplitResult:
    """Raises `ConfigError`."""
    with suppress(ValueError):
        base = urlsplit(text.strip().rstrip("/"))
        if base.scheme in ("http", "https") and base.hostname and base.port != 0:
            return base
    raise ConfigError(
        f"the address of {service} is no http address",
        hint="set base_url to something like http://localhost:8000",
    )


def quote_segment(text: str) -> str:
    """`text` as one part of a path."""
    return quote(text, safe="")


def _message(answer: Any, depth: int = 3) -> str:
    """Services say it under one of these names, perhaps one inside the other."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, dict) and depth:
        keys = ("message", "detail", "error", "details")
        texts = (_message(answer.get(key), depth - 1) for key in keys)
        return next((text for text in texts if text), "")
    return ""


def _parse_retry_after(retry_after: str) -> float:
    return float(retry_after) if retry_after.isdecimal() else RATE_PAUSE
