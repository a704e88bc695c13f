"""What a plugin can register, as it is documented, and what becomes of names that are taken."""

import argparse
import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from hermes.config.settings import Settings
from hermes.core.tool import Effect
from hermes.plugins.isolation import PluginFailed
from hermes.tools.registry import ToolRegistry
from tests.cases import cases
from tests.unit.plugins.stage import Stage

CASES = cases(__file__)


def test_a_tool_reaches_the_registry_and_runs(stage: Stage) -> None:
    stage.load_with(CASES["tool"])
    registration = stage.host.tools["add"]
    assert registration.pop("plugin") == "probe"
    assert registration["handler"]({"a": 1}, task_id="s1") == '{"sum": 2, "task": "s1"}'
    registry = ToolRegistry()
    registry.register(**registration)
    entry = registry.get("add")
    assert entry is not None
    assert (entry.toolset, entry.emoji, entry.unavailable(None)) == ("maths", "+", "")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        "ctx.register_tool('t', 'probe', {}, handler)",
        "ctx.register_tool('t', {}, handler)",
        "ctx.register_tool(name='t', schema={}, handler=handler)",
    ],
)
def test_the_older_form_of_register_tool_is_understood(stage: Stage, call: str) -> None:
    stage.load_with(f"def handler(args): return 'ok'\ndef register(ctx): {call}\n")
    registration = stage.host.tools["t"]
    assert (registration["toolset"], registration["schema"]) == ("probe", {})
    assert registration["handler"]({}, task_id="s", other="x") == "ok"


@pytest.mark.parametrize(("said", "effect"), [("", Effect.EXECUTE), ("effect='read'", Effect.READ)])
def test_tool_effect_defaults_to_the_most_dangerous(stage, said, effect):
    stage.load_with(f"def register(ctx): ctx.register_tool('t', 's', {{}}, print, {said})\n")
    registration = stage.host.tools["t"]
    registration.pop("plugin")
    registry = ToolRegistry()
    registry.register(**registration)
    entry = registry.get("t")
    assert entry is not None
    assert entry.make(SimpleNamespace(settings=Settings())).effect is effect


def test_unknown_effect_is_refused_with_the_valid_ones(stage: Stage) -> None:
    (outcome,) = stage.load_with(
        "def register(ctx): ctx.register_tool('t', 's', {}, print, effect='harmless')\n"
    )
    assert "effect 'harmless' is none of read, write, execute" in outcome.problem
    assert stage.host.tools == {}


@pytest.mark.parametrize(("schema", "problem"), CASES["schemas"])
def test_a_schema_that_endpoints_refuse_is_refused_when_it_is_registered(stage, schema, problem):
    (outcome,) = stage.load_with(
        f"""
        LOOP = {{}}
        LOOP["properties"] = {{"a": LOOP}}

        def register(ctx):
            ctx.register_tool("t", "set", {schema}, print)
        """
    )
    assert "register_tool('t')" in outcome.problem
    assert problem in outcome.problem
    assert stage.host.tools == {}


def test_a_plugin_cannot_change_a_schema_later(stage: Stage) -> None:
    """The start of every request has to stay the same, or no endpoint can cache it."""
    stage.load_with(
        """
        SCHEMA = {"parameters": {"type": "object", "properties": {"a": {}}}}

        def register(ctx):
            ctx.register_tool("t", "set", SCHEMA, print)
            SCHEMA["parameters"]["properties"].clear()
        """
    )
    assert stage.host.tools["t"]["schema"]["parameters"]["properties"] == {"a": {}}


async def test_an_async_handler_without_keywords_works(stage: Stage) -> None:
    stage.load_with(
        """
        async def handler(args, task_id):
            return task_id

        def register(ctx):
            ctx.register_tool("t", "set", {}, handler)
        """
    )
    handler = stage.host.tools["t"]["handler"]
    assert asyncio.iscoroutinefunction(handler)
    assert await handler({}, task_id="s1", other="x") == "s1"


@pytest.mark.parametrize(
    ("check", "usable", "told"),
    [
        ("lambda: True", True, ""),
        ("lambda: 0", False, ""),
        ("lambda: 1 / 0", False, "ZeroDivisionError"),
        ("lambda: exit(1)", False, "end the program"),
    ],
)
def test_a_check_that_fails_says_no(stage: Stage, check: str, usable: bool, told: str) -> None:
    stage.load_with(f"def register(ctx): ctx.register_tool('t', 's', {{}}, print, {check})\n")
    check_fn = stage.host.tools["t"]["check_fn"]
    assert (check_fn(), check_fn()) == (usable, usable)
    assert len(stage.told) == bool(told)
    assert all(told in text for text in stage.told)


