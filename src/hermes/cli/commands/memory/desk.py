"""The provider in use, as the commands talk to it: with time limits, and only what it offers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hermes.app.extensions import Extensions
from hermes.app.log_files import start_logging
from hermes.cli.context import Cli
from hermes.cli.extending import looked_at
from hermes.config.home import tilde
from hermes.core.errors import ConfigError, HermesError, ToolError
from hermes.memory import (
    Dicts,
    Inspectable,
    IsolatedProvider,
    ProviderLimits,
    list_providers,
    load_provider,
)
from hermes.plugins.manifest import PluginInfo
from hermes.security import Redactor
from hermes.util.plain import plain_line

SECONDS = 20
SESSION = "hermes-memory"


class Desk:
    """A provider that is loaded, available and initialised."""

    def __init__(self, isolated: IsolatedProvider) -> None:
        self._isolated = isolated
        self.name = isolated.name

    @property
    def shows(self) -> bool:
        """Whether it can tell what it holds."""
        return isinstance(self._isolated.provider, Inspectable)

    def summary(self) -> str:
        said = self._ask("summary") if self.shows else "it does not say what it holds"
        return plain_line(said)

    def entries(self, query: str = "", limit: int = 100) -> Dicts:
        found: Dicts = self._ask("entries", query, limit) if self.shows else []
        return found

    def edit(self, entry_id: str, text: str) -> bool:
        return bool(self.shows and self._ask("edit", entry_id, text))

    def forget(self, entry_id: str) -> bool:
        return bool(self.shows and self._ask("forget", entry_id))

    def note_removed(self, target: str, content: str) -> None:
        self._ask("on_memory_write", "remove", target, content)

    def _ask(self, method: str, *args: Any) -> Any:
        try:
            return self._isolated.call(method, SECONDS, *args)
        except ToolError as error:
            raise HermesError(str(error), hint="`hermes memory test` tries it out") from error


def guarded_provider(cli: Cli, name: str, brought: Extensions | None = None) -> IsolatedProvider:
    """The provider of that name. What goes wrong is logged; the caller tells the user. `brought` is
    what `brought_for` gave, if that was asked already. Raises `ConfigError`."""
    loaded = cli.load()
    start_logging(cli.home, loaded.settings.logging, Redactor(loaded.secrets()))
    brought = brought or brought_for(cli, name)
    provider = load_provider(
        name,
        cli.home,
        loaded.variable,
        tuple(brought.memory_providers.values()) if brought else (),
        disabled=loaded.settings.plugins.disabled,
        tell=cli.note,
    )
    return IsolatedProvider(provider, ProviderLimits(start=SECONDS), lambda _line: None)


def offered(cli: Cli) -> tuple[PluginInfo, ...]:
    """What can be set up; for those that enabled plugins bring, these are loaded."""
    plugins = cli.load().settings.plugins
    brought = looked_at(cli.load(), cli) if plugins.enabled else None
    registered = tuple(brought.memory_providers.values()) if brought else ()
    said = {tilde(cli.home.plugins / name) for name in plugins.enabled}  # have said what they bring
    found = list_providers(cli.home, registered, plugins.disabled)
    return tuple(info for info in found if info.where not in said)


def info_of_provider(cli: Cli, name: str) -> PluginInfo | None:
    """What is known of it without running anything; None for what only a loaded plugin brings."""
    disabled = cli.load().settings.plugins.disabled
    found = list_providers(cli.home, disabled=disabled)
    return next((info for info in found if info.name == name), None)


def brought_for(cli: Cli, name: str) -> Extensions | None:
    """What enabled plugins bring; they are loaded only for a name that nothing else has."""
    loaded = cli.load()
    needed = loaded.settings.plugins.enabled and info_of_provider(cli, name) is None
    return looked_at(loaded, cli) if needed else None


@contextmanager
def provider_desk(cli: Cli, user: str = "") -> Iterator[Desk | None]:
    """The provider in use, about one user (empty: you); None when there is none. Raises
    `ConfigError` when it cannot be used."""
    name = cli.load().settings.memory.provider
    if not name:
        yield None
        return
    isolated = guarded_provider(cli, name)
    try:
        if not isolated.call_at_start("is_available"):
            raise ConfigError(
                f"the memory provider {name} is not set up", hint=f"hermes memory setup {name}"
            )
        home = str(cli.home.root)
        isolated.call_at_start(
            "initialize", SESSION, hermes_home=home, platform="cli", user_id=user, tell=cli.note
        )
    except ToolError as error:
        raise ConfigError(str(error), hint="`hermes memory test` tries it out") from error
    try:
        yield Desk(isolated)
    finally:
        isolated.shut_down()
