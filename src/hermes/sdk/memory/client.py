"""The HTTP client of memory services: bounded in time and size, with a circuit breaker.

Failures raise `ServiceError` with one line that contains no secrets.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

import msgspec

from hermes.core.errors import ConfigError, ToolError
from hermes.plugins import describe_error
from hermes.util.circuit_breaker import CircuitBreaker
from hermes.util.http import HttpError, LateTls, fetch_blocking, is_header_value, is_loopback

T = TypeVar("T")

MAX_FAILURES = 3  #: Consecutive failures after which the service is paused.
PAUSE, MAX_PAUSE = 60.0, 600.0  #: Seconds; each further failure doubles the pause.
WRITE_SECONDS = 30.0  #: Timeout for background writes.
SLOW_SECONDS = 25.0
"""Timeout for answers that a model of the service generates; a tool call waits 30 s."""
MAX_BYTES = 4 * 1024**2
RATE_PAUSE = 30.0
REFUSED_PAUSE = 600.0
_MAX_REASON_CHARS = 160
_RETRY_STATUSES = frozenset({502, 503, 504})


class ServiceError(ToolError):
    """A service refused or failed.

    `pause` is the number of seconds for which it must not be called; None counts as an ordinary
    failure.
    """

    def __init__(self, message: str, *, pause: float | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.pause = pause


class ServiceNotFound(ServiceError):
    """The requested object does not exist; the service works."""


class ServicePaused(ServiceError):
    """The service was not called, because its circuit breaker is open."""


class ServiceCircuitBreaker:
    """Pauses a service after consecutive failures. Not thread-safe."""

    def __init__(self, service: str, now: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._breaker = CircuitBreaker(MAX_FAILURES, PAUSE, MAX_PAUSE, now)

    def run(self, work: Callable[[], T]) -> T:
        """Run `work` and return its result. Raises `ServicePaused` while the service is paused."""
        if left := self._breaker.remaining:
            reason = self._breaker.reason
            raise ServicePaused(f"{self._service} is asked again in {left:.0f} s; {reason}")
        try:
            result = work()
        except ServiceNotFound:
            self._breaker.record_success()
            raise
        except ServiceError as error:
            self._breaker.record_failure(describe_error(error), error.pause)
            raise
        self._breaker.record_success()
        return result


class ServiceClient:
    """Client of one service at one address.

    `secret` never appears in an error; `remedy` is the hint when the service refuses it.
    """

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
        if not is_header_value(secret):
            raise ConfigError(
                f"the key of {service} contains invalid characters", hint=remedy or "set it again"
            )
        self.host = base.netloc.rpartition("@")[2]
        self._service, self._secret, self._remedy = service, secret, remedy
        self._seconds = seconds
        self._circuit = ServiceCircuitBreaker(service)
        import httpx2  # slow to load, and so are certificates

        secure = base.scheme == "https"
        tls: Any = httpx2.create_ssl_context() if secure else LateTls()
        self._client = httpx2.Client(
            base_url=base.geturl(),
            headers={"Accept": "application/json", **headers},
            trust_env=not is_loopback(base.hostname or ""),
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
        """Return the decoded answer; None if the object does not exist.

        A transient failure is retried once within the timeout. Raises `ServiceError`.
        """
        limit = seconds or self._seconds
        try:
            return self._circuit.run(lambda: self._retry_once(method, path, body, params, limit))
        except ServiceNotFound:
            return None

    def write(
        self, method: str, path: str, body: Any = None, *, params: Mapping[str, Any] | None = None
    ) -> Any:
        """Like `read`, but never retried, because a write may have succeeded before the failure.
        Also raises `ServiceNotFound`."""
        return self._circuit.run(lambda: self._once(method, path, body, params, WRITE_SECONDS))

    def close(self) -> None:
        self._client.close()

    def _retry_once(self, method: str, path: str, body: Any, params: Any, limit: float) -> Any:
        begin = time.monotonic()
        try:
            return self._once(method, path, body, params, limit)
        except _TransientError:
            left = limit - (time.monotonic() - begin)
            if left < limit / 2:
                raise
        return self._once(method, path, body, params, left)

    def _once(self, method: str, path: str, body: Any, params: Any, limit: float) -> Any:
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            answer = fetch_blocking(
                self._client,
                method,
                path,
                content=content,
                params=params,
                headers=headers,
                seconds=limit,
                max_bytes=MAX_BYTES,
            )
            if not 200 <= answer.status < 300:
                raise self._refusal(answer.status, answer.headers, answer.body)
            return answer.json() if answer.body.strip() else None
        except HttpError as error:
            raise self._failure(error, limit) from error

    def _failure(self, error: HttpError, limit: float) -> ServiceError:
        cause = type(error.__cause__).__name__
        if error.kind == "unreachable" and cause != "ConnectError":
            return _TransientError(f"the connection to {self._who} broke ({cause})")
        if error.kind == "unreachable":
            why = ": its certificate is not trusted" if "CERTIFICATE" in str(error) else ""
            return _TransientError(f"{self._who} cannot be reached{why}")
        texts = {
            "timeout": f"did not answer within {limit:g} s",
            "too_large": "sends more than can be read",
            "not_json": "sent an answer that is not JSON",
        }
        return ServiceError(f"{self._who} {texts.get(error.kind, error)}")

    def _refusal(self, status: int, headers: Mapping[str, str], data: bytes) -> ServiceError:
        reason = self._reason(data)
        if status in (401, 403):
            text = f"{self._who} refused the key ({status}{reason})"
            return ServiceError(text, pause=REFUSED_PAUSE, hint=self._remedy)
        text = f"{self._who} answered {status}{reason}"
        if status == 404:
            return ServiceNotFound(text)
        if status == 429:
            return ServiceError(text, pause=_parse_retry_after(headers.get("retry-after", "")))
        if 300 <= status < 400:
            return ServiceError(text, hint="set base_url to the address of the service itself")
        return _TransientError(text) if status in _RETRY_STATUSES else ServiceError(text)

    def _reason(self, data: bytes) -> str:
        """Return the beginning of the service's error message, redacted, for the end of a text."""
        try:
            answer = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            return ""
        text = " ".join(_message(answer).split())
        from hermes.security import Redactor

        redacted = Redactor([self._secret]).redact(text)
        return f": {redacted[:_MAX_REASON_CHARS]}" if redacted else ""

    @property
    def _who(self) -> str:
        return f"{self._service} at {self.host}"


class _TransientError(ServiceError):
    """A failure that a retry may solve."""


def parse_address(service: str, text: str) -> SplitResult:
    """Return the parsed address. Raises `ConfigError` unless it is an HTTP address."""
    with suppress(ValueError):
        base = urlsplit(text.strip().rstrip("/"))
        if base.scheme in ("http", "https") and base.hostname and base.port != 0:
            return base
    raise ConfigError(
        f"the address of {service} is not an HTTP address",
        hint="set base_url to something like http://localhost:8000",
    )


def quote_segment(text: str) -> str:
    """Quote `text` as one segment of a path."""
    return quote(text, safe="")


def _message(answer: Any, depth: int = 3) -> str:
    """Find the error message: services use different keys, sometimes nested."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, dict) and depth:
        keys = ("message", "detail", "error", "details")
        texts = (_message(answer.get(key), depth - 1) for key in keys)
        return next((text for text in texts if text), "")
    return ""


def _parse_retry_after(retry_after: str) -> float:
    return float(retry_after) if retry_after.isdecimal() else RATE_PAUSE
