"""The scripts and templates of the skills for software development, with good and bad input."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.bundled_skills.conftest import Run
from tests.bundled_skills.pages import page
from tests.cases import cases

CASES = cases(__file__)

# code-review


def diff(file: str, *added: str, start: int = 1) -> str:
    body = "".join(f"+{line}\n" for line in added)
    return (
        f"diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n@@ -1,0 +{start},9 @@\n{body}"
    )


@pytest.mark.parametrize(("line", "kind"), CASES["suspicious added lines are found"])
def test_suspicious_added_lines_are_found(run: Run, line: str, kind: str) -> None:
    done = run(
        "code-review/diff_check.py", "--json", stdin=diff("tests/a.txt", "ok", line, start=7)
    )
    assert done.returncode == 1
    (found,) = json.loads(done.stdout)
    assert (found["kind"], found["file"], found["line"]) == (kind, "tests/a.txt", 8)


def test_a_harmless_diff_with_its_test_passes(run: Run) -> None:
    text = diff("app.py", "token = load_token()", "return 1") + diff(
        "tests/test_app.py", "assert 1"
    )
    done = run("code-review/diff_check.py", stdin=text)
    assert (done.returncode, done.stdout) == (0, "0 finding(s)\n")


def test_removed_lines_are_not_findings(run: Run) -> None:
    text = "--- a/t/test_a.py\n+++ b/t/test_a.py\n@@ -1,2 +1,1 @@\n-breakpoint()\n x = 1\n"
    assert run("code-review/diff_check.py", stdin=text).returncode == 0


def test_code_without_a_test_and_large_files_are_named(run: Run) -> None:
    done = run("code-review/diff_check.py", "--json", stdin=diff("app.py", *["x = 1"] * 401))
    assert [found["kind"] for found in json.loads(done.stdout)] == ["large", "no-test"]


def test_a_text_that_is_not_a_diff_is_refused(run: Run) -> None:
    done = run("code-review/diff_check.py", stdin="hello\n")
    assert done.returncode == 2
    assert done.stderr.startswith("error: this is no unified diff")
    assert run("code-review/diff_check.py", "missing.diff").returncode == 2


# release-and-changelog


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=Alice", "-c", "user.email=alice@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "--initial-branch=main")
    commit(tmp_path, "feat: start")
    git(tmp_path, "tag", "v1.4.2")
    return tmp_path


def commit(folder: Path, message: str) -> None:
    git(folder, "commit", "-q", "--allow-empty", "-m", message)


@pytest.mark.parametrize(("message", "version", "group"), CASES["versions"])
def test_the_commits_decide_the_next_version(run, repository, message, version, group):
    commit(repository, message)
    commit(repository, "ci: faster")
    done = run("release-and-changelog/changelog_draft.py", "--json")
    found = json.loads(done.stdout)
    assert found["version"] == version
    assert [entry["group"] for entry in found["entries"]] == [group]


def test_the_draft_goes_above_the_newest_release_and_only_once(run: Run, repository: Path) -> None:
    changelog = repository / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n## Unreleased\n\n## 1.4.2 - 2024-01-01\n\n- first\n")
    commit(repository, "feat: more")
    arguments = ("--date", "2024-05-31", "--write", "CHANGELOG.md")
    assert run("release-and-changelog/changelog_draft.py", *arguments).returncode == 0
    heads = [line for line in changelog.read_text().splitlines() if line.startswith("## ")]
    assert heads == ["## Unreleased", "## 1.5.0 - 2024-05-31", "## 1.4.2 - 2024-01-01"]
    again = run("release-and-changelog/changelog_draft.py", *arguments)
    assert again.returncode == 2
    assert "already has a section for 1.5.0" in again.stderr


def test_without_new_commits_there_is_nothing_to_release(run: Run, repository: Path) -> None:
    done = run("release-and-changelog/changelog_draft.py")
    assert (done.returncode, done.stderr) == (1, "nothing to release since v1.4.2\n")


def test_the_lines_of_a_changelog_keep_their_ends(run: Run, repository: Path) -> None:
    changelog = repository / "CHANGELOG.md"
    changelog.write_bytes(b"# Changelog\r\n\r\n## 1.4.2\r\n")
    commit(repository, "fix: one")
    run("release-and-changelog/changelog_draft.py", "--write", "CHANGELOG.md")
    lines = changelog.read_bytes().split(b"\n")[:-1]
    assert all(line.endswith(b"\r") for line in lines)
    assert b"## 1.4.2\r" in lines


def test_a_start_that_git_does_not_know_is_named(run: Run, repository: Path) -> None:
    done = run("release-and-changelog/changelog_draft.py", "--since", "v9")
    assert (done.returncode, "v9" in done.stderr) == (2, True)


def test_outside_of_a_repository_the_draft_says_so(run: Run) -> None:
    done = run("release-and-changelog/changelog_draft.py")
    assert done.returncode == 2
    assert "not a git repository" in done.stderr


# python-project, docker-containers: templates


def test_the_project_template_is_a_valid_pyproject() -> None:
    template = page("python-project").folder / "templates" / "pyproject-template.toml"
    project = tomllib.loads(template.read_text().replace("PROJECT", "wordcount"))
    assert project["project"]["name"] == "wordcount"
    assert project["project"]["scripts"] == {"wordcount": "wordcount.__main__:main"}
    assert {name.partition(">")[0] for name in project["dependency-groups"]["dev"]} == {
        "pytest", "ruff", "mypy",
    }  # fmt: skip


def test_the_compose_template_publishes_on_loopback_and_waits_for_the_database() -> None:
    template = page("docker-containers").folder / "templates" / "compose.yaml"
    services = yaml.safe_load(template.read_text())["services"]
    assert services["app"]["ports"] == ["127.0.0.1:8080:8080"]
    assert services["app"]["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert "healthcheck" in services["db"]


# benchmark-and-profile


def test_commands_are_compared_over_several_runs(run: Run) -> None:
    commands = ("true", "sleep 0.1")
    done = run("benchmark-and-profile/compare_commands.py", *commands, "--runs", 3, "--json")
    first, second = json.loads(done.stdout)
    assert (len(first["runs"]), len(second["runs"])) == (3, 3)
    assert second["min"] >= 0.1
    shown = run("benchmark-and-profile/compare_commands.py", *commands, "--runs", 1, "--warmup", 0)
    assert "against 1: clearly slower" in shown.stdout


@pytest.mark.parametrize(("arguments", "code", "text"), CASES["failing commands"])
def test_a_command_that_fails_is_not_measured(run, arguments, code, text):
    done = run("benchmark-and-profile/compare_commands.py", *arguments)
    assert done.returncode == code
    assert text in done.stderr
