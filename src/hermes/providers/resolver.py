"""Which endpoint, model and key a request uses, and why. One resolver for every caller."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from hermes.config.expand import told, unset_names
from hermes.config.settings import Settings
from hermes.config.settings.model import AuxiliaryTask, CustomProvider, ModelAlias, RoutingSettings
from hermes.core.errors import ConfigError, CredentialMissing, HermesError
from hermes.providers import endpoints
from hermes.providers.endpoints import (
    Endpoint,
    ModelProfile,
    check_base_url,
    endpoint_of_host,
    is_loopback,
    may_receive_key,
)
from hermes.providers.target import ENV, GIVEN, Credential, Target, Timeouts, timeouts_for

# What was asked for, before anything is looked up.

CUSTOM = "custom"


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """From the command line, config.yaml or the environment; empty means not said."""

    provider: str = "auto"
    """Provider id or alias, `custom`, `custom:NAME`, the NAME of a custom provider, or `auto`."""
    model: str = ""
    base_url: str = ""
    api_key: str = ""
    key_env: str = ""
    """Name of the variable that holds the key."""
    context_length: int = 0
    why: str = ""
    """Where the choice was made, in words."""
    base_url_said: str = "model.base_url"
    """The setting or variable the address came from."""
    base_url_saved: bool = True
    """False: only a variable of the shell says it."""

    @property
    def is_open(self) -> bool:
        """Whether no provider was named."""
        return self.provider.strip().lower() in ("", "auto")


def parse_model(text: str, custom_names: Collection[str] = ()) -> ModelChoice:
    """A model as people write it: `name`, `provider:model`, `custom:model`, `custom:name:model`.

    Model names hold colons too (`qwen3:4b`, `…:free`), so what stands before the first colon is a
    provider only when one has that name.
    """
    head, colon, rest = text.strip().partition(":")
    name = head.lower()
    if name == CUSTOM:
        inner, more, model = rest.partition(":")
        if more and inner in custom_names:
            return ModelChoice(provider=f"{CUSTOM}:{inner}", model=model)
        if rest in custom_names:
            return ModelChoice(provider=f"{CUSTOM}:{rest}")
        return ModelChoice(provider=CUSTOM, model=rest)
    if colon and head in custom_names:
        return ModelChoice(provider=f"{CUSTOM}:{head}", model=rest)
    if colon and (endpoint := endpoints.find_endpoint(name)):
        return ModelChoice(provider=endpoint.id, model=rest)
    return ModelChoice(model=text.strip())


def expand_alias(
    text: str, aliases: Mapping[str, str | ModelAlias], custom_names: Collection[str] = ()
) -> ModelChoice:
    """`parse_model`, after the user's own short names (`model_aliases`)."""
    alias = aliases.get(text.strip())
    if isinstance(alias, ModelAlias):
        return ModelChoice(
            provider=alias.provider or "auto", model=alias.model, base_url=alias.base_url
        )
    return parse_model(alias or text, custom_names)


# Which hosts OpenRouter may pass a request on to.


def routing_body(endpoint: Endpoint, routing: RoutingSettings) -> dict[str, Any]:
    """The field OpenRouter reads, with what differs from the defaults; nothing for the others."""
    if endpoint.id != "openrouter":
        return {}
    usual = msgspec.to_builtins(RoutingSettings())
    said = msgspec.to_builtins(routing)
    wanted = {name: value for name, value in said.items() if value != usual[name]}
    return {"provider": wanted} if wanted else {}


# What the resolver and the policies need of the credentials.


class Keys(Protocol):
    """Where keys are found."""

    def variable(self, name: str) -> str | None:
        """A variable of .env or of the process; empty is not set."""
        ...

    def is_saved(self, name: str) -> bool:
        """Whether the variable stands in .env, and so was put there on purpose."""
        ...

    def credentials(self, endpoint: Endpoint) -> tuple[Credential, ...]:
        """Everything that could be sent to the endpoint, best first; resting ones too."""
        ...


