"""The bundled plugins: folders of the package `hermes_plugins`, found by kind and name.

`hermes` has no list of them and imports none: it reads the `MANIFEST` of the one that the settings
name, and the manifest names the code.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGE = "hermes_plugins"


@cache
def bundled_names(kind: str) -> tuple[str, ...]:
    """Return the names of the bundled plugins of a kind, such as `terminals`; loads none."""
    spec = find_spec(f"{PACKAGE}.{kind}")
    places = (spec.submodule_search_locations if spec else None) or ()
    return tuple(
        sorted(found.parent.name for at in places for found in Path(at).glob("*/manifest.py"))
    )


def bundled_manifest(kind: str, name: str) -> Any:
    """Return the `MANIFEST` of a bundled plugin; None if there is no such plugin."""
    if name not in bundled_names(kind):
        return None
    return import_module(f"{PACKAGE}.{kind}.{name}.manifest").MANIFEST
