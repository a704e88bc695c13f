"""The plugins of a profile as people see them: with their state, shipped providers among them."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from hermes.app.contexts import BUILTIN as ENGINES
from hermes.config.home import Home, tilde
from hermes.config.loader import Loaded, load
from hermes.context.discovery import DESCRIPTIONS
from hermes.core.errors import UsageError
from hermes.memory.discovery import BUILTIN as PROVIDERS
from hermes.plugins.discovery import (
    Choice,
    Kind,
    Plugin,
    State,
    find_plugins,
    usual_places,
)

BUILT_IN = "built in"


class Row(msgspec.Struct, frozen=True):
    name: str
    kind: Kind
    state: State
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
    return find_plugins(usual_places(home.plugins, working_folder))


def rows_of(home: Home) -> list[Row]:
    """By kind and name, with the settings as they are now."""
    loaded = load(home)
    settings = loaded.settings
    single = {Kind.MEMORY: settings.memory.provider, Kind.ENGINE: settings.context.engine}
    choice = Choice(settings.plugins.enabled, settings.plugins.disabled, single)
    rows = [_row(plugin, choice.state(plugin), loaded) for plugin in _plugins(home, loaded)]
    known = {(row.kind, row.name) for row in rows}
    for kind, name, description in _built_in():
        state = State.ENABLED if single[kind] == name else State.NOT_ENABLED
        if (kind, name) not in known:
            rows.append(Row(name, kind, state, BUILT_IN, description=description))
    order = list(Kind)
    return sorted(rows, key=lambda row: (order.index(row.kind), row.name))


def _built_in() -> Iterator[tuple[Kind, str, str]]:
    for name, shipped in PROVIDERS.items():
        yield Kind.MEMORY, name, shipped.description
    for name in ENGINES:
        yield Kind.ENGINE, name, DESCRIPTIONS.get(name, "")


def _row(plugin: Plugin, state: State, loaded: Loaded) -> Row:
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


def row_named(home: Home, name: str) -> Row:
    """A plugin before a provider of the same name. Raises `UsageError`."""
    rows = rows_of(home)
    found = next((row for row in rows if row.name == name), None)
    if found is None:
        known = ", ".join(row.name for row in rows if row.kind is Kind.PLUGIN) or "none"
        raise UsageError(
            f"there is no plugin {name!r}",
            hint=f"plugins here: {known}; `hermes plugins install` adds one",
        )
    return found
