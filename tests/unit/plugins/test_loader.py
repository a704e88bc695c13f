"""Misbehaving plugins: each is reported once, and the others load."""

import asyncio
import sys
from pathlib import Path

import anyio
import pytest

from hermes.app import Extensions
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.ports import HookName
from hermes.plugins.discovery import PluginOrigin, PluginPlaces
from hermes.plugins.loader import StartHistory
from tests.cases import cases
from tests.unit.plugins.stage import Stage, write_plugin

CASES = cases(__file__)

GOOD = "def register(ctx):\n    ctx.register_command('good', lambda text: f'good {text}')\n"

BAD = CASES["bad"]


@pytest.mark.parametrize("name", BAD)
def test_failing_plugin_is_reported_once_and_the_others_load(stage: Stage, name: str) -> None:
    code, said = BAD[name]
    stage.plugin(name, code)
    stage.plugin("aaa", GOOD)
    stage.plugin("zzz", GOOD.replace("'good'", "'fine'"))
    outcomes = {each.name: each.problem for each in stage.load("aaa", name, "zzz")}
    assert outcomes["aaa"] == outcomes["zzz"] == ""
    assert said in outcomes[name]
    assert stage.host.commands.keys() == {"good", "fine"}
    (told,) = stage.told
    assert told.startswith(f"plugin {name} is not loaded: ")
    assert "\n" not in told


def test_hanging_plugin_is_skipped(stage: Stage) -> None:
    stage.plugin("sleeps", "import time\ndef register(ctx): time.sleep(600)")
    stage.plugin("imports", "import time\ntime.sleep(600)")
    stage.plugin("zzz", GOOD)
    problems = {
        each.name: each.problem for each in stage.load("sleeps", "imports", "zzz", seconds=0.2)
    }
    assert problems == {
        "sleeps": "it did not end within 0.2 seconds",
        "imports": "it did not end within 0.2 seconds",
        "zzz": "",
    }
    assert len(stage.told) == 2


def test_plugin_that_hangs_at_several_starts_is_left_out_until_it_changes(stage: Stage) -> None:
    folder = stage.plugin("sleeps", "import time\ndef register(ctx): time.sleep(600)")
    cache = stage.folder.parent / "cache"

    def start(seconds: float = 0.05) -> str:
        history = StartHistory.read(cache)
        (outcome,) = stage.load("sleeps", seconds=seconds, history=history)
        history.write(cache)
        return outcome.problem

    assert {start() for _ in range(3)} == {"it did not end within 0.05 seconds"}
    assert "it hung at the last 3 starts (`hermes plugins enable sleeps` tries it" in start(600)
    (folder / "__init__.py").write_text(GOOD)
    assert start(10) == ""
    assert StartHistory.read(cache) == StartHistory()


def test_lasting_problem_is_shown_once_over_several_starts(hermes_home: Path) -> None:
    home = Home(hermes_home)
    write_plugin(
        home.plugins, "probe", "def register(ctx): ctx.register_hook('no_such_hook', print)\n"
    )
    home.config_file.write_text("plugins: {enabled: [probe]}\n")
    told: list[str] = []
    for _ in range(3):
        asyncio.run(Extensions(home, load(home), told.append).close())
    assert len(told) == 1
    assert "there is no hook 'no_such_hook'" in told[0]


async def test_late_registration_of_a_hanging_plugin_has_no_effect(stage, tmp_path):
    stage.plugin("late", CASES["late"].replace("FOLDER", repr(str(tmp_path))))
    before = set(sys.modules)
    stage.load("late", seconds=0.3)
    assert set(sys.modules) - before == set()  # half a module is not left to be found
    (tmp_path / "go").touch()
    while not (tmp_path / "refused").exists():
        await anyio.sleep(0.01)
    assert stage.host.commands == {}


def test_a_plugin_that_fails_half_way_leaves_nothing(stage: Stage) -> None:
    stage.load_with(
        """
        def register(ctx):
            ctx.register_command("half", print)
            ctx.register_hook("post_tool_call", print)
            ctx.register_tool("half", "set", {}, print)
            raise RuntimeError("enough")
        """
    )
    assert (stage.host.commands, stage.host.tools, stage.hooks.listeners()) == ({}, {}, {})


def test_nothing_is_loaded_that_is_not_enabled(stage: Stage, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    code = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\ndef register(ctx): ..."
    stage.plugin("mine", code)
    write_plugin(tmp_path / "bundled", "theirs", code)
    places = PluginPlaces(stage.folder, tmp_path / "bundled")
    assert stage.load(places=places) == ()
    assert stage.load("mine", disabled=("mine",), places=places) == ()
    assert not mark.exists()
    (outcome,) = stage.load("theirs", places=places)
    assert (outcome.origin, outcome.problem) == (PluginOrigin.BUNDLED, "")
    assert mark.exists()


def test_missing_enabled_plugin_is_reported(stage: Stage) -> None:
    (outcome,) = stage.load("ghost")
    assert outcome.origin is None
    assert stage.told == ["plugin ghost: it is in plugins.enabled, but there is no such plugin"]


def test_a_missing_variable_is_named_and_the_code_not_run(stage: Stage) -> None:
    stage.plugin("keyed", "raise SystemExit", "name: keyed\nrequires_env: [MY_KEY, {name: SPOT}]\n")
    (outcome,) = stage.load("keyed")
    assert outcome.problem == "set MY_KEY, SPOT (`hermes plugins enable keyed` asks for it)"


def test_variables_it_asks_for_are_made_visible(hermes_home: Path) -> None:
    stage = Stage(hermes_home, variables={"MY_KEY": "abc", "OTHER_KEY": "not asked for"})
    stage.plugin("keyed", GOOD, "name: keyed\nrequires_env: [MY_KEY]\n")
    assert [each.problem for each in stage.load("keyed")] == [""]
    assert stage.exported == {"MY_KEY": "abc"}


async def test_files_of_two_plugins_do_not_mix(stage: Stage) -> None:
    for name in ("one", "two"):
        place = stage.plugin(
            name,
            f"""
            from . import words

            def register(ctx):
                ctx.register_command("{name}", lambda text: words.SAID)
            """,
        )
        (place / "words.py").write_text(f"SAID = 'I am {name}'\n")
    stage.load("one", "two")
    assert await stage.host.commands["one"]("") == "I am one"
    assert await stage.host.commands["two"]("") == "I am two"


def test_loading_again_registers_again(hermes_home: Path) -> None:
    first = Stage(hermes_home)
    first.plugin("good", GOOD)
    for stage in (first, Stage(hermes_home)):
        stage.load("good")
        assert "good" in stage.host.commands


def test_unknown_hook_is_reported_and_the_rest_works(stage: Stage) -> None:
    stage.load_with(
        """
        def register(ctx):
            ctx.register_hook("pre_tool_cal", print)
            ctx.register_hook("on_session_start", print)
        """
    )
    assert stage.told == [
        "plugin probe: there is no hook 'pre_tool_cal'; did you mean pre_tool_call?"
    ]
    assert stage.hooks.listeners() == {HookName.ON_SESSION_START: ["probe"]}
