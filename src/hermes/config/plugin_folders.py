"""Folders that hold a plugin each: `plugin.yaml`, and the code in `__init__.py`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hermes.config.document import read_document
from hermes.config.home import tilde, unusable
from hermes.core.errors import ConfigError

CODE, MANIFEST = "__init__.py", "plugin.yaml"

_NAME = re.compile(r"\w[\w.-]*")


class PluginInfo(msgspec.Struct, frozen=True):
    name: str
    description: str = ""
    version: str = ""
    where: str = "built in"
    """The folder of a plugin, `plugin` for one that a plugin registered, or `built in`."""
    problem: str = ""
    """Why its plugin.yaml cannot be read."""


def plugin_folders(folder: Path) -> Iterator[Path]:
    """Those in `folder`, by name; none when there is no such folder."""
    try:
        places = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise unusable(folder, error) from error
    yield from filter(is_plugin, places)


def is_plugin(place: Path) -> bool:
    """One of the two files is enough, so that a missing one is noticed."""
    named = _NAME.fullmatch(place.name) is not None and place.is_dir()
    return named and ((place / CODE).exists() or (place / MANIFEST).exists())


def info_of(place: Path) -> PluginInfo:
    """What its manifest says."""
    try:
        said = manifest(place)
    except ConfigError as error:
        return PluginInfo(place.name, where=tilde(place), problem=str(error))
    description, version = (str(said.get(key) or "") for key in ("description", "version"))
    return PluginInfo(place.name, description, version, tilde(place))


def manifest(place: Path) -> dict[str, Any]:
    """Raises `ConfigError`."""
    path = place / MANIFEST
    if not path.is_file():
        raise ConfigError(
            "is missing", where=tilde(path), hint="write name, description and version into it"
        )
    try:
        return read_document(path).data
    except ConfigError as error:
        raise ConfigError(str(error), hint="correct the file") from error
