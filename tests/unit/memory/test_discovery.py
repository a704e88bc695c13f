"""Memory providers of plugins: found by name, loaded only then, broken ones explained."""

import argparse
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import ConfigError
from hermes.memory.discovery import (
    active_cli,
    find_cli,
    find_provider,
    list_providers,
    load_provider,
)
from hermes.plugins import bundled_infos
from hermes.plugins.isolation import run_foreign_code

BUNDLED = [info.name for info in bundled_infos("memory")]
CODE = """
import os
from hermes.memory.provider import MemoryProvider
from .words import HELLO

class Mine(MemoryProvider):
    name = "mine"
    def is_available(self): return bool(os.environ.get("MINE_KEY"))
    def initialize(self, session_id, **kwargs): pass
    def get_tool_schemas(self): return []
    def get_config_schema(self):
        return [{"key": "api_key", "secret": True, "env_var": "MINE_KEY"}]
    def prefetch(self, query): return HELLO

def register(ctx):
    ctx.register_memory_provider(Mine())
    ctx.register_hook("on_session_start", print)
"""
CLI = """
def register_cli(subparser):
    subparser.add_argument("--loud", action="store_true")
    subparser.set_defaults(func=lambda args: "LOUD" if args.loud else "quiet")
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


Write = Callable[..., Path]


@pytest.fixture
def plugin(home: Home) -> Write:
    def write(code: str = CODE, where: str = "memory/mine", **files: str) -> Path:
        folder = home.plugins / where
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(code)
        (folder / "words.py").write_text('HELLO = "hello"\n')
        (folder / "plugin.yaml").write_text("name: mine\ndescription: My own.\nversion: 1.2\n")
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        return folder

    return write


@pytest.mark.parametrize("where", ["memory/mine", "mine"])
def test_a_plugin_is_found_by_its_name(home: Home, plugin: Write, where: str) -> None:
    folder = plugin(where=where)
    provider = find_provider("mine", home)
    assert (provider.name, provider.prefetch("q")) == ("mine", "hello")
    (info,) = (info for info in list_providers(home) if info.name == "mine")
    assert (info.description, info.version, info.problem) == ("My own.", "1.2", "")
    assert info.where.endswith(str(folder.name))


def test_its_variables_in_dotenv_are_there_for_it(home, plugin, monkeypatch):
    plugin()
    monkeypatch.setenv("MINE_KEY", "")  # put back after the test
    (home.root / ".env").write_text("MINE_KEY=abc123\n")
    assert load_provider("mine", home, load(home).variable).is_available()


def test_listing_runs_no_plugin_and_takes_no_other_plugins_for_providers(home, plugin):
    plugin("raise SystemExit(1)  # register_memory_provider", where="mine")
    plugin("def register(ctx): pass", where="tools-only")
    names = [info.name for info in list_providers(home)]
    assert names == ["mine", *BUNDLED]


def test_provider_registered_by_a_plugin_precedes_the_general_folder(home, plugin):
    plugin("raise RuntimeError  # register_memory_provider", where="mine")
    plugin(where="memory/other")
    registered = find_provider_from(CODE, home)
    assert find_provider("mine", home, [registered]) is registered


def find_provider_from(code: str, home: Home):
    """A provider as an enabled plugin registers it."""
    names: dict[str, object] = {"__name__": "elsewhere"}
    exec(code.replace("from .words import HELLO", "HELLO = ''"), names)
    return names["Mine"]()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nothing_of_that_name", "cannot be imported: ModuleNotFoundError"),
        ("raise SystemExit(3)", "cannot be imported: it wanted to end the program (exit code 3)"),
        ("x = 1", "has no register(ctx)"),
        ("def register(ctx): 1 / 0", "register(ctx) failed: ZeroDivisionError"),
        ("def register(ctx): pass", "registers no memory provider"),
        ("def register(ctx): ctx.register_memory_provider(4)", "registers a int"),
        ("def register(ctx): ctx.no_such_thing()", "register(ctx) failed: AttributeError"),
        (CODE.replace('"mine"', '"other"'), "is named 'other'"),
        (
            CODE.replace("def is_available", "def not_available"),
            "register(ctx) failed: TypeError: Can't instantiate abstract class",
        ),
    ],
)
def test_a_broken_plugin_is_one_clear_line_with_a_hint(home, plugin, code, said):
    plugin(code)
    with pytest.raises(ConfigError) as caught:
        find_provider("mine", home)
    assert said in str(caught.value)
    assert "plugins/memory/mine/__init__.py" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_a_plugin_that_hangs_while_it_is_loaded_is_given_up() -> None:
    gate = threading.Event()
    with pytest.raises(ConfigError, match=r"imported: it did not end within 0\.05 seconds"):
        run_foreign_code("a plugin", "cannot be imported", gate.wait, hint="", seconds=0.05)
    gate.set()


def test_a_plugin_without_its_manifest_is_explained(home: Home, plugin: Write) -> None:
    (plugin() / "plugin.yaml").unlink()
    with pytest.raises(ConfigError, match=r"plugin\.yaml: is missing"):
        find_provider("mine", home)
    (info, *_) = list_providers(home)
    assert "is missing" in info.problem


@pytest.mark.parametrize("name", ["nope", "../evil", "", "a/b"])
def test_an_unknown_name_lists_the_known_ones(home: Home, name: str) -> None:
    with pytest.raises(ConfigError, match="there is no memory provider") as caught:
        find_provider(name, home)
    assert "holographic" in caught.value.hint


def test_the_local_provider_is_shipped(home: Home) -> None:
    provider = find_provider("holographic", home)
    assert provider.name == "holographic"
    assert provider.is_available()
    assert find_cli("holographic", home) is None


def test_the_commands_of_a_provider_are_there_only_while_it_is_in_use(home, plugin):
    plugin(cli=CLI)
    assert active_cli(load(home)) is None
    home.config_file.write_text("memory:\n  provider: mine\n")
    found = active_cli(load(home))
    assert found is not None
    name, register = found
    parser = argparse.ArgumentParser(prog=f"hermes {name}")
    register(parser)
    args = parser.parse_args(["--loud"])
    assert (name, args.func(args)) == ("mine", "LOUD")
    home.config_file.write_text("memory:\n  provider: holographic\n")
    assert active_cli(load(home)) is None


def test_broken_commands_of_a_provider_are_explained(home: Home, plugin: Write) -> None:
    plugin(cli="x = 1")
    with pytest.raises(ConfigError, match=r"cli\.py: has no register_cli"):
        find_cli("mine", home)


def test_second_provider_of_a_plugin_is_left_out_and_reported(home: Home, plugin: Write) -> None:
    plugin(f"{CODE}\n    ctx.register_memory_provider(Mine())\n")
    told: list[str] = []
    assert find_provider("mine", home, tell=told.append).name == "mine"
    assert told == ["plugin mine: its memory provider mine is left out: mine has one already"]


TRAP = "raise RuntimeError('this code was run')  # register_memory_provider"


@pytest.mark.parametrize("where", ["memory/mine", "mine", "memory/folder", "folder"])
def test_provider_of_a_disabled_plugin_is_not_run(home: Home, plugin: Write, where: str) -> None:
    """The settings may call it by its name, which is `mine`, or by that of its folder."""
    folder = plugin(TRAP, where, cli=TRAP)
    for disabled in ({"mine"}, {folder.name}):
        with pytest.raises(ConfigError, match="belongs to a disabled plugin") as refused:
            find_provider(folder.name, home, disabled=disabled)
        assert "hermes plugins enable" in refused.value.hint
        assert [info.name for info in list_providers(home, (), disabled)] == [*BUNDLED]
        assert find_cli(folder.name, home, disabled) is None


def test_a_disabled_plugin_does_not_hide_a_shipped_provider(home: Home, plugin: Write) -> None:
    plugin(TRAP, "memory/holographic")
    assert find_provider("holographic", home, disabled={"holographic"}).name == "holographic"
