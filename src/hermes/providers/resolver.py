"""Which endpoint, model and key a request uses, and why. One resolver for every caller."""

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import msgspec

from hermes.core.errors import ConfigError, CredentialMissing
from hermes.providers import endpoints
from hermes.providers.endpoints import Endpoint
from hermes.providers.profile import Profile, profile_for

NO_KEY = "no key is configured"
"""The `Target.source` of a request nobody configured anything for."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")

KeyLookup = Callable[[str], str | None]
"""The value of a variable by name, or None; `Loaded.secret` is one."""


class Choice(msgspec.Struct, frozen=True):
    """What was asked for, from the command line, config.yaml or the environment."""

    provider: str = "auto"
    model: str = ""
    base_url: str = ""
    api_key: str = ""
    context_length: int = 0


class Target(msgspec.Struct, frozen=True):
    """Where requests go."""

    provider: str
    model: str
    base_url: str
    api_key: str
    source: str
    """Why this one, in words a user understands."""
    profile: Profile


def resolve(choice: Choice, key: KeyLookup) -> Target:
    """The target of `choice`. Raises `ConfigError` or `CredentialMissing`."""
    if choice.provider not in ("", "auto"):
        return _named(choice, key)
    if choice.base_url:
        return _target(_require("custom"), choice, key, "model.base_url is set")
    for endpoint in endpoints.ENDPOINTS:
        for variable in endpoint.key_vars:
            if endpoint.base_url and key(variable):
                return _target(endpoint, choice, key, f"{variable} is set")
    local = Choice(provider="local", model="", context_length=choice.context_length)
    return _target(_require("local"), local, key, NO_KEY)


def _named(choice: Choice, key: KeyLookup) -> Target:
    endpoint = endpoints.find(choice.provider.lower())
    if endpoint is None:
        known = ", ".join(e.id for e in endpoints.ENDPOINTS)
        raise ConfigError(f"unknown provider {choice.provider!r}", hint=f"known: {known}")
    return _target(endpoint, choice, key, f"provider {endpoint.id} was chosen")


def _require(name: str) -> Endpoint:
    endpoint = endpoints.find(name)
    if endpoint is None:
        raise LookupError(name)
    return endpoint


def _target(endpoint: Endpoint, choice: Choice, key: KeyLookup, source: str) -> Target:
    base_url = choice.base_url or _first(endpoint.base_url_vars, key) or endpoint.base_url
    if not base_url and endpoint.id != "local":
        raise ConfigError(
            f"provider {endpoint.id} needs an address",
            hint="hermes config set model.base_url http://127.0.0.1:8080/v1",
        )
    if not base_url.startswith(("http://", "https://")) and endpoint.id != "local":
        raise ConfigError(
            f"the address {base_url!r} does not begin with http:// or https://",
            hint="hermes config set model.base_url http://127.0.0.1:8080/v1",
        )
    api_key = choice.api_key or _first(_vars_for(endpoint, choice), key) or ""
    if endpoint.needs_key and not api_key:
        raise CredentialMissing(
            f"no key for {endpoint.label}",
            provider=endpoint.id,
            hint=f"hermes config set {endpoint.key_vars[0]} <your key>",
        )
    model = choice.model or endpoint.default_model
    if not model and endpoint.id != "local":
        raise ConfigError(
            f"no model is chosen for provider {endpoint.id}",
            hint="hermes config set model.default <name>, or pass --model <name>",
        )
    here = urlsplit(base_url).hostname in LOOPBACK
    profile = profile_for(model, endpoint.profile, on_this_machine=here)
    if choice.context_length:
        profile = msgspec.structs.replace(profile, context_length=choice.context_length)
    return Target(endpoint.id, model, base_url.rstrip("/"), api_key, source, profile)


def _vars_for(endpoint: Endpoint, choice: Choice) -> Sequence[str]:
    """A provider's own key goes to its own address, never to one the user put in its place."""
    if choice.base_url and endpoint.base_url and choice.base_url.rstrip("/") != endpoint.base_url:
        return ()
    return endpoint.key_vars


def _first(variables: Sequence[str], key: KeyLookup) -> str | None:
    return next((value for variable in variables if (value := key(variable))), None)
