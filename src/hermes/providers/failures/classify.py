"""From any failure of a model endpoint to the error that decides what happens next."""

import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import httpx2

from hermes.core import errors
from hermes.core.errors import ProviderError
from hermes.providers.failures import body as bodies
from hermes.providers.failures.body import Complaint, Said, presentable, wanted
from hermes.providers.failures.rules import BY_CONTENT, BY_STATUS, SPECIAL, Rule
from hermes.util.text import human_duration

# What a person is told: one line on what happened, and what to do next.

LONGEST = 400
"""Characters of a message."""
BODY_SHOWN = 300
_NAME_SHOWN = 60
_SOON = "try again in a moment, or choose another model with `hermes model`"

_OF_CLASS: dict[type[ProviderError], tuple[str, str]] = {
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
        "say it in other words, or choose another model with `hermes model`",
    ),
    errors.SignatureRefused: (
        "refused the reasoning kept from an earlier turn",
        "start a new session if it happens again",
    ),
    errors.UnicodeRefused: ("refused characters in the conversation", "start a new session"),
    errors.OptionRefused: (
        "refused how hard to think, or the temperature",
        "`hermes config set agent.reasoning_effort none` leaves the first to the model",
    ),
    errors.ToolsRefused: (
        "refused the tools",
        "choose a model that can use tools: `hermes models {provider}` lists them",
    ),
    errors.RequestRefused: (
        "refused the request",
        "`hermes model test` shows whether the model works, `hermes model` sets another",
    ),
    errors.Overloaded: ("is overloaded", _SOON),
    errors.ServerFault: ("has trouble of its own", _SOON),
    errors.ReplyInvalid: ("could not use what the model wrote", _SOON),
}


def headline(
    provider: str, kind: type[ProviderError], *, says: str, notes: list[str], detail: str
) -> str:
    """`openai is limiting requests (HTTP 429, wait 20s): Rate limit reached ...`"""
    start = f"{named(provider)} {says or _OF_CLASS[kind][0]}"
    if notes:
        start += f" ({', '.join(notes)})"
    if not detail:
        return presentable(start, LONGEST)
    return presentable(f"{start}: {detail}", LONGEST)


def hint(provider: str, kind: type[ProviderError], template: str, values: dict[str, str]) -> str:
    filled = {name: presentable(value, 80) for name, value in values.items() if value}
    return (template or _OF_CLASS[kind][1]).format_map({"provider": named(provider), **filled})


def named(provider: str) -> str:
    return presentable(provider, _NAME_SHOWN) or "the endpoint"


def notes(status: int | None, retry_after: float | None, *, inside: bool = False) -> list[str]:
    said = [] if status is None else [f"{'code' if inside else 'HTTP'} {status}"]
    if retry_after is not None and retry_after >= 1:
        said.append(f"wait {human_duration(retry_after)}")
    return said


RULES = (*SPECIAL, *BY_CONTENT, *BY_STATUS)
"""All of them, in the order in which they are tried. The last one fits everything."""


def refused(
    provider: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: Callable[[], float] = time.time,
) -> ProviderError:
    """The error for an HTTP answer with a status of 300 or more. `now` is seconds of the epoch."""
    lowered = {name.lower(): value for name, value in headers.items()}
    if 300 <= status < 400:
        return _redirected(provider, status, lowered.get("location", ""))
    complaint = bodies.read_body(body, lowered)
    return _judged(provider, status, complaint, Said(lowered, complaint, now()), inside=False)


def failed_inside(
    provider: str, error: object, *, now: Callable[[], float] = time.time
) -> ProviderError:
    """The error for one that came as decoded JSON inside a stream or a body with status 200."""
    complaint = bodies.look(error)
    said = Said({}, complaint, now())
    return _judged(provider, complaint.status, complaint, said, inside=True)


def unreachable(
    provider: str, url: str, error: httpx2.HTTPError | httpx2.InvalidURL
) -> ProviderError:
    """The error for a request that got no complete answer."""
    cause = presentable(str(error), 200) or type(error).__name__
    name = named(provider)
    match error:
        case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            return _no_connection(provider, url, cause)
        case httpx2.UnsupportedProtocol() | httpx2.ProxyError() | httpx2.InvalidURL():
            return _no_connection(provider, url, cause)
        case httpx2.TimeoutException():
            return errors.StreamStalled(f"{name} stopped answering ({cause})", provider=provider)
        case _:
            return errors.StreamCut(f"the connection to {name} was cut: {cause}", provider=provider)


def rule_for(provider: str, status: int | None, complaint: Complaint) -> Rule:
    return next(rule for rule in RULES if rule.matches(provider, status, complaint))


def _judged(
    provider: str, status: int | None, complaint: Complaint, said: Said, *, inside: bool
) -> ProviderError:
    rule = rule_for(provider, status, complaint)
    kind = rule.then
    retry_after = wanted(kind, said)
    detail = presentable(complaint.message, BODY_SHOWN)
    match = rule.found(complaint)
    return kind(
        headline(
            provider,
            kind,
            says=rule.says,
            notes=notes(status, retry_after, inside=inside),
            detail=detail,
        ),
        provider=provider,
        status=status,
        body=detail,
        hint=hint(provider, kind, rule.hint, match.groupdict() if match else {}),
        retry_after=retry_after,
    )


def _redirected(provider: str, status: int, location: str) -> ProviderError:
    """Keys are sent to the host they belong to, so an answer that points elsewhere ends there."""
    target = presentable(_place(location), 200) or "an address it does not name"
    return errors.RequestRefused(
        f"{named(provider)} redirects to {target} (HTTP {status}), "
        "and a key is never sent along a redirect",
        provider=provider,
        status=status,
        hint="if that address is right, `hermes config set model.base_url` to it",
    )


def _no_connection(provider: str, url: str, cause: str) -> ProviderError:
    place = _place(url) or "what is no address"
    line = f"cannot reach {named(provider)} at {place}: {cause}"
    return errors.Unreachable(
        presentable(line, LONGEST),
        provider=provider,
        hint=next((hint for words, hint in _CAUSES if words in cause.lower()), _CHECK),
    )


def _place(url: str) -> str:
    """The address without a password or a query, which may hold a key."""
    try:
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.scheme}://{host}{port}{parts.path}" if host else parts.path


_CHECK = "check the address, the network, and whether the server runs"
_CAUSES = (
    ("certificate", "the certificate is not trusted: check the address, the clock and the proxy"),
    ("name or service not known", "the name is not known: check the address and the network"),
    ("nodename nor servname", "the name is not known: check the address and the network"),
    ("refused", "nothing listens there: start the server, or check the address and the port"),
)
