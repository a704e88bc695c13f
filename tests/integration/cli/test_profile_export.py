"""Commands of profiles, other names, and profiles that travel."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run


@pytest.fixture
def bin_(user_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = user_home / ".local" / "bin"
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_a_new_profile_gets_a_command_that_starts_it(hermes, bin_, user_home):
    made = hermes("profile", "create", "works")
    assert "`works` starts Hermes with it (~/.local/bin/works)" in made.out
    assert stat.S_IMODE((bin_ / "works").stat().st_mode) == 0o755
    started = subprocess.run(
        ["works", "profile", "path"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HERMES_HOME": "/nowhere"},
    )
    assert started.stdout.strip() == str(user_home / ".hermes" / "profiles" / "works")
    assert hermes("profile", "show", "works", "--json").document["aliases"] == [
        "~/.local/bin/works"
    ]
    assert not (bin_ / "quiet").exists()
    hermes("profile", "create", "quiet", "--no-alias")
    assert not (bin_ / "quiet").exists()


def test_foreign_command_is_never_replaced(hermes: Run, bin_: Path) -> None:
    bin_.mkdir(parents=True)
    (bin_ / "works").write_text("#!/bin/sh\necho mine\n")
    hermes("profile", "create", "works").expect(
        err="no command was made: there is a command works already"
    )
    assert (bin_ / "works").read_text() == "#!/bin/sh\necho mine\n"
    assert "there is a command cat already" in hermes("profile", "create", "cat").err
    hermes("profile", "delete", "works", "-y")
    assert (bin_ / "works").exists()


def test_folder_missing_in_path_is_reported(hermes: Run) -> None:
    assert "~/.local/bin is not in PATH" in hermes("profile", "create", "works").err


def test_a_command_gets_another_name_and_goes(hermes: Run, bin_: Path) -> None:
    hermes("profile", "create", "works", "--no-alias")
    assert hermes("profile", "alias", "works", "--name", "ww").code == 0
    assert hermes("profile", "alias", "works").code == 0
    assert sorted(path.name for path in bin_.iterdir()) == ["works", "ww"]
    assert hermes("profile", "alias", "works", "--remove", "--name", "ww").code == 0
    assert hermes("profile", "alias", "works", "--remove").code == 0
    assert list(bin_.iterdir()) == []
    assert hermes("profile", "alias", "works", "--remove").code == 1
    assert hermes("profile", "alias", "works", "--name", "../evil").code == 2
    assert hermes("profile", "alias", "nope").code == 2


def test_a_profile_is_renamed_with_its_command_and_the_choice(hermes, bin_, hermes_home):
    hermes("profile", "create", "works")
    hermes("profile", "alias", "works", "--name", "ww")
    hermes("profile", "use", "works")
    (hermes_home / "profiles" / "works" / "SOUL.md").write_text("calm")
    assert hermes("profile", "rename", "works", "office").code == 0
    assert (hermes_home / "profiles" / "office" / "SOUL.md").read_text() == "calm"
    assert sorted(path.name for path in bin_.iterdir()) == ["office", "ww"]
    assert "-p office" in (bin_ / "ww").read_text()
    assert (hermes_home / "active_profile").read_text() == "office\n"
    hermes("profile", "create", "works")
    for words, message in (
        (("works", "office"), "exists already"),
        (("default", "x"), "cannot be renamed"),
        (("nope", "x"), "there is no profile"),
        (("works", "Bad Name"), "cannot be the name"),
        (("works", "default"), "exists already"),
    ):
        hermes("profile", "rename", *words).expect(2, err=message)
    hermes("profile", "delete", "office", "-y")
    assert sorted(path.name for path in bin_.iterdir()) == ["works"]


def test_a_profile_travels(hermes: Run, bin_: Path, hermes_home: Path, tmp_path: Path) -> None:
    hermes("profile", "create", "works")
    works = hermes_home / "profiles" / "works"
    (works / ".env").write_text("A=1\n")
    (works / "skills" / "x").mkdir(parents=True)
    (works / "skills" / "x" / "SKILL.md").write_text("x")
    (works / "logs").mkdir()
    (works / "logs" / "agent.log").write_text("noise")
    file = tmp_path / "works.zip"
    assert hermes("profile", "export", "works", "-o", str(file)).code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "exists already" in hermes("profile", "import", str(file)).err
    assert hermes("profile", "import", str(file), "--name", "copy").code == 0
    copy = hermes_home / "profiles" / "copy"
    assert (copy / ".env").read_text() == "A=1\n"
    assert (copy / "skills" / "x" / "SKILL.md").read_text() == "x"
    assert not (copy / "logs").exists()
    assert (bin_ / "copy").exists()
    hermes("profile", "delete", "works", "-y")
    assert hermes("profile", "import", str(file)).code == 0
    assert (works / ".env").exists()


def test_invalid_archive_creates_no_profile(hermes: Run, hermes_home: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_text("no")
    assert hermes("profile", "import", str(tmp_path / "bad.zip"), "--name", "x").code == 1
    hermes_home.mkdir(exist_ok=True)
    (hermes_home / "SOUL.md").write_text("calm")
    hermes("profile", "export", "default", "-o", str(tmp_path / "d.zip"))
    hermes("profile", "import", str(tmp_path / "d.zip")).expect(2, err="needs a name")
    assert not (hermes_home / "profiles").exists()


def test_a_clone_of_everything_has_its_own_sessions(hermes: Run, hermes_home: Path) -> None:
    hermes_home.mkdir()
    for name in ("config.yaml", "SOUL.md"):
        (hermes_home / name).write_text("a: 1\n")
    hermes("profile", "create", "all", "--clone-all", "--no-alias")
    assert (hermes_home / "profiles" / "all" / "SOUL.md").exists()


def test_the_version_says_where_it_runs(hermes: Run, hermes_home: Path) -> None:
    facts = hermes("version", "--json").document
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["home"] == str(hermes_home)
    assert "program" in facts
    assert hermes("version").out.startswith("hermes   ")
