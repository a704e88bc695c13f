"""What a person is told: one line on what happened, and what to do next."""

from hermes.core import errors
from hermes.core.errors import ProviderError
from hermes.providers.failures.text import presentable
from hermes.util.text import human_duration

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
