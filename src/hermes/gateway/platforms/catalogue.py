"""The platforms there are: each folder beside this file with a `manifest.py`, and what plugins add.
No library of a platform is imported to find it."""

import pkgutil
from importlib import import_module
from importlib.util import find_spec

from hermes.core.errors import UsageError
from hermes.gateway import platforms
from hermes.gateway.platforms.base import Manifest

added: dict[str, Manifest] = {}
"""Those of plugins of this process."""


def manifests() -> dict[str, Manifest]:
    """By name."""
    return added | shipped()


def shipped() -> dict[str, Manifest]:
    names = sorted(found.name for found in pkgutil.iter_modules(platforms.__path__) if found.ispkg)
    modules = [f"{platforms.__name__}.{name}.manifest" for name in names]
    found = [import_module(module).MANIFEST for module in modules if find_spec(module)]
    return {each.name: each for each in found}


def manifest(name: str) -> Manifest:
    known = manifests()
    if name not in known:
        raise UsageError(f"there is no platform {name!r}", hint=f"there are {', '.join(known)}")
    return known[name]


def missing_modules(of: Manifest) -> list[str]:
    """Modules of the platform's library that are not installed."""
    return [name for name in of.needs if find_spec(name) is None]


def prefix(of: Manifest) -> str:
    """`TELEGRAM` of `TELEGRAM_ALLOWED_USERS`."""
    return of.env_prefix or of.name.upper()


def home_variable(of: Manifest) -> str:
    return of.home_variable or f"{prefix(of)}_HOME_CHANNEL"


def prefixes(known: dict[str, Manifest]) -> dict[str, str]:
    """Beginnings of variables, by platform."""
    return {name: prefix(each) for name, each in known.items()}
