"""Resolves settings and a model choice to a `Target`: endpoint, model and credentials."""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.config.environment import describe_unset, unset_names
from hermes.config.settings import (
    AuxiliaryTask,
    CustomProvider,
    ModelAlias,
    ProviderModel,
    ProviderSettings,
    RoutingSettings,
    Settings,
)
from hermes.core.errors import ConfigError, CredentialMissing, KeyNotBound
from hermes.providers import endpoints
from hermes.providers.endpoints import (
    ENV,
    GIVEN,
    OPENAI_VARIABLE,
    Credential,
    Endpoint,
    ModelProfile,
    Target,
    Timeouts,
    check_base_url,
    endpoint_of_host,
    is_loopback,
    is_openai_key,
    may_receive_key,
)

if TYPE_CHECKING:
    from hermes.providers.catalog.catalog import ModelCatalog
    from hermes.providers.credentials.pool import Keyring

# Model choices.

CUSTOM = "custom"


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line, config.yaml or the environment asks for; empty means not set."""

    provider: str = "auto"
    """Provider id or alias, `custom`, `custom:NAME`, the NAME of a custom provider, or `auto`."""
    model: str = ""
    base_url: str = ""
    api_key: str = ""
    key_env: str = ""  #: Name of the variable that holds the key.
    context_length: int = 0
    reason: str = ""  #: Where the choice was made, for messages.
    base_url_source: str = "model.base_url"  #: The setting or variable that the base URL came from.
    base_url_saved: bool = True  #: False when only a variable of the shell sets it.

    @property
    def is_auto(self) -> bool:
        """Whether no provider is named."""
        return self.provider.strip().lower() in ("", "auto")


def parse_model(text: str, custom_names: Collection[str] = ()) -> ModelChoice:
    """Parse `name`, `provider:model`, `custom:model` or `custom:name:model`.

    Model names contain colons too (`qwen3:4b`, `…:free`), so the part before the first colon is a
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
    """Parse a model after expanding the user's `model_aliases`."""
    alias = aliases.get(text.strip())
    if isinstance(alias, ModelAlias):
        return ModelChoice(
            provider=alias.provider or "auto", model=alias.model, base_url=alias.base_url
        )
    return parse_model(alias or text, custom_names)


def routing_body(endpoint: Endpoint, routing: RoutingSettings) -> dict[str, Any]:
    """Return OpenRouter's routing field with the settings that differ from the defaults."""
    if endpoint.id != "openrouter":
        return {}
    defaults = msgspec.to_builtins(RoutingSettings())
    configured = msgspec.to_builtins(routing)
    wanted = {name: value for name, value in configured.items() if value != defaults[name]}
    return {"provider": wanted} if wanted else {}


NO_KEY_REASON = "no key is configured"  #: `Target.source` when nothing is configured.

LOCAL = "local"
DEFAULT_REGION = "us-east-1"
OPENAI_API, OPENAI_ADDRESS = "openai-api", "OPENAI_BASE_URL"
THINKING_FIELD = "reasoning_content"  #: Of servers at addresses that no known provider has.


class ProviderCandidate(msgspec.Struct, frozen=True):
    """A provider that could be used, and why."""

    endpoint: Endpoint
    reason: str
    saved: bool
    """Configured in the home (config.yaml, .env, auth.json), not just exported in the shell."""


