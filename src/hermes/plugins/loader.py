"""Loads plugins, each in isolation: one that fails does not affect the others."""

import hashlib
import importlib.util
import logging
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar

import msgspec

from hermes.config.home import tilde
from hermes.core.errors import ConfigError
from hermes.plugins.context import (
    PluginContext,
    PluginServices,
    apply_registrations,
    discard_registrations,
)
from hermes.plugins.discovery import (
    BUNDLED,
    CODE,
    Plugin,
    PluginKind,
    PluginOrigin,
    PluginPlaces,
    PluginSelection,
    PluginState,
    find_plugins,
    read_manifest_data,
)
from hermes.plugins.isolation import (
    PluginFailed,
    PluginHangs,
    describe_error,
    run_foreign_code,
    run_with_timeout,
)
from hermes.util import files


class NamedExtension(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=NamedExtension)


def import_folder(folder: Path) -> ModuleType:
    """Import the package in `folder` under a unique name; a bundled one has its own.

    Exceptions of its code pass through; the modules it loaded are removed then.
    """
    name = _module_name(folder)
    if name in sys.modules:
        return sys.modules[name]
    if folder.is_relative_to(BUNDLED):
        return import_module(name)
    spec = importlib.util.spec_from_file_location(
        name, folder / CODE, submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{CODE} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        forget_folder(folder)
        raise
    return module


def forget_folder(folder: Path) -> None:
    """Remove a partly imported package, so that the next import starts anew."""
    name = _module_name(folder)
    for loaded in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        sys.modules.pop(loaded, None)


def _module_name(folder: Path) -> str:
    if folder.is_relative_to(BUNDLED):
        return ".".join((BUNDLED.name, *folder.relative_to(BUNDLED).parts))
    digest = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:12]
    return f"_hermes_brought_{digest}"


def load_extension(
    kind: str, folder: Path, hint: str, make: Callable[[ModuleType, str], T], *, needed: str
) -> T:
    """Import the plugin in `folder` and return the `kind` of extension that `make` finds in it.

    `make` gets the module and its path for messages; `needed` says what the module must contain and
    `hint` what to do about a failure. Raises `ConfigError`.
    """
    path = folder / CODE
    where = tilde(path)
    if not path.is_file():
        raise ConfigError("is missing", where=where, hint=needed)
    read_manifest_data(folder)
    run = partial(run_foreign_code, where, hint=hint)
    made = make(run("cannot be imported", lambda: import_folder(folder)), where)
    name = run(f"the {kind} has no name", lambda: made.name)
    if name != folder.name:
        raise ConfigError(
            f"the {kind} is named {name!r}, but its folder {folder.name!r}",
            where=where,
            hint="give both the same name",
        )
    return made


def register_function(plugin: Plugin) -> Callable[[Any], Any]:
    """Import the plugin and return its `register`. Exceptions of its code pass through."""
    thing = plugin.entry.load() if plugin.folder is None else import_folder(plugin.folder)
    register = getattr(thing, "register", None)
    if callable(register):
        return register  # type: ignore[no-any-return]  # of foreign code
    if plugin.folder is None and callable(thing):
        return thing  # type: ignore[no-any-return]  # the entry point is the function
    raise PluginFailed("it has no function register(ctx)")


log = logging.getLogger(__name__)

LOAD_SECONDS = 10.0  #: Time limit for importing and registering a plugin.
MAX_HANGS = 3  #: Starts in a row at which a plugin may hang; after them it is left out.
HISTORY_FILE = "plugin-starts.json"


