"""Completion scripts in the shells they are for."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.cli import registry
from hermes.cli.completion import bash, fish, zsh
from hermes.cli.completion.tree import CommandNode, build_tree
from tests.screens.emulated import Emulated

PRINT_BASH = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_hermes
printf '%s\\n' "${COMPREPLY[@]}"
"""
LINES = (
    (("hermes", "prof"), {"profile"}),
    (("hermes", "sessions", "ren"), {"rename"}),
    (("hermes", "-p", "work", "sessions", "ren"), {"rename"}),
    (("hermes", "--profile", "work", "--resu"), {"--resume"}),
    (("hermes", "logs", "--le"), {"--level"}),
    (("hermes", "logs", "--level", "WAR"), {"WARNING"}),
    (("hermes", "logs", "-n", "5", "err"), {"errors"}),
    (("hermes", "logs", "agent", "err"), set()),
    (("hermes", "auth", "add", "--type", "o"), {"oauth"}),
    (("hermes", "auth", "add", "openr"), {"openrouter"}),
    (("hermes", "config", "set", "terminal.time"), {"terminal.timeout"}),
    (("hermes", "profile", "use", ""), {"default", "work", "home"}),
    (("hermes", "-p", "w"), {"work"}),
    (("hermes", "profile", "create", "w"), set()),
    (("hermes", "profile", "create", "--clone-f"), {"--clone-from"}),
    (("hermes", "profile", "import", "not"), {"notes.zip"}),
    (("hermes", "skills", "snap"), {"snapshot"}),
    (("hermes", "skills", "snapshot", "ex"), {"export"}),
    (("hermes", "chat", "-q", "prof"), set()),
    (("hermes", "chat", "-Q", "prof"), set()),
    (("hermes", "nothing", "of", "this"), set()),
)
"""What is typed before Tab, and what is offered."""


@pytest.fixture(scope="module")
def tree() -> CommandNode:
    return build_tree()


