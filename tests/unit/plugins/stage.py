"""Real plugin folders, a host that writes down what it is given, and everything to load them."""

import textwrap
from pathlib import Path
from typing import Any

from hermes.plugins.context import NameRegistry, PluginServices
from hermes.plugins.discovery import PluginPlaces, PluginSelection
from hermes.plugins.hooks import HookRunner
from hermes.plugins.isolation import ProblemReporter
from hermes.plugins.loader import LoadOutcome, PluginVariables, load_plugins


def write_plugin(folder: Path, name: str, code: str = "", manifest: str = "") -> Path:
    """A plugin in `folder`; returns its folder."""
    place = folder / name
    place.mkdir(parents=True)
    (place / "plugin.yaml").write_text(manifest or f"name: {name}\nversion: 1.0.0\n")
    (place / "__init__.py").write_text(textwrap.dedent(code) or "def register(ctx): ...\n")
    return place


class RecordingHost:
    def __init__(self) -> None:
        self.tools: dict[str, dict[str, Any]] = {}
        self.commands: dict[str, Any] = {}
        self.cli: dict[str, Any] = {}
        self.skills: dict[str, Path] = {}
        self.providers: list[Any] = []
        self.engines: list[Any] = []
        self.terminals: list[Any] = []
        self.platforms: list[Any] = []
        self.messages: list[tuple[str, str]] = []

    def add_tool(self, plugin: str, **registration: Any) -> None:
        self.tools[registration["name"]] = {"plugin": plugin, **registration}

    def add_command(self, name: str, handler: Any, description: str) -> None:
        self.commands[name] = handler

    def add_cli_command(self, name: str, help: str, setup_fn: Any, handler_fn: Any) -> None:  # noqa: A002
        self.cli[name] = (setup_fn, handler_fn)

    def add_skill(self, plugin: str, name: str, path: Path) -> None:
        self.skills[f"{plugin}:{name}"] = path

    def add_memory_provider(self, provider: Any) -> None:
        self.providers.append(provider)

    def add_context_engine(self, engine: Any) -> None:
        self.engines.append(engine)

    def add_terminal_backend(self, manifest: Any) -> None:
        self.terminals.append(manifest)

    def add_platform(self, manifest: Any) -> None:
        self.platforms.append(manifest)

    def inject_message(self, content: str, role: str) -> bool:
        self.messages.append((content, role))
        return True


class Stage:
    """One program that loads plugins."""

    def __init__(self, home, *, timeout=10, shell=None, variables=None):
        self.folder = home / "plugins"
        self.told: list[str] = []
        self.exported: dict[str, str] = {}
        self.host = RecordingHost()
        self.reports = ProblemReporter(self.told.append)
        self.hooks = HookRunner(timeout=timeout, reports=self.reports, shell=shell)
        names = NameRegistry(
            self.reports, ("/new", "reset", "plugins"), ("chat", "plugins"), ("terminal",)
        )
        self.desk = PluginServices(self.host, self.hooks, names, self.reports)
        self._variables = dict(variables or {})

    def plugin(self, name: str, code: str = "", manifest: str = "") -> Path:
        return write_plugin(self.folder, name, code, manifest)

    def load(self, *enabled, disabled=(), places=None, seconds=10, history=None):
        return load_plugins(
            places or PluginPlaces(self.folder),
            PluginSelection(enabled, disabled),
            self.desk,
            PluginVariables(self._variables.get, self.exported.__setitem__),
            seconds=seconds,
            history=history,
        )

    def load_with(self, code: str, name: str = "probe") -> tuple[LoadOutcome, ...]:
        """Writes and loads one plugin."""
        self.plugin(name, code)
        return self.load(name)
