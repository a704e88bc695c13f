"""The provider in use, as the commands talk to it: with time limits, and only what it offers."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hermes.app.logs import start_logging
from hermes.cli.context import Cli
from hermes.cli.extending import extended
from hermes.config.loader import Loaded
from hermes.core.errors import ConfigError, HermesError, ToolError
from hermes.memory.discovery import list_providers, load_provider
from hermes.memory.guarded import Guarded
from hermes.memory.isolation import Limits
from hermes.memory.provider import Dicts, Inspectable, MemoryProvider
from hermes.security.redaction import Redactor
from hermes.util.plain import plain_line

SECONDS = 20
SESSION = "hermes-memory"


class Desk:
    """A provider that is loaded, available and initialised."""

    def __init__(self, guarded: Guarded) -> None:
        self._guarded = guarded
        self.name = guarded.name

    @property
    def shows(self) -> bool:
        """Whether it can tell what it holds."""
        return isinstance(self._guarded.provider, Inspectable)

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
            return self._guarded.wait(method, SECONDS, *args)
        except ToolError as error:
            raise HermesError(str(error), hint="`hermes memory test` tries it out") from error


def guarded_provider(cli: Cli, name: str) -> Guarded:
    """The provider of that name. What goes wrong is logged; the caller tells the user. Raises
    `ConfigError`."""
    loaded = cli.load()
    start_logging(cli.home, loaded.settings.logging, Redactor(loaded.secrets()))
    provider = load_provider(name, cli.home, loaded.variable, _registered(name, loaded, cli))
    return Guarded(provider, Limits(start=SECONDS), lambda _line: None)


def _registered(name: str, loaded: Loaded, cli: Cli) -> tuple[MemoryProvider, ...]:
    """What enabled plugins bring; they are loaded only for a name that nothing else has."""
    known = any(info.name == name for info in list_providers(cli.home))
    if known or not loaded.settings.plugins.enabled:
        return ()
    extensions = extended(loaded, cli)
    asyncio.run(extensions.close())  # nothing else of theirs is wanted here
    return tuple(extensions.memory_providers.values())


@contextmanager
def provider_desk(cli: Cli, user: str = "") -> Iterator[Desk | None]:
    """The provider in use, about one user (empty: you); None when there is none. Raises
    `ConfigError` when it cannot be used."""
    name = cli.load().settings.memory.provider
    if not name:
        yield None
        return
    guarded = guarded_provider(cli, name)
    try:
        if not guarded.start("is_available"):
            raise ConfigError(
                f"the memory provider {name} is not set up", hint=f"hermes memory setup {name}"
            )
        home = str(cli.home.root)
        guarded.start(
            "initialize", SESSION, hermes_home=home, platform="cli", user_id=user, tell=cli.note
        )
    except ToolError as error:
        raise ConfigError(str(error), hint="`hermes memory test` tries it out") from error
    try:
        yield Desk(guarded)
    finally:
        guarded.shut_down()