class Resolver:
    def __init__(self, settings: Settings, keys: "Keyring", models: "ModelCatalog") -> None:
        self._settings, self._keys, self._models = settings, keys, models

    def resolve(self, choice: ModelChoice) -> Target:
        """Return the target of `choice`. Raises `ConfigError` or `CredentialMissing`."""
        if not choice.is_auto:
            endpoint = self.endpoint(choice.provider)
            reason = choice.reason or f"provider {endpoint.id} was chosen"
            return self._target(endpoint, choice, reason)
        first = next(self.candidates(choice), None)
        if first is not None:
            return self._target(first.endpoint, choice, first.reason)
        local = ModelChoice(provider=LOCAL, context_length=choice.context_length)
        return self._target(self.endpoint(LOCAL), local, NO_KEY_REASON)

    def candidates(self, choice: ModelChoice) -> Iterator[ProviderCandidate]:
        """Yield what `auto` can choose from; the first one is used.

        Saved configuration comes before variables that the shell exports.
        """
        exported: list[ProviderCandidate] = []
        for one in self._possible(choice):
            if one.saved:
                yield one
            else:
                exported.append(one)
        yield from exported

    def endpoint(self, name: str) -> Endpoint:
        """Return the endpoint of a provider id, an alias or the name of a custom provider."""
        wanted = name.strip()
        custom = find_custom_provider(self._settings, wanted)
        if custom is not None:
            return custom_endpoint(custom)
        endpoint = endpoints.find_endpoint(wanted.lower())
        if endpoint is None:
            own = [f"{CUSTOM}:{each.name}" for each in self._settings.custom_providers]
            known = ", ".join([*(each.id for each in endpoints.ENDPOINTS), *own])
            raise ConfigError(f"unknown provider {name!r}", hint=f"known: {known}")
        if wanted.lower() == OPENAI_API:
            # As in Harbor: unlike `openai`, it must not ignore the variable and ask OpenAI itself.
            return msgspec.structs.replace(endpoint, base_url_vars=(OPENAI_ADDRESS,))
        return endpoint

    def with_model(self, target: Target, model: str) -> Target:
        """Return the same endpoint and keys with another model."""
        endpoint = msgspec.structs.replace(self.endpoint(target.provider), api_mode=target.api_mode)
        profile = self._profile(endpoint, target.base_url, model)
        return msgspec.structs.replace(target, model=model, profile=profile)

    def _possible(self, choice: ModelChoice) -> Iterator[ProviderCandidate]:
        if choice.base_url:
            reason = f"{choice.base_url_source} is set"
            yield ProviderCandidate(self.endpoint(CUSTOM), reason, choice.base_url_saved)
        for endpoint in endpoints.ENDPOINTS:
            if not endpoint.base_url or not endpoint.needs_key:
                continue
            for credential in self._keys.credentials(endpoint):
                variable = credential.variable
                if not credential.is_foreign and variable not in endpoint.shared_key_vars:
                    saved = not variable or self._keys.is_saved(variable)
                    yield ProviderCandidate(endpoint, credential.source, saved)
                    break

    def _target(self, endpoint: Endpoint, choice: ModelChoice, reason: str) -> Target:
        settings = self._settings
        region = settings.bedrock.region or DEFAULT_REGION
        if choice.is_auto and endpoint.id != CUSTOM:
            # A base URL, and a key set with it, belong to a custom endpoint that lost to a saved
            # provider. A key set without a base URL has no provider.
            if choice.api_key and not choice.base_url:
                raise ConfigError(
                    "model.api_key is set, but neither model.provider nor model.base_url says"
                    " whose it is",
                    hint="hermes config set model.provider <provider>",
                )
            choice = msgspec.structs.replace(choice, base_url="", api_key="", key_env="")
        base_url = self._address(endpoint, choice).replace("{region}", region)
        # A custom endpoint at the host of a known provider uses the keys of that one.
        owner = (endpoint.id == CUSTOM and endpoint_of_host(base_url)) or endpoint
        credentials = self._credentials(endpoint, owner, choice, base_url)
        endpoint = _with_api_of_address(endpoint, owner, base_url)
        provider = settings.providers.get(endpoint.id)
        if provider is not None and provider.transport and base_url == self._own_address(endpoint):
            endpoint = msgspec.structs.replace(endpoint, api_mode=provider.transport)
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
            source=reason,
            credentials=credentials,
            profile=profile,
            timeouts=timeouts_for(settings, endpoint, model, here=is_loopback(base_url)),
            headers=endpoint.headers,
            cache_ttl=settings.prompt_caching.cache_ttl,
            key_owner=owner.id if owner.id != endpoint.id else "",
            region=region if endpoint.auth == "aws" else "",
        )

    def _profile(self, endpoint: Endpoint, base_url: str, model: str) -> ModelProfile:
        """Return what is known of the model, with the settings applied."""
        settings, profile = self._settings, self._models.profile(endpoint, base_url, model)
        profile = _with_cache_price(profile, settings.prompt_caching.cache_ttl)
        if extra := routing_body(endpoint, settings.provider_routing):
            profile = msgspec.structs.replace(profile, extra_body={**profile.extra_body, **extra})
        unknown = bool(base_url) and endpoint_of_host(base_url) is None
        if unknown and not (profile.strict or profile.thinking_field):
            # Servers of open models need the reasoning of earlier steps, and a server that records
            # a conversation for training takes a reply without it for another reply.
            profile = msgspec.structs.replace(profile, thinking_field=THINKING_FIELD)
        return profile

    def _address(self, endpoint: Endpoint, choice: ModelChoice) -> str:
        if endpoint.id == LOCAL:
            return ""
        if choice.base_url:
            return check_base_url(choice.base_url, choice.base_url_source)
        if own := self._own_address(endpoint):
            return own
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

    def _own_address(self, endpoint: Endpoint) -> str:
        """Return the address of `providers.NAME.api`, or ""."""
        provider = self._settings.providers.get(endpoint.id)
        api = provider.api if provider else ""
        return check_base_url(api, f"providers.{endpoint.id}.api") if api else ""

    def _credentials(
        self, endpoint: Endpoint, owner: Endpoint, choice: ModelChoice, base_url: str
    ) -> tuple[Credential, ...]:
        if choice.api_key:
            elsewhere = "" if may_receive_key(endpoint, base_url) else base_url
            return (_explicit_credential(choice.api_key, "given with the choice", elsewhere),)
        if choice.key_env:
            return self._named_key(choice.key_env, base_url)
        own, provider = self._own_address(endpoint), self._settings.providers.get(endpoint.id)
        is_own = base_url == own if own else may_receive_key(endpoint, base_url)
        if provider is not None and provider.api_key and is_own:
            source = f"providers.{endpoint.id}.api_key"
            return (_explicit_credential(provider.api_key, source, own),)
        if custom := find_custom_provider(self._settings, endpoint.id):
            if custom.api_key:
                return (
                    _explicit_credential(
                        custom.api_key, f"custom_providers {custom.name}", base_url
                    ),
                )
            _check_key_recipient(custom.key_env, self._keys.variable(custom.key_env), base_url)
        elif endpoint.id != CUSTOM and not may_receive_key(endpoint, base_url):
            return self._elsewhere(endpoint, base_url)
        found = self._keys.credentials(owner)
        if owner.id == CUSTOM:
            found = self._without_unbound(found, base_url)
        if not found and endpoint.needs_key:
            hint = f"hermes auth add {endpoint.id}"
            if endpoint.key_vars:
                hint += f", or hermes config set {endpoint.key_vars[0]} <your key>"
            raise CredentialMissing(f"no key for {endpoint.label}", provider=endpoint.id, hint=hint)
        return found

    def _named_key(self, variable: str, base_url: str) -> tuple[Credential, ...]:
        """Return the key of a named variable. Raises when it belongs to another provider."""
        secret = self._keys.variable(variable)
        _check_key_recipient(variable, secret, base_url)
        if not secret:
            raise CredentialMissing(
                f"the variable {variable} is not set", hint=f"hermes config set {variable} <key>"
            )
        return (Credential(id=f"{ENV}:{variable}", secret=secret, source=variable),)

    def _without_unbound(
        self, found: tuple[Credential, ...], base_url: str
    ) -> tuple[Credential, ...]:
        """Return the credentials without keys of OpenAI and keys not bound to this host.

        Raises `KeyNotBound` if only a key is left that the user could bind.
        """
        usable = [each for each in found if not is_openai_key(each.secret)]
        bound = tuple(
            each
            for each in usable
            if each.variable != OPENAI_VARIABLE
            or self._keys.is_bound(each.variable, each.secret, base_url)
        )
        if usable and not bound:
            raise KeyNotBound(
                f"{OPENAI_VARIABLE} is not sent to {base_url} before you allow it",
                hint=f"hermes auth bind {OPENAI_VARIABLE} {base_url}"
                "   (or set another key for it: hermes config set model.api_key KEY)",
                variable=OPENAI_VARIABLE,
                base_url=base_url,
            )
        return bound

    def _elsewhere(self, endpoint: Endpoint, base_url: str) -> tuple[Credential, ...]:
        """Raise unless no key is needed: this base URL is not the provider's own."""
        if not endpoint.needs_key:
            return ()
        held = self._keys.credentials(endpoint)
        note = f"; the key of {endpoint.label} is not sent there" if held else ""
        raise CredentialMissing(
            f"no key is set for {base_url}, which is not an address of {endpoint.label}{note}",
            provider=endpoint.id,
            hint="to set a key for this address: hermes config set model.api_key <key>",
        )


