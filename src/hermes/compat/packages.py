"""Importing code of others from a folder."""

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from hermes.compat.finder import install

CODE = "__init__.py"


def import_folder(folder: Path) -> ModuleType:
    """The package in `folder`, under a name that nothing else can have. The documented import paths
    work in it. Raises whatever its code raises, and leaves nothing of it behind then."""
    name = _module_name(folder)
    if name in sys.modules:
        return sys.modules[name]
    install()
    spec = importlib.util.spec_from_file_location(
        name, folder / CODE, submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{CODE} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        forget_folder(folder)
        raise
    return module


def forget_folder(folder: Path) -> None:
    """Whoever imports it again shall not find half a package."""
    name = _module_name(folder)
    for loaded in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        sys.modules.pop(loaded, None)


def _module_name(folder: Path) -> str:
    digest = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:12]
    return f"_hermes_brought_{digest}"
