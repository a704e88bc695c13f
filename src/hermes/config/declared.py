"""Settings that bundled platforms declare in their manifests.

`load` keeps the blocks of these platforms as they are written, so that a start imports no manifest.
`Loaded.complete`, `examine` and every tool that explains settings use `complete_settings`, in which
they are sections like all others.
"""

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import msgspec

from hermes.config.settings import Settings
from hermes.config.settings.base import Section
from hermes.config.settings.platforms import PlatformConnectionSettings, PlatformsSettings

if TYPE_CHECKING:
    from hermes.config.loader import Variable

S = TypeVar("S", bound=Section)
PACKAGE = "hermes_plugins.platforms"


class PlatformDeclaration(Protocol):
    """The part of a manifest that is about settings."""

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> type[Section] | None: ...
    @property
    def connection(self) -> type[PlatformConnectionSettings]: ...
    @property
    def variables(self) -> "tuple[Variable, ...]": ...


@cache
def bundled_platforms() -> tuple[str, ...]:
    """Return the names of the bundled platforms, without importing them."""
    folders = pkgutil.iter_modules(import_module(PACKAGE).__path__)
    return tuple(sorted(folder.name for folder in folders if folder.ispkg))


def platform_names() -> tuple[str, ...]:
    """Return the names of the bundled platforms and of those that the settings have."""
    return (*bundled_platforms(), *PlatformsSettings.__struct_fields__)


def declaration(name: str) -> Any:
    """Return the manifest of a bundled platform."""
    return import_module(f"{PACKAGE}.{name}.manifest").MANIFEST


@cache
def declarations() -> tuple[PlatformDeclaration, ...]:
    return tuple(declaration(name) for name in bundled_platforms())


@cache
def complete_settings() -> type[Settings]:
    """Return `Settings` with the sections of the bundled platforms."""
    connections = {each.name: each.connection for each in declarations()}
    platforms = _extend(PlatformsSettings, connections)
    own = {each.name: each.settings for each in declarations() if each.settings is not None}
    return _extend(Settings, {"platforms": platforms, **own})


def _extend(base: type[S], sections: Mapping[str, type[Section]]) -> type[S]:
    fields = [(name, kind, kind()) for name, kind in sections.items()]
    made: Any = msgspec.defstruct(
        base.__name__, fields, bases=(base,), module=base.__module__, frozen=True, kw_only=True
    )
    return cast("type[S]", made)
