"""`hermes_cli.config`: the settings as a dict."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hermes.config.edit import set_value, unset_value
from hermes.config.home import current_home
from hermes.config.keys import MISSING, Parts, find, merge
from hermes.config.loader import load
from hermes.config.settings import Settings

Dict = dict[str, Any]

DEFAULT_CONFIG: Dict = msgspec.to_builtins(Settings())


def load_config() -> Dict:
    """All settings in force: config.yaml, variables, and defaults for the rest. Keys that we do
    not know are kept."""
    loaded = load(current_home())
    return merge(loaded.raw, msgspec.to_builtins(loaded.settings))


def save_config(config: Mapping[str, Any]) -> None:
    """Writes what differs from the settings in force to config.yaml, whose comments stay. A value
    of None takes the key out; a key that is not in `config` stays as it is."""
    home, now = current_home(), load_config()
    for parts, value in _changes(config, now):
        if value is None:
            unset_value(home, parts)
        else:
            set_value(home, parts, value)


def _changes(new: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[Parts, Any]]:
    for name, value in new.items():
        held = find(now, (str(name),))
        if isinstance(value, Mapping) and isinstance(held, Mapping):
            yield from (((str(name), *parts), inner) for parts, inner in _changes(value, held))
        elif value != held and not (value is None and held is MISSING):
            yield (str(name),), value
