"""Finding the memory provider that `memory.provider` names, and its config fields.

A plugin is a folder with `plugin.yaml`, `__init__.py: register(ctx)`, which calls
`ctx.register_memory_provider(…)`, and optionally `cli.py: register_cli(subparser)`. Only the named
provider is loaded.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from hermes.config.environment import export_variable
from hermes.config.home import Home, tilde
from hermes.config.loader import Loaded
from hermes.core.errors import ConfigError
from hermes.memory.provider import MemoryProvider
from hermes.plugins import (
    PluginInfo,
    Tell,
    bundled_infos,
    checkout_folders,
    is_plugin,
    plugin_folders,
    plugin_info,
    read_manifest_data,
    run_foreign_code,
)
from hermes.plugins.discovery import BUNDLED, CODE

log = logging.getLogger(__name__)

RegisterCli = Callable[[Any], Any]  #: Adds the provider's own commands to an argparse parser.

SETTING = "memory.provider"
FAILURE_HINT = "fix the plugin, or continue without it: hermes memory off"


def find_provider(
    name: str,
    home: Home,
    registered: Sequence[MemoryProvider] = (),
    *,
    disabled: Collection[str] = (),
    tell: Tell = log.warning,
) -> MemoryProvider:
    """Return the provider called `name`.

    Searched in this order: `<home>/plugins/memory/<name>`, providers that plugins `registered`,
    `<home>/plugins/<name>`, `plugins/memory/<name>` of the checkout, bundled providers. Plugins in
    `disabled` (`plugins.disabled`) are skipped. `tell` reports registrations of the plugin that
    have no effect. Raises `ConfigError` when there is no such provider or it cannot be loaded.
    """
    folder = _find_folder(name, home, disabled)
    if folder is None or folder.parent != home.plugins / "memory":
        for provider in registered:
            if provider.name == name:
                return provider
    if folder is not None:
        return _load_plugin(folder, tell)
    known = {info.name for info in list_providers(home, registered, disabled)}
    if name not in known and any(info.name == name for info in list_providers(home)):
        raise ConfigError(
            f"the memory provider {name} belongs to a disabled plugin",
            where="plugins.disabled",
            hint=f"enable it with: hermes plugins enable {name}",
        )
    raise ConfigError(
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
    """Like `find_provider`, and export the environment variables that the provider reads.

    `variable` is `Loaded.variable`, which also knows `.env`.
    """
    provider = find_provider(name, home, registered, disabled=disabled, tell=tell)
    for field in config_fields(provider):
        if field.env_var and (value := variable(field.env_var)):
            export_variable(field.env_var, value)
    return provider


def list_providers(
    home: Home, registered: Sequence[MemoryProvider] = (), disabled: Collection[str] = ()
) -> tuple[PluginInfo, ...]:
    """Return all providers that can be named, in search order, without running any plugin."""
    own, *others = (
        [plugin_info(each) for each in plugin_folders(place) if _is_usable(each, home, disabled)]
        for place in _places(home)
    )
    named = (PluginInfo(provider.name, where="plugin") for provider in registered)
    return (*own, *named, *(info for place in others for info in place), *bundled_infos("memory"))


def find_cli(name: str, home: Home, disabled: Collection[str] = ()) -> RegisterCli | None:
    """Return the `register_cli` of a provider, or None. Raises `ConfigError`."""
    folder = _find_folder(name, home, disabled)
    if folder is None or not (path := folder / "cli.py").is_file():
        return None
    from hermes.plugins import import_folder  # only for providers that are plugins

    module = run_foreign_code(
        tilde(path),
        "cannot be imported",
        lambda: import_module(f"{import_folder(folder).__name__}.cli"),
        hint=FAILURE_HINT,
    )
    found: RegisterCli | None = getattr(module, "register_cli", None)
    if not callable(found):
        raise ConfigError("has no register_cli(subparser)", where=tilde(path), hint="define it")
    return found


def active_cli(loaded: Loaded) -> tuple[str, RegisterCli] | None:
    """Return the name and `register_cli` of the provider in use, for `hermes <name> …`.

    None when no provider is set or it has no commands. Raises `ConfigError` when it cannot be
    loaded.
    """
    name, disabled = loaded.settings.memory.provider, loaded.settings.plugins.disabled
    if not name:
        return None
    register = find_cli(name, loaded.home, disabled)
    if register is None:
        return None
    # The commands read the exported variables too.
    load_provider(name, loaded.home, loaded.variable, disabled=disabled)
    return name, register


class ConfigField(msgspec.Struct, frozen=True):
    """One field that `hermes memory setup` asks for."""

    key: str
    description: str = ""
    secret: bool = False  #: Stored in .env, as `env_var`.
    required: bool = False
    env_var: str = ""
    url: str = ""  #: Where the user gets the value.
    default: str = ""
    choices: tuple[str, ...] = ()


def config_fields(provider: MemoryProvider) -> tuple[ConfigField, ...]:
    """Return the fields of `get_config_schema`; malformed ones are skipped.

    Raises `ConfigError` when the call fails.
    """
    where = f"the memory provider {provider.name}"
    schema: Any = run_foreign_code(
        where, "cannot list its settings", provider.get_config_schema, hint=FAILURE_HINT
    )
    found = schema if isinstance(schema, list | tuple) else ()
    return tuple(
        _parse_field(each, provider.name)
        for each in found
        if isinstance(each, dict) and each.get("key")
    )


def _parse_field(raw: dict[str, Any], provider: str) -> ConfigField:
    key, secret = str(raw["key"]), bool(raw.get("secret"))
    env_var = str(raw.get("env_var") or "")
    if secret and not env_var:
        env_var = "".join(c if c.isalnum() else "_" for c in f"{provider}_{key}").upper()
    default, choices = raw.get("default"), raw.get("choices")
    return ConfigField(
        key,
        str(raw.get("description") or ""),
        secret,
        bool(raw.get("required")),
        env_var,
        str(raw.get("url") or ""),
        "" if default is None else str(default),
        tuple(str(each) for each in choices) if isinstance(choices, list | tuple) else (),
    )


class ProviderCollector:
    """The `ctx` of a plugin that is loaded only for its memory provider.

    Other registrations have no effect here: they need `hermes plugins enable`.
    """

    def __init__(self, plugin: str, tell: Tell) -> None:
        self.plugin, self._tell = plugin, tell
        self.provider: Any = None

    def register_memory_provider(self, provider: Any) -> None:
        """Keep the first provider; report others as ignored."""
        if self.provider is None:
            self.provider = provider
            return
        name = getattr(provider, "name", "") or type(provider).__name__
        self._tell(
            f"plugin {self.plugin}: its memory provider {name} is left out:"
            f" {self.plugin} has one already"
        )

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith(("register_", "inject_")):
            raise AttributeError(name)

        def ignored(*_args: Any, **_kwargs: Any) -> None:
            log.info("the memory plugin %s: %s has no effect here", self.plugin, name)

        return ignored


def _places(home: Home) -> tuple[Path, ...]:
    """Return the folders of users' providers; `<home>/plugins` has other plugins, too."""
    return (home.plugins / "memory", home.plugins, *checkout_folders("memory"))


