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
    modules: dict[str, str] = {}

    def load(name: str) -> Any:
        if not modules:
            modules.update(_read_imports(package))
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)  # later uses do not come here
        return value

    return load


def _read_imports(package: str) -> dict[str, str]:
    spec = sys.modules[package].__spec__
    get_source = getattr(spec.loader if spec else None, "get_source", None)
    source = get_source(package) if get_source else None
    if not source or _MARK not in source:
        raise ImportError(f"{package} has no imports under TYPE_CHECKING")
    found = {}
    for module, several, single in _IMPORT.findall(source.partition(_MARK)[2]):
        for name in (several or single).split(","):
            if name := name.strip():
                found[name] = module
    return found
