"""Find the context engine that the setting `context.engine` names."""

import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from hermes.context.compressor import CompressionOptions, ContextCompressor
from hermes.context.engine import ContextEngine
from hermes.core.errors import ConfigError
from hermes.plugins import (
    PluginInfo,
    bundled_infos,
    checkout_folders,
    is_plugin,
    plugin_folders,
    plugin_info,
    run_foreign_code,
)
from hermes.plugins.discovery import BUNDLED

log = logging.getLogger(__name__)

FAILURE_HINT = "fix the plugin, or choose another: hermes config set context.engine compressor"
COMPRESSOR = PluginInfo("compressor", "sums up the middle of the conversation")


def find_engine(
    name: str,
    folders: Sequence[Path],
    *,
    registered: Sequence[ContextEngine] = (),
    context_length: int,
    compression: CompressionOptions = CompressionOptions(),  # noqa: B008 - frozen
    tell: Callable[[str], None] = log.warning,
) -> ContextEngine:
    """Return the engine of that name; the compressor, and a warning to `tell`, if there is none.

    Searched in this order: `<folder>/<name>/`, engines that plugins `registered`, the compressor,
    `plugins/context_engine/<name>` of the checkout, bundled engines. An engine of a folder is made
    with those of `context_length` and `compression` (the settings of that name) that its
    constructor takes. Raises `ConfigError` if it cannot be loaded.
    """
    place = _find_folder(name, folders)
    found = None if place else next((each for each in registered if each.name == name), None)
    if found is not None:
        return found
    if place is None and name == COMPRESSOR.name:
        return ContextCompressor(context_length, compression)
    place = place or _find_folder(name, [*checkout_folders("context_engine"), BUNDLED / "context"])
    if place is not None:
        return _load(place, {"context_length": context_length, "compression": compression})
    known = sorted({info.name for info in list_engines(folders, registered)})
    tell(
        f"context.engine: there is no context engine {name!r}, so the compressor is used; set it to"
        f" one of: {', '.join(known)}"
    )
    return ContextCompressor(context_length, compression)


def list_engines(
    folders: Sequence[Path], registered: Sequence[ContextEngine] = ()
) -> tuple[PluginInfo, ...]:
    """Return all engines in order of precedence, without running plugins."""
    return (
        *map(plugin_info, _plugins(folders)),
        *(PluginInfo(engine.name, where="plugin") for engine in registered),
        *map(plugin_info, _plugins(checkout_folders("context_engine"))),
        *bundled_engines(),
    )


def bundled_engines() -> tuple[PluginInfo, ...]:
    """Return the engines that come with Hermes."""
    return (COMPRESSOR, *bundled_infos("context"))


def _find_folder(name: str, folders: Sequence[Path]) -> Path | None:
    """Return the first plugin folder of that name; every session asks, so nothing is listed."""
    places = (folder / name for folder in folders)
    return next((place for place in places if place.name == name and is_plugin(place)), None)


def _plugins(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from plugin_folders(folder)


def _load(place: Path, arguments: dict[str, Any]) -> ContextEngine:
    from hermes.plugins import load_extension  # only for engines that are plugins

    def make(module: ModuleType, where: str) -> ContextEngine:
        kind = _engine_in(module, where)

        def construct() -> ContextEngine:
            parameters = inspect.signature(kind).parameters
            given = {name: value for name, value in arguments.items() if name in parameters}
            if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
                given["context_length"] = arguments["context_length"]
            return kind(**given)

        problem = f"cannot make a {kind.__name__}"
        return run_foreign_code(where, problem, construct, hint=FAILURE_HINT)

    return load_extension("engine", place, FAILURE_HINT, make, needed="it must define the engine")


def _engine_in(module: ModuleType, where: str) -> type[ContextEngine]:
    """Return the only engine a module exports, preferring its own to imported ones."""
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    exported = {
        thing.__name__: thing
        for thing in (getattr(module, str(name), None) for name in names)
        if inspect.isclass(thing) and issubclass(thing, ContextEngine)
        if thing is not ContextEngine
    }
    own = {n: kind for n, kind in exported.items() if kind.__module__.startswith(module.__name__)}
    found = own or exported
    whole = {name: kind for name, kind in found.items() if not inspect.isabstract(kind)}
    if len(whole) == 1:
        return next(iter(whole.values()))
    if whole:
        problem, hint = f"defines {len(whole)} engines ({', '.join(whole)})", "name one in __all__"
    elif found:
        name, kind = next(iter(found.items()))
        problem = f"{name} does not define {', '.join(sorted(kind.__abstractmethods__))}"
        hint = "a ContextEngine needs these"
    else:
        problem, hint = "defines no engine", "define one subclass of ContextEngine in it"
    raise ConfigError(problem, where=where, hint=hint)