class Models(Protocol):
    """What is known of models."""

    def profile(self, endpoint: Endpoint, base_url: str, model: str) -> ModelProfile: ...


NO_KEY_REASON = "no key is configured"
"""The `Target.source` of a request nobody configured anything for."""

LOCAL = "local"
DEFAULT_REGION = "us-east-1"


class ProviderCandidate(msgspec.Struct, frozen=True):
    """A provider that could be used, and why."""

    endpoint: Endpoint
    why: str
    saved: bool
    """Set up in the home (config.yaml, .env, auth.json), not just exported in the shell."""


class Resolver:
    def __init__(self, settings: Settings, keys: Keys, models: Models) -> None:
        self._settings, self._keys, self._models = settings, keys, models

    def resolve(self, choice: ModelChoice) -> Target:
        """The target of `choice`. Raises `ConfigError` or `CredentialMissing`."""
        if not choice.is_open:
            endpoint = self.endpoint(choice.provider)
            why = choice.why or f"provider {endpoint.id} was chosen"
            return self._target(endpoint, choice, why)
        first = next(self.candidates(choice), None)
        if first is not None:
            return self._target(first.endpoint, choice, first.why)
        local = ModelChoice(provider=LOCAL, context_length=choice.context_length)
        return self._target(self.endpoint(LOCAL), local, NO_KEY_REASON)

    def candidates(self, choice: ModelChoice) -> Iterator[ProviderCandidate]:
        """What `auto` can choose from, in its order: the first is taken.

        What was saved on purpose comes before what the shell happens to export.
        """
        exported: list[ProviderCandidate] = []
        for one in self._possible(choice):
            if one.saved:
                yield one
            else:
                exported.append(one)
        yield from exported

    def endpoint(self, name: str) -> Endpoint:
        """The endpoint of a provider id, an alias or the name of a custom provider."""
        wanted = name.strip()
        custom = find_custom_provider(self._settings, wanted)
        if custom is not None:
            return custom_endpoint(custom)
        endpoint = endpoints.find_endpoint(wanted.lower())
        if endpoint is None:
            raise ConfigError(f"unknown provider {name!r}", hint=f"known: {self._known_names()}")
        return endpoint

    def another_model(self, target: Target, model: str) -> Target:
        """The same endpoint and keys with another of its models."""
        endpoint = msgspec.structs.replace(self.endpoint(target.provider), api_mode=target.api_mode)
        profile = self._profile(endpoint, target.base_url, model)
        return msgspec.structs.replace(target, model=model, profile=profile)

    def _known_names(self) -> str:
        own = [f"{CUSTOM}:{custom.name}" for custom in self._settings.custom_providers]
        return ", ".join([e.id for e in endpoints.ENDPOINTS] + own)

    def _possible(self, choice: ModelChoice) -> Iterator[ProviderCandidate]:
        if choice.base_url:
            why = f"{choice.base_url_said} is set"
            yield ProviderCandidate(self.endpoint(CUSTOM), why, choice.base_url_saved)
        for endpoint in endpoints.ENDPOINTS:
            if not endpoint.base_url or not endpoint.needs_key:
                continue
            for credential in self._keys.credentials(endpoint):
                variable = credential.variable
                if not credential.is_foreign and variable not in endpoint.other_uses:
                    saved = not variable or self._keys.is_saved(variable)
                    yield ProviderCandidate(endpoint, credential.source, saved)
                    break

    def _target(self, endpoint: Endpoint, choice: ModelChoice, why: str) -> Target:
        settings = self._settings
        region = settings.bedrock.region or DEFAULT_REGION
        if choice.is_open and endpoint.id != CUSTOM:
            # An address, and a key said with it, belong to a custom endpoint that lost against a
            # saved provider; a key said without any address belongs to nobody.
            _check_key_has_provider(choice)
            choice = msgspec.structs.replace(choice, base_url="", api_key="", key_env="")
        base_url = self._address(endpoint, choice).replace("{region}", region)
        owner = self._key_owner(endpoint, base_url)
        credentials = self._credentials(endpoint, owner, choice, base_url)
        endpoint = _with_api_of_address(endpoint, owner, base_url)
        model = choice.model or endpoint.default_model
        if not model and endpoint.id != LOCAL:
            raise ConfigError(
                f"no model is chosen for provider {endpoint.id}",
                hint=f"`hermes models {endpoint.id}` lists them; then `hermes model set <name>`",
            )
        profile = self._profile(endpoint, base_url, model)
        if choice.context_length:
            profile = msgspec.structs.replace(profile, context_length=choice.context_length)
        return Target(
            provider=endpoint.id,
            model=model,
            base_url=base_url,
            api_mode=endpoint.api_mode,
            auth=endpoint.auth,
            source=why,
            credentials=credentials,
            profile=profile,
            timeouts=timeouts_for(settings, endpoint, model, here=is_loopback(base_url)),
            headers=endpoint.headers,
            cache_ttl=settings.prompt_caching.cache_ttl,
            key_owner=owner.id if owner.id != endpoint.id else "",
            region=region if endpoint.auth == "aws" else "",
        )

    def _profile(self, endpoint: Endpoint, base_url: str, model: str) -> ModelProfile:
        """What is known of the model, and what the settings make of it."""
        settings, profile = self._settings, self._models.profile(endpoint, base_url, model)
        profile = _with_cache_price(profile, settings.prompt_caching.cache_ttl)
        if extra := routing_body(endpoint, settings.provider_routing):
            profile = msgspec.structs.replace(profile, extra_body={**profile.extra_body, **extra})
        return profile

    def _address(self, endpoint: Endpoint, choice: ModelChoice) -> str:
        if endpoint.id == LOCAL:
            return ""
        if choice.base_url:
            return check_base_url(choice.base_url, choice.base_url_said)
        for variable in endpoint.base_url_vars:
            if url := self._keys.variable(variable):
                return check_base_url(url, variable)
        if not endpoint.base_url:
            raise ConfigError(
                f"provider {endpoint.id} needs an address",
                hint="hermes config set model.base_url http://127.0.0.1:8080/v1",
            )
        if endpoint.id.startswith(f"{CUSTOM}:"):
            return check_base_url(endpoint.base_url, f"custom_providers {endpoint.label}")
        return endpoint.base_url

    def _key_owner(self, endpoint: Endpoint, base_url: str) -> Endpoint:
        """The user's own endpoint gets OPENAI_API_KEY, unless it is a provider we know."""
        return (endpoint.id == CUSTOM and endpoint_of_host(base_url)) or endpoint

    def _credentials(
        self, endpoint: Endpoint, owner: Endpoint, choice: ModelChoice, base_url: str
    ) -> tuple[Credential, ...]:
        if choice.api_key:
            elsewhere = "" if may_receive_key(endpoint, base_url) else base_url
            return (_explicit_credential(choice.api_key, "given with the choice", elsewhere),)
        if choice.key_env:
            return self._named_key(choice.key_env, base_url)
        if custom := find_custom_provider(self._settings, endpoint.id):
            if custom.api_key:
                return (
                    _explicit_credential(
                        custom.api_key, f"custom_providers {custom.name}", base_url
                    ),
                )
            _check_key_recipient(custom.key_env, base_url)
        elif endpoint.id != CUSTOM and not may_receive_key(endpoint, base_url):
            return self._elsewhere(endpoint, base_url)
        found = self._keys.credentials(owner)
        if not found and endpoint.needs_key:
            raise _missing_key_error(endpoint)
        return found

    def _named_key(self, variable: str, base_url: str) -> tuple[Credential, ...]:
        """The key of a variable the user named, unless it belongs to somebody else."""
        _check_key_recipient(variable, base_url)
        secret = self._keys.variable(variable)
        if not secret:
            raise CredentialMissing(
                f"the variable {variable} is not set", hint=f"hermes config set {variable} <key>"
            )
        return (Credential(id=f"{ENV}:{variable}", secret=secret, source=variable),)

    def _elsewhere(self, endpoint: Endpoint, base_url: str) -> tuple[Credential, ...]:
        """No key for an address that is not the provider's own."""
        if not endpoint.needs_key:
            return ()
        held = self._keys.credentials(endpoint)
        kept = f"; its own key stays with {endpoint.label}" if held else ""
        raise CredentialMissing(
            f"no key is set for {base_url}, which is not an address of {endpoint.label}{kept}",
            provider=endpoint.id,
            hint="if the key may go there: hermes config set model.api_key <key>",
        )


