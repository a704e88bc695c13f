"""The documented modules, and the import hook for them.

The table in names.txt says where each name is defined; a module is imported when a name of it is
first used. The documented paths have common names (`cli`, `tools`,
`agent`), so the hook comes last: a module in the folder of a script or in an installed package
wins, and no foreign package gets a module of ours.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.abc import Loader  # slow to load, and only a check of methods


NAMES: dict[str, dict[str, str]] = {}  #: Our `module:attribute`, by documented module and name.
for _line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
    if not _line.startswith("#"):
        _path, _module, _words = _line.split(": ")
        for _word in _words.split():
            _name, _, _ours = _word.partition("=")
            NAMES.setdefault(_path, {})[_name] = f"hermes.{_module}:{_ours or _name}"

PARENTS = frozenset(path[:end] for path in NAMES for end, sign in enumerate(path) if sign == ".")
"""Packages that contain a documented module."""


class DocumentedModule(ModuleType):
    """A module whose names are ours; each is imported on first use."""

    def __getattr__(self, name: str) -> Any:
        place = NAMES.get(self.__name__, {}).get(name)
        if place is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, _, attribute = place.partition(":")
        return getattr(import_module(module), attribute)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *NAMES.get(self.__name__, ())})


class _DocumentedLoader:
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return DocumentedModule(spec.name, "A documented name of modules of Hermes.")

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__all__"] = sorted(NAMES.get(module.__name__, ()))


class DocumentedFinder:
    """Finds exactly the documented modules and their packages."""

    _loader = _DocumentedLoader()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the signature is that of finders
        target: ModuleType | None = None,  # noqa: ARG002 - likewise
    ) -> ModuleSpec | None:
        is_package = fullname in PARENTS
        if not is_package and fullname not in NAMES:
            return None
        parent = fullname.rpartition(".")[0]
        package = sys.modules.get(parent)
        # Only our own packages and namespace packages (mere folders) may contain our modules.
        if parent and (package is None or getattr(package, "__file__", None) is not None):
            return None
        loader = cast("Loader", self._loader)
        return ModuleSpec(fullname, loader, origin="hermes", is_package=is_package)


def install() -> None:
    """Make the documented modules importable. Further calls have no effect."""
    if not any(isinstance(finder, DocumentedFinder) for finder in sys.meta_path):
        sys.meta_path.append(DocumentedFinder())


def uninstall() -> None:
    """Undo `install` and remove the modules it found."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, DocumentedFinder)]
    for name in [name for name, each in sys.modules.items() if isinstance(each, DocumentedModule)]:
        del sys.modules[name]
