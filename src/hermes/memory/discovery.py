"""Finding the memory provider that `memory.provider` names.

A plugin is a folder with `plugin.yaml`, `__init__.py: register(ctx)`, which calls
`ctx.register_memory_provider(…)`, and perhaps `cli.py: register_cli(subparser)`. Nothing is loaded
unless it is named.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple, TypeVar

import msgspec

from hermes.config.environment import export_variable
from hermes.config.home import Home, tilde
from hermes.config.loader import Loaded
from hermes.core.errors import ConfigError, ToolError
from hermes.memory.isolation import IsolatedThread, Notify, ProviderLimits, describe_error
from hermes.memory.provider import MemoryProvider
from hermes.plugins.manifest import (
    CODE,
    PluginInfo,
    info_of,
    is_plugin,
    manifest,
    plugin_folders,
)

# Running the code of a memory plugin: importing it, and letting it register.

log = logging.getLogger(__name__)

T = TypeVar("T")

LOADING_SECONDS = 15
"""How long a plugin may take to be imported, and to register."""


class ProviderCollector:
    """The `ctx` of a plugin that is loaded for its memory provider. Whatever else it registers is
    for a plugin that is enabled as such (`hermes plugins enable`)."""

    def __init__(self, plugin: str, tell: Notify) -> None:
        self.plugin, self._tell = plugin, tell
        self.provider: Any = None

    def register_memory_provider(self, provider: Any) -> None:
        """The first counts."""
        if self.provider is None:
            self.provider = provider
            return
        named = getattr(provider, "name", "") or type(provider).__name__
        self._tell(
            f"plugin {self.plugin}: its memory provider {named} is left out:"
            f" {self.plugin} has one already"
        )

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith(("register_", "inject_")):
            raise AttributeError(name)

        def ignored(*_args: Any, **_kwargs: Any) -> None:
            log.info("the memory plugin %s: %s has no effect here", self.plugin, name)

        return ignored


def run_plugin_code(
    where: str, failing: str, work: Callable[[], T], seconds: float = LOADING_SECONDS
) -> T:
    """Run code of a plugin; whatever goes wrong in it becomes one line for the user."""
    apart = IsolatedThread(where, ProviderLimits(), log.info)
    try:
        result: T = apart.call(failing, work, seconds, quiet=True)
    except ToolError as error:
        late = f"it takes longer than {seconds:g} s"
        reason = describe_error(error.__cause__) if error.__cause__ else late
        raise ConfigError(
            f"{failing}: {reason}",
            where=where,
            hint="correct the plugin, or `hermes memory off` goes on without it",
        ) from error
    finally:
        apart.close()
    return result


def import_part(folder: Path, part: str) -> ModuleType:
    """A module of the package in `folder`."""
    from hermes.plugins.loader import import_folder  # only for providers that are plugins

    return import_module(f"{import_folder(folder).__name__}.{part}")


# What a provider asks to be configured: its config schema, read with patience.


class ConfigField(msgspec.Struct, frozen=True):
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


def config_fields(provider: MemoryProvider) -> tuple[ConfigField, ...]:
    """Raises `ConfigError` when the provider cannot say."""
    name = provider.name
    where = f"the memory provider {name}"
    schema: Any = run_plugin_code(where, "cannot say what it needs", provider.get_config_schema)
    found = schema if isinstance(schema, list | tuple) else ()
    return tuple(
        _parse_field(each, name) for each in found if isinstance(each, dict) and each.get("key")
    )


def export_variables(
    fields: tuple[ConfigField, ...], variable: Callable[[str], str | None]
) -> None:
    """Make variables of .env visible to a provider, which looks for them in the environment."""
    for field in fields:
        value = variable(field.env_var) if field.env_var else None
        if value:
            export_variable(field.env_var, value)


def _parse_field(said: dict[str, Any], provider: str) -> ConfigField:
    key, secret = str(said["key"]), bool(said.get("secret"))
    env_var = str(said.get("env_var") or "")
    if secret and not env_var:
        env_var = "".join(c if c.isalnum() else "_" for c in f"{provider}_{key}").upper()
    default = said.get("default")
    choices = said.get("choices")
    return ConfigField(
        key,
        str(said.get("description") or ""),
        secret,
        bool(said.get("required")),
        env_var,
        str(said.get("url") or ""),
        "" if default is None else str(default),
        tuple(str(each) for each in choices) if isinstance(choices, list | tuple) else (),
    )


RegisterCli = Callable[[Any], Any]
"""Adds the provider's own actions to an argparse parser."""

SETTING = "memory.provider"


class BundledProvider(NamedTuple):
    """Where a bundled provider is defined."""

    target: str
    """`module:Class`; the class takes no arguments."""
    description: str
    cli: str = ""
    """Module with the `register_cli` of the provider's own commands."""


_SERVICES = "hermes.memory.services"
BUNDLED_PROVIDERS: Mapping[str, BundledProvider] = MappingProxyType(
    {
        "holographic": BundledProvider(
            "hermes.memory.holographic.provider:HolographicProvider", "facts in a file of your own"
        ),
        "honcho": BundledProvider(
            f"{_SERVICES}.honcho:HonchoProvider",
            "Honcho, a service that models its users",
            f"{_SERVICES}.honcho_cli",
        ),
        "mem0": BundledProvider(f"{_SERVICES}.mem0:Mem0Provider", "Mem0, a memory service"),
        "supermemory": BundledProvider(
            f"{_SERVICES}.supermemory:SupermemoryProvider", "Supermemory, a memory service"
        ),
        "hindsight": BundledProvider(
            f"{_SERVICES}.hindsight:HindsightProvider", "Hindsight, a memory service"
        ),
        "openviking": BundledProvider(
            f"{_SERVICES}.openviking:OpenVikingProvider", "OpenViking, a context database"
        ),
        "retaindb": BundledProvider(
            f"{_SERVICES}.retaindb:RetainDbProvider", "RetainDB, a memory service"
        ),
        "byterover": BundledProvider(
            f"{_SERVICES}.byterover:ByteRoverProvider",
            "ByteRover, a memory on this machine and in the cloud",
        ),
    }
)
"""Providers that come with Hermes, by the name that `memory.provider` uses. They are named as
text so that listing them imports none."""


