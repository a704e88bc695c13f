"""Finding the memory provider that `memory.provider` names.

A plugin is a folder with `plugin.yaml`, `__init__.py: register(ctx)`, which calls
`ctx.register_memory_provider(…)`, and perhaps `cli.py: register_cli(subparser)`. Nothing is loaded
unless it is named.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from hermes.compat.packages import import_folder
from hermes.config.home import Home, tilde
from hermes.config.loader import Loaded
from hermes.config.plugin_folders import (
    CODE,
    PluginInfo,
    info_of,
    is_plugin,
    manifest,
    plugin_folders,
)
from hermes.core.errors import ConfigError
from hermes.memory.fields import export_saved, fields_of
from hermes.memory.isolation import Tell
from hermes.memory.plugin_code import Collected, attempt, import_part
from hermes.memory.provider import MemoryProvider

log = logging.getLogger(__name__)

RegisterCli = Callable[[Any], Any]
"""Adds the provider's own actions to an argparse parser."""

SETTING = "memory.provider"


class Shipped(NamedTuple):
    module: str
    maker: str
    """A class in it, made without arguments."""
    description: str


BUILTIN: Mapping[str, Shipped] = MappingProxyType(
    {
        "holographic": Shipped(
            "hermes.memory.holographic.provider", "Holographic", "facts in a file of your own"
        ),
        **{
            name: Shipped(f"hermes.memory.services.{name}", "Provider", description)
            for name, description in {
                "honcho": "Honcho, a service that models its users",
                "mem0": "Mem0, a memory service",
                "supermemory": "Supermemory, a memory service",
                "hindsight": "Hindsight, a memory service",
                "openviking": "OpenViking, a context database",
                "retaindb": "RetainDB, a memory service",
                "byterover": "ByteRover, a memory on this machine and in the cloud",
            }.items()
        },
    }
)


def find_provider(
    name: str,
    home: Home,
    registered: Sequence[MemoryProvider] = (),
    *,
    disabled: Collection[str] = (),
    tell: Tell = log.warning,
) -> MemoryProvider:
    """The provider of that name: from `<home>/plugins/memory/<name>`, else one that a plugin
    registered, else from `<home>/plugins/<name>`, else a shipped one. Raises `ConfigError` when
    there is none, or when it is broken. `disabled` is `plugins.disabled`: these are passed over;
    `tell` hears of what a plugin does that is left out."""
    own, general = home.plugins / "memory", home.plugins
    if (place := _place(own, name, disabled)) is not None:
        return _load(place, tell)
    for provider in registered:
        if provider.name == name:
            return provider
    if (place := _place(general, name, disabled)) is not None and _registers(place):
        return _load(place, tell)
    if name in BUILTIN:
        return _make(name, BUILTIN[name])
    raise _none(name, home, registered, disabled)


def _none(
    name: str, home: Home, registered: Sequence[MemoryProvider], disabled: Collection[str]
) -> ConfigError:
    known = {info.name for info in list_providers(home, registered, disabled)}
    if name not in known and any(info.name == name for info in list_providers(home)):
        return ConfigError(
            f"the memory provider {name} is of a plugin that is disabled",
            where="plugins.disabled",
            hint=f"`hermes plugins enable {name}` allows it again",
        )
    return ConfigError(
        f"there is no memory provider {name!r}",
        where=SETTING,
        hint=f"set it to one of: {', '.join(sorted(known))}",
    )


def load_provider(
    name: str,
    home: Home,
    variable: Callable[[str], str | None],
    registered: Sequence[MemoryProvider] = (),
    *,
    disabled: Collection[str] = (),
    tell: Tell = log.warning,
) -> MemoryProvider:
    """The same, ready to be asked whether it is available: the variables it needs are set, also
    those of .env. `variable` is `Loaded.variable`."""
    provider = find_provider(name, home, registered, disabled=disabled, tell=tell)
    export_saved(fields_of(provider), variable)
    return provider


def find_cli(name: str, home: Home, disabled: Collection[str] = ()) -> RegisterCli | None:
    """What adds the provider's own commands; None when it has none. Raises `ConfigError`."""
    for folder in (home.plugins / "memory", home.plugins):
        place = _place(folder, name, disabled)
        if place is not None and (folder != home.plugins or _registers(place)):
            return _plugin_cli(place)
    if name not in BUILTIN:
        return None
    module = _attempt_shipped(name, lambda: import_module(BUILTIN[name].module))
    return _cli_of(module)


