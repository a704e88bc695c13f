"""Finding a skin by its name."""

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hermes.core.errors import ConfigError, UsageError
from hermes.tui.skin import Skin
from hermes.tui.skins.reading import skin_of

BUILTIN: Mapping[str, str] = MappingProxyType(
    {
        name: f"hermes.tui.skins.builtin.{name.replace('-', '_')}"
        for name in (
            "default", "ares", "mono", "slate", "daylight", "warm-lightmode", "poseidon",
            "sisyphus", "charizard",
        )
    }
)  # fmt: skip
"""Names and the modules that hold them."""
LARGEST = 200_000
"""Bytes of a skin."""

_NAME = re.compile(r"[\w-]{1,64}")


def skin_names(folder: Path) -> list[str]:
    """Those that come with Hermes, then those in `folder`."""
    own = {path.stem for path in folder.glob("*.yaml") if _NAME.fullmatch(path.stem)}
    return [*BUILTIN, *sorted(own - BUILTIN.keys())]


def find_skin(name: str, folder: Path) -> Skin:
    """The skin of that name; one in `folder` counts before one that comes with Hermes. Raises
    `UsageError` when there is none, or when its file is wrong."""
    if _NAME.fullmatch(name) and (own := _read(folder / f"{name}.yaml")) is not None:
        return own
    if name in BUILTIN:
        return _builtin(name)
    raise UsageError(
        f"there is no skin {name!r}", hint=f"skins are {', '.join(skin_names(folder))}"
    )


def skin_or_default(name: str, folder: Path) -> tuple[Skin, str]:
    """The skin, or the default one and a line for the user that says why."""
    try:
        return find_skin(name, folder), ""
    except UsageError as error:
        return _builtin("default"), f"{error} ({error.hint}); the default skin is used"


def _builtin(name: str) -> Skin:
    skin: Skin = import_module(BUILTIN[name]).SKIN
    return skin


def _read(path: Path) -> Skin | None:
    """None when there is no such file."""
    hint = "docs/how-to/make-a-skin.md shows how a skin is written"
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{path} is too large for a skin", hint=hint)
        document: Any = import_module("hermes.config.document")  # with YAML, which few skins need
        return skin_of(path.stem, document.read_document(path), _builtin("default"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    except ConfigError as error:
        raise UsageError(f"the skin {path.stem} cannot be worn: {error}", hint=hint) from error
