"""From a folder to a pull request, against a wire-level fake of GitHub."""

from pathlib import Path

import pytest

from hermes.core.errors import UsageError
from hermes.skills.hub.contents import HubError, InstallRefused
from tests.integration.skills_hub.samples import DANGEROUS
from tests.integration.skills_hub.wire import Files, GitHub, below, skill


def write(path: Path, files: Files) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    files = skill("pdf", "Mine.", {"scripts/fill.sh": b"#!/bin/sh\necho 1\n"})
    return write(tmp_path / "pdf", {**files, ".git/config": b"x", "__pycache__/a.pyc": b"x"})


@pytest.fixture
def team(github: GitHub, monkeypatch: pytest.MonkeyPatch) -> GitHub:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_secret")
    github.commit("team/skills", {"README.md": b"# ours\n"})
    return github


def test_a_skill_becomes_a_pull_request(hermes, team: GitHub, mine: Path, hermes_home: Path):
    code, out, _ = hermes("publish", str(mine), "--to", "github", "--repo", "team/skills", "--yes")
    assert code == 0
    assert "https://github.com/team/skills/pull/1" in out
    [pull] = team.pulls
    assert pull["base"] == "main"
    files = team.commits["team/skills", team.heads["team/skills", pull["head"]]]
    assert set(files) == {"README.md", "skills/pdf/SKILL.md", "skills/pdf/scripts/fill.sh"}
    [commit] = team.made.values()
    assert commit["parents"] == [team.heads["team/skills", "main"]]
    modes = {entry["path"]: entry["mode"] for entry in next(iter(team.trees.values()))}
    assert modes["skills/pdf/scripts/fill.sh"] == "100755"
    assert '"published"' in (hermes_home / "skills/.hub/audit.log").read_text()
    assert "ghp_secret" not in out


def test_publishing_twice_finds_the_first_request(hermes, team: GitHub, mine: Path):
    arguments = ("publish", str(mine), "--repo", "team/skills", "--yes")
    hermes(*arguments)
    code, out, _ = hermes(*arguments)
    assert (code, len(team.pulls)) == (0, 1)
    assert "is open already: https://github.com/team/skills/pull/1" in out


def test_a_new_version_goes_where_the_old_one_is_and_takes_files_away(hermes, team, mine):
    old = skill("pdf", "Old.", {"old.md": b"x"})
    team.commit("team/skills", below("office/pdf", old))
    hermes("publish", str(mine), "--repo", "team/skills", "--yes")
    files = team.commits["team/skills", team.heads["team/skills", team.pulls[0]["head"]]]
    assert set(files) == {"office/pdf/SKILL.md", "office/pdf/scripts/fill.sh"}


def test_a_dry_run_shows_everything_and_sends_nothing(hermes, team: GitHub, mine: Path):
    code, out, _ = hermes("publish", str(mine), "--repo", "team/skills", "--dry-run")
    assert code == 0
    assert "skills/pdf/scripts/fill.sh" in out
    assert "nothing was sent" in out
    assert {request.method for request in team.requests} == {"GET"}


def test_without_a_terminal_nothing_is_asked(hermes, team: GitHub, mine: Path):
    with pytest.raises(UsageError, match="--yes"):
        hermes("publish", str(mine), "--repo", "team/skills")
    code, _out, _ = hermes("publish", str(mine), "--repo", "team/skills", typed="n\n")
    assert (code, team.pulls) == (1, [])


def test_a_token_is_needed(hermes, github: GitHub, mine: Path):
    github.commit("team/skills", {"README.md": b""})
    with pytest.raises(UsageError, match="token") as needed:
        hermes("publish", str(mine), "--repo", "team/skills", "--yes")
    assert "GITHUB_TOKEN" in needed.value.hint


def test_token_without_rights_is_reported(hermes, team: GitHub, mine: Path):
    team.writable = False
    with pytest.raises(HubError, match="Resource not accessible"):
        hermes("publish", str(mine), "--repo", "team/skills", "--yes")


def test_repository_without_a_commit_is_refused(hermes, team: GitHub, mine: Path):
    team.empty.add("team/new")
    with pytest.raises(HubError, match="team/new is empty") as empty:
        hermes("publish", str(mine), "--repo", "team/new", "--yes")
    assert empty.value.hint == "make a first commit there (a README), then try again"


def test_unchanged_files_are_not_sent(hermes, team: GitHub, mine: Path):
    files = skill("pdf", "Mine.", {"scripts/fill.sh": b"#!/bin/sh\necho 1\n"})
    team.commit("team/skills", below("skills/pdf", files))
    with pytest.raises(InstallRefused, match="already"):
        hermes("publish", str(mine), "--repo", "team/skills", "--yes")


def test_skill_with_a_key_is_not_published(hermes, team: GitHub, mine: Path):
    (mine / "notes.md").write_text("token: ghp_" + "a1B2" * 9 + "\n")
    with pytest.raises(InstallRefused, match=r"notes\.md"):
        hermes("publish", str(mine), "--repo", "team/skills", "--yes")
    assert team.requests == []


def test_a_dangerous_skill_is_not_published(hermes, team: GitHub, mine: Path):
    write(mine, skill("pdf", DANGEROUS))
    with pytest.raises(InstallRefused, match="dangerous"):
        hermes("publish", str(mine), "--repo", "team/skills", "--yes")
    assert team.requests == []


def test_an_own_skill_is_published_by_its_name(hermes, team: GitHub, hermes_home: Path):
    write(hermes_home / "skills/office/mine", skill("mine"))
    code, out, _ = hermes("publish", "mine", "--repo", "team/skills", "--dry-run", "--json")
    assert (code, '"folder": "skills/mine"' in out) == (0, True)
