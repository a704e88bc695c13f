"""plugin.yaml: the description of a plugin, read before any of its code runs."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hermes.config.document import read_document
from hermes.config.environment import is_secret_variable
from hermes.config.home import tilde, unusable
from hermes.core.errors import ConfigError

FILES = ("plugin.yaml", "plugin.yml")
CODE = "__init__.py"

NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
"""Plugin names: usable as a folder, as a command-line argument and in a list."""
NAMING = "use letters, digits, -, _ and ."
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)


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
    return _Reader(path, _read(path)).manifest(folder.name)


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_document(path).data
    except ConfigError as error:
        raise ConfigError(str(error), hint="correct the file") from error


class _Reader:
    """Converts the data of plugin.yaml; errors name the file."""

    def __init__(self, path: Path, data: Mapping[str, Any]) -> None:
        self._where, self._data = tilde(path), data

    def manifest(self, otherwise: str) -> PluginManifest:
        name = self._text("name") or otherwise
        if not NAME.fullmatch(name):
            raise self._wrong(f"{name!r} is not a valid name", NAMING)
        hooks = (*self._names("provides_hooks"), *self._names("hooks"))
        return PluginManifest(
            name,
            self._text("version"),
            self._text("description"),
            self._text("author"),
            self._names("provides_tools"),
            tuple(dict.fromkeys(hooks)),
            tuple(self._variable(item) for item in self._items("requires_env")),
        )

    def _text(self, key: str) -> str:
        value = self._data.get(key)
        if isinstance(value, Mapping | list):
            raise self._wrong(f"{key} is not a text", f"write `{key}: …` on one line")
        return "" if value is None else one_line(value)

    def _items(self, key: str) -> list[Any]:
        value = self._data.get(key)
        if value is None:
            return []
        return value if isinstance(value, list) else [value]

    def _names(self, key: str) -> tuple[str, ...]:
        """Names, or blocks with a name."""
        items = (i.get("name") if isinstance(i, Mapping) else i for i in self._items(key))
        return tuple(one_line(item) for item in items if item is not None)

    def _variable(self, item: Any) -> RequiredVariable:
        said = item if isinstance(item, Mapping) else {"name": item}
        name = str(said.get("name") or "")
        if not _VARIABLE.fullmatch(name):
            raise self._wrong(
                f"requires_env: {name or item!r} is not the name of a variable",
                "write a name such as WEATHER_API_KEY, or a block with `name: …`",
            )
        description, url = (one_line(said.get(key) or "") for key in ("description", "url"))
        secret = said.get("secret")
        hidden = is_secret_variable(name) if secret is None else bool(secret)
        return RequiredVariable(name, description, url, hidden)

    def _wrong(self, problem: str, hint: str) -> ConfigError:
        return ConfigError(problem, where=self._where, hint=hint)


def one_line(value: Any) -> str:
    """Return one printable line, without characters that could control a terminal."""
    return "".join(sign for sign in " ".join(str(value).split()) if sign.isprintable())


# Plugin folders: `plugin.yaml`, and the code in `__init__.py`.

BUNDLED = Path(__file__).parents[2] / "hermes_plugins"  #: Has a folder for each kind.
BUILT_IN = "built in"

_NAME = re.compile(r"\w[\w.-]*")


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
    """Return whether a folder is a plugin; one of its two files is enough to report the other."""
    named = _NAME.fullmatch(place.name) is not None and place.is_dir()
    return named and ((place / CODE).exists() or (place / FILES[0]).exists())


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