class StartHistory(msgspec.Struct):
    """What earlier starts of Hermes found out about plugins. It is stored in the cache."""

    hangs: dict[str, tuple[int, float]] = {}
    """By plugin: starts in a row at which it hung, and when its code was last changed."""
    warnings: list[str] = []  #: Lasting problems that the user has seen.

    @classmethod
    def read(cls, folder: Path) -> "StartHistory":
        try:
            return msgspec.json.decode((folder / HISTORY_FILE).read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return cls()

    def write(self, folder: Path) -> None:
        """Store it, if it differs. A cache that cannot be written is not an error."""
        if self == StartHistory.read(folder):
            return
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write_bytes(folder / HISTORY_FILE, msgspec.json.encode(self))
        except OSError as error:
            log.debug("the starts of plugins are not stored: %s", error)

    def hang_count(self, plugin: Plugin) -> int:
        """Return at how many starts in a row the plugin hung, in its present form."""
        count, changed = self.hangs.get(plugin.name, (0, 0.0))
        return count if changed == _changed_at(plugin) else 0

    def record(self, plugin: Plugin, *, hung: bool) -> None:
        if hung:
            self.hangs[plugin.name] = (self.hang_count(plugin) + 1, _changed_at(plugin))
        else:
            self.hangs.pop(plugin.name, None)


def _changed_at(plugin: Plugin) -> float:
    try:
        return (plugin.folder / CODE).stat().st_mtime if plugin.folder is not None else 0.0
    except OSError:
        return 0.0


class PluginVariables(msgspec.Struct, frozen=True):
    """Access to the environment variables that plugins require."""

    get: Callable[[str], str | None]  #: Returns a value of the environment or of .env.
    export: Callable[[str, str], None] = lambda _name, _value: None
    """Sets a variable in the environment, where the plugin's code reads it."""


class LoadOutcome(msgspec.Struct, frozen=True):
    """The result for a plugin that the settings enable."""

    name: str
    origin: PluginOrigin | None = None  #: None if there is no such plugin.
    problem: str = ""  #: Why it is not loaded; empty if it is.


def load_plugins(
    places: PluginPlaces,
    choice: PluginSelection,
    services: PluginServices,
    variables: PluginVariables,
    *,
    seconds: float = LOAD_SECONDS,
    history: StartHistory | None = None,
) -> tuple[LoadOutcome, ...]:
    """Load the plugins that are enabled and not disabled, also bundled ones.

    A failing plugin does not raise: its problem is reported and part of the result. `history` is
    updated; a plugin that hung too often according to it is left out.
    """
    history = history or StartHistory()
    wanted = [name for name in dict.fromkeys(choice.enabled) if name not in choice.disabled]
    if not wanted:
        return ()
    found = [each for each in find_plugins(places) if each.kind is PluginKind.PLUGIN]
    outcomes = [
        _load(plugin, services, variables, seconds, history)
        for plugin in found
        if choice.state(plugin) is PluginState.ENABLED
    ]
    absent = [name for name in wanted if not any(plugin.is_among((name,)) for plugin in found)]
    for name in absent:
        problem = "it is in plugins.enabled, but there is no such plugin"
        services.reports.report((name, "load"), f"plugin {name}: {problem}")
        outcomes.append(LoadOutcome(name, problem=problem))
    return tuple(outcomes)


def missing_variables(plugin: Plugin, variables: PluginVariables) -> list[str]:
    return [each.name for each in plugin.manifest.requires_env if not variables.get(each.name)]


def _load(
    plugin: Plugin,
    services: PluginServices,
    variables: PluginVariables,
    seconds: float,
    history: StartHistory,
) -> LoadOutcome:
    problem, cause = plugin.problem, None
    if not problem and history.hang_count(plugin) >= MAX_HANGS:
        problem = (
            f"it hung at the last {MAX_HANGS} starts (`hermes plugins enable {plugin.name}` tries "
            f"it again, `hermes plugins disable {plugin.name}` switches it off)"
        )
    if not problem and (missing := missing_variables(plugin, variables)):
        problem = f"set {', '.join(missing)} (`hermes plugins enable {plugin.name}` asks for it)"
    if not problem:
        for each in plugin.manifest.requires_env:
            variables.export(each.name, variables.get(each.name) or "")
        problem, cause = _register(plugin, services, seconds)
        history.record(plugin, hung=isinstance(cause, PluginHangs))
    if problem:
        text = f"plugin {plugin.name} is not loaded: {problem}"
        services.reports.report((plugin.name, "load"), text, cause)
    else:
        log.info("plugin %s %s is loaded", plugin.name, plugin.manifest.version)
    return LoadOutcome(plugin.name, plugin.origin, problem)


def _register(
    plugin: Plugin, services: PluginServices, seconds: float
) -> tuple[str, Exception | None]:
    """Call the plugin's `register`; return the problem, or "", and its cause."""
    context = PluginContext(plugin.name, plugin.folder, services)
    try:
        run_with_timeout(lambda: register_function(plugin)(context), seconds)
        apply_registrations(context)
    except Exception as error:  # noqa: BLE001 - third-party code may raise anything
        discard_registrations(context, f"plugin {plugin.name} failed to load")
        if isinstance(error, PluginHangs) and plugin.folder is not None:
            forget_folder(plugin.folder)
        return describe_error(error), error
    return "", None
