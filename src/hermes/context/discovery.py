"""Find the context engine that the setting `context.engine` names."""

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from hermes.context.engine import ContextEngine
from hermes.core.errors import ConfigError
from hermes.plugins.isolation import run_foreign_code
from hermes.plugins.manifest import PluginInfo, plugin_folders, plugin_info

log = logging.getLogger(__name__)

Builtin = Mapping[str, Callable[[], ContextEngine]]
FAILURE_HINT = "fix the plugin, or choose another: hermes config set context.engine compressor"

DESCRIPTIONS = {
    "compressor": "sums up the middle of the conversation",
    "lcm": "lossless: notes stand for old messages, which can be looked up again",
}
"""Descriptions of the built-in engines."""


def find_engine(
    name: str,
    folders: Sequence[Path],
    *,
    registered: Sequence[ContextEngine] = (),
    builtin: Builtin,
    context_length: int,
) -> ContextEngine:
    """Return the engine of that name: from `<folder>/<name>/`, registered by a plugin, or built in.

    Raises `ConfigError` if there is none or if it cannot be loaded.
    """
    for place in _plugins(folders):
        if place.name == name:
            return _load(place, context_length)
    for engine in registered:
        if engine.name == name:
            return engine
    if name in builtin:
        return builtin[name]()
    known = sorted({info.name for info in list_engines(folders, builtin, registered)})
    raise ConfigError(
        f"there is no context engine {name!r}",
        where="context.engine",
        hint=f"set it to one of: {', '.join(known)}",
    )


def list_engines(
    folders: Sequence[Path], builtin: Builtin, registered: Sequence[ContextEngine] = ()
) -> tuple[PluginInfo, ...]:
    """Return all engines in order of precedence, without running plugins."""
    return (
        *(plugin_info(place) for place in _plugins(folders)),
        *(PluginInfo(engine.name, where="plugin") for engine in registered),
        *(PluginInfo(name, DESCRIPTIONS.get(name, "")) for name in builtin),
    )


def _plugins(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from plugin_folders(folder)


def _load(place: Path, context_length: int) -> ContextEngine:
    from hermes.plugins.loader import load_extension  # only for engines that are plugins

    def make(module: ModuleType, where: str) -> ContextEngine:
        kind = _engine_in(module, where)
        return run_foreign_code(
            where,
            f"cannot make a {kind.__name__}",
            lambda: _make(kind, context_length),
            hint=FAILURE_HINT,
        )

    return load_extension("engine", place, FAILURE_HINT, make, needed="it must define the engine")


def _make(kind: Callable[..., ContextEngine], context_length: int) -> ContextEngine:
    parameters = inspect.signature(kind).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    if takes_any or "context_length" in parameters:
        return kind(context_length=context_length)
    return kind()


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
