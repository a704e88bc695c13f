"""Switching plugins on and off, for good."""

from importlib import import_module

from hermes.config.document import read_document
from hermes.config.home import Home
from hermes.config.keys import find
from hermes.plugins.discovery import Kind

_LISTS = {True: "enabled", False: "disabled"}
SETTINGS = {Kind.MEMORY: ("memory", "provider"), Kind.ENGINE: ("context", "engine")}
"""Where the choice of a provider is kept."""


def switch(home: Home, name: str, *, on: bool) -> None:
    """Writes `plugins.enabled` and `plugins.disabled` of config.yaml."""
    edit = import_module("hermes.config.edit")  # a heavier YAML library, only for changes
    _take_out(home, name, _LISTS[not on])
    edit.add_value(home, ("plugins", _LISTS[on]), name)


def forget(home: Home, name: str) -> None:
    """Takes a plugin that was removed out of both lists."""
    for key in _LISTS.values():
        _take_out(home, name, key)


def choose(home: Home, kind: Kind, name: str) -> None:
    """Makes a provider the one in use; empty goes back to the built-in one."""
    edit = import_module("hermes.config.edit")
    if name:
        _take_out(home, name, _LISTS[False])
        edit.set_value(home, SETTINGS[kind], name)
    else:
        edit.unset_value(home, SETTINGS[kind])


def _take_out(home: Home, name: str, key: str) -> None:
    held = find(read_document(home.config_file).data, ("plugins", key))
    if not isinstance(held, list):
        return
    edit = import_module("hermes.config.edit")
    for place in reversed([at for at, each in enumerate(held) if each == name]):
        edit.unset_value(home, ("plugins", key, str(place)))
