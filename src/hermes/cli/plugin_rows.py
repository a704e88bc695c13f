"""The plugins of a profile as people see them: with their state, shipped providers among them."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from hermes.app.context_engine import BUILTIN as ENGINES
from hermes.cli.context import Cli
from hermes.cli.extending import looked_at
from hermes.config.home import Home, tilde
from hermes.config.loader import Loaded, load
from hermes.context.discovery import DESCRIPTIONS
from hermes.core.errors import UsageError
from hermes.memory import BUNDLED_PROVIDERS as PROVIDERS
from hermes.memory import list_providers
from hermes.plugins.discovery import (
    Plugin,
    PluginKind,
    PluginSelection,
    PluginState,
    default_places,
    find_plugins,
)

BUILT_IN = "built in"


class Row(msgspec.Struct, frozen=True):
    name: str
    kind: PluginKind
    state: PluginState
    origin: str
    version: str = ""
    description: str = ""
    folder: str = ""
    problem: str = ""
    missing: tuple[str, ...] = ()
    """Variables it needs that are not set."""
    tools: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()


def plugins_of(home: Home) -> tuple[Plugin, ...]:
    return _plugins(home, load(home))


def _plugins(home: Home, loaded: Loaded) -> tuple[Plugin, ...]:
    working_folder = Path.cwd() if loaded.settings.plugins.project else None
    return find_plugins(default_places(home.plugins, working_folder))


def rows_of(cli: Cli) -> list[Row]:
    """By kind and name, with the settings as they are now."""
    home, loaded = cli.home, load(cli.home)
    settings = loaded.settings
    single = {
        PluginKind.MEMORY: settings.memory.provider,
        PluginKind.ENGINE: settings.context.engine,
    }
    choice = PluginSelection(settings.plugins.enabled, settings.plugins.disabled, single)
    rows = [_row(plugin, choice.state(plugin), loaded) for plugin in _plugins(home, loaded)]
    known = {(row.kind, row.name) for row in rows}
    for kind, name, description in _built_in():
        state = PluginState.ENABLED if single[kind] == name else PluginState.NOT_ENABLED
        if (kind, name) not in known:
            rows.append(Row(name, kind, state, BUILT_IN, description=description))
    known = {(row.kind, row.name) for row in rows}
    rows += [
        _brought(kind, name, loaded, cli)
        for kind, name in single.items()
        if name and (kind, name) not in known
    ]
    order = list(PluginKind)
    return sorted(rows, key=lambda row: (order.index(row.kind), row.name))


def _built_in() -> Iterator[tuple[PluginKind, str, str]]:
    for name, shipped in PROVIDERS.items():
        yield PluginKind.MEMORY, name, shipped.description
    for name in ENGINES:
        yield PluginKind.ENGINE, name, DESCRIPTIONS.get(name, "")


def _brought(kind: PluginKind, name: str, loaded: Loaded, cli: Cli) -> Row:
    """What the settings name and no folder of its kind holds: a plugin has to bring it."""

    def has_a_folder(disabled: tuple[str, ...] = ()) -> bool:
        found = list_providers(cli.home, disabled=disabled) if kind is PluginKind.MEMORY else ()
        return any(info.name == name for info in found)

    off = loaded.settings.plugins.disabled
    if plugin := name if has_a_folder(off) else _bringer(kind, name, loaded, cli):
        return Row(name, kind, PluginState.ENABLED, f"plugin {plugin}")
    problem = "its plugin is disabled" if has_a_folder() else f"there is no such {kind}"
    return Row(name, kind, PluginState.ENABLED, "not found", problem=problem)


def _bringer(kind: PluginKind, name: str, loaded: Loaded, cli: Cli) -> str:
    """Enabled plugins say what they bring when they are loaded."""
    enabled = loaded.settings.plugins.enabled
    return looked_at(loaded, cli).plugin_with(kind, name) if enabled else ""


def _row(plugin: Plugin, state: PluginState, loaded: Loaded) -> Row:
    manifest = plugin.manifest
    missing = tuple(v.name for v in manifest.requires_env if not loaded.variable(v.name))
    return Row(
        manifest.name,
        plugin.kind,
        state,
        str(plugin.origin),
        manifest.version,
        manifest.description,
        tilde(plugin.folder) if plugin.folder else "",
        plugin.problem,
        missing,
        manifest.provides_tools,
        manifest.provides_hooks,
    )


def row_named(cli: Cli, name: str) -> Row:
    """A plugin before a provider of the same name. Raises `UsageError`."""
    rows = rows_of(cli)
    found = next((row for row in rows if row.name == name), None)
    if found is None:
        known = ", ".join(row.name for row in rows if row.kind is PluginKind.PLUGIN) or "none"
        raise UsageError(
            f"there is no plugin {name!r}",
            hint=f"plugins here: {known}; `hermes plugins install` adds one",
        )
    return found
