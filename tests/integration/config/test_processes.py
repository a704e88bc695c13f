"""Settings and variables that several processes write or read."""

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.config import edit
from hermes.config.environment import child_environment, with_variable
from hermes.config.home import Home
from hermes.config.loader import load
from tests.unit.config.conftest import home

__all__ = ["home"]
ROOT = Path(__file__).parents[3]


def _writer(root: Path, number: int) -> None:
    for at in range(5):
        edit.set_variable(Home(root), f"V{number}_{at}", "x")
        edit.set_value(Home(root), ("skills", "config", f"v{number}_{at}"), at)


def test_two_processes_that_write_at_once_lose_nothing(home: Home) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_writer, args=(home.root, number)) for number in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    loaded = load(home)
    assert len(loaded.saved) == 10
    assert len(loaded.settings.skills.config) == 10


@pytest.mark.parametrize("value", ["plain", "two words", "it's", 'say "hi" # x', "$HOME", "a;b&c"])
def test_a_shell_reads_the_same_value(tmp_path: Path, value: str) -> None:
    file = tmp_path / ".env"
    file.write_text(with_variable("", "KEY", value))
    script = f'. "{file}"; printf %s "$KEY"'
    assert subprocess.check_output(["sh", "-c", script], text=True) == value


def test_children_do_not_get_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "MY_PASSWD", "X_CREDENTIALS", "AUTH_HEADER", "DB_PASSWORD"):
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("EDITOR", "vi")
    seen = subprocess.check_output(["env"], env=child_environment(), text=True)
    assert "hidden" not in seen
    assert "EDITOR=vi" in seen
    assert "PATH=" in seen


def test_the_reference_is_up_to_date() -> None:
    script = ROOT / "scripts" / "settings_reference.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