def find_custom_provider(settings: Settings, name: str) -> CustomProvider | None:
    """The entry of `custom_providers` that `NAME` or `custom:NAME` means."""
    own = name.removeprefix(f"{CUSTOM}:").lower()
    customs = settings.custom_providers
    return next((custom for custom in customs if custom.name.lower() == own), None)


def custom_endpoint(custom: CustomProvider) -> Endpoint:
    """An entry of `custom_providers` as an endpoint."""
    return Endpoint(
        id=f"{CUSTOM}:{custom.name}",
        label=custom.name,
        base_url=custom.base_url.rstrip("/"),
        api_mode=custom.api_mode,
        auth="x-api-key" if custom.api_mode == "anthropic_messages" else "bearer",
        key_vars=(custom.key_env,) if custom.key_env else (),
        needs_key=bool(custom.key_env),
        default_model=next(iter(custom.models), ""),
    )


def _with_api_of_address(endpoint: Endpoint, owner: Endpoint, base_url: str) -> Endpoint:
    """The endpoint with the API that this address speaks."""
    if owner is not endpoint:  # an endpoint of the user's own at the host of a provider we know
        return msgspec.structs.replace(
            endpoint, api_mode=owner.api_mode, auth=owner.auth, headers=owner.headers
        )
    if endpoint.mode_elsewhere and not may_receive_key(endpoint, base_url):
        return msgspec.structs.replace(endpoint, api_mode=endpoint.mode_elsewhere)
    return endpoint


