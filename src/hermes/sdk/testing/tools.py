"""The contract of tools, as tests: subclass `ToolContract` in a test module.

    class TestForecast(ToolContract):
        example = {"town": "Rome"}

        @pytest.fixture
        def tool(self):
            return load_plugin("plugins/weather").tools["forecast"]

`load_plugin` loads a plugin as Hermes does and keeps what it registers.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from hermes.config.environment import search_path
from hermes.config.settings import Settings
from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolArgumentsInvalid, ToolError
from hermes.core.tool import Tool, ToolContext
from hermes.plugins import (
    Act,
    CommandHandler,
    HookRunner,
    NameRegistry,
    PluginPlaces,
    PluginSelection,
    PluginServices,
    PluginVariables,
    ProblemReporter,
    SetUp,
    load_plugins,
)
from hermes.security import PathGuard
from hermes.terminal import BackgroundProcesses, ExecutionEnvironment, LocalFiles, LocalShell
from hermes.tools import FileReads, SessionServices, TodoList, Toolbox, ToolDeps, ToolRegistry
from hermes.tools.registry import builtin_names


class LoadedPlugin:
    """What a plugin registered, by name."""

    def __init__(self, hooks: HookRunner) -> None:
        self.tools: dict[str, Tool] = {}
        self.commands: dict[str, CommandHandler] = {}
        self.cli_commands: dict[str, tuple[SetUp, Act]] = {}
        self.skills: dict[str, Path] = {}
        self.memory_providers: list[Any] = []
        self.context_engines: list[Any] = []
        self.terminal_backends: list[Any] = []
        self.platforms: list[Any] = []
        self.messages: list[tuple[str, str]] = []  #: Role and content of injected messages.
        self.hooks = hooks  #: `await hooks.fire(name, **details)` returns the answers.

    def add_tool(self, plugin: str, **registration: Any) -> None:
        entry: Any = registration.get("entry")
        if entry is None:
            registry = ToolRegistry()
            registry.register(**registration)
            entry = registry.get(registration["name"])
        self.tools[entry.name] = entry.make(tool_deps())

    def add_command(self, name: str, handler: CommandHandler, description: str) -> None:
        self.commands[name] = handler

    def add_cli_command(self, name: str, help: str, setup_fn: SetUp, handler_fn: Act) -> None:  # noqa: A002 - the interface
        self.cli_commands[name] = (setup_fn, handler_fn)

    def add_skill(self, plugin: str, name: str, path: Path) -> None:
        self.skills[f"{plugin}:{name}"] = path

    def add_memory_provider(self, provider: Any) -> None:
        self.memory_providers.append(provider)

    def add_context_engine(self, engine: Any) -> None:
        self.context_engines.append(engine)

    def add_terminal_backend(self, manifest: Any) -> None:
        self.terminal_backends.append(manifest)

    def add_platform(self, manifest: Any) -> None:
        self.platforms.append(manifest)

    def inject_message(self, content: str, role: str) -> bool:
        self.messages.append((role, content))
        return True


def load_plugin(folder: str | Path, variables: Mapping[str, str] | None = None) -> LoadedPlugin:
    """Load the plugin in `folder`; `variables` are the environment variables that it requires.

    Raises `AssertionError` with the problem if it cannot be loaded.
    """
    folder = Path(folder).absolute()
    problems: list[str] = []
    reports = ProblemReporter(problems.append)
    loaded = LoadedPlugin(HookRunner(timeout=10, reports=reports))
    load_plugins(
        PluginPlaces(folder.parent),
        PluginSelection(enabled=(folder.name,)),
        PluginServices(loaded, loaded.hooks, NameRegistry(reports, tools=builtin_names()), reports),
        PluginVariables(dict(variables or {}).get),
    )
    assert problems == []
    return loaded


def tool_deps(
    folder: Path | None = None, settings: Mapping[str, Any] | None = None, **parts: Any
) -> ToolDeps:
    """Return the services of a session for tools in a test, with the shell and files of `folder`.

    `settings` are sections of config.yaml. `parts` replace fields of `ToolDeps`, of its `place` or
    of its `services`.
    """
    folder, home = folder or Path.cwd(), Path.home()
    shell = LocalShell({"PATH": search_path(), "HOME": str(home)}, folder)

    def fields(kind: Any, **defaults: Any) -> dict[str, Any]:
        given = {name: parts.pop(name) for name in kind.__struct_fields__ if name in parts}
        return {**defaults, **given}

    files = LocalFiles(lambda: str(folder), home)
    place = ExecutionEnvironment(
        **fields(ExecutionEnvironment, name="test", shell=shell, files=files)
    )
    return ToolDeps(
        **fields(
            ToolDeps,
            settings=msgspec.convert(dict(settings or {}), Settings),
            place=place,
            guard=PathGuard(home, (folder,)),
            processes=BackgroundProcesses(place.shell),
            reads=FileReads(),
            todos=TodoList(),
            services=SessionServices(**fields(SessionServices)),
        )
    )


def tool_context(output: Callable[[str], None] = lambda _text: None, **changes: Any) -> ToolContext:
    """Return the context of a call in a test; `changes` are fields of `ToolContext`."""
    return ToolContext("session", "call", changes.pop("cancel", CancelToken()), output, **changes)


def call_tool(tool: Tool, arguments: Mapping[str, Any], **changes: Any) -> str:
    """Check the arguments as Hermes does, and return the result of the call."""
    decoded = _toolbox(tool).decode(tool, json.dumps(arguments))
    return asyncio.run(_call(tool, decoded, tool_context(**changes)))


async def _call(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> str:
    return await tool.handler(context, arguments)


async def _no_storage(_name: str, _text: str) -> str:
    return ""


def _toolbox(tool: Tool) -> Toolbox:
    return Toolbox([tool], _no_storage)


class ToolContract:
    """What every tool keeps to."""

    example: ClassVar[Mapping[str, Any]] = {}  #: Arguments of a call that succeeds.
    max_schema_chars = 2_000  #: The model pays for the schema with each request.
    stop_seconds = 1.0

    @pytest.fixture
    def tool(self) -> Tool:
        raise NotImplementedError("define the fixture `tool` in the subclass")

    def test_its_schema_is_short_and_complete(self, tool: Tool) -> None:
        spec = tool.spec
        assert spec.name.replace("_", "").replace("-", "").isalnum()
        assert spec.description
        assert spec.parameters["type"] == "object"
        assert set(spec.parameters.get("required", ())) <= set(spec.parameters["properties"])
        assert len(spec.description) + len(json.dumps(spec.parameters)) <= self.max_schema_chars

    def test_the_example_succeeds(self, tool: Tool) -> None:
        assert isinstance(call_tool(tool, self.example), str)

    def test_wrong_arguments_are_named(self, tool: Tool) -> None:
        with pytest.raises(ToolArgumentsInvalid, match="no_such_argument"):
            call_tool(tool, {**self.example, "no_such_argument": 1})
        for name in tool.spec.parameters.get("required", ()):
            rest = {key: value for key, value in self.example.items() if key != name}
            with pytest.raises(ToolArgumentsInvalid, match=name):
                call_tool(tool, rest)

    def test_a_stop_ends_the_call(self, tool: Tool) -> None:
        async def stopped() -> None:
            token = CancelToken()
            asyncio.get_running_loop().call_soon(token.cancel)
            context = tool_context(cancel=token)
            async with asyncio.timeout(self.stop_seconds):
                await _call(tool, dict(self.example), context)

        with suppress(Interrupted, ToolError):  # the only errors that may leave a tool
            asyncio.run(stopped())