def active_cli(loaded: Loaded) -> tuple[str, RegisterCli] | None:
    """The name of the provider in use and what adds its commands to `hermes <name> …`; None when
    there is no provider, or it has no commands. Raises `ConfigError` when it is broken."""
    name, disabled = loaded.settings.memory.provider, loaded.settings.plugins.disabled
    if not name:
        return None
    register = find_cli(name, loaded.home, disabled)
    if register is None:
        return None
    # the commands look for its variables too
    load_provider(name, loaded.home, loaded.variable, disabled=disabled)
    return name, register


def list_providers(
    home: Home, registered: Sequence[MemoryProvider] = (), disabled: Collection[str] = ()
) -> tuple[PluginInfo, ...]:
    """What can be named, in the order of precedence; no plugin is run. The plugins of `disabled`
    are left out."""
    own, general = (
        [place for place in plugin_folders(folder) if not _is_among(place, disabled)]
        for folder in (home.plugins / "memory", home.plugins)
    )
    return (
        *(info_of(place) for place in own),
        *(PluginInfo(provider.name, where="plugin") for provider in registered),
        *(info_of(place) for place in general if _registers(place)),
        *(PluginInfo(name, shipped.description) for name, shipped in BUILTIN.items()),
    )


def _place(folder: Path, name: str, disabled: Collection[str]) -> Path | None:
    place = folder / name
    found = place.name == name and is_plugin(place) and not _is_among(place, disabled)
    return place if found else None


def _is_among(place: Path, names: Collection[str]) -> bool:
    """Whether a list of the settings means it: by its name or by that of its folder."""
    if not names:
        return False
    try:
        called = str(manifest(place).get("name") or place.name)
    except ConfigError:
        called = place.name
    return place.name in names or called in names


def _registers(place: Path) -> bool:
    """Whether a plugin of any kind is one with a memory provider, as far as its text says."""
    try:
        return b"register_memory_provider" in (place / CODE).read_bytes()
    except OSError:
        return False


def _load(place: Path, tell: Tell) -> MemoryProvider:
    path = place / CODE
    if not path.is_file():
        raise ConfigError("is missing", where=tilde(path), hint="it must hold register(ctx)")
    manifest(place)
    module = attempt(tilde(path), "cannot be imported", lambda: import_folder(place))
    register = getattr(module, "register", None)
    if not callable(register):
        raise ConfigError("has no register(ctx)", where=tilde(path), hint="define it")
    collected = Collected(place.name, tell)
    attempt(tilde(path), "register(ctx) failed", lambda: register(collected))
    provider = _checked(collected.provider, path)
    called = attempt(tilde(path), "the provider has no name", lambda: provider.name)
    if called != place.name:
        raise ConfigError(
            f"the provider calls itself {called!r}, its folder {place.name!r}",
            where=tilde(path),
            hint="give both the same name",
        )
    return provider


def _checked(found: Any, path: Path) -> MemoryProvider:
    if found is None:
        problem, hint = "registers no memory provider", "call ctx.register_memory_provider"
    elif not isinstance(found, MemoryProvider):
        problem = f"registers a {type(found).__name__}, which is no MemoryProvider"
        hint = "derive its class from agent.memory_provider.MemoryProvider and make one of it"
    else:
        return found
    raise ConfigError(problem, where=tilde(path), hint=hint)


def _plugin_cli(place: Path) -> RegisterCli | None:
    path = place / "cli.py"
    if not path.is_file():
        return None
    module = attempt(tilde(path), "cannot be imported", lambda: import_part(place, "cli"))
    found = _cli_of(module)
    if found is None:
        raise ConfigError("has no register_cli(subparser)", where=tilde(path), hint="define it")
    return found


def _cli_of(module: Any) -> RegisterCli | None:
    found: RegisterCli | None = getattr(module, "register_cli", None)
    return found if callable(found) else None


def _make(name: str, shipped: Shipped) -> MemoryProvider:
    made: MemoryProvider = _attempt_shipped(
        name, lambda: getattr(import_module(shipped.module), shipped.maker)()
    )
    return made


def _attempt_shipped(name: str, work: Callable[[], Any]) -> Any:
    """A package that is not installed becomes one line for the user."""
    try:
        return work()
    except ImportError as error:
        raise ConfigError(
            f"the memory provider {name} cannot be loaded: {error}",
            hint="install what is missing, or choose another with `hermes memory setup`",
        ) from error