@pytest.mark.parametrize(("handler", "answer"), CASES["slash_commands"])
async def test_a_slash_command_always_answers(stage: Stage, handler: str, answer: str) -> None:
    stage.load_with(CASES["slash_plugin"].replace("HANDLER", handler))
    assert await stage.host.commands["say"]("a b") == answer


async def test_a_slash_command_that_hangs_can_be_stopped(stage: Stage) -> None:
    stage.load_with(
        "import time\ndef register(ctx): ctx.register_command('w', lambda t: time.sleep(600))\n"
    )
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await stage.host.commands["w"]("")


def test_a_subcommand_parses_and_gives_an_exit_code(stage: Stage) -> None:
    stage.load_with(CASES["subcommand"])
    set_up, act = stage.host.cli["words"]
    parser = argparse.ArgumentParser()
    set_up(parser)
    codes = {word: act(parser.parse_args([word])) for word in ("three", "plain", "exit")}
    assert codes == {"three": 3, "plain": 0, "exit": 7}
    with pytest.raises(PluginFailed, match="`hermes words` of plugin probe failed: ValueError"):
        act(parser.parse_args(["fail"]))


def test_skill_path_is_relative_to_the_plugin(stage: Stage, tmp_path: Path) -> None:
    place = stage.plugin(
        "probe",
        f"""
        def register(ctx):
            ctx.register_skill("guide", "skills/guide")
            ctx.register_skill("other", {str(tmp_path / "other" / "SKILL.md")!r})
        """,
    )
    for folder in (place / "skills" / "guide", tmp_path / "other"):
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text("---\nname: guide\n---\n")
    stage.load("probe")
    assert stage.told == []
    assert stage.host.skills == {
        "probe:guide": place / "skills" / "guide",
        "probe:other": tmp_path / "other",
    }


def test_providers_and_messages_reach_the_program(stage: Stage) -> None:
    stage.load_with(CASES["providers"])
    assert stage.told == []
    assert [each.label for each in stage.host.platforms] == ["Pager"]
    assert [each.name for each in stage.host.providers] == ["elephant"]
    assert [each.name for each in stage.host.engines] == ["window"]
    assert [each.name for each in stage.host.terminals] == ["probe"]
    assert stage.host.messages == [("hello", "user"), ("careful", "system")]


def test_terminal_backend_has_the_name_of_its_plugin(stage: Stage) -> None:
    stage.load_with(
        """
        from hermes.sdk.terminal import TerminalManifest

        def register(ctx):
            ctx.register_terminal_backend(TerminalManifest(name="other", backend=print))
        """
    )
    assert "'other' does not have the name of its plugin, 'probe'" in stage.told[0]
    assert stage.host.terminals == []


TAKER = CASES["taker"]


async def test_a_name_of_another_plugin_is_refused_and_both_are_named(stage: Stage) -> None:
    stage.plugin("alpha", TAKER.replace("mine", "alpha's"))
    stage.plugin("beta", TAKER.replace("mine", "beta's"))
    stage.load("alpha", "beta")
    assert sorted(stage.told) == [
        f"plugin beta: its {thing} thing is left out: alpha has one already"
        for thing in ("command", "context engine", "memory provider", "subcommand", "tool")
    ]
    assert await stage.host.commands["thing"]("") == "alpha's"
    assert stage.host.tools["thing"]["plugin"] == "alpha"
    assert len(stage.host.providers) == len(stage.host.engines) == 1


@pytest.mark.parametrize(("call", "said"), CASES["builtin_names"])
def test_builtin_name_is_refused(stage: Stage, call: str, said: str) -> None:
    stage.load_with(f"def register(ctx): {call}\n")
    assert [said in text for text in stage.told] == [True]
    assert (stage.host.commands, stage.host.cli) == ({}, {})


@pytest.mark.parametrize("kind", ["context engine", "memory provider"])
def test_of_two_providers_of_a_kind_the_first_counts(stage, kind):
    stage.load_with(
        f"""
        class Thing:
            def __init__(self, name): self.name = name

        def register(ctx):
            for name in ("one", "one", "two"):
                ctx.register_{kind.replace(" ", "_")}(Thing(name))
        """
    )
    assert [each.name for each in stage.host.engines + stage.host.providers] == ["one"]
    assert stage.told == [
        f"plugin probe: its {kind} {name} is left out: probe has one already"
        for name in ("one", "two")
    ]


async def test_late_registration_takes_effect_at_once(stage: Stage) -> None:
    stage.load_with(
        """
        def register(ctx):
            ctx.register_command("more", lambda text: ctx.register_command(text, lambda t: "new"))
        """
    )
    assert await stage.host.commands["more"]("extra") == ""
    assert await stage.host.commands["extra"]("") == "new"