def _find_folder(name: str, home: Home, disabled: Collection[str]) -> Path | None:
    """Return the first plugin folder with the provider `name`. Bundled ones cannot be disabled."""
    # A name such as "../x" must not lead out of the plugin folder.
    if not name or Path(name).name != name:
        return None
    for place in _places(home):
        if _is_usable(place / name, home, disabled):
            return place / name
    folder = BUNDLED / "memory" / name
    return folder if is_plugin(folder) else None


def _is_usable(folder: Path, home: Home, disabled: Collection[str]) -> bool:
    if not is_plugin(folder):
        return False
    if folder.parent == home.plugins:  # other plugins are there too, and none is run to find out
        try:
            code = (folder / CODE).read_bytes()
        except OSError:
            return False
        if b"register_memory_provider" not in code:
            return False
    name = folder.name
    if disabled:
        with suppress(ConfigError):
            name = str(read_manifest_data(folder).get("name") or name)
    return folder.name not in disabled and name not in disabled


def _load_plugin(folder: Path, tell: Tell) -> MemoryProvider:
    from hermes.plugins import load_extension  # only for providers that are plugins

    def register(module: Any, where: str) -> MemoryProvider:
        register = getattr(module, "register", None)
        if not callable(register):
            raise ConfigError("has no register(ctx)", where=where, hint="define it")
        collector = ProviderCollector(folder.name, tell)
        failing = "register(ctx) failed"
        run_foreign_code(where, failing, lambda: register(collector), hint=FAILURE_HINT)
        found = collector.provider
        if isinstance(found, MemoryProvider):
            return found
        problem, hint = "registers no memory provider", "call ctx.register_memory_provider"
        if found is not None:
            problem = f"registers a {type(found).__name__}, which is not a MemoryProvider"
            hint = "derive its class from agent.memory_provider.MemoryProvider and register an"
            hint += " instance"
        raise ConfigError(problem, where=where, hint=hint)

    needed = "it must contain register(ctx)"
    return load_extension("provider", folder, FAILURE_HINT, register, needed=needed)
