"""Turns any failure of a model endpoint into the `ProviderError` that decides what happens next."""

import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import httpx2

from hermes.core import errors
from hermes.core.errors import ProviderError
from hermes.providers.failures import body as bodies
from hermes.providers.failures.body import Complaint, RetryHints, printable, requested_wait
from hermes.providers.failures.rules import (
    PROVIDER_RULES,
    RULES_BY_CONTENT,
    RULES_BY_STATUS,
    FailureRule,
)
from hermes.util.http import HttpError
from hermes.util.text import human_duration

# Messages for the user: what happened, and what to do next.

MAX_MESSAGE = 400  #: Characters of a message.
MAX_DETAIL = 300
_MAX_NAME = 60
_TRY_LATER = "try again in a moment, or choose another model with `hermes model`"

_WORDING: dict[type[ProviderError], tuple[str, str]] = {
    errors.CredentialRefused: (
        "refused the key",
        "`hermes auth list {provider}` shows the keys, `hermes auth add {provider}` adds one",
    ),
    errors.QuotaSpent: (
        "says the credit or quota is used up",
        "top up the account, then `hermes auth reset {provider}`; or `hermes model` sets another",
    ),
    errors.RateLimited: (
        "is limiting requests",
        "wait a little, or add a second key with `hermes auth add {provider}`",
    ),
    errors.ModelNotFound: (
        "does not offer this model",
        "`hermes models {provider}` lists what it offers, `hermes model` sets one",
    ),
    errors.ContextOverflow: (
        "says the conversation is too long",
        "start a new session, or choose a model with a longer context with `hermes model`",
    ),
    errors.ContentRefused: (
        "refused the content",
        "rephrase the request, or choose another model with `hermes model`",
    ),
    errors.SignatureRefused: (
        "refused the reasoning of an earlier turn",
        "start a new session if it happens again",
    ),
    errors.UnicodeRefused: ("refused characters in the conversation", "start a new session"),
    errors.OptionRefused: (
        "refused the reasoning effort or the temperature",
        "to leave the effort to the model: `hermes config set agent.reasoning_effort none`",
    ),
    errors.ToolsRefused: (
        "refused the tools",
        "choose a model that can use tools: `hermes models {provider}` lists them",
    ),
    errors.RequestRefused: (
        "refused the request",
        "`hermes model test` shows whether the model works, `hermes model` sets another",
    ),
    errors.Overloaded: ("is overloaded", _TRY_LATER),
    errors.ServerFault: ("has a server error", _TRY_LATER),
    errors.ReplyInvalid: ("could not use what the model wrote", _TRY_LATER),
}


def headline(
    provider: str, kind: type[ProviderError], *, message: str, notes: list[str], detail: str
) -> str:
    """Return `openai is limiting requests (HTTP 429, wait 20s): Rate limit reached ...`"""
    start = f"{display_provider(provider)} {message or _WORDING[kind][0]}"
    if notes:
        start += f" ({', '.join(notes)})"
    if not detail:
        return printable(start, MAX_MESSAGE)
    return printable(f"{start}: {detail}", MAX_MESSAGE)


def format_hint(
    provider: str, kind: type[ProviderError], template: str, values: dict[str, str]
) -> str:
    filled = {name: printable(value, 80) for name, value in values.items() if value}
    return (template or _WORDING[kind][1]).format_map(
        {"provider": display_provider(provider), **filled}
    )


def display_provider(provider: str) -> str:
    return printable(provider, _MAX_NAME) or "the endpoint"


def status_notes(
    status: int | None, retry_after: float | None, *, in_stream: bool = False
) -> list[str]:
    notes = [] if status is None else [f"{'code' if in_stream else 'HTTP'} {status}"]
    if retry_after is not None and retry_after >= 1:
        notes.append(f"wait {human_duration(retry_after)}")
    return notes


RULES = (*PROVIDER_RULES, *RULES_BY_CONTENT, *RULES_BY_STATUS)
"""All rules in the order in which they are tried. The last one matches everything."""


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
    cause = printable(str(error), 200) or type(error).__name__
    name = display_provider(provider)
    match error:
        case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            return _connection_error(provider, url, cause)
        case httpx2.UnsupportedProtocol() | httpx2.ProxyError() | httpx2.InvalidURL():
            return _connection_error(provider, url, cause)
        case httpx2.TimeoutException() | TimeoutError():
            return errors.StreamStalled(f"{name} stopped answering ({cause})", provider=provider)
        case _:
            return errors.StreamCut(f"the connection to {name} was cut: {cause}", provider=provider)


def rule_for(provider: str, status: int | None, complaint: Complaint) -> FailureRule:
    return next(rule for rule in RULES if rule.matches(provider, status, complaint))


def _classify(
    provider: str, status: int | None, complaint: Complaint, hints: RetryHints, *, in_stream: bool
) -> ProviderError:
    rule = rule_for(provider, status, complaint)
    kind = rule.error
    retry_after = requested_wait(kind, hints)
    detail = printable(complaint.message, MAX_DETAIL)
    match = rule.match(complaint)
    return kind(
        headline(
            provider,
            kind,
            message=rule.message,
            notes=status_notes(status, retry_after, in_stream=in_stream),
            detail=detail,
        ),
        provider=provider,
        status=status,
        body=detail,
        hint=format_hint(provider, kind, rule.hint, match.groupdict() if match else {}),
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