def _with_cache_price(profile: ModelProfile, ttl: str) -> ModelProfile:
    """Where prefixes are marked, keeping one for an hour costs twice what reading it does."""
    price = profile.price
    if price is None or not profile.cache_marks or ttl != "1h":
        return profile
    dearer = msgspec.structs.replace(price, cache_write=max(price.cache_write, 2 * price.input))
    return msgspec.structs.replace(profile, price=dearer)


def _explicit_credential(key: str, source: str, address: str) -> Credential:
    """A key said together with the address it is for. Raises `CredentialMissing` when it is a
    `${NAME}` that nobody set."""
    if names := unset_names(key):
        raise CredentialMissing(
            f"the key {source} is missing: {told(names)}",
            hint=f"hermes config set {names[0]} <key>",
        )
    return Credential(id=GIVEN, secret=key, source=source, base_url=address)


def _missing_key_error(endpoint: Endpoint) -> HermesError:
    how = [f"hermes auth add {endpoint.id}"]
    if endpoint.key_vars:
        how.append(f"hermes config set {endpoint.key_vars[0]} <your key>")
    return CredentialMissing(
        f"no key for {endpoint.label}", provider=endpoint.id, hint=", or ".join(how)
    )


def _check_key_has_provider(choice: ModelChoice) -> None:
    if choice.api_key and not choice.base_url:
        raise ConfigError(
            "model.api_key is set, but neither model.provider nor model.base_url says whose it is",
            hint="hermes config set model.provider <provider>",
        )


def _check_key_recipient(variable: str, base_url: str) -> None:
    """Raises `ConfigError` when `variable` holds a provider's own key and this is not its host."""
    owners = [e for e in endpoints.ENDPOINTS if variable in e.key_vars and e.base_url]
    if not owners or variable == "OPENAI_API_KEY":
        return
    if not any(may_receive_key(owner, base_url) for owner in owners):
        raise ConfigError(
            f"{variable} is the key of {owners[0].label} and is not sent to {base_url}",
            hint="put the key for this address into a variable of another name",
        )


# Which models may do a piece of work beside the conversation, in the order they are tried.

