"""`hermes approvals` as a user sees it."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.cli.main import main
from tests.unit.cli.terminal import Outcome

Run = Callable[..., Outcome]


@pytest.fixture
def hermes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `hermes approvals …` in this process."""

    def call(*words: str, stdin: str | bytes = "") -> Outcome:
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        code = main(["approvals", *words])
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def settings(hermes_home: Path) -> Path:
    hermes_home.mkdir()
    return hermes_home / "config.yaml"


def verdicts(outcome: Outcome) -> list[dict[str, object]]:
    return [json.loads(line) for line in outcome.out.splitlines()]


def test_a_command_is_explained(hermes: Run) -> None:
    outcome = hermes("test", "sudo rm -r build").expect()
    assert outcome.out.splitlines() == [
        "verdict   ask",
        "class     privileges, recursive delete",
        "reason    runs with the rights of another user",
        "reason    deletes folders with everything in them",
        "programs  sudo, rm",
    ]
    assert hermes("test", "git status").out == "verdict   allow\nprograms  git\n"


def test_json_holds_everything(hermes: Run) -> None:
    (found,) = verdicts(hermes("test", "--json", "rm -rf /"))
    assert found["command"] == "rm -rf /"
    assert (found["verdict"], found["class"]) == ("refuse", "disk wipe")
    assert found["classes"][0] == "disk wipe"
    assert found["reason"].startswith("deletes the system or the whole home folder")
    assert found["reasons"][0] == "deletes the system or the whole home folder"
    assert found["programs"] == ["rm"]


def test_standard_input_is_answered_line_by_line(hermes: Run) -> None:
    lines = ["ls", '"cd /tmp\\nrm -rf x"', '"not json', '"a" b', "", "sudo ls\r", "rm -rf ~"]
    outcome = hermes("test", "--json", "-", stdin="\n".join(lines)).expect()
    found = verdicts(outcome)
    assert [each["verdict"] for each in found] == [
        "allow", "ask", "ask", "allow", "allow", "ask", "refuse",
    ]  # fmt: skip
    assert [each["command"] for each in found][1:4] == ["cd /tmp\nrm -rf x", '"not json', '"a" b']


def test_without_json_each_line_is_one_line(hermes: Run) -> None:
    outcome = hermes("test", "-", stdin='ls\n"sudo\\nls"\n')
    assert [line.split() for line in outcome.out.splitlines()] == [
        ["allow", "-", "ls"],
        ["ask", "privileges", "sudo", "ls"],
    ]


def test_invalid_utf8_does_not_stop_the_command(hermes: Run) -> None:
    found = verdicts(hermes("test", "--json", "-", stdin=b"ls\n\xff\xfe\nrm -r x\n"))
    assert [each["verdict"] for each in found] == ["allow", "ask", "ask"]


def test_thousands_of_lines_are_answered(hermes: Run) -> None:
    outcome = hermes("test", "--json", "-", stdin="ls -la src | wc -l\n" * 3_000)
    assert len(outcome.out.splitlines()) == 3_000


