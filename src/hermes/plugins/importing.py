"""Importing the code of a plugin."""

from collections.abc import Callable
from typing import Any

from hermes.compat import install
from hermes.compat.packages import forget_folder, import_folder
from hermes.plugins.apart import PluginFailed
from hermes.plugins.discovery import Plugin


def register_function(plugin: Plugin) -> Callable[[Any], Any]:
    """Imports the plugin and finds its `register`. Raises whatever its code raises."""
    install()
    thing = plugin.entry.load() if plugin.folder is None else import_folder(plugin.folder)
    register = getattr(thing, "register", None)
    if callable(register):
        return register  # type: ignore[no-any-return]  # of foreign code
    if plugin.folder is None and callable(thing):
        return thing  # type: ignore[no-any-return]  # the entry point names the function itself
    raise PluginFailed("it has no function register(ctx)")


def forget(plugin: Plugin) -> None:
    """Whoever imports it again shall not find half a module."""
    if plugin.folder is not None:
        forget_folder(plugin.folder)