@pytest.fixture(scope="module")
def scripts(tree: CommandNode, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    for shell in (bash, zsh, fish):
        name = shell.__name__.rpartition(".")[2]
        (folder / f"hermes.{name}").write_text(shell.script(tree))
    return folder


@pytest.fixture
def place(tmp_path: Path, hermes_home: Path) -> Path:
    """A folder with a file in it; there are two profiles."""
    for name in ("work", "home"):
        (hermes_home / "profiles" / name).mkdir(parents=True)
    (tmp_path / "notes.zip").touch()
    return tmp_path


def needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs {program}")
    return found


def words(text: str) -> set[str]:
    return {line.partition("\t")[0].rstrip("/") for line in text.splitlines() if line}


def in_bash(script: Path, place: Path, *typed: str) -> set[str]:
    command = [needs("bash"), "--norc", "-c", PRINT_BASH, "bash", str(script), *typed]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return words(done.stdout)


def in_fish(script: Path, place: Path, *typed: str) -> set[str]:
    line = " ".join(typed)
    command = [needs("fish"), "--no-config", "-c", f"source {script}; complete -C '{line}'"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return words(done.stdout)


def test_every_command_action_and_option_is_in_the_tree(tree: CommandNode) -> None:
    assert [child.name for child in tree.children] == [one.name for one in registry.COMMANDS]
    paths = {node.path: node for node in tree.all()}
    assert {"hermes sessions list", "hermes skills snapshot export"} <= set(paths)
    for node in paths.values():
        assert any("--help" in option.names for option in node.options), node.path
    assert any("--resume" in option.names for option in tree.options)


@pytest.mark.parametrize(
    ("typed", "offered"),
    LINES,
    ids=lambda part: " ".join(sorted(part) if isinstance(part, set) else part),
)
def test_bash_offers_what_fits(
    scripts: Path, place: Path, typed: tuple[str, ...], offered: set[str]
) -> None:
    assert in_bash(scripts / "hermes.bash", place, *typed) == offered


@pytest.mark.parametrize(
    ("typed", "offered"),
    LINES,
    ids=lambda part: " ".join(sorted(part) if isinstance(part, set) else part),
)
def test_fish_offers_what_fits(
    scripts: Path, place: Path, typed: tuple[str, ...], offered: set[str]
) -> None:
    assert in_fish(scripts / "hermes.fish", place, *typed) == offered


def test_bash_takes_a_value_after_an_equals_sign(scripts: Path, place: Path) -> None:
    """Which bash hands over as words of their own."""
    script = scripts / "hermes.bash"
    assert in_bash(script, place, "hermes", "logs", "--level", "=", "ERR") == {"ERROR"}
    assert "ERROR" in in_bash(script, place, "hermes", "logs", "--level", "=")
    assert in_fish(scripts / "hermes.fish", place, "hermes", "logs", "--level=ERR") == {
        "--level=ERROR"
    }


def test_names_with_spaces_are_offered_as_one(scripts: Path, place: Path) -> None:
    (place / "my old notes.zip").touch()
    found = in_bash(scripts / "hermes.bash", place, "hermes", "profile", "import", "my")
    assert found == {"my old notes.zip"}


SESSIONS = """#!/bin/sh
[ "$*" = "-p work sessions list --json" ] || exit 1
printf '[\\n  {\\n    "id": "20260101_120000_abcdef01",\\n    "title": "x"\\n  }\\n]\\n'
"""


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_sessions_come_from_the_program_with_its_profile(
    scripts: Path, place: Path, shell: str
) -> None:
    program = place / "hermes"
    program.write_text(SESSIONS)
    program.chmod(0o755)
    ask: Callable[..., set[str]] = {"bash": in_bash, "fish": in_fish}[shell]
    typed = (str(program), "-p", "work", "sessions", "show", "2026")
    assert ask(scripts / f"hermes.{shell}", place, *typed) == {"20260101_120000_abcdef01"}


class Zsh(Emulated):
    def __init__(self, script: Path, place: Path) -> None:
        super().__init__([needs("zsh"), "-f", "-i"], place, columns=100, PS1="> ", TERM="xterm")
        self.sees(">")
        self.say(
            f"autoload -U compinit; compinit -u -d {place}/dump; source {script}; echo rea''dy"
        )
        self.sees("ready")

    def completed(self, typed: str) -> str:
        """The line after Tab was pressed."""
        self.press("ctrl-u")
        self.type(typed)
        self.press("tab")
        self.settled(0.5)
        return self.lines[self.screen.cursor.y].removeprefix("> ").rstrip()


def test_zsh_completes_commands_options_and_values(scripts: Path, place: Path) -> None:
    shell = Zsh(scripts / "hermes.zsh", place)
    try:
        for typed, completed in (
            ("hermes prof", "hermes profile"),
            ("hermes -p work sessions ren", "hermes -p work sessions rename"),
            ("hermes logs --le", "hermes logs --level"),
            ("hermes logs --level WAR", "hermes logs --level WARNING"),
            ("hermes logs --level=WAR", "hermes logs --level=WARNING"),
            ("hermes logs -n 5 err", "hermes logs -n 5 errors"),
            ("hermes -p wo", "hermes -p work"),
            ("hermes profile import not", "hermes profile import notes.zip"),
            ("hermes config set terminal.time", "hermes config set terminal.timeout"),
            ("hermes --resu", "hermes --resume"),
        ):
            assert shell.completed(typed) == completed
        shell.press("ctrl-u")
        shell.type("hermes profile re")
        shell.press("tab", "tab")
        shell.sees("rename")
    finally:
        shell.close()


def test_zsh_shows_what_a_choice_is_for(scripts: Path, place: Path) -> None:
    shell = Zsh(scripts / "hermes.zsh", place)
    try:
        shell.press("ctrl-u")
        shell.type("hermes profile ")
        shell.press("tab", "tab")
        shell.sees("delete a profile and all its data")
    finally:
        shell.close()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_command_prints_a_script_that_the_shell_can_read(shell: str, tmp_path: Path) -> None:
    program = needs(shell)
    done = subprocess.run(
        [sys.executable, "-c", f"{RUN}run({shell!r})"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    file = tmp_path / "script"
    file.write_text(done.stdout)
    checked = subprocess.run(
        [program, "-n", str(file)], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    assert re.search(rf"completion of hermes, written by `hermes completion {shell}`", done.stdout)


RUN = """
from hermes.cli.commands import completion
from hermes.cli.context import Cli
from hermes.cli.main import Parser
def run(shell):
    parser = Parser(prog="hermes completion")
    completion.COMMAND.configure(parser)
    completion.COMMAND.run(parser.parse_args([shell]), Cli.open(None))
"""
