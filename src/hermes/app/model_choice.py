"""The one way to change the model for good: `hermes model` and `/model` both go through it."""

from importlib import import_module

import msgspec

from hermes.app.choices import at_own_endpoint, custom_names, main_choice
from hermes.app.request import SessionRequest
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.errors import UsageError
from hermes.providers import CUSTOM, ModelChoice, Target, endpoints, expand_alias


def asked_for(text: str, loaded: Loaded, current: Target | None) -> ModelChoice:
    """The choice behind what a person typed: a model, an alias, or `provider:model`.

    The name of a provider alone stands for its usual model. Without a provider the one in use is
    kept, with its address.
    """
    if (
        endpoints.find_endpoint(text.strip().lower())
        and text.strip() not in loaded.settings.model_aliases
    ):
        return ModelChoice(provider=text.strip().lower())
    choice = expand_alias(text, loaded.settings.model_aliases, custom_names(loaded.settings))
    if choice.is_auto and not choice.model:
        raise UsageError("no model was named", hint="hermes model set provider:model")
    if choice.is_auto and current is not None:
        choice = msgspec.structs.replace(choice, provider=current.provider)
    return at_own_endpoint(choice, loaded.settings.model)


def requested(request: SessionRequest, loaded: Loaded) -> ModelChoice:
    """The choice of a session that names a model, a provider or an address of its own."""
    choice = ModelChoice()
    if request.model:
        settings = loaded.settings
        choice = expand_alias(request.model, settings.model_aliases, custom_names(settings))
    if request.provider:
        choice = msgspec.structs.replace(choice, provider=request.provider)
    if request.base_url:
        provider = choice.provider if not choice.is_auto else CUSTOM
        choice = msgspec.structs.replace(choice, provider=provider, base_url=request.base_url)
    if choice.is_auto:
        return msgspec.structs.replace(
            main_choice(loaded), model=choice.model, context_length=0, reason="the session names it"
        )
    return at_own_endpoint(choice, loaded.settings.model)


def save_choice(home: Home, choice: ModelChoice, target: Target) -> None:
    """Write it to config.yaml; what belonged to another endpoint is taken out."""
    edit = import_module("hermes.config.edit")  # a heavier YAML library, only for changes
    edit.set_value(home, ("model", "provider"), target.provider)
    edit.set_value(home, ("model", "default"), target.model)
    if choice.base_url:
        edit.set_value(home, ("model", "base_url"), choice.base_url)
    elif not target.provider.startswith(CUSTOM):
        edit.unset_value(home, ("model", "base_url"))
        edit.unset_value(home, ("model", "api_key"))
        edit.unset_value(home, ("model", "context_length"))
