"""Running the code of a memory plugin: importing it, and letting it register."""

import hashlib
import importlib.util
import logging
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from hermes.core.errors import ConfigError, ToolError
from hermes.memory.isolation import Apart, Limits, said_by

log = logging.getLogger(__name__)

T = TypeVar("T")

LOADING_SECONDS = 15
"""How long a plugin may take to be imported, and to register."""


class Collected:
    """The `ctx` of a plugin that is loaded for its memory provider. Whatever else it registers is
    for a plugin that is enabled as such (`hermes plugins enable`)."""

    def __init__(self, plugin: str) -> None:
        self.plugin = plugin
        self.providers: list[Any] = []

    def register_memory_provider(self, provider: Any) -> None:
        self.providers.append(provider)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith(("register_", "inject_")):
            raise AttributeError(name)

        def ignored(*_args: Any, **_kwargs: Any) -> None:
            log.info("the memory plugin %s: %s has no effect here", self.plugin, name)

        return ignored


def attempt(where: str, failing: str, work: Callable[[], T], seconds: float = LOADING_SECONDS) -> T:
    """Run code of a plugin; whatever goes wrong in it becomes one line for the user."""
    apart = Apart(where, Limits(), log.info)
    try:
        result: T = apart.call(failing, work, seconds, quiet=True)
    except ToolError as error:
        late = f"it takes longer than {seconds:g} s"
        reason = said_by(error.__cause__) if error.__cause__ else late
        raise ConfigError(
            f"{failing}: {reason}",
            where=where,
            hint="correct the plugin, or `hermes memory off` goes on without it",
        ) from error
    finally:
        apart.close()
    return result


def import_package(path: Path) -> ModuleType:
    """The package whose `__init__.py` is `path`, under a name that nothing else can have. The
    documented import paths work in it."""
    digest = hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:12]
    name = f"_hermes_memory_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    if importlib.util.find_spec("hermes.compat") is not None:
        import_module("hermes.compat").install()
    spec = importlib.util.spec_from_file_location(
        name, path, submodule_search_locations=[str(path.parent)]
    )
    if spec is None or spec.loader is None:
        raise ImportError("is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        for loaded in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
            del sys.modules[loaded]
        raise
    return module


def import_part(path: Path, part: str) -> ModuleType:
    """A module of that package."""
    return import_module(f"{import_package(path).__name__}.{part}")