def test_the_folder_counts(hermes: Run, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    assert "allow" in hermes("test", "echo x > link/hosts", "--cwd", "/").out
    assert "system files" in hermes("test", "echo x > link/hosts", "--cwd", str(tmp_path)).out


def test_a_folder_that_is_not_there_is_an_error(hermes: Run) -> None:
    outcome = hermes("test", "ls", "--cwd", "/no/such/folder")
    assert (outcome.code, outcome.out) == (2, "")
    assert "is not a folder" in outcome.err


@pytest.mark.parametrize("words", [("test",), ("test", "ls", "-la"), ("forget",), ("nothing",)])
def test_bad_usage_is_an_error(hermes: Run, words: tuple[str, ...]) -> None:
    outcome = hermes(*words).expect(2)
    assert outcome.err.startswith("hermes: ")


LISTED = 'command_allowlist: ["Recursive delete "]\n'
LIFTED = 'approvals: {mode: "off"}\ncommand_allowlist: ["disk wipe", "own policy"]\n'


@pytest.mark.parametrize(
    ("text", "command", "verdict", "reason"),
    [
        (LISTED, "rm -r build", "allow", "covered by command_allowlist"),
        (LISTED, "sudo rm -r build", "ask", "runs with the rights of another user"),
        ('approvals: {mode: "off"}\n', "rm -r build", "allow", "approvals.mode is off"),
        ('approvals: {mode: "deny"}\n', "rm -r build", "refuse", "approvals.mode is deny"),
        (LIFTED, "rm -rf /", "refuse", "deletes the system or the whole home folder"),
    ],
)
def test_settings_lift_a_question_but_never_a_refusal(
    hermes, settings, text, command, verdict, reason
):
    settings.write_text(text)
    (found,) = verdicts(hermes("test", "--json", command))
    assert found["verdict"] == verdict and found["reason"].startswith(reason)
    assert reason in hermes("test", command).out


def test_our_own_settings_are_known_by_their_place(hermes: Run, hermes_home: Path) -> None:
    (found,) = verdicts(hermes("test", "--json", f"echo x >> {hermes_home}/config.yaml"))
    assert (found["verdict"], found["class"]) == ("refuse", "own policy")


def test_broken_settings_are_an_error(hermes: Run, settings: Path) -> None:
    settings.write_text("approvals: [")
    outcome = hermes("test", "ls")
    assert (outcome.code, outcome.out) == (3, "")


def test_the_list_shows_mode_and_what_is_allowed(hermes: Run, settings: Path) -> None:
    assert "nothing is always allowed" in hermes("list").out
    settings.write_text('approvals: {timeout: 30}\ncommand_allowlist: ["shell -c", "privileges"]\n')
    shown = hermes("list").out
    assert "manual" in shown and "30 s" in shown
    assert "1  -  everything of the class 'shell -c' everywhere" in shown
    assert "2  -  everything of the class 'privileges' everywhere" in shown
    assert json.loads(hermes("list", "--json").out) == {
        "mode": "manual",
        "timeout": 30,
        "command_allowlist": ["shell -c", "privileges"],
        "rules": [],
    }


def test_the_classes_are_listed_with_their_reasons(hermes: Run) -> None:
    shown = hermes("classes").out.splitlines()
    names = [line.partition("  ")[0] for line in shown]
    assert names == sorted(names)
    assert {"recursive delete", "own policy", "unreadable command", "shell -c"} <= set(names)
    (own,) = (line for line in shown if line.startswith("own policy"))
    assert own.endswith("(always refused)")
    found = json.loads(hermes("classes", "--json").out)
    assert [each["class"] for each in found] == names
    assert {each["class"] for each in found if each["refused"]} == {
        "disk wipe", "fork bomb", "own files", "own policy",
    }  # fmt: skip


def test_a_class_can_be_forgotten(hermes: Run, settings: Path) -> None:
    settings.write_text(
        "# mine\ncommand_allowlist:\n- shell -c\n- privileges # careful\n- Shell -c\n"
    )
    outcome = hermes("forget", "shell -C")
    assert (outcome.code, outcome.err) == (0, "")
    assert settings.read_text() == "# mine\ncommand_allowlist:\n- privileges # careful\n"
    assert "privileges" in hermes("list").out
    assert hermes("forget", "privileges").code == 0
    assert "nothing is always allowed" in hermes("list").out
    hermes("forget", "shell -c").expect(2, err="is not in command_allowlist")


RULES = """\
command_allowlist: [privileges]
approvals:
  rules:
  - {classes: [recursive delete], folder: FOLDER, date: 2030-01-31, reason: deletes folders}
  - {classes: [history rewriting], tool: terminal, arguments: [git, push, -f], folder: FOLDER}
  - {classes: [recursive delete], tool: terminal, command: rm -rf ../x, folder: FOLDER}
"""


@pytest.fixture
def ruled(settings: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    settings.write_text(RULES.replace("FOLDER", str(folder)))
    return folder


def test_rules_are_listed_with_number_scope_folder_and_date(hermes: Run, ruled: Path) -> None:
    lines = hermes("list").out.splitlines()[2:]
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4"]
    assert (
        f"2030-01-31  everything of the class 'recursive delete' in {ruled} and below" in lines[1]
    )
    assert f"terminal: git push -f in {ruled} and below" in lines[2]
    assert f"terminal: exactly rm -rf ../x in {ruled}" in lines[3]
    assert len(json.loads(hermes("list", "--json").out)["rules"]) == 3


@pytest.mark.parametrize(
    ("command", "below", "rule"),
    [
        ("rm -rf build", "", 2),
        ("rm -rf build", "sub", 2),
        ("rm -rf ../other", "", 0),
        ("cd / && rm -rf build", "", 0),
        ("rm -rf ../x", "", 4),
        ("rm -rf ../x", "sub", 0),
        ("git  push '-f'", "sub", 3),
        ("git push -f origin", "", 0),
        ("FOO=1 git push -f", "", 0),
        ("git push -f; rm -rf ~/x", "", 0),
        ("sudo true", "", 1),
        ("sudo rm -rf build", "", 2),
    ],
)
def test_a_rule_is_found_for_a_command(
    hermes: Run, ruled: Path, command: str, below: str, rule: int
) -> None:
    (ruled / below).mkdir(exist_ok=True)
    shown = hermes("explain", command, "--cwd", str(ruled / below)).out
    assert (f"rule {rule}:" in shown) if rule else ("no rule allows this" in shown)
    (found,) = verdicts(hermes("test", "--json", command, "--cwd", str(ruled / below)))
    assert found["verdict"] == ("allow" if rule else "ask")


def test_a_rule_is_explained_and_removed(hermes: Run, ruled: Path, settings: Path) -> None:
    shown = hermes("explain", "2").out
    assert "deletes folders" in shown and "2030-01-31" in shown and str(ruled) in shown
    assert "recursive delete" in hermes("remove", "2").out
    assert len(load_rules(hermes)) == 2
    hermes("remove", "1").expect(0)
    assert "privileges" not in settings.read_text()
    assert [each.get("arguments") for each in load_rules(hermes)] == [["git", "push", "-f"], []]


def load_rules(hermes: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(hermes("list", "--json").out)["rules"]
    return found


@pytest.mark.parametrize("number", ["0", "5", "-1", "x"])
def test_a_rule_that_does_not_exist_is_an_error(hermes: Run, ruled: Path, number: str) -> None:
    assert ruled.is_dir()
    hermes("remove", "--", number).expect(2, err="there is no rule")
    hermes("explain", "7").expect(2, err="there is no rule")


def test_what_needs_no_rule_or_cannot_have_one_is_said(hermes: Run) -> None:
    assert "is not asked about" in hermes("explain", "ls").out
    assert "no rule can allow this" in hermes("explain", "rm -rf /").out
    shown = hermes("explain", "rm -rf build").out
    names = [line.split()[0] for line in shown.splitlines()[1:]]
    assert names == ["command", "arguments", "folder", "everywhere"]
