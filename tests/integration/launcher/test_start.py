"""Starting a checkout that is ready, and using one for the first time."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

REPO = Path(__file__).parents[3]
SETTING_UP = r"hermes: setting up the environment in \.venv \(once\) \.\.\. done after \d+ s\n"


def test_first_use_sets_up_with_one_progress_line(first_use) -> None:
    checkout, result = first_use
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(SETTING_UP, result.stderr)
    assert json.loads(result.stdout)["arguments"] == ["one", "two"]
    assert json.loads(result.stdout)["python"] == str(checkout.root / ".venv" / "bin" / "python")


def test_next_use_starts_at_once_and_quietly(used, uv_calls: Path) -> None:
    result = used.run("go")
    assert result.stderr == ""
    assert json.loads(result.stdout)["arguments"] == ["go"]
    assert not uv_calls.exists()


def test_ready_launcher_needs_only_cmp(used, tmp_path: Path) -> None:
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "cmp").symlink_to(shutil.which("cmp") or "cmp")
    result = replace(used, path=str(tmp_path / "only")).run("go")
    assert (result.returncode, result.stderr) == (0, "")


def test_arguments_exit_code_and_folder_pass_through(used, tmp_path: Path) -> None:
    arguments = ["a b", "*", "", "$HOME", "--", "-q"]
    seen = json.loads(used.run(*arguments, cwd=tmp_path).stdout)
    assert seen["arguments"] == arguments
    assert seen["folder"] == str(tmp_path)
    assert used.run("fail").returncode == 7


def test_foreign_python_variables_and_the_current_folder_do_not_matter(used, tmp_path) -> None:
    other = tmp_path / "other"
    (other / "hermes").mkdir(parents=True)
    (other / "hermes" / "__init__.py").write_text("raise SystemExit('the wrong package')")
    used.variables.update(PYTHONPATH=str(other), PYTHONHOME="/nowhere")
    seen = json.loads(used.run(cwd=other).stdout)
    assert seen["isolated"]
    assert seen["source"] == str(used.root / "src" / "hermes" / "__init__.py")


@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_symlink_to_the_launcher_works(used, tmp_path: Path, relative: bool) -> None:
    target = Path("..") / used.root.name / "hermes" if relative else used.launcher
    (tmp_path / "bin" / "hermes-link").symlink_to(target)
    (tmp_path / "bin" / "hermes").symlink_to("hermes-link")
    result = used.run("go", program="hermes", cwd="/")
    assert (result.returncode, result.stderr) == (0, "")


def test_called_by_a_bare_name_in_its_folder(used) -> None:
    result = used.run("hermes", "go", program="sh", cwd=used.root)
    assert json.loads(result.stdout)["arguments"] == ["go"]


def test_compiled_code_is_kept_even_when_the_shell_forbids_it(used) -> None:
    used.variables["PYTHONDONTWRITEBYTECODE"] = "1"
    shutil.rmtree(used.root / "src" / "hermes" / "__pycache__")
    used.run()
    (compiled,) = (used.root / "src" / "hermes" / "__pycache__").glob("__init__.*.pyc")
    first = compiled.stat().st_mtime_ns
    used.run()
    assert compiled.stat().st_mtime_ns == first


def test_moved_checkout_still_works(used, tmp_path: Path, uv_calls: Path) -> None:
    moved = tmp_path / "elsewhere"
    used.root.rename(moved)
    for _ in range(2):
        result = used.run(program=moved / "hermes")
        assert result.stderr == ""
        assert json.loads(result.stdout)["source"] == str(moved / "src/hermes/__init__.py")
    assert not uv_calls.exists()


@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_scripts_are_plain_shell(shell: str) -> None:
    for script in (REPO / "hermes", REPO / "scripts" / "setup.sh"):
        assert subprocess.run([shell, "-n", script], check=False).returncode == 0
