"""What a provider asks to be configured: its config schema, read with patience."""

from collections.abc import Callable
from typing import Any

import msgspec

from hermes.config.environment import export_variable
from hermes.memory.plugin_code import attempt
from hermes.memory.provider import MemoryProvider


class Field(msgspec.Struct, frozen=True):
    key: str
    description: str = ""
    secret: bool = False
    """Kept in .env, as `env_var`."""
    required: bool = False
    env_var: str = ""
    url: str = ""
    """Where to get it."""
    default: str = ""
    choices: tuple[str, ...] = ()


def fields_of(provider: MemoryProvider) -> tuple[Field, ...]:
    """Raises `ConfigError` when the provider cannot say."""
    name = provider.name
    where = f"the memory provider {name}"
    schema: Any = attempt(where, "cannot say what it needs", provider.get_config_schema)
    found = schema if isinstance(schema, list | tuple) else ()
    return tuple(_field(each, name) for each in found if isinstance(each, dict) and each.get("key"))


def export_saved(fields: tuple[Field, ...], variable: Callable[[str], str | None]) -> None:
    """Make variables of .env visible to a provider, which looks for them in the environment."""
    for field in fields:
        value = variable(field.env_var) if field.env_var else None
        if value:
            export_variable(field.env_var, value)


def _field(said: dict[str, Any], provider: str) -> Field:
    key, secret = str(said["key"]), bool(said.get("secret"))
    env_var = str(said.get("env_var") or "")
    if secret and not env_var:
        env_var = "".join(c if c.isalnum() else "_" for c in f"{provider}_{key}").upper()
    default = said.get("default")
    choices = said.get("choices")
    return Field(
        key,
        str(said.get("description") or ""),
        secret,
        bool(said.get("required")),
        env_var,
        str(said.get("url") or ""),
        "" if default is None else str(default),
        tuple(str(each) for each in choices) if isinstance(choices, list | tuple) else (),
    )
