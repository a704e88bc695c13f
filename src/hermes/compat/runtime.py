"""What the documented functions share in a process: a home, an event loop, plugins, models; and
`hermes_cli.config`, `hermes_cli.plugins` and the functions of `agent.prompt_builder`."""

import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.app import Extensions, Providers, SkillCatalog, opened_store, visibility_context
from hermes.config.edit import set_value, unset_value
from hermes.config.environment import Parts
from hermes.config.home import Home, current_home, ensure_hermes_home
from hermes.config.loader import Loaded, load
from hermes.config.schema import MISSING, find, merge
from hermes.core.errors import UsageError
from hermes.plugins import parse_event
from hermes.prompt.assembly import environment_hints, host_environment, load_soul
from hermes.prompt.context_files import LocalFileTree, project_context
from hermes.security import Redactor
from hermes.store import SessionStore
from hermes.util.concurrency import LoopThread, SystemClock
from hermes.util.text import escape_controls

T = TypeVar("T")
THREAD = "hermes-documented"


class ScriptRuntime:
    """Created for a home when a documented function first needs it, with the settings of that
    moment. `hermes run` closes it; elsewhere it ends with the process."""

    def __init__(self, home: Home) -> None:
        self.home: Home = home
        self.loaded: Loaded = load(home)
        self._loop = LoopThread(THREAD)
        self._own_extensions: Extensions | None = None
        self._providers: Providers | None = None
        self.on_close: list[Callable[[], Coroutine[Any, Any, object]]] = []
        """Called in the event loop, in this order."""

    def run(self, work: Coroutine[Any, Any, T], stop: Callable[[], object] = bool) -> T:
        """Wait for `work` and return its result. Ctrl-C calls `stop` in the event loop."""
        if threading.current_thread().name == THREAD:
            work.close()
            raise UsageError(
                "this function waits for the event loop it is called in",
                hint="call it from code that is not async, or with asyncio.to_thread",
            )
        return self._loop.run(work, lambda: self._loop.call_soon(stop))

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` in the event loop. Other event loops wait with `asyncio.wrap_future`."""
        return self._loop.submit(work)

    def with_store(self, work: Callable[[SessionStore], Coroutine[Any, Any, T]]) -> T:
        """Run `work` on the store of the home, which is open only for this call."""

        async def run() -> T:
            async with opened_store(self.home, self.loaded.settings.store.url, tell) as store:
                return await work(store)

        return self.run(run())

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
        for close in self.on_close:
            await close()
        if self._own_extensions is not None:
            await self._own_extensions.close()
        if self._providers is not None:
            await self._providers.close()


_runtimes: dict[Home, ScriptRuntime] = {}


def script_runtime() -> ScriptRuntime:
    """Return the runtime of the current home."""
    home = current_home()
    if home not in _runtimes:
        _runtimes[home] = ScriptRuntime(home)
    return _runtimes[home]


def close_all() -> None:
    while _runtimes:
        _runtimes.popitem()[1].close()


def tell(text: str) -> None:
    sys.stderr.write(f"{escape_controls(text)}\n")


class TextProgress:
    """A `Progress` that prints messages, but no percentages."""

    def __init__(self, write: Callable[[str], object] = tell) -> None:
        self._write = write

    def say(self, text: str) -> None:
        self._write(text)

    def report(self, label: str, done: int, total: int) -> None:
        """Do nothing: progress is reported too often for lines of text."""


Dict = dict[str, Any]


def plain(value: Any) -> Any:
    """Return settings as dicts with text keys, and lists."""
    match value:
        case Mapping():
            return {str(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return value


def load_config() -> Dict:
    """Return all settings: config.yaml, variables, and defaults for the rest. Unknown keys are
    included."""
    loaded = load(current_home()).complete()
    return merge(plain(loaded.raw), plain(msgspec.to_builtins(loaded.settings)))


def save_config(config: Mapping[str, Any]) -> None:
    """Write what differs from the current settings to config.yaml, which keeps its comments.

    A value of None removes the key; a key that is not in `config` stays as it is.
    """
    home = current_home()
    for parts, value in _changes(config, load_config()):
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


def discover_plugins() -> list[str]:
    """Return the names of the loaded plugins. Without a conversation in this process they are
    loaded now."""
    return [each.name for each in script_runtime().extensions.outcomes if not each.problem]


def invoke_hook(hook_name: str, **kwargs: Any) -> list[Any]:
    """Return the results of a hook that are not None. Raises `ValueError` for an unknown hook."""
    name = parse_event(hook_name)
    return script_runtime().run(script_runtime().extensions.hooks.fire(name, **kwargs))


def discover_plugin_cli_commands() -> dict[str, Dict]:
    """Return the subcommands of plugins: `help`, `setup_fn(parser)` and `handler_fn(args)`."""
    return {
        name: {"help": each.help, "setup_fn": each.setup, "handler_fn": each.act}
        for name, each in script_runtime().extensions.cli_commands.items()
    }


def load_soul_md() -> str | None:
    """Return SOUL.md of the current home, which is created if necessary; None if it is empty."""
    return load_soul(ensure_hermes_home(), Redactor().redact) or None


def build_context_files_prompt(cwd: str | Path | None = None, skip_soul: bool = False) -> str:
    """Return the project files for work in `cwd` (default: here), followed by SOUL.md."""
    soul = "" if skip_soul else load_soul_md() or ""
    folder = Path(cwd or ".").absolute()
    return project_context(LocalFileTree(), str(folder), Redactor().redact, soul=soul)


def build_environment_hints() -> str:
    """Return hints for WSL, containers and Termux; "" on any other machine."""
    return environment_hints(host_environment())


def build_skills_system_prompt(
    available_tools: Iterable[str] | None = None, available_toolsets: Iterable[str] | None = None
) -> str:
    """Return the skill list as a prompt in this folder has it; "" if there is none.

    The available tools decide which skills are listed; without them all are.
    """
    runtime = script_runtime()
    catalog = SkillCatalog(runtime.loaded, runtime.home, runtime.extensions.skills, tell)
    context = visibility_context(
        runtime.loaded, "cli", available_tools or (), available_toolsets or ()
    )
    return catalog.index(context, Path.cwd())
