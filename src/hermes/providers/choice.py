"""What was asked for, before anything is looked up."""

from collections.abc import Collection, Mapping

import msgspec

from hermes.config.settings.model import ModelAlias
from hermes.providers import endpoints

CUSTOM = "custom"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
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


def parse_model(text: str, custom_names: Collection[str] = ()) -> Choice:
    """A model as people write it: `name`, `provider:model`, `custom:model`, `custom:name:model`.

    Model names hold colons too (`qwen3:4b`, `…:free`), so what stands before the first colon is a
    provider only when one has that name.
    """
    head, colon, rest = text.strip().partition(":")
    name = head.lower()
    if name == CUSTOM:
        inner, more, model = rest.partition(":")
        if more and inner in custom_names:
            return Choice(provider=f"{CUSTOM}:{inner}", model=model)
        if rest in custom_names:
            return Choice(provider=f"{CUSTOM}:{rest}")
        return Choice(provider=CUSTOM, model=rest)
    if colon and head in custom_names:
        return Choice(provider=f"{CUSTOM}:{head}", model=rest)
    if colon and (endpoint := endpoints.find(name)):
        return Choice(provider=endpoint.id, model=rest)
    return Choice(model=text.strip())


def with_alias(
    text: str, aliases: Mapping[str, str | ModelAlias], custom_names: Collection[str] = ()
) -> Choice:
    """`parse_model`, after the user's own short names (`model_aliases`)."""
    alias = aliases.get(text.strip())
    if isinstance(alias, ModelAlias):
        return Choice(provider=alias.provider or "auto", model=alias.model, base_url=alias.base_url)
    return parse_model(alias or text, custom_names)
