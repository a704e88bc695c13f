"""Code that is found and loaded when it is first used: package surfaces, patterns, bundled plugins.

A package `__init__` imports its public names under `if TYPE_CHECKING:` and lists them in `__all__`.
The type checker and the reader see ordinary imports; at run time `lazy_getattr` takes the same
statements as the table of names, so that a start loads only the modules it uses.

`hermes` has no list of bundled plugins and imports none: it reads the `MANIFEST` of the one that
the settings name, and the manifest names the code.
"""

import re
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, AnyStr, cast


class _LatePattern:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._source = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # such as those that `copy` asks for
            raise AttributeError(name)
        pattern, flags = self._source
        compiled = re.compile(pattern, flags)
        for method in dir(re.Pattern):  # later uses do not come here
            if not method.startswith("_"):
                setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def late_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return the regular expression, compiled by the first use of one of its methods.

    A start compiles hundreds of expressions otherwise, and uses few.
    """
    return cast("re.Pattern[AnyStr]", _LatePattern(pattern, flags))


_IMPORT = late_pattern(r"^    from ([\w.]+) import (?:\(([^)]*)\)|([^\n(]+))$", re.MULTILINE)
_MARK = "\nif TYPE_CHECKING:\n"


def lazy_getattr(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, for the names it imports under `TYPE_CHECKING`."""
    modules: dict[str, tuple[str, str]] = {}

    def load(name: str) -> Any:
        if not modules:
            modules.update(_read_imports(package))
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = modules[name]
        value = getattr(import_module(module), attribute)
        setattr(sys.modules[package], name, value)  # later uses do not come here
        return value

    return load


def _read_imports(package: str) -> dict[str, tuple[str, str]]:
    """Return the module and the name in it for each imported name."""
    spec = sys.modules[package].__spec__
    get_data = getattr(spec.loader if spec else None, "get_data", None)
    source = get_data(spec.origin).decode() if spec and get_data else ""
    if _MARK not in source:
        raise ImportError(f"{package} has no imports under TYPE_CHECKING")
    found = {}
    for module, several, single in _IMPORT.findall(source.partition(_MARK)[2]):
        for name in (several or single).split(","):
            original, _, alias = name.strip().partition(" as ")
            if original:
                found[alias or original] = (module, original)
    return found


PACKAGE = "hermes_plugins"


@cache
def bundled_names(kind: str) -> tuple[str, ...]:
    """Return the names of the bundled plugins of a kind, such as `terminals`; loads none."""
    from importlib.util import find_spec  # every start loads this module, but few come here
    from pathlib import Path

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
