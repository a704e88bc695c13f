"""What every test lives under: no network, clean homes, warnings as errors, no skips in CI."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parents[3]
HERE = Path(__file__).parent
PLANTED = (HERE / "planted.py.txt").read_text()
SKIPS = (HERE / "planted_skips.py.txt").read_text()
MISSING = (HERE / "planted_missing.py.txt").read_text()


def run_pytest(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs planted tests under this repository's conftest and configuration."""
    shutil.copy(REPO / "tests" / "conftest.py", folder)
    (folder / "test_planted.py").write_text(text)
    config = ["-c", str(REPO / "pyproject.toml"), "--rootdir", str(folder)]
    plugins = ["-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", *config, *plugins, *options, str(folder)],
        env={**os.environ, "PLANTED_API_KEY": "secret"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run_pytest(tmp_path_factory.mktemp("guards"), PLANTED).stdout


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        ("test_resolving_a_name", "socket.getaddrinfo to 'example.org' would leave this machine"),
        ("test_connecting_by_address", "socket.connect to '192.0.2.1' would leave this machine"),
        ("test_sending_a_datagram", "socket.sendto to '192.0.2.1' would leave this machine"),
        ("test_hiding_the_refusal", "socket.getaddrinfo to 'example.org' would leave this machine"),
        ("test_warning", "UserWarning: old ways"),
    ],
)
def test_forbidden_things_fail_the_test(outcome: str, test: str, reason: str) -> None:
    assert re.search(rf"^(FAILED|ERROR) \S*::{test}\b", outcome, re.MULTILINE)
    assert reason in outcome
    assert "test_planted.py::test_resolving_a_name: socket.getaddrinfo" in outcome


def test_unit_test_that_starts_a_program_fails(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    hidden = "try:\n        os.system('true')\n    except RuntimeError:\n        pass"
    (folder / "test_program.py").write_text(f"import os\n\n\ndef test_it():\n    {hidden}\n")
    refused = "tests/unit/test_program.py::test_it: os.system in a unit test"
    assert refused in run_pytest(tmp_path, PLANTED).stdout


def test_allowed_things_pass(outcome: str) -> None:
    assert re.findall(r"^PASSED \S*::test_(\w+)$", outcome, re.MULTILINE) == [
        "hiding_the_refusal",  # it fails when it ends
        "loopback_is_open",
        "unix_socket_is_open",
        "environment_is_clean",
        "async_functions_run",
        "marked_internet_is_not_guarded",
    ], outcome


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_no_skips_fails_the_run_and_lists_them(tmp_path: Path, workers: str) -> None:
    result = run_pytest(tmp_path, SKIPS, "--no-skips", workers)
    assert result.returncode == pytest.ExitCode.TESTS_FAILED
    assert "skipped: test_planted.py::test_skips" in result.stdout
    assert "xfailed: test_planted.py::test_is_expected_to_fail" in result.stdout
    assert "1 passed, 1 skipped, 1 xfailed" in result.stdout


def test_skips_pass_without_the_option(tmp_path: Path) -> None:
    assert run_pytest(tmp_path, SKIPS).returncode == 0


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_missing_program_skips_the_test_and_is_listed(tmp_path: Path, workers: str) -> None:
    result = run_pytest(tmp_path, MISSING.format(library=""), workers)
    assert result.returncode == 0
    assert "skipped 1 test: needs no-such-program" in result.stdout


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_missing_library_skips_every_test_of_the_file(tmp_path: Path, workers: str) -> None:
    text = MISSING.format(library="import no_such_library")
    result = run_pytest(tmp_path, text, workers)
    assert result.returncode == 0, result.stdout
    assert "skipped 2 tests: needs the Python package no_such_library" in result.stdout
    result = run_pytest(tmp_path, text, workers, "--no-skips")
    assert result.returncode == pytest.ExitCode.TESTS_FAILED
