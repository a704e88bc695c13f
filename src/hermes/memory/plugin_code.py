"""Running the code of a memory plugin: importing it, and letting it register."""

import logging
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from hermes.compat.packages import import_folder
from hermes.core.errors import ConfigError, ToolError
from hermes.memory.isolation import Apart, Limits, Tell, said_by

log = logging.getLogger(__name__)

T = TypeVar("T")

LOADING_SECONDS = 15
"""How long a plugin may take to be imported, and to register."""


class Collected:
    """The `ctx` of a plugin that is loaded for its memory provider. Whatever else it registers is
    for a plugin that is enabled as such (`hermes plugins enable`)."""

    def __init__(self, plugin: str, tell: Tell) -> None:
        self.plugin, self._tell = plugin, tell
        self.provider: Any = None

    def register_memory_provider(self, provider: Any) -> None:
        """The first counts."""
        if self.provider is None:
            self.provider = provider
            return
        named = getattr(provider, "name", "") or type(provider).__name__
        self._tell(
            f"plugin {self.plugin}: its memory provider {named} is left out:"
            f" {self.plugin} has one already"
        )

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


def import_part(folder: Path, part: str) -> ModuleType:
    """A module of the package in `folder`."""
    return import_module(f"{import_folder(folder).__name__}.{part}")