MAIN = "main"
TEXT_CHAIN = ("openrouter", "nous", CUSTOM, "openai-codex")
"""Then every other provider with a key, and the main model last."""
VISION_CHAIN = (MAIN, "openrouter", "nous", "openai-codex", "anthropic", CUSTOM)

VISION = "vision"


def auxiliary_targets(
    task: str, asked: AuxiliaryTask, main: Target, resolver: Resolver
) -> tuple[Target, ...]:
    """At least one target. Raises `ConfigError` or `CredentialMissing`.

    `auto` walks the chain of what is configured, `main` is the model of the conversation, and
    anything else names a provider. An address without a provider is an endpoint of its own.
    """
    if asked.provider == MAIN:
        found = [resolver.another_model(main, asked.model) if asked.model else main]
    elif asked.provider not in ("", "auto") or asked.base_url:
        found = [_explicit_target(task, asked, main, resolver)]
    else:
        found = list(_auto_chain(task, asked, main, resolver))
    if not found:
        raise ConfigError(
            "no model that can see images is configured",
            hint="name one: hermes config set auxiliary.vision.provider <provider>",
        )
    return tuple(_with_task_options(target, asked) for target in found)


def _explicit_target(task: str, asked: AuxiliaryTask, main: Target, resolver: Resolver) -> Target:
    choice = ModelChoice(
        provider=asked.provider if asked.provider not in ("", "auto") else CUSTOM,
        model=asked.model,
        base_url=asked.base_url,
        api_key=asked.api_key,
        why=f"auxiliary.{task}.provider is set",
        base_url_said=f"auxiliary.{task}.base_url",
    )
    return resolver.resolve(_with_default_model(choice, main, resolver))


def _with_default_model(choice: ModelChoice, main: Target, resolver: Resolver) -> ModelChoice:
    """Without a model: the provider's small one, or that of the conversation on the same one."""
    if choice.model:
        return choice
    endpoint = resolver.endpoint(choice.provider)
    same = endpoint.id == main.provider and not choice.base_url
    model = endpoint.small_model or (main.model if same else endpoint.default_model)
    return msgspec.structs.replace(choice, model=model)


def _auto_chain(
    task: str, asked: AuxiliaryTask, main: Target, resolver: Resolver
) -> Iterator[Target]:
    ready = [candidate.endpoint.id for candidate in resolver.candidates(ModelChoice())]
    if task == VISION:
        order = list(VISION_CHAIN)
    else:
        order = [*TEXT_CHAIN, *(name for name in ready if name not in TEXT_CHAIN), MAIN]
    # A model named without a provider is asked of the first one; the others have their own.
    model = asked.model
    seen: set[str] = set()
    for name in order:
        target = _chain_member(name, model, main, resolver, ready)
        if target is None or target.provider in seen:
            continue
        if task == VISION and not target.profile.images:
            continue
        seen.add(target.provider)
        yield target
        model = ""


def _chain_member(
    name: str, model: str, main: Target, resolver: Resolver, ready: list[str]
) -> Target | None:
    """The target of a link of the chain; None when it is not configured, or not fully."""
    if name == MAIN or (name == CUSTOM and main.provider.startswith(CUSTOM)):
        return resolver.another_model(main, model) if model else main
    if name not in ready:
        return None
    choice = ModelChoice(provider=name, model=model, why="auxiliary tasks are set to auto")
    try:
        return resolver.resolve(_with_default_model(choice, main, resolver))
    except (ConfigError, CredentialMissing):
        return None


def _with_task_options(target: Target, asked: AuxiliaryTask) -> Target:
    """With the time and the further fields of the task. What is asked once is not worth a place in
    a cache that has to be paid for."""
    seconds = float(asked.timeout)
    limits = msgspec.structs.asdict(target.timeouts)
    timeouts = Timeouts(**{name: min(limit, seconds) for name, limit in limits.items()})
    body = {**target.profile.extra_body, **asked.extra_body}
    profile = msgspec.structs.replace(target.profile, extra_body=body, cache_marks=False)
    return msgspec.structs.replace(target, profile=profile, timeouts=timeouts)