def find_custom_provider(settings: Settings, name: str) -> CustomProvider | None:
    """Return the entry of `custom_providers` named `NAME` or `custom:NAME`."""
    own = name.removeprefix(f"{CUSTOM}:").lower()
    customs = settings.custom_providers
    return next((custom for custom in customs if custom.name.lower() == own), None)


def custom_endpoint(custom: CustomProvider) -> Endpoint:
    """Return an entry of `custom_providers` as an endpoint."""
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
    """Return the endpoint with the API that this base URL serves."""
    if owner is not endpoint:  # a custom endpoint at the host of a known provider
        return msgspec.structs.replace(
            endpoint, api_mode=owner.api_mode, auth=owner.auth, headers=owner.headers
        )
    if endpoint.custom_url_api_mode and not may_receive_key(endpoint, base_url):
        return msgspec.structs.replace(endpoint, api_mode=endpoint.custom_url_api_mode)
    return endpoint


def _with_cache_price(profile: ModelProfile, ttl: str) -> ModelProfile:
    """Adjust the cache price: caching for an hour costs twice the input price."""
    price = profile.price
    if price is None or not profile.cache_marks or ttl != "1h":
        return profile
    dearer = msgspec.structs.replace(price, cache_write=max(price.cache_write, 2 * price.input))
    return msgspec.structs.replace(profile, price=dearer)


