"""The command itself: cheap to start, honest about its arguments."""

import argparse
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hermes import cli
from hermes.cli.main import COMMANDS, main, parse, plugin_commands_help
from hermes.plugins.discovery import cache_commands
from tests.cases import cases

CASES = cases(__file__)

ALLOWED = {"hermes", "argparse", "yaml"}
"""Third-party and own packages that `--version` and `--help` may import."""

LIST_MODULES = CASES["list modules"]


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_the_cheap_answers_import_almost_nothing(flag):
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LIST_MODULES.format(path=sys.path), flag],
        capture_output=True,
        text=True,
        check=True,
    )
    modules = json.loads(done.stderr)
    packages = {name.partition(".")[0] for name in modules}
    foreign = packages - ALLOWED - set(sys.stdlib_module_names)
    assert foreign <= {"__main__"}
    assert "asyncio" not in modules
    assert len([name for name in modules if name.startswith("hermes")]) <= 9


def test_session_start_does_not_import_optional_packages():
    code = (
        "import sys, hermes.app.app, hermes.store.sqlite.backend\n"
        "from hermes.tools import registry\n"
        "registry.discover_builtin(registry.ToolRegistry()); print(*sys.modules)"
    )
    modules = set(subprocess.check_output([sys.executable, "-c", code], text=True).split())
    packages = {name.partition(".")[0] for name in modules}
    assert "apsw" in packages and "hermes.tools.builtin.patch" in modules
    assert not packages & {"ruamel", "jsonschema_rs", "wcwidth", "prompt_toolkit", "starlette"}
    assert not packages & {"httpx2", "html", "symtable", "tomllib", "zoneinfo"}
    late = {"injection.scanner", "web_pages", "editing.matching"}
    assert not [name for name in modules if name.endswith(tuple(late))]
    assert len([name for name in modules if name.startswith("hermes")]) <= 175


