"""`hermes profile` as a user sees it."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes.cli.commands import profile
from hermes.cli.context import Cli, run_command
from hermes.cli.main import Parser, main
from hermes.config.home import Home, _in_force
from tests.cases import cases
from tests.unit.cli.terminal import Outcome, Terminal

CASES = cases(__file__)

Run = Callable[..., Outcome]


@pytest.fixture
def hermes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run `hermes profile …` in this process, with the home in the user's folder."""
    monkeypatch.delenv("HERMES_HOME")

    def call(*words: str) -> Outcome:
        code = main(["profile", *words])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    yield call
    _in_force.clear()


def test_a_profile_is_made_listed_chosen_and_deleted(hermes: Run, user_home: Path) -> None:
    assert hermes("list").out == "* default  ~/.hermes\n"
    assert not (user_home / ".hermes").exists()
    assert hermes("create", "work").code == 0
    assert hermes("use", "work").code == 0
    assert hermes("list").out == "  default  ~/.hermes\n* work     ~/.hermes/profiles/work\n"
    assert hermes("path").out == f"{user_home}/.hermes/profiles/work\n"
    assert hermes("path", "default").out == f"{user_home}/.hermes\n"
    outcome = hermes("delete", "-y", "work")
    assert "uses the default profile again" in outcome.out
    assert hermes("list").out == "* default  ~/.hermes\n"


def test_facts_are_there_for_scripts(hermes: Run) -> None:
    hermes("create", "work", "--no-alias")
    names = [entry["name"] for entry in json.loads(hermes("list", "--json").out)]
    assert names == ["default", "work"]
    assert json.loads(hermes("show", "work", "--json").out) == CASES["facts are there for scripts"]
    assert "settings   none yet" in hermes("show", "work").out


def test_a_clone_takes_the_settings_of_another(hermes: Run, user_home: Path) -> None:
    hermes("create", "work")
    profiles = user_home / ".hermes" / "profiles"
    (profiles / "work" / "config.yaml").write_text("timezone: UTC\n")
    assert "from work" in hermes("create", "copy", "--clone-from", "work").out
    assert (profiles / "copy" / "config.yaml").read_text() == "timezone: UTC\n"
    hermes("create", "bare", "--clone")
    assert list((profiles / "bare").iterdir()) == []


@pytest.mark.parametrize(("words", "message"), CASES["mistakes are one clear line"])
def test_mistakes_are_one_clear_line(hermes: Run, words: tuple[str, ...], message: str) -> None:
    hermes(*words).expect(2, err=message)


def test_deleting_without_a_terminal_needs_yes(hermes: Run, user_home: Path) -> None:
    hermes("create", "work")
    assert "needs --yes" in hermes("delete", "work").err
    assert (user_home / ".hermes" / "profiles" / "work").is_dir()


@pytest.mark.parametrize(("answer", "code", "left"), [("work", 0, False), ("y", 1, True)])
def test_a_person_is_asked_for_the_name(hermes: Run, answer: str, code: int, left: bool) -> None:
    hermes("create", "work")
    parser = Parser()
    profile.COMMAND.configure(parser)
    cli = Cli(Home.resolve(), Terminal(f"{answer}\n"), Terminal(), io.StringIO())
    assert run_command(parser.parse_args(["delete", "work"]), cli) == code
    assert Home.of_profile("work").root.is_dir() is left


def test_choice_overruled_by_the_variable_is_reported(hermes, monkeypatch, tmp_path):
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "h"))
    hermes("create", "work")
    assert "HERMES_HOME is set" in hermes("use", "work").err