def _explicit_credential(key: str, source: str, address: str) -> Credential:
    """Return a key that was set together with its base URL.

    Raises `CredentialMissing` when it is a `${NAME}` that is not set.
    """
    if names := unset_names(key):
        raise CredentialMissing(
            f"the key {source} is missing: {describe_unset(names)}",
            hint=f"hermes config set {names[0]} <key>",
        )
    return Credential(id=GIVEN, secret=key, source=source, base_url=address)


def _check_key_recipient(variable: str, secret: str | None, base_url: str) -> None:
    """Raise `ConfigError` when `variable` holds a provider's own key and this is not its host."""
    owners = [e for e in endpoints.ENDPOINTS if variable in e.key_vars and e.base_url]
    named = variable == OPENAI_VARIABLE and not is_openai_key(secret or "")
    if not owners or named:
        return
    if not any(may_receive_key(owner, base_url) for owner in owners):
        raise ConfigError(
            f"{variable} is the key of {owners[0].label} and is not sent to {base_url}",
            hint="store the key for this address in another variable",
        )


# Targets of auxiliary tasks, in the order in which they are tried.

MAIN = "main"
TEXT_CHAIN = ("openrouter", "nous", CUSTOM, "openai-codex")
"""Followed by every other provider with a key, and the main model last."""
VISION_CHAIN = (MAIN, "openrouter", "nous", "openai-codex", "anthropic", CUSTOM)

VISION = "vision"


