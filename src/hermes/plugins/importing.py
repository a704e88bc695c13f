"""Importing the code of a plugin, under a name that nothing else can have."""

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from hermes.plugins.apart import PluginFailed
from hermes.plugins.discovery import Plugin
from hermes.plugins.manifest import CODE

ALIASES = "hermes.compat"
"""The module that makes the documented import paths work, where it is there."""


def register_function(plugin: Plugin) -> Callable[[Any], Any]:
    """Imports the plugin and finds its `register`. Raises whatever its code raises."""
    if importlib.util.find_spec(ALIASES) is not None:
        import_module(ALIASES).install()
    thing = plugin.entry.load() if plugin.folder is None else _import(plugin.folder)
    register = getattr(thing, "register", None)
    if callable(register):
        return register  # type: ignore[no-any-return]
    if plugin.folder is None and callable(thing):
        return thing  # type: ignore[no-any-return]  # the entry point names the function itself
    raise PluginFailed("it has no function register(ctx)")


def forget(plugin: Plugin) -> None:
    """Whoever imports it again shall not find half a module."""
    if plugin.folder is not None:
        _drop(_module_name(plugin.folder))


def _module_name(folder: Path) -> str:
    digest = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:12]
    return f"_hermes_plugin_{digest}"


def _import(folder: Path) -> ModuleType:
    name = _module_name(folder)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(
        name, folder / CODE, submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{CODE} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        _drop(name)
        raise
    return module


def _drop(name: str) -> None:
    for loaded in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        sys.modules.pop(loaded, None)
