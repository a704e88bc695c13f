"""Package surfaces that load their modules on first use.

A package `__init__` imports its public names under `if TYPE_CHECKING:` and lists them in `__all__`.
The type checker and the reader see ordinary imports; at run time `lazy_getattr` takes the same
statements as the table of names, so that a start loads only the modules it uses.
"""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_IMPORT = re.compile(r"^    from ([\w.]+) import (?:\(([^)]*)\)|([^\n(]+))$", re.MULTILINE)
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
    get_source = getattr(spec.loader if spec else None, "get_source", None)
    source = get_source(package) if get_source else None
    if not source or _MARK not in source:
        raise ImportError(f"{package} has no imports under TYPE_CHECKING")
    found = {}
    for module, several, single in _IMPORT.findall(source.partition(_MARK)[2]):
        for name in (several or single).split(","):
            original, _, alias = name.strip().partition(" as ")
            if original:
                found[alias or original] = (module, original)
    return found
