"""Find plugins, read plugin.yaml, and decide which are loaded. No code of a plugin runs here."""

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from hermes.config.document import read_document
from hermes.config.environment import is_secret_variable
from hermes.config.home import Home, tilde, unusable
from hermes.config.schema import find
from hermes.core.errors import ConfigError
from hermes.util import files
from hermes.util.lazy import late_pattern

FILES = ("plugin.yaml", "plugin.yml")
CODE = "__init__.py"

NAME = late_pattern(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
"""Plugin names: usable as a folder, as a command-line argument and in a list."""
NAMING = "use letters, digits, -, _ and ."
_VARIABLE = late_pattern(r"[A-Za-z_]\w*", re.ASCII)
ENTRY_POINTS = "hermes_agent.plugins"
"""The entry point group in which installed packages offer plugins."""
PACKAGE = Path(__file__).parents[1]
BUNDLED = Path(__file__).parents[2] / "hermes_plugins"  #: Has a folder for each kind.
BUILT_IN = "built in"
_NAME = late_pattern(r"\w[\w.-]*")
log = logging.getLogger(__name__)


class RequiredVariable(msgspec.Struct, frozen=True):
    """An environment variable that a plugin requires."""

    name: str
    description: str = ""
    url: str = ""  #: Where to get a value.
    secret: bool = True  #: Do not echo the value while it is typed.


class PluginManifest(msgspec.Struct, frozen=True):
    name: str
    version: str = ""
    description: str = ""
    author: str = ""
    provides_tools: tuple[str, ...] = ()
    provides_hooks: tuple[str, ...] = ()  #: The names in `provides_hooks` and the older `hooks`.
    requires_env: tuple[RequiredVariable, ...] = ()


def manifest_file(folder: Path) -> Path | None:
    return next((folder / name for name in FILES if (folder / name).is_file()), None)


def read_manifest(folder: Path) -> PluginManifest:
    """Return the manifest in `folder`, ignoring unknown keys. Raises `ConfigError`."""
    path = manifest_file(folder)
    if path is None:
        raise ConfigError(
            "is missing",
            where=tilde(folder / FILES[0]),
            hint="a plugin is a folder with plugin.yaml (name, version, description) and"
            " __init__.py",
        )
    where, data = tilde(path), _read(path)

    def wrong(problem: str, hint: str) -> ConfigError:
        return ConfigError(problem, where=where, hint=hint)

    def text(key: str) -> str:
        if isinstance(data.get(key), Mapping | list):
            raise wrong(f"{key} is not a text", f"write `{key}: …` on one line")
        return "" if data.get(key) is None else one_line(data[key])

    def items(key: str) -> list[Any]:
        value = data.get(key)
        return [] if value is None else value if isinstance(value, list) else [value]

    def names(key: str) -> tuple[str, ...]:
        """Names, or blocks with a name."""
        said = (each.get("name") if isinstance(each, Mapping) else each for each in items(key))
        return tuple(one_line(each) for each in said if each is not None)

    def variable(item: Any) -> RequiredVariable:
        said = item if isinstance(item, Mapping) else {"name": item}
        name = str(said.get("name") or "")
        if not _VARIABLE.fullmatch(name):
            raise wrong(
                f"requires_env: {name or item!r} is not the name of a variable",
                "write a name such as WEATHER_API_KEY, or a block with `name: …`",
            )
        description, url = (one_line(said.get(key) or "") for key in ("description", "url"))
        secret = said.get("secret")
        hidden = is_secret_variable(name) if secret is None else bool(secret)
        return RequiredVariable(name, description, url, hidden)

    name = text("name") or folder.name
    if not NAME.fullmatch(name):
        raise wrong(f"{name!r} is not a valid name", NAMING)
    return PluginManifest(
        name,
        text("version"),
        text("description"),
        text("author"),
        names("provides_tools"),
        tuple(dict.fromkeys((*names("provides_hooks"), *names("hooks")))),
        tuple(map(variable, items("requires_env"))),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_document(path).data
    except ConfigError as error:
        raise ConfigError(str(error), hint="correct the file") from error


def one_line(value: Any) -> str:
    """Return one printable line, without characters that could control a terminal."""
    return "".join(sign for sign in " ".join(str(value).split()) if sign.isprintable())


class PluginInfo(msgspec.Struct, frozen=True):
    name: str
    description: str = ""
    version: str = ""
    where: str = BUILT_IN
    """The folder of a plugin, `plugin` for one that a plugin registered, or `built in`."""
    problem: str = ""  #: Why its plugin.yaml cannot be read.


def list_folder(folder: Path) -> list[Path]:
    """Return what is in `folder`, by name; nothing if it does not exist. Raises `ConfigError`."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise unusable(folder, error) from error


def plugin_folders(folder: Path) -> Iterator[Path]:
    """Yield the plugin folders in `folder`, by name; none if `folder` does not exist."""
    yield from filter(is_plugin, list_folder(folder))


def is_plugin(place: Path) -> bool:
    """Return whether a folder is a plugin; one of its two files is enough to report the other.

    Raises `ConfigError` if the folder cannot be used.
    """
    try:
        named = _NAME.fullmatch(place.name) is not None and place.is_dir()
        return named and ((place / CODE).exists() or (place / FILES[0]).exists())
    except OSError as error:
        raise unusable(place, error) from error


def bundled_infos(kind: str) -> tuple[PluginInfo, ...]:
    """Return the bundled extensions of one kind, by name."""
    found = map(plugin_info, plugin_folders(BUNDLED / kind))
    return tuple(msgspec.structs.replace(info, where=BUILT_IN) for info in found)


def plugin_info(place: Path) -> PluginInfo:
    """Return name, description and version of a plugin folder."""
    try:
        said = read_manifest_data(place)
    except ConfigError as error:
        return PluginInfo(place.name, where=tilde(place), problem=str(error))
    description, version = (str(said.get(key) or "") for key in ("description", "version"))
    return PluginInfo(place.name, description, version, tilde(place))


def read_manifest_data(place: Path) -> dict[str, Any]:
    """Return the content of plugin.yaml. Raises `ConfigError`."""
    path = place / FILES[0]
    if not path.is_file():
        raise ConfigError(
            "is missing", where=tilde(path), hint="write name, description and version into it"
        )
    return _read(path)


class PluginOrigin(StrEnum):
    """Where a plugin comes from. Of two with the same name, the later origin wins."""

    BUNDLED = "bundled"
    USER = "user"
    PROJECT = "project"
    PACKAGE = "package"


class PluginKind(StrEnum):
    PLUGIN = "plugin"
    MEMORY = "memory provider"
    ENGINE = "context engine"


PROVIDER_FOLDERS = {"memory": PluginKind.MEMORY, "context_engine": PluginKind.ENGINE}
"""Folders of provider plugins, of which one per kind is in use; it is loaded elsewhere."""


class PluginState(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"
    NOT_ENABLED = "not enabled"


class PluginPlaces(msgspec.Struct, frozen=True):
    """Folders with one subfolder per plugin; they need not exist."""

    user: Path  #: `<home>/plugins`
    bundled: Path | None = None  #: See `bundled_plugins`.
    project: Path | None = None
    """`.hermes/plugins` of the working folder, when `plugins.project` says so."""


class Plugin(msgspec.Struct, frozen=True):
    """A plugin that was found, loadable or not."""

    manifest: PluginManifest
    origin: PluginOrigin
    kind: PluginKind = PluginKind.PLUGIN
    folder: Path | None = None
    entry: Any = None  #: The entry point of an installed package.
    problem: str = ""  #: Why it cannot be loaded, as far as that is known without running it.
    hides: tuple[PluginOrigin, ...] = ()
    """Origins of plugins with the same name that this one replaces."""

    @property
    def name(self) -> str:
        return self.manifest.name

    def is_among(self, names: Collection[str]) -> bool:
        """Return whether a list of the settings names it, by its name or its folder."""
        return self.name in names or (self.folder is not None and self.folder.name in names)


class PluginSelection(msgspec.Struct, frozen=True):
    """The settings that select plugins."""

    enabled: tuple[str, ...] = ()  #: `plugins.enabled`
    disabled: tuple[str, ...] = ()  #: `plugins.disabled`; wins.
    single: Mapping[PluginKind, str] = {}  #: `memory.provider` and `context.engine`.

    def state(self, plugin: Plugin) -> PluginState:
        if plugin.is_among(self.disabled):
            return PluginState.DISABLED
        if plugin.kind is PluginKind.PLUGIN:
            chosen = plugin.is_among(self.enabled)
        else:
            chosen = plugin.is_among((self.single.get(plugin.kind, ""),))
        return PluginState.ENABLED if chosen else PluginState.NOT_ENABLED


def bundled_plugins() -> Path | None:
    """Return the folder of the bundled plugins; None if this installation has none."""
    source = PACKAGE.parents[1]
    installed, checkout = PACKAGE / "bundled" / "plugins", source / "plugins"
    if installed.is_dir():
        return installed
    return checkout if checkout.is_dir() and (source / "pyproject.toml").is_file() else None


def checkout_folders(name: str) -> tuple[Path, ...]:
    """Return the folder of that name among the bundled plugins: one, or none."""
    folder = bundled_plugins()
    return (folder / name,) if folder else ()


def default_places(user: Path, working_folder: Path | None = None) -> PluginPlaces:
    """Return the plugin folders. `working_folder` is given if its plugins may be loaded."""
    project = working_folder / ".hermes" / "plugins" if working_folder else None
    if project is not None and project.resolve() == user.resolve():
        project = None  # the home is in the working folder
    return PluginPlaces(user, bundled_plugins(), project)


def find_plugins(places: PluginPlaces, *, packages: bool = True) -> tuple[Plugin, ...]:
    """Return all plugins by kind and name; of several with one name, the one that wins.

    Searching installed packages is slow; `packages=False` leaves them out.
    """
    found: dict[tuple[PluginKind, str], Plugin] = {}
    for plugin in _all(places, packages=packages):
        key = (plugin.kind, plugin.name)
        hidden = found.get(key)
        if hidden is not None:
            hides = (*hidden.hides, hidden.origin)
            plugin = msgspec.structs.replace(plugin, hides=hides)
        found[key] = plugin
    order = list(PluginKind)
    return tuple(sorted(found.values(), key=lambda each: (order.index(each.kind), each.name)))


def _all(places: PluginPlaces, *, packages: bool) -> Iterator[Plugin]:
    """Yield all plugins, in ascending precedence."""
    for origin, folder in (
        (PluginOrigin.BUNDLED, places.bundled),
        (PluginOrigin.USER, places.user),
        (PluginOrigin.PROJECT, places.project),
    ):
        for place in _folders(folder) if folder is not None else ():
            kind = PROVIDER_FOLDERS.get(place.name)
            if kind is None:
                yield _plugin(place, origin, PluginKind.PLUGIN)
            else:
                yield from (_plugin(inner, origin, kind) for inner in _folders(place))
    if packages:
        yield from _in_packages()


def _folders(folder: Path) -> list[Path]:
    """Return the plugin folders in `folder`.

    One of the two files is enough, and an invalid name does not matter: the problem is reported
    later. Hidden folders are ignored.
    """
    return [
        place
        for place in list_folder(folder)
        if place.name in PROVIDER_FOLDERS
        or (
            not place.name.startswith(".")
            and ((place / CODE).is_file() or manifest_file(place) is not None)
        )
    ]


def _plugin(place: Path, origin: PluginOrigin, kind: PluginKind) -> Plugin:
    if not NAME.fullmatch(place.name):
        problem = f"invalid folder name; {NAMING}"
        return Plugin(PluginManifest(one_line(place.name)), origin, kind, place, problem=problem)
    try:
        manifest = read_manifest(place)
    except ConfigError as error:
        return Plugin(PluginManifest(place.name), origin, kind, place, problem=str(error))
    problem = "" if (place / CODE).is_file() else f"{CODE} is missing"
    return Plugin(manifest, origin, kind, place, problem=problem)


def _in_packages() -> Iterator[Plugin]:
    from importlib import metadata  # slow to load, and not needed without `packages`

    for entry in metadata.entry_points(group=ENTRY_POINTS):
        # Untyped: `PackageMetadata` has `get` at run time, but its protocol does not declare it.
        about: Any = entry.dist.metadata if entry.dist else {}
        version, summary = about.get("Version") or "", about.get("Summary") or ""
        author = about.get("Author") or ""
        manifest = PluginManifest(entry.name, version, summary, author)
        yield Plugin(manifest, PluginOrigin.PACKAGE, entry=entry)


# Changes of config.yaml: enable, disable and choose plugins.

_LISTS = {True: "enabled", False: "disabled"}
SETTINGS = {PluginKind.MEMORY: ("memory", "provider"), PluginKind.ENGINE: ("context", "engine")}
"""Where the choice of a provider is kept."""


def set_enabled(home: Home, name: str, *, on: bool) -> None:
    """Enable or disable a plugin in `plugins.enabled` and `plugins.disabled` of config.yaml."""
    from hermes.config import edit  # loads a slower YAML library, which only changes need

    _take_out(home, name, _LISTS[not on])
    edit.add_value(home, ("plugins", _LISTS[on]), name)


def forget_plugin(home: Home, name: str) -> None:
    """Remove a plugin that was uninstalled from both lists."""
    for key in _LISTS.values():
        _take_out(home, name, key)


def choose_provider(home: Home, kind: PluginKind, name: str) -> None:
    """Set the provider in use; an empty name selects the built-in one."""
    from hermes.config import edit  # see `set_enabled`

    if name:
        _take_out(home, name, _LISTS[False])
        edit.set_value(home, SETTINGS[kind], name)
    else:
        edit.unset_value(home, SETTINGS[kind])


def _take_out(home: Home, name: str, key: str) -> None:
    held = find(read_document(home.config_file).data, ("plugins", key))
    if not isinstance(held, list):
        return
    from hermes.config import edit  # see `set_enabled`

    for place in reversed([at for at, each in enumerate(held) if each == name]):
        edit.unset_value(home, ("plugins", key, str(place)))


# Cache of the subcommands of plugins, as they were when they were last loaded.

FILE = "plugin-commands.json"


def cache_commands(folder: Path, held: Mapping[str, list[str]]) -> None:
    """Store the subcommands of each loaded plugin in `folder`, for help texts.

    Help must not run plugins. A cache that cannot be written is not an error.
    """
    if held == cached_commands(folder):
        return
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        files.write_bytes(folder / FILE, msgspec.json.encode(held))
    except OSError as error:
        log.debug("the commands of plugins are not cached: %s", error)


def cached_commands(folder: Path) -> Mapping[str, list[str]]:
    """Return the subcommands by plugin as they were cached last."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=dict[str, list[str]])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}
