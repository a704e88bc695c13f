"""`hermes_cli.auth`, `hermes_cli.runtime_provider`, `hermes_cli.model_switch` and part of
`agent.model_metadata`: which model, where, and with which key."""

from typing import Any

import msgspec

from hermes.app.documented.process import Process, process
from hermes.app.model_choice import asked_for, named_model, save_choice
from hermes.config.loader import load
from hermes.core.errors import HermesError
from hermes.providers import CUSTOM, ModelChoice, Target, parse_model

Dict = dict[str, Any]


def resolve_provider(requested: str | None = None) -> str:
    """The id of a provider from its id, an alias or the name of a custom one; without a name that
    of conversations. Raises `ConfigError` when there is none."""
    shared = process()
    name = (requested or "").strip()
    if name.lower() in ("", "auto"):
        return shared.providers.known_target(shared.providers.main_choice()).provider
    return shared.providers.resolver.endpoint(name).id


def resolve_runtime_provider(
    requested: str | None = None,
    *,
    model: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
) -> Dict:
    """Where requests go: `provider`, `model`, `api_mode`, `base_url`, `api_key` (a fresh token
    where there is a login), `source` in words, and `expires_at` of the key in seconds of the
    epoch, or None. Without arguments it is what conversations use. Raises `ConfigError` or
    `CredentialMissing`."""
    shared = process()
    asked = shared.providers.main_choice()
    if requested == asked.provider and not base_url and not api_key:
        asked = msgspec.structs.replace(asked, model=model or asked.model)
    elif requested or model or base_url or api_key:
        asked = ModelChoice(
            provider=requested or (CUSTOM if base_url else "auto"),
            model=model or "",
            base_url=base_url or "",
            api_key=api_key or "",
            reason="asked for",
        )
    target = shared.providers.known_target(asked)
    return shared.run(_with_key(shared, target))


async def _with_key(shared: Process, target: Target) -> Dict:
    found: Dict = {
        "provider": target.provider,
        "model": target.model,
        "api_mode": target.api_mode,
        "base_url": target.base_url,
        "api_key": "",
        "source": target.source,
        "expires_at": None,
    }
    if target.credentials:
        endpoint = shared.providers.resolver.endpoint(target.key_owner or target.provider)
        key = await shared.providers.keyring.pool(endpoint, target.credentials).take()
        found |= {"api_key": key.secret, "expires_at": key.expires_at, "source": key.source}
    return found


def switch_model(model: str, *, base_url: str = "", save: bool = True) -> Dict:
    """Choose the model of conversations, as `hermes model set` does: a name, an alias of
    `model_aliases`, or `provider:model`. What cannot be used is not saved. The result has
    `provider`, `model`, `base_url`, `context_length` and `warning` (or "")."""
    shared = process()
    providers, loaded = shared.providers, load(shared.home)
    choice = asked_for(model, loaded, _current(shared))
    if base_url:
        choice = msgspec.structs.replace(choice, base_url=base_url)
    target = providers.known_target(choice)
    if save:
        save_choice(shared.home, choice, target)
    return {
        "provider": target.provider,
        "model": target.model,
        "base_url": target.base_url,
        "context_length": target.profile.context_length,
        "warning": providers.doubt(target),
    }


def _current(shared: Process) -> Target | None:
    try:
        return shared.providers.known_target(shared.providers.main_choice())
    except HermesError:
        return None  # nothing to keep of a choice that does not work


def get_model_context_length(model: str, base_url: str = "", provider: str = "") -> int:
    """Tokens a model can take, as far as anybody knows: the settings, the list of the endpoint,
    the tables that are shipped, or else a careful guess. No network."""
    shared = process()
    providers, settings = shared.providers, shared.loaded.settings
    named = parse_model(model, providers.custom_names())
    usual = settings.model.context_length
    if usual and not base_url and named.model == named_model(shared.loaded).model:
        return usual
    name = provider or (CUSTOM if base_url else named.provider)
    main = providers.main_choice().provider
    name = name if name != "auto" else main if main != "auto" else CUSTOM
    endpoint = providers.resolver.endpoint(name)
    asked = named.model if not named.is_auto else model
    address = base_url or endpoint.base_url or settings.model.base_url
    return providers.known.profile(endpoint, address, asked).context_length
