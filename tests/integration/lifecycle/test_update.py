"""`hermes update` on real repositories and environments."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hermes import __version__
from tests.integration.lifecycle.conftest import CALM, Place, git

BROKEN = "raise SystemExit('this version is broken')\n"
SLOW_SERVER = """#!/bin/sh
touch started
while [ ! -e go ]; do sleep 0.1; done
exec git-upload-pack "$@"
"""
OTHER_PACKAGES = {"requirements.lock": "# other packages\n"}


def test_update_reports_that_hermes_is_up_to_date(place: Place) -> None:
    outcome = place.update()
    assert (outcome.returncode, outcome.stdout) == (0, f"Hermes {__version__} is up to date\n")


def test_a_check_shows_what_would_come_and_changes_nothing(place: Place) -> None:
    place.publish("1.1")
    commit = place.publish("1.2")
    before = place.state()
    outcome = place.update("--check")
    assert outcome.returncode == 10
    assert "→ 1.2: 2 commits from origin/main" in outcome.stdout
    assert "- 1.1 is better." in outcome.stdout
    assert place.state() == before
    news = json.loads(place.update("--check", "--json").stdout)["news"]
    assert (news["target"], news["version"]) == (commit, "1.2")
    assert news["commits"] == ["feat: version 1.2", "feat: version 1.1"]


def test_an_update_with_the_same_packages_and_back(place: Place) -> None:
    before = place.state()
    commit = place.publish("1.1", {"new.txt": "new"})
    outcome = place.update()
    assert outcome.returncode == 0, outcome.stderr
    assert place.state() == (commit, "", "1.1")
    assert (place.root / "new.txt").exists()
    back = place.update("--rollback")
    assert back.returncode == 0, back.stderr
    assert "back at 1.0" in back.stdout
    assert place.state() == before
    assert not (place.root / "new.txt").exists()
    assert "no earlier version" in place.update("--rollback").stderr
    assert place.update().returncode == 0
    assert place.version == "1.1"


def environment_mark(place: Place) -> Path:
    """A file of the environment in use, to tell it from another."""
    return place.root / ".venv" / "mark"


def test_other_packages_get_an_environment_of_their_own(place: Place) -> None:
    environment_mark(place).touch()
    place.publish("1.1", OTHER_PACKAGES)
    outcome = place.update()
    assert outcome.returncode == 0, outcome.stderr
    assert "needs other packages" in outcome.stderr
    assert place.version == "1.1"
    assert place.start("--version").stderr == ""
    assert not environment_mark(place).exists()
    assert not (place.root / ".cache" / "update" / "tree").exists()
    assert git(place.root, "worktree", "list").count("\n") == 0
    assert place.update("--rollback").returncode == 0
    assert place.version == "1.0"
    assert place.start("--version").stderr == ""
    assert environment_mark(place).exists()
    assert list((place.root / ".cache" / "update").glob("env-*")) == []


@pytest.mark.parametrize(
    "files",
    [
        {"src/hermes/cli/main.py": BROKEN},
        {"src/hermes/cli/main.py": BROKEN, **OTHER_PACKAGES},
        {"requirements.lock": f"nothing-has-this-name==1.0 --hash=sha256:{'0' * 64}\n"},
        {"scripts/setup.sh": "exit 1\n", **OTHER_PACKAGES},
    ],
    ids=["program", "program and packages", "packages", "set-up"],
)
def test_a_version_that_does_not_work_is_not_switched_to(place, files):
    environment_mark(place).touch()
    before = place.state()
    place.publish("1.1", files)
    outcome = place.update(PIP_NO_INDEX="1", UV_OFFLINE="1")
    assert outcome.returncode == 1
    assert "the new version is not used" in outcome.stderr
    assert place.state() == before
    assert environment_mark(place).exists()
    assert "no earlier version" in place.update("--rollback").stderr


def test_the_new_environment_gets_the_extras_of_the_old_one(place: Place, tmp_path: Path) -> None:
    stamp = place.root / ".venv" / "hermes" / "stamp"
    stamp.write_text(f"{place.root}\nrequirements.lock\notel slack\n")
    record = f'echo "$@" >"{tmp_path}/words"\nexit 1\n'
    place.publish("1.1", {"scripts/setup.sh": record, **OTHER_PACKAGES})
    assert place.update().returncode == 1
    words = (tmp_path / "words").read_text()
    assert words == "requirements.lock --extra otel --extra slack\n"


def test_changes_of_yours_are_never_lost(place: Place) -> None:
    place.publish("1.1", {"new.txt": "new"})
    (place.root / "CHANGELOG.md").write_text("mine")
    refused = place.update()
    assert refused.returncode == 1
    assert "files were changed here: CHANGELOG.md" in refused.stderr and "git -C" in refused.stderr
    assert "stash" in refused.stderr
    assert (place.root / "CHANGELOG.md").read_text() == "mine"
    git(place.root, "checkout", "-q", "CHANGELOG.md")
    (place.root / "new.txt").write_text("mine")
    assert "new.txt conflicts with a file of the new version" in place.update().stderr
    assert (place.root / "new.txt").read_text() == "mine"
    assert place.version == "1.0"


def test_commits_of_yours_are_named(place: Place) -> None:
    place.publish("1.1")
    git(place.root, "commit", "-q", "--allow-empty", "-m", "mine")
    outcome = place.update()
    assert outcome.returncode == 1
    assert "commits here that origin/main does not have" in outcome.stderr


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda place: shutil.rmtree(place.upstream), "nothing was changed"),
        (
            lambda place: git(place.root, "remote", "set-url", "origin", "http://127.0.0.1:9/x"),
            "origin cannot be reached",
        ),
        (lambda place: git(place.root, "checkout", "-q", "--detach"), "is on no branch"),
        (
            lambda place: git(place.root, "branch", "-q", "--unset-upstream"),
            "follows no other branch",
        ),
    ],
    ids=["gone", "offline", "detached", "alone"],
)
def test_missing_requirement_is_reported_in_one_line(place: Place, break_it, message: str) -> None:
    break_it(place)
    outcome = place.update()
    assert outcome.returncode == 1
    assert message in outcome.stderr and "Traceback" not in outcome.stderr


def test_two_updates_do_not_meet(place: Place) -> None:
    place.publish("1.1")
    hook = place.upstream / "slow"
    hook.write_text(SLOW_SERVER)
    hook.chmod(0o755)
    settings = place.upstream / "settings"  # of the user: those of the checkout start no program
    settings.write_text(f'[remote "origin"]\nuploadpack = {hook}\n')
    first = subprocess.Popen(
        place.update_command(),
        cwd=place.upstream,
        env={**os.environ, **CALM, "GIT_CONFIG_GLOBAL": str(settings)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    started = place.root / "started"
    while not started.exists():
        assert first.poll() is None, first.communicate()
        time.sleep(0.05)
    second = place.update()
    assert second.returncode == 1
    assert "another update of this checkout is running" in second.stderr
    (place.root / "go").touch()
    out, err = first.communicate()
    assert first.returncode == 0, out + err
    assert place.version == "1.1"


@pytest.mark.parametrize("step", [3, 5, 6, 9])
def test_a_kill_while_it_switches_brings_the_old_version_back_or_leaves_the_new(place, step):
    environment_mark(place).touch()
    before = place.state()
    commit = place.publish("1.1", {"new.txt": "new", **OTHER_PACKAGES})
    outcome = place.update(KILL_AT=str(step))
    assert outcome.returncode in (-signal.SIGKILL, 0), outcome.stderr
    after = place.state()
    assert after in (before, (commit, "", "1.1"))
    assert environment_mark(place).exists() is (after == before)
    assert place.start("--version").stderr == ""
    assert not (place.root / ".cache" / "update" / "undo.sh").exists()
    if step == 5:
        assert place.update().returncode == 0
        assert place.version == "1.1"


def test_a_git_that_was_killed_half_way_is_undone(place: Place) -> None:
    before = place.state()
    place.publish("1.1", {"new.txt": "new"})
    assert place.update(KILL_AT="1").returncode == -signal.SIGKILL
    (place.root / "src" / "hermes" / "__init__.py").write_text(BROKEN)
    (place.root / "new.txt").write_text("ne")
    (place.root / ".git" / "index.lock").touch()
    started = place.start("--version")
    assert started.returncode == 0, started.stderr
    assert "an update was interrupted; the previous version was restored" in started.stderr
    assert place.state() == before
