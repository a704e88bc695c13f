"""`hermes skills` without anything installed, and without a network."""

from pathlib import Path

import pytest

from hermes.cli.main import find_entry
from hermes.config.home import Home
from hermes.core.errors import UsageError
from hermes.skills.hub.contents import HubError
from tests.unit.cli.terminal import call


def hermes_skills(home: Path, *arguments: str) -> tuple[int, str, str]:
    return call("skills", Home(home), *arguments)


def test_skills_is_a_command() -> None:
    assert find_entry("skills") is not None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("check",), "nothing is installed from the hub\n"),
        (("update",), "nothing is installed from the hub\n"),
        (("audit",), "nothing is installed from the hub\n"),
        (("quarantine",), "nothing is in quarantine\n"),
        (("tap", "list"), "no taps: `hermes skills tap add owner/repo`\n"),
        (("list", "--source", "hub"), "no such skills\n"),
    ],
)
def test_commands_without_skills_succeed_and_create_nothing(hermes_home, arguments, says):
    assert hermes_skills(hermes_home, *arguments) == (0, says, "")
    assert not hermes_home.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("uninstall", "pdf", "--yes"),
        ("update", "pdf"),
        ("reset", "pdf"),
        ("view", "pdf"),
        ("install", "pdf"),
        ("install", "clawhub/pdf"),
        ("inspect", "./nothing"),
        ("publish", "nothing", "--repo", "o/r"),
        ("publish", ".", "--repo", "word"),
        ("snapshot", "import", "nothing.tar.gz"),
        ("snapshot", "export", "no/folder/x.tar.gz"),
        ("tap", "remove", "o/r"),
        ("config", "no.such"),
    ],
)
def test_a_mistake_is_one_line_with_a_way_on(hermes_home: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises((UsageError, HubError)) as mistake:
        hermes_skills(hermes_home, *arguments)
    assert "\n" not in str(mistake.value)
    assert mistake.value.exit_code == 2


def test_install_reports_that_the_skill_stays_hidden(hermes_home: Path, tmp_path: Path) -> None:
    head = "---\nname: mine\ndescription: What it does.\nplatforms: [windows]\n---\nDo it.\n"
    (tmp_path / "SKILL.md").write_text(head)
    code, _, notes = hermes_skills(hermes_home, "install", str(tmp_path), "--yes")
    assert (code, notes) == (0, "it stays hidden here: only for windows\n")


def test_a_folder_is_installed_and_listed(hermes_home: Path, tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: mine\ndescription: What it does.\n---\nDo it.\n")
    with pytest.raises(UsageError, match="--yes"):
        hermes_skills(hermes_home, "install", str(tmp_path))
    code, out, _ = hermes_skills(hermes_home, "install", str(tmp_path), "--yes")
    assert (code, "scan:     nothing suspicious" in out) == (0, True)
    assert "mine [hub, community] What it does." in hermes_skills(hermes_home, "list")[1]
