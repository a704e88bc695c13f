import json

import pytest

from hermes.cli.commands.doctor import MARKS, PLAIN_MARKS, report
from hermes.config.home import Home
from hermes.ops.doctor.check import Outcome, ok, problem, warning
from hermes.tui.text import Paint, width
from tests.unit.cli.terminal import call


@pytest.fixture
def home(hermes_home):
    return Home(hermes_home)


def hermes_doctor(home, *arguments):
    """Exit code and stdout of `hermes doctor --offline ARGUMENTS`."""
    return call("doctor", home, "--offline", *arguments)[:2]


def test_a_new_user_has_no_problem_and_looking_makes_nothing(home):
    code, out = hermes_doctor(home)
    assert code == 0
    assert "0 problems" in out
    assert not home.root.exists()


def test_a_problem_is_the_exit_code_and_has_advice(home):
    home.root.mkdir(mode=0o700)
    home.config_file.write_text("timezone: Mars/Base\n")
    code, out = hermes_doctor(home)
    assert code == 1
    assert "✗ config.yaml: " in out
    message = " ".join(out.split())
    assert 'the name of a time zone, such as Europe/Berlin, found "Mars/Base"' in message


def test_unparsable_config_is_reported_and_the_other_checks_run(home):
    home.root.mkdir(mode=0o700)
    home.config_file.write_text("a: [\n")
    code, out = hermes_doctor(home)
    assert code == 1
    assert "✗ config.yaml:" in out and "skills:" in out


def test_unreadable_env_is_reported(home):
    home.root.mkdir(mode=0o700)
    home.env_file.mkdir()
    code, out = hermes_doctor(home)
    assert code == 1
    assert "✗ .env:" in out


def test_fix_says_what_it_did_and_touches_no_key(home):
    home.root.mkdir(mode=0o755)
    home.env_file.write_text("OPENAI_API_KEY=sk-short\n")
    home.env_file.chmod(0o644)
    before = home.env_file.read_text()
    _, out = hermes_doctor(home, "--fix")
    assert "permissions: ~/.hermes/.env now has mode 600" in out
    assert home.env_file.read_text() == before
    assert "OPENAI_API_KEY has only 8 characters" in out and "sk-short" not in out


def test_json_names_every_check(home):
    code, out = hermes_doctor(home, "--json")
    facts = json.loads(out)
    assert code == 0, out
    assert facts["ok"] is True
    assert facts["counts"]["problem"] == 0
    names = {check["name"] for check in facts["checks"]}
    assert {"python", "packages", "config.yaml", "model", "sessions", "skills"} <= names
    assert "endpoint" not in names
    (folder,) = (check for check in facts["checks"] if check["name"] == "folder")
    assert folder["findings"][0]["can_mend"] is True


def test_a_secret_in_a_finding_is_not_shown(home):
    home.root.mkdir(mode=0o700)
    home.env_file.write_text("MY_TOKEN=hunter22-hunter22\n")
    home.config_file.write_text("timezone: hunter22-hunter22\n")
    _, out = hermes_doctor(home)
    assert "hunter22" not in out
    assert "hunter22" not in hermes_doctor(home, "--json")[1]


OUTCOMES = [
    Outcome("Home", "folder", (ok("~/.hermes can be written to"),)),
    Outcome(
        "Home",
        "a name",
        (
            warning("漢字" * 30 + " wide \x1b[31mand coloured\x07", "do this " * 10, lambda: ""),
            problem("x" * 200, "advice"),
        ),
        fixed=("made it",),
    ),
]


@pytest.mark.parametrize("columns", [30, 40, 100])
def test_no_line_is_wider_than_the_terminal_or_steers_it(columns):
    lines = list(report(OUTCOMES, Paint(), columns, MARKS))
    assert max(map(width, lines)) <= columns
    assert "\x1b" not in "".join(lines)


def test_the_report_shows_levels_without_colours_and_without_unicode():
    text = "\n".join(report(OUTCOMES, Paint(), 60, PLAIN_MARKS))
    assert "  + folder:" in text and "  ! a name:" in text and "  x a name:" in text
    assert "  + a name: made it" in text
    assert "2 checks: 1 problem, 1 warning. `hermes doctor --fix`" in text
    well = [Outcome("Home", "folder", (ok("well"),))]
    assert list(report(well, Paint(), 60, MARKS))[-1] == "1 check: no problems."