def find_provider(
    name: str,
    home: Home,
    registered: Sequence[MemoryProvider] = (),
    *,
    disabled: Collection[str] = (),
    tell: Notify = log.warning,
) -> MemoryProvider:
    """The provider of that name: from `<home>/plugins/memory/<name>`, else one that a plugin
    registered, else from `<home>/plugins/<name>`, else a shipped one. Raises `ConfigError` when
    there is none, or when it is broken. `disabled` is `plugins.disabled`: these are passed over;
    `tell` hears of what a plugin does that is left out."""
    own, general = home.plugins / "memory", home.plugins
    if (place := _plugin_folder(own, name, disabled)) is not None:
        return _load(place, tell)
    for provider in registered:
        if provider.name == name:
            return provider
    if (place := _plugin_folder(general, name, disabled)) is not None and _mentions_provider(place):
        return _load(place, tell)
    if name in BUNDLED_PROVIDERS:
        module, _, cls = BUNDLED_PROVIDERS[name].target.partition(":")
        made: MemoryProvider = _run_bundled(name, lambda: getattr(import_module(module), cls)())
        return made
    raise _not_found(name, home, registered, disabled)


def _not_found(
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
    tell: Notify = log.warning,
) -> MemoryProvider:
    """The same, ready to be asked whether it is available: the variables it needs are set, also
    those of .env. `variable` is `Loaded.variable`."""
    provider = find_provider(name, home, registered, disabled=disabled, tell=tell)
    export_variables(config_fields(provider), variable)
    return provider


def find_cli(name: str, home: Home, disabled: Collection[str] = ()) -> RegisterCli | None:
    """What adds the provider's own commands; None when it has none. Raises `ConfigError`."""
    for folder in (home.plugins / "memory", home.plugins):
        place = _plugin_folder(folder, name, disabled)
        if place is not None and (folder != home.plugins or _mentions_provider(place)):
            return _plugin_cli(place)
    bundled = BUNDLED_PROVIDERS.get(name)
    if bundled is None or not bundled.cli:
        return None
    return _cli_of(_run_bundled(name, lambda: import_module(bundled.cli)))


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
        [place for place in plugin_folders(folder) if not _is_listed(place, disabled)]
        for folder in (home.plugins / "memory", home.plugins)
    )
    return (
        *(info_of(place) for place in own),
        *(PluginInfo(provider.name, where="plugin") for provider in registered),
        *(info_of(place) for place in general if _mentions_provider(place)),
        *(PluginInfo(name, shipped.description) for name, shipped in BUNDLED_PROVIDERS.items()),
    )


def _plugin_folder(folder: Path, name: str, disabled: Collection[str]) -> Path | None:
    place = folder / name
    found = place.name == name and is_plugin(place) and not _is_listed(place, disabled)
    return place if found else None


def _is_listed(place: Path, names: Collection[str]) -> bool:
    """Whether a list of the settings means it: by its name or by that of its folder."""
    if not names:
        return False
    try:
        called = str(manifest(place).get("name") or place.name)
    except ConfigError:
        called = place.name
    return place.name in names or called in names


def _mentions_provider(place: Path) -> bool:
    """Whether a plugin of any kind is one with a memory provider, as far as its text says."""
    try:
        return b"register_memory_provider" in (place / CODE).read_bytes()
    except OSError:
        return False


def _load(place: Path, tell: Notify) -> MemoryProvider:
    path = place / CODE
    if not path.is_file():
        raise ConfigError("is missing", where=tilde(path), hint="it must hold register(ctx)")
    manifest(place)
    from hermes.plugins.loader import import_folder  # only for providers that are plugins

    module = run_plugin_code(tilde(path), "cannot be imported", lambda: import_folder(place))
    register = getattr(module, "register", None)
    if not callable(register):
        raise ConfigError("has no register(ctx)", where=tilde(path), hint="define it")
    collected = ProviderCollector(place.name, tell)
    run_plugin_code(tilde(path), "register(ctx) failed", lambda: register(collected))
    provider = _check_provider(collected.provider, path)
    called = run_plugin_code(tilde(path), "the provider has no name", lambda: provider.name)
    if called != place.name:
        raise ConfigError(
            f"the provider calls itself {called!r}, its folder {place.name!r}",
            where=tilde(path),
            hint="give both the same name",
        )
    return provider


def _check_provider(found: Any, path: Path) -> MemoryProvider:
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

    module = run_plugin_code(tilde(path), "cannot be imported", lambda: import_part(place, "cli"))
    found = _cli_of(module)
    if found is None:
        raise ConfigError("has no register_cli(subparser)", where=tilde(path), hint="define it")
    return found


def _cli_of(module: Any) -> RegisterCli | None:
    found: RegisterCli | None = getattr(module, "register_cli", None)
    return found if callable(found) else None


def _run_bundled(name: str, work: Callable[[], Any]) -> Any:
    """A package that is not installed becomes one line for the user."""
    try:
        return work()
    except ImportError as error:
        raise ConfigError(
            f"the memory provider {name} cannot be loaded: {error}",
            hint="install what is missing, or choose another with `hermes memory setup`",
        ) from error
