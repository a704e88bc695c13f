"""Load a plugin as Hermes does, call its tools in tests, and examine it in a process of its own.

It works without pytest. `hermes plugins test` uses it.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from hermes.config.environment import search_path
from hermes.config.settings import Settings
from hermes.core.cancel import CancelToken
from hermes.core.tool import Effect, Tool, ToolContext
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
    describe_error,
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
    loaded, problems = _load(Path(folder).absolute(), dict(variables or {}))
    assert problems == []
    return loaded


def _load(folder: Path, environment: Mapping[str, str]) -> tuple[LoadedPlugin, list[str]]:
    problems: list[str] = []
    reports = ProblemReporter(problems.append)
    loaded = LoadedPlugin(HookRunner(timeout=10, reports=reports))
    load_plugins(
        PluginPlaces(folder.parent),
        PluginSelection(enabled=(folder.name,)),
        PluginServices(loaded, loaded.hooks, NameRegistry(reports, tools=builtin_names()), reports),
        PluginVariables(environment.get),
    )
    return loaded, problems


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
    return asyncio.run(run_tool(tool, decoded, tool_context(**changes)))


async def run_tool(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> str:
    return await tool.handler(context, arguments)


async def _no_storage(_name: str, _text: str) -> str:
    return ""


def _toolbox(tool: Tool) -> Toolbox:
    return Toolbox([tool], _no_storage)


class PluginReport(msgspec.Struct, frozen=True):
    """What a plugin registers, and what is wrong with it."""

    registered: list[tuple[str, str, str]]  #: Kind, name and description.
    problems: list[str]
    called: list[str]  #: Tools that were called.
    tests: str = ""  #: Which program ran the tests of the plugin; empty if it has none.


def examine_plugin(folder: Path, environment: Mapping[str, str]) -> PluginReport:
    """Load the plugin and run its tests, in this process.

    Without tests, its tools that only read and need no arguments are called.
    """
    loaded, problems = _load(folder.absolute(), environment)
    registered = [
        ("tool", name, f"{tool.effect}: {tool.spec.description}")
        for name, tool in loaded.tools.items()
    ]
    registered += [("command", f"/{name}", "") for name in loaded.commands]
    registered += [("subcommand", f"hermes {name}", "") for name in loaded.cli_commands]
    hooks = loaded.hooks.listeners().items()
    registered += [("hook", str(name), "") for name, listeners in hooks for _ in listeners]
    registered += [("skill", name, "") for name in loaded.skills]
    for kind, found in (
        ("memory provider", loaded.memory_providers),
        ("context engine", loaded.context_engines),
        ("terminal backend", loaded.terminal_backends),
        ("platform", loaded.platforms),
    ):
        registered += [(kind, str(each.name), "") for each in found]
    if not registered and not problems:
        problems.append("it registers nothing")
    called: list[str] = []
    tests = sorted({*folder.glob("test_*.py"), *folder.glob("tests/test_*.py")})
    for name, tool in loaded.tools.items():
        if not tool.spec.description:
            problems.append(f"tool {name} has no description")
        if tests or tool.effect is not Effect.READ or tool.spec.parameters.get("required"):
            continue
        called.append(name)
        try:
            call_tool(tool, {})
        except Exception as error:  # noqa: BLE001 - the tool may raise anything
            problems.append(f"tool {name} failed: {describe_error(error)}")
    runner = ""
    if tests and not problems:
        runner, problem = _run_tests(folder, tests)
        problems += [problem] if problem else []
    return PluginReport(registered, problems, called, runner)


def _run_tests(folder: Path, tests: Sequence[Path]) -> tuple[str, str]:
    """Run the tests with pytest, or without it with unittest; return the runner and the problem."""
    if find_spec("pytest") is not None:
        import pytest  # only an environment for development has it

        # Not the settings of a repository around the plugin.
        options = ("-q", "-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider")
        code = pytest.main([*options, *map(str, tests)])
        return "pytest", "" if code == pytest.ExitCode.OK else "its tests failed"
    import unittest  # slow to load, and rarely needed

    suite = unittest.TestSuite()
    for place in sorted({path.parent for path in tests}):
        loader = unittest.TestLoader()
        suite.addTests(loader.discover(str(place), "test_*.py", top_level_dir=str(place)))
    result = unittest.TextTestRunner(sys.stderr).run(suite)
    return "unittest", "" if result.wasSuccessful() and result.testsRun else "its tests failed"
