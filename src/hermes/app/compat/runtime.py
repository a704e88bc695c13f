"""What the documented functions share in a process: a home, an event loop, plugins, models."""

import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.app.extensions import Extensions
from hermes.app.providers import Providers
from hermes.app.skills import SkillCatalog, visibility_context
from hermes.config.edit import set_value, unset_value
from hermes.config.home import Home, current_home
from hermes.config.keys import MISSING, Parts, find, merge
from hermes.config.loader import Loaded, load
from hermes.config.settings import Settings
from hermes.core.errors import UsageError
from hermes.plugins.hooks import parse_event
from hermes.util.clock import SystemClock
from hermes.util.loop_thread import LoopThread

T = TypeVar("T")
THREAD = "hermes-documented"


class SharedProcess:
    """Made for one home when a documented function first needs it. The settings are those of that
    moment. `hermes run` closes it; elsewhere whatever it started ends with this process."""

    def __init__(self, home: Home) -> None:
        self.home: Home = home
        self.loaded: Loaded = load(home)
        self._loop = LoopThread(THREAD)
        self._own_extensions: Extensions | None = None
        self._providers: Providers | None = None
        self.at_end: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Called in the loop before the rest is closed."""

    def run(self, work: Coroutine[Any, Any, T], stop: Callable[[], object] = bool) -> T:
        """The result of `work`. Ctrl-C calls `stop` in the loop's thread."""
        if threading.current_thread().name == THREAD:
            work.close()
            raise UsageError(
                "this function waits for the event loop it is called in",
                hint="call it from code that is not async, or with asyncio.to_thread",
            )
        return self._loop.run(work, lambda: self._loop.tell(stop))

    @property
    def extensions(self) -> Extensions:
        """The plugins of the conversation in this process; without one they are loaded here."""
        if in_force := Extensions.in_force():
            return in_force
        if self._own_extensions is None:
            self._own_extensions = Extensions(self.home, self.loaded, tell)
        return self._own_extensions

    @property
    def providers(self) -> Providers:
        if self._providers is None:
            self._providers = Providers(self.home, self.loaded, SystemClock(), TextProgress())
        return self._providers

    def close(self) -> None:
        self._loop.run(self._close())
        self._loop.close()

    async def _close(self) -> None:
        for ending in self.at_end:
            await ending()
        if self._own_extensions is not None:
            await self._own_extensions.close()
        if self._providers is not None:
            await self._providers.close()


_made: dict[Home, SharedProcess] = {}


def shared_process() -> SharedProcess:
    """That of the home in force."""
    home = current_home()
    if home not in _made:
        _made[home] = SharedProcess(home)
    return _made[home]


def close_all() -> None:
    """End whatever documented functions started."""
    while _made:
        _made.popitem()[1].close()


def tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


class TextProgress:
    """A `Progress` that prints messages, but no percentages."""

    def report(self, label: str, done: int, total: int) -> None:
        """Do nothing: progress is reported too often for lines of text."""

    def say(self, text: str) -> None:
        tell(text)


# `hermes_cli.config`: the settings as a dict.

Dict = dict[str, Any]

DEFAULT_CONFIG: Dict = msgspec.to_builtins(Settings())


def load_config() -> Dict:
    """All settings in force: config.yaml, variables, and defaults for the rest. Keys that we do
    not know are kept."""
    loaded = load(current_home())
    return merge(loaded.raw, msgspec.to_builtins(loaded.settings))


def save_config(config: Mapping[str, Any]) -> None:
    """Writes what differs from the settings in force to config.yaml, whose comments stay. A value
    of None takes the key out; a key that is not in `config` stays as it is."""
    home, now = current_home(), load_config()
    for parts, value in _changes(config, now):
        if value is None:
            unset_value(home, parts)
        else:
            set_value(home, parts, value)


def _changes(new: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[Parts, Any]]:
    for name, value in new.items():
        held = find(now, (str(name),))
        if isinstance(value, Mapping) and isinstance(held, Mapping):
            yield from (((str(name), *parts), inner) for parts, inner in _changes(value, held))
        elif value != held and not (value is None and held is MISSING):
            yield (str(name),), value


# `hermes_cli.plugins`: the plugins of this process.


def discover_plugins() -> list[str]:
    """The names of the plugins that are loaded. Without a conversation in this process they are
    loaded now."""
    return [each.name for each in shared_process().extensions.outcomes if not each.problem]


def invoke_hook(hook_name: str, **kwargs: Any) -> list[Any]:
    """What the listeners of a hook answer, without the Nones. Raises `ValueError` for a hook that
    does not exist."""
    name = parse_event(hook_name)
    return shared_process().run(shared_process().extensions.hooks.fire(name, **kwargs))


def discover_plugin_cli_commands() -> dict[str, dict[str, Any]]:
    """The subcommands that plugins bring: `help`, `setup_fn(parser)` and `handler_fn(args)`."""
    return {
        name: {"help": each.help, "setup_fn": each.setup, "handler_fn": each.act}
        for name, each in shared_process().extensions.cli_commands.items()
    }


# `build_skills_system_prompt` of `agent.prompt_builder`.


def build_skills_system_prompt(
    available_tools: Iterable[str] | None = None,
    available_toolsets: Iterable[str] | None = None,
) -> str:
    """The list of skills as it stands in the prompt of a conversation in this folder; "" when there
    is none. What tools there are decides which skills are shown; without them all are."""
    shared = shared_process()
    shelf = SkillCatalog(shared.loaded, shared.home, shared.extensions.skills, tell)
    context = visibility_context(
        shared.loaded, "cli", available_tools or (), available_toolsets or ()
    )
    return shelf.index(context, Path.cwd())
