"""What `hermes config set KEY VALUE` means: which file, which key, which value."""

from typing import Any, Literal, NamedTuple, get_origin

import yaml

from hermes.config.convert import Converter, Mismatch
from hermes.config.keys import Parts, join_key, split_key
from hermes.config.schema import bare, locate, members, suggestion
from hermes.config.variables import is_known_variable, is_variable_name
from hermes.core.errors import ConfigError, UsageError


class Assignment(NamedTuple):
    """A change to make: a variable of .env, or a key of config.yaml."""

    variable: str
    """The variable, or empty."""
    parts: Parts
    """The key, or empty."""
    value: Any


def variable_named(key: str) -> str:
    """The variable `key` names, or nothing when it is a key of config.yaml.

    Variables are written in capitals; `openai_api_key` is understood too.
    """
    if is_variable_name(key):
        return key
    upper = key.upper()
    if is_variable_name(upper) and is_known_variable(upper) and locate((key,)) is None:
        return upper
    return ""


def assign(key: str, text: str, *, force: bool = False) -> Assignment:
    """Work out what setting `key` to `text` means, and refuse what cannot be right.

    `force` allows keys the settings do not have, for plugins.
    """
    variable = variable_named(key)
    if variable:
        return Assignment(variable, (), text)
    parts = split_key(key)
    place = locate(parts)
    if place is not None:
        return Assignment("", place.parts, _value(join_key(place.parts), place.type, text))
    if force:
        return Assignment("", parts, _parsed(key, text))
    guess = suggestion(key)
    raise UsageError(
        f"there is no setting {key}",
        hint=f"did you mean {guess}?" if guess else "--force writes it all the same",
    )


def _value(key: str, kind: Any, text: str) -> Any:
    value = text if _is_text(kind, text) else _parsed(key, text)
    if value is None:
        raise UsageError(
            f"{key}: there is no value", hint=f"`hermes config unset {key}` removes it"
        )
    converter = Converter()
    try:
        converted = converter.value(kind, value, split_key(key))
    except Mismatch as mismatch:
        raise ConfigError(f"{key}: {mismatch}", hint="nothing was changed") from mismatch
    if converter.problems:
        first = converter.problems[0]
        raise ConfigError(f"{first.key}: {first.message}", hint="nothing was changed")
    # A list or block is written as it was given, without all its defaults.
    return _plain(converted) if isinstance(converted, str | int | float) else _as_given(value)


def _is_text(kind: Any, text: str) -> bool:
    """Whether `text` is to be taken word for word: the key takes text and YAML sees none."""
    kinds = [bare(member) for member in members(kind)]
    if not any(member is str or get_origin(member) is Literal for member in kinds):
        return False
    if any(member is bool or get_origin(member) in (tuple, dict) for member in kinds):
        return False
    try:
        return not isinstance(yaml.load(text, Loader=yaml.CSafeLoader), str | dict | list)
    except yaml.YAMLError:
        return True


def _parsed(key: str, text: str) -> Any:
    try:
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise UsageError(
            f"{key}: the value is not valid YAML", hint="put it in quotes, inside and outside"
        ) from error


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_given(value: Any) -> Any:
    """`a,b` for a list is written as a list."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value
