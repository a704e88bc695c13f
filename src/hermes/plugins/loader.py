"""Loading plugins: each apart, so that one that fails takes nobody with it."""

import hashlib
import importlib.util
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from hermes.compat import install
from hermes.plugins.context import (
    PluginContext,
    PluginServices,
    apply_registrations,
    discard_registrations,
)
from hermes.plugins.discovery import (
    Plugin,
    PluginKind,
    PluginOrigin,
    PluginPlaces,
    PluginSelection,
    PluginState,
    find_plugins,
)
from hermes.plugins.isolation import PluginFailed, PluginHangs, describe_error, run_with_timeout
from hermes.plugins.manifest import CODE

# Importing code of others from a folder.


def import_folder(folder: Path) -> ModuleType:
    """The package in `folder`, under a name that nothing else can have. The documented import paths
    work in it. Raises whatever its code raises, and leaves nothing of it behind then."""
    name = _module_name(folder)
    if name in sys.modules:
        return sys.modules[name]
    install()
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
        forget_folder(folder)
        raise
    return module


def forget_folder(folder: Path) -> None:
    """Whoever imports it again shall not find half a package."""
    name = _module_name(folder)
    for loaded in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        sys.modules.pop(loaded, None)


def _module_name(folder: Path) -> str:
    digest = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:12]
    return f"_hermes_brought_{digest}"


# Importing the code of a plugin.


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


def forget_module(plugin: Plugin) -> None:
    """Whoever imports it again shall not find half a module."""
    if plugin.folder is not None:
        forget_folder(plugin.folder)


log = logging.getLogger(__name__)

LOAD_SECONDS = 10.0
"""Longest time a plugin may take to be imported and registered."""


class PluginVariables(msgspec.Struct, frozen=True):
    """Variables that plugins need."""

    get: Callable[[str], str | None]
    """Of the environment or of .env."""
    export: Callable[[str, str], None] = lambda _name, _value: None
    """Makes one visible to the plugin's code, which looks for it in the environment."""


class LoadOutcome(msgspec.Struct, frozen=True):
    """What became of a plugin that the settings ask for."""

    name: str
    origin: PluginOrigin | None = None
    """None when there is no such plugin."""
    problem: str = ""
    """Why it is not loaded; empty when it is."""


def load_plugins(
    places: PluginPlaces,
    choice: PluginSelection,
    desk: PluginServices,
    variables: PluginVariables,
    *,
    seconds: float = LOAD_SECONDS,
) -> tuple[LoadOutcome, ...]:
    """Loads what is enabled and not disabled, bundled plugins too; everything else stays unread.

    Never raises for what a plugin does: each problem is reported and stands in the result.
    """
    wanted = [name for name in dict.fromkeys(choice.enabled) if name not in choice.disabled]
    if not wanted:
        return ()
    found = [each for each in find_plugins(places) if each.kind is PluginKind.PLUGIN]
    outcomes = [
        _load(plugin, desk, variables, seconds)
        for plugin in found
        if choice.state(plugin) is PluginState.ENABLED
    ]
    absent = [name for name in wanted if not any(plugin.is_among((name,)) for plugin in found)]
    for name in absent:
        problem = "it is in plugins.enabled, but there is no such plugin"
        desk.reports.report((name, "load"), f"plugin {name}: {problem}")
        outcomes.append(LoadOutcome(name, problem=problem))
    return tuple(outcomes)


def missing_variables(plugin: Plugin, variables: PluginVariables) -> list[str]:
    return [each.name for each in plugin.manifest.requires_env if not variables.get(each.name)]


def _load(
    plugin: Plugin, desk: PluginServices, variables: PluginVariables, seconds: float
) -> LoadOutcome:
    problem, cause = _obstacle(plugin, variables), None
    if not problem:
        for each in plugin.manifest.requires_env:
            variables.export(each.name, variables.get(each.name) or "")
        problem, cause = _register(plugin, desk, seconds)
    if problem:
        text = f"plugin {plugin.name} is not loaded: {problem}"
        desk.reports.report((plugin.name, "load"), text, cause)
    else:
        log.info("plugin %s %s is loaded", plugin.name, plugin.manifest.version)
    return LoadOutcome(plugin.name, plugin.origin, problem)


def _obstacle(plugin: Plugin, variables: PluginVariables) -> str:
    missing = missing_variables(plugin, variables)
    if plugin.problem or not missing:
        return plugin.problem
    return f"set {', '.join(missing)} (`hermes plugins enable {plugin.name}` asks for it)"


def _register(plugin: Plugin, desk: PluginServices, seconds: float) -> tuple[str, Exception | None]:
    """Why it failed, or nothing."""
    context = PluginContext(plugin.name, plugin.folder, desk)
    try:
        run_with_timeout(lambda: register_function(plugin)(context), seconds)
        apply_registrations(context)
    except Exception as error:  # noqa: BLE001 - odd values of a plugin may raise anything
        discard_registrations(context, f"plugin {plugin.name} failed to load")
        if isinstance(error, PluginHangs):
            forget_module(plugin)
        return describe_error(error), error
    return "", None
