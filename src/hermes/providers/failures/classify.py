"""Turns any failure of a model endpoint into the `ProviderError` that decides what happens next."""

import re
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import msgspec

from hermes.core import errors
from hermes.core.errors import ProviderError
from hermes.providers.failures import body as bodies
from hermes.providers.failures.body import Complaint, RetryHints, printable, requested_wait
from hermes.providers.transport import ConnectionFailed, ResponseStalled
from hermes.util.http import HttpError, system_error
from hermes.util.text import human_duration

# The rules and wordings, in `rules.toml`.


class FailureRule(msgspec.Struct, frozen=True):
    """One rule; the file explains its fields."""

    error: str
    providers: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()
    codes: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    is_page: bool = False
    message: str = ""
    hint: str = ""

    def matches(self, provider: str, status: int | None, complaint: Complaint) -> bool:
        names = self.providers
        if names and not any(provider == n or provider.startswith(f"{n}-") for n in names):
            return False
        if self.is_page and not complaint.is_page:
            return False
        by_content = bool(self.codes or self.patterns)
        listed = status and {status, status // 100} & set(self.statuses)
        if self.statuses and not listed and (status or not by_content):
            return False
        if not by_content:
            return True
        return bool(self.codes & complaint.codes) or self.match(complaint) is not None

    def match(self, complaint: Complaint) -> re.Match[str] | None:
        return _compile(self.patterns).search(complaint.text) if self.patterns else None


class RuleTables(msgspec.Struct, frozen=True):
    rules: tuple[FailureRule, ...]  #: In the order in which they are tried.
    wording: dict[str, tuple[str, str]]  #: Message and hint by the name of the error class.


@lru_cache(maxsize=1)
def rule_tables() -> RuleTables:
    data = Path(__file__).with_name("rules.toml").read_bytes()
    return msgspec.toml.decode(data, type=RuleTables)


@lru_cache(maxsize=128)
def _compile(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.DOTALL)


# Messages for the user: what happened, and what to do next.

MAX_MESSAGE = 400  #: Characters of a message.
MAX_DETAIL = 300
_MAX_NAME = 60


def display_provider(provider: str) -> str:
    return printable(provider, _MAX_NAME) or "the endpoint"


def refused(
    provider: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: Callable[[], float] = time.time,
) -> ProviderError:
    """Return the error for a response with status 300 or more. `now` returns the epoch time."""
    lowered = {name.lower(): value for name, value in headers.items()}
    if 300 <= status < 400:
        return _redirect_error(provider, status, lowered.get("location", ""))
    complaint = bodies.read_body(body, lowered)
    return _classify(
        provider, status, complaint, RetryHints(lowered, complaint, now()), in_stream=False
    )


def failed_in_stream(
    provider: str, error: object, *, now: Callable[[], float] = time.time
) -> ProviderError:
    """Return the error for decoded JSON inside a stream or a body with status 200."""
    complaint = bodies.read_error(error)
    hints = RetryHints({}, complaint, now())
    return _classify(provider, complaint.status, complaint, hints, in_stream=True)


def unreachable(provider: str, url: str, error: Exception) -> ProviderError:
    """Return the error for a request without a complete response."""
    if isinstance(error, HttpError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    cause = printable(system_error(error) or str(error), 200) or type(error).__name__
    name = display_provider(provider)
    match error:
        case ConnectionFailed() | httpx2.ConnectError() | httpx2.ConnectTimeout():
            return _connection_error(provider, url, cause)
        case httpx2.PoolTimeout() | httpx2.UnsupportedProtocol() | httpx2.ProxyError():
            return _connection_error(provider, url, cause)
        case httpx2.InvalidURL():
            return _connection_error(provider, url, cause)
        case ResponseStalled() | httpx2.TimeoutException() | TimeoutError():
            return errors.StreamStalled(f"{name} stopped answering ({cause})", provider=provider)
        case _:
            return errors.StreamCut(f"the connection to {name} was cut: {cause}", provider=provider)


def rule_for(provider: str, status: int | None, complaint: Complaint) -> FailureRule:
    rules = rule_tables().rules
    return next(rule for rule in rules if rule.matches(provider, status, complaint))


def _classify(
    provider: str, status: int | None, complaint: Complaint, hints: RetryHints, *, in_stream: bool
) -> ProviderError:
    rule = rule_for(provider, status, complaint)
    kind: type[ProviderError] = getattr(errors, rule.error)
    message, hint = rule_tables().wording[rule.error]
    retry_after = requested_wait(kind, hints)
    notes = [] if status is None else [f"{'code' if in_stream else 'HTTP'} {status}"]
    if retry_after is not None and retry_after >= 1:
        notes.append(f"wait {human_duration(retry_after)}")
    # Such as `openai is limiting requests (HTTP 429, wait 20s): Rate limit reached ...`
    line = f"{display_provider(provider)} {rule.message or message}"
    if notes:
        line += f" ({', '.join(notes)})"
    detail = printable(complaint.message, MAX_DETAIL)
    if detail:
        line += f": {detail}"
    match = rule.match(complaint)
    groups = match.groupdict() if match else {}
    filled = {name: printable(value, 80) for name, value in groups.items() if value}
    return kind(
        printable(line, MAX_MESSAGE),
        provider=provider,
        status=status,
        body=detail,
        hint=(rule.hint or hint).format_map({"provider": display_provider(provider), **filled}),
        retry_after=retry_after,
    )


def _redirect_error(provider: str, status: int, location: str) -> ProviderError:
    """Return the error for a redirect: keys are sent only to the host they belong to."""
    target = printable(_without_secrets(location), 200) or "an address it does not name"
    return errors.RequestRefused(
        f"{display_provider(provider)} redirects to {target} (HTTP {status}), "
        "and a key is never sent along a redirect",
        provider=provider,
        status=status,
        hint="if that address is right, `hermes config set model.base_url` to it",
    )


def _connection_error(provider: str, url: str, cause: str) -> ProviderError:
    place = _without_secrets(url) or "an invalid address"
    line = f"cannot reach {display_provider(provider)} at {place}: {cause}"
    return errors.Unreachable(
        printable(line, MAX_MESSAGE),
        provider=provider,
        hint=next(
            (hint for words, hint in _CONNECTION_HINTS if words in cause.lower()), _CHECK_ADDRESS
        ),
    )


def _without_secrets(url: str) -> str:
    """Return the URL without password and query, which may contain a key."""
    try:
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.scheme}://{host}{port}{parts.path}" if host else parts.path


_CHECK_ADDRESS = "check the address, the network, and whether the server runs"
_CONNECTION_HINTS = (
    ("certificate", "the certificate is not trusted: check the address, the clock and the proxy"),
    ("name or service not known", "the name is not known: check the address and the network"),
    ("nodename nor servname", "the name is not known: check the address and the network"),
    ("refused", "nothing listens there: start the server, or check the address and the port"),
)