def test_the_version_is_one_line(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("hermes 0.")


def test_help_groups_the_commands_and_hides_rare_ones(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "\ntalk:\n  chat " in shown and "\nmaintenance:\n  status " in shown
    assert "hermes help --all" in shown
    for command in COMMANDS:
        assert (f"  {command.name} " in shown) is not command.rare
    assert shown.count("\n") < 60


@pytest.mark.parametrize("words", ["help --all", "--help --all"])
def test_help_all_names_every_command(capsys, words):
    assert main(words.split()) == 0
    shown = capsys.readouterr().out
    assert all(f"  {command.name} " in shown for command in COMMANDS)


@pytest.mark.parametrize("words", ["sessions list", "chat", "lab"])
def test_help_with_a_command_is_the_help_of_the_command(capsys, words):
    shown = []
    for argv in (["help", *words.split()], [*words.split(), "--help"]):
        with pytest.raises(SystemExit, match="0"):
            main(argv)
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] and shown[0].startswith(f"usage: hermes {words}")


def test_help_of_an_unknown_command_is_refused(capsys):
    assert main(["help", "confg"]) == 2
    assert "did you mean `hermes config`?" in capsys.readouterr().err


def test_help_has_no_default_texts_of_argparse_and_no_options_without_effect(capsys):
    for words in ("sessions", "chat", "mcp add"):
        with pytest.raises(SystemExit):
            main(["help", *words.split()])
    shown = capsys.readouterr().out
    for text in ("and exit", "positional", "\n  ACTION", "--pass-session-id", "--tui"):
        assert text not in shown
    assert parse(["--tui", "--pass-session-id"]).arguments == ["--tui", "--pass-session-id"]


@pytest.mark.parametrize(("words", "problem", "suggestion"), CASES["suggestions"])
def test_wrong_options_and_actions_get_a_suggestion(capsys, words, problem, suggestion):
    assert main(words.split()) == 2
    problem_line, hint = capsys.readouterr().err.splitlines()
    assert problem_line == f"hermes: {problem}"
    assert hint.strip() == suggestion


def test_every_command_and_action_has_help_and_no_text_is_left_over():
    def parsers(parser):
        yield parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for child in action.choices.values():
                    yield from parsers(child)

    found = {one.path: one for command in COMMANDS for one in parsers(command.parser())}
    texts = tomllib.loads((Path(cli.__file__).parent / "help.toml").read_text())
    assert texts.keys() <= found.keys()
    for path, parser in found.items():
        shown, wanted = parser.format_help(), texts.get(path, {})
        assert shown.startswith("usage: hermes ") and parser.description
        assert all(text.partition("\n")[0] in shown for text in wanted.values())


def test_help_of_a_command_ends_with_exit_code_0(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["logs", "--help"])
    assert "usage: hermes logs" in capsys.readouterr().out


@pytest.mark.parametrize(("argv", "command", "arguments", "profile"), CASES["options of hermes"])
def test_options_of_hermes_come_before_the_command(argv, command, arguments, profile):
    invocation = parse(argv)
    assert invocation.command is not None
    assert (invocation.command.name, invocation.arguments, invocation.profile) == (
        command,
        arguments,
        profile,
    )


@pytest.mark.parametrize(("line", "arguments"), CASES["options of the chat may come before its"])
def test_options_of_the_chat_may_come_before_its_name(line, arguments):
    invocation = parse(line.split())
    assert (invocation.command.name, invocation.arguments) == ("chat", arguments.split())


def test_options_of_the_chat_before_another_command_are_refused(capsys):
    assert main(["--yolo", "config", "show"]) == 2
    assert "--yolo is an option of `hermes chat`" in capsys.readouterr().err


def test_a_mistyped_command_is_guessed(capsys):
    assert main(["confg"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("hermes: there is no command 'confg'\n")
    assert "hermes config" in shown and 'hermes "…"' in shown


@pytest.mark.parametrize(("output", "code"), [("/dev/stdout", 3), ("/dev/full", 120)])
def test_the_command_ends_after_its_threads_handlers_and_output(output, code):
    shown = subprocess.run(
        [sys.executable, "-c", CASES["leaving"], output], capture_output=True, text=True
    )
    assert shown.returncode == code
    wanted = "answer, thread, handler" if code == 3 else ""
    assert shown.stdout == wanted


def test_older_exit_handlers_of_a_profiler_run():
    before = "import atexit, sys\natexit.register(sys.stdout.write, ', profile')\n"
    source = f"{before}sys.setprofile(lambda *_event: None)\n{CASES['leaving']}"
    shown = subprocess.run(
        [sys.executable, "-c", source, "/dev/stdout"], capture_output=True, text=True
    )
    assert shown.stdout == "answer, thread, handler, profile, freed"


BUG = """
import sys
from hermes.cli import main
main.parse = lambda _argv: 1 / 0
sys.exit(main.main([]))
"""


def test_a_bug_is_one_line_and_the_rest_is_in_the_log(hermes_home):
    done = subprocess.run(
        [sys.executable, "-I", "-c", BUG], capture_output=True, text=True, check=False
    )
    assert done.returncode == 70
    assert done.stderr.startswith("hermes: internal error: ZeroDivisionError")
    assert "Traceback" not in done.stderr
    assert "ZeroDivisionError" in (hermes_home / "logs" / "errors.log").read_text()


TWICE = CASES["twice"]


def test_a_second_interrupt_at_once_shows_no_traceback():
    """As when `timeout` hears Ctrl-C too, and sends it on."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", TWICE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "hermes: interrupted\n")


@pytest.mark.parametrize("settings", CASES["without extensions there is nothing to say"])
def test_without_extensions_there_is_nothing_to_say(hermes_home, settings):
    (hermes_home / "plugins" / "mine").mkdir(parents=True)
    (hermes_home / "plugins" / "mine" / "cli.py").touch()
    if settings is not None:
        (hermes_home / "config.yaml").write_text(settings)
    assert plugin_commands_help(None) == ""


def test_plugin_help_of_an_unknown_profile_is_empty() -> None:
    assert plugin_commands_help("nowhere") == ""


def test_commands_are_named_with_who_brings_them(hermes_home: Path) -> None:
    hermes_home.mkdir(exist_ok=True)
    (hermes_home / "config.yaml").write_text(
        "memory: {provider: honcho}\nplugins: {enabled: [alpha, beta, new]}\n"
    )
    cache_commands(hermes_home / "cache", {"alpha": ["one", "chat"], "beta": [], "gone": ["two"]})
    assert plugin_commands_help(None) == (
        "\nalso: honcho (memory provider), one (plugin alpha)\n"
        "\nmay add commands, listed here once loaded: new\n"
    )


@pytest.mark.parametrize("data", [b"[1", b'{"alpha": ["\xff"]}'])
def test_a_damaged_cache_is_as_none(hermes_home: Path, data: bytes) -> None:
    (hermes_home / "cache").mkdir(parents=True)
    (hermes_home / "cache" / "plugin-commands.json").write_bytes(data)
    (hermes_home / "config.yaml").write_text("plugins: {enabled: [alpha]}\n")
    assert plugin_commands_help(None).endswith("once loaded: alpha\n")
