"""Completion scripts in the shells they are for."""

import io
import shutil
import subprocess
from pathlib import Path

import pytest

from hermes.cli.commands.completion import COMMAND, entries
from hermes.cli.context import Cli, run_command
from hermes.cli.main import COMMANDS, Parser
from hermes.config.home import Home
from tests.cases import cases
from tests.screens.emulated import Emulated

CASES = cases(__file__)

PRINT_BASH = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_hermes
printf '%s\\n' "${COMPREPLY[@]}"
"""
LINES = [(line, set(words)) for line, words in CASES["lines"]]
"""What is typed before Tab, and what is offered."""
SESSIONS = """#!/bin/sh
[ "$*" = "-p work sessions list --json" ] || exit 1
printf '[\\n  {\\n    "id": "20260101_120000_abcdef01",\\n    "title": "x"\\n  }\\n]\\n'
"""


@pytest.fixture
def place(tmp_path: Path, hermes_home: Path) -> Path:
    """A folder with a file and a program that lists sessions in it; there are two profiles."""
    for name in ("work", "home"):
        (hermes_home / "profiles" / name).mkdir(parents=True)
    (tmp_path / "notes.zip").touch()
    (tmp_path / "hermes").write_text(SESSIONS)
    (tmp_path / "hermes").chmod(0o755)
    return tmp_path


def needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs {program}")
    return found


def script(shell: str, folder: Path) -> Path:
    """The script of a shell, in a file, which that shell can read."""
    parser, cli = Parser(prog="hermes completion"), io.StringIO()
    COMMAND.configure(parser)
    run_command(parser.parse_args([shell]), Cli(Home(folder), io.StringIO(), cli, io.StringIO()))
    assert f"completion of hermes, written by `hermes completion {shell}`" in cli.getvalue()
    file = folder / f"script.{shell}"
    file.write_text(cli.getvalue())
    subprocess.run([needs(shell), "-n", str(file)], check=True)
    return file


def offered(command: list[str], place: Path) -> set[str]:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return {line.partition("\t")[0].rstrip("/") for line in done.stdout.splitlines() if line}


def test_every_command_action_and_option_has_an_entry() -> None:
    found = dict(entries())
    assert found["hermes"].split() == [*(one.name for one in COMMANDS), "help"]
    assert found["hermes help"].split() == [*(one.name for one in COMMANDS), "--all"]
    assert {"hermes sessions list/", "hermes skills snapshot export/"} <= found.keys()
    options = {key: text.split() for key, text in found.items() if key.endswith(" -")}
    assert [key for key, names in options.items() if "--help" not in names] == []
    assert "--resume" in options["hermes -"]


def test_bash_offers_what_fits(place: Path) -> None:
    (place / "my old notes.zip").touch()
    file = str(script("bash", place))

    def in_bash(*typed: str) -> set[str]:
        return offered([needs("bash"), "--norc", "-c", PRINT_BASH, "bash", file, *typed], place)

    found = {line: in_bash(*line.split(" ")) for line, _ in LINES}
    assert {line: words for line, words in found.items() if words != dict(LINES)[line]} == {}
    # bash gives an equals sign as a word of its own
    assert in_bash("hermes", "logs", "--level", "=", "ERR") == {"ERROR"}
    assert "ERROR" in in_bash("hermes", "logs", "--level", "=")
    assert in_bash("hermes", "profile", "import", "my") == {"my old notes.zip"}


def test_fish_offers_what_fits(place: Path) -> None:
    file = script("fish", place)
    found = {
        line: offered(
            [needs("fish"), "--no-config", "-c", f"source {file}; complete -C '{line}'"], place
        )
        for line, _ in LINES
    }
    assert {line: words for line, words in found.items() if words != dict(LINES)[line]} == {}


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


def test_zsh_completes_commands_options_and_values(place: Path) -> None:
    shell = Zsh(script("zsh", place), place)
    wanted = CASES["zsh completes commands options and values"]
    try:
        assert {typed: shell.completed(typed) for typed in wanted} == wanted
    finally:
        shell.close()