def auxiliary_targets(
    task: str, task_settings: AuxiliaryTask, main: Target, resolver: Resolver
) -> tuple[Target, ...]:
    """Return at least one target. Raises `ConfigError` or `CredentialMissing`.

    `auto` walks the chain of configured providers, `main` is the model of the conversation,
    anything else names a provider. A base URL without a provider is a custom endpoint.
    """
    if task_settings.provider == MAIN:
        found = [resolver.with_model(main, task_settings.model) if task_settings.model else main]
    elif task_settings.provider not in ("", "auto") or task_settings.base_url:
        found = [_explicit_target(task, task_settings, main, resolver)]
    else:
        found = list(_auto_chain(task, task_settings, main, resolver))
    if not found:
        raise ConfigError(
            "no model that can see images is configured",
            hint="name one: hermes config set auxiliary.vision.provider <provider>",
        )
    return tuple(_with_task_options(target, task_settings) for target in found)


def _explicit_target(
    task: str, task_settings: AuxiliaryTask, main: Target, resolver: Resolver
) -> Target:
    choice = ModelChoice(
        provider=task_settings.provider if task_settings.provider not in ("", "auto") else CUSTOM,
        model=task_settings.model,
        base_url=task_settings.base_url,
        api_key=task_settings.api_key,
        reason=f"auxiliary.{task}.provider is set",
        base_url_source=f"auxiliary.{task}.base_url",
    )
    return resolver.resolve(_with_default_model(choice, main, resolver))


def _with_default_model(choice: ModelChoice, main: Target, resolver: Resolver) -> ModelChoice:
    """Fill in the model: the provider's small one, or the main model at the same provider."""
    if choice.model:
        return choice
    endpoint = resolver.endpoint(choice.provider)
    same = endpoint.id == main.provider and not choice.base_url
    model = endpoint.small_model or (main.model if same else endpoint.default_model)
    return msgspec.structs.replace(choice, model=model)


def _auto_chain(
    task: str, task_settings: AuxiliaryTask, main: Target, resolver: Resolver
) -> Iterator[Target]:
    ready = [candidate.endpoint.id for candidate in resolver.candidates(ModelChoice())]
    if task == VISION:
        order = list(VISION_CHAIN)
    else:
        order = [*TEXT_CHAIN, *(name for name in ready if name not in TEXT_CHAIN), MAIN]
    # A model named without a provider goes to the first entry; the others use their own.
    model = task_settings.model
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
    """Return the target of one entry of the chain; None when it is not fully configured."""
    if name == MAIN or (name == CUSTOM and main.provider.startswith(CUSTOM)):
        return resolver.with_model(main, model) if model else main
    if name not in ready:
        return None
    choice = ModelChoice(provider=name, model=model, reason="auxiliary tasks are set to auto")
    try:
        return resolver.resolve(_with_default_model(choice, main, resolver))
    except (ConfigError, CredentialMissing):
        return None


def _with_task_options(target: Target, task_settings: AuxiliaryTask) -> Target:
    """Apply the time limit and extra fields of the task.

    Cache marks are removed: a one-off prompt is not worth a paid cache entry.
    """
    seconds = float(task_settings.timeout)
    limits = msgspec.structs.asdict(target.timeouts)
    timeouts = Timeouts(**{name: min(limit, seconds) for name, limit in limits.items()})
    body = {**target.profile.extra_body, **task_settings.extra_body}
    profile = msgspec.structs.replace(target.profile, extra_body=body, cache_marks=False)
    return msgspec.structs.replace(target, profile=profile, timeouts=timeouts)


def timeouts_for(settings: Settings, endpoint: Endpoint, model: str, *, here: bool) -> Timeouts:
    """Return the limits set for the model, else for the provider, else in general.

    A server on this machine (`here`) may process a long prompt for minutes before its first token,
    so only the limit of the whole request applies.
    """
    general = settings.timeouts
    provider = settings.providers.get(endpoint.id, ProviderSettings())
    own = provider.models.get(model, ProviderModel())
    request = (
        own.timeout_seconds
        or provider.request_timeout_seconds
        or endpoint.request_seconds
        or general.request_seconds
    )
    stale = own.stale_timeout_seconds or provider.stale_timeout_seconds
    if stale or here:
        patience = float(stale or request)
        return Timeouts(request=request, silence=patience, read=patience, stale=patience)
    return Timeouts(
        request=request,
        silence=general.stale_seconds,
        read=general.stream_read_seconds,
        stale=general.stream_stale_seconds,
    )
