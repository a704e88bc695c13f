"""The whole program in a checkout of its own: it updates and removes itself.

Its environment borrows the packages of this one, so that nothing is downloaded.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from hermes import __version__
from tests.integration.launcher.checkout import LOCKS, REPO
from tests.integration.lifecycle.conftest import CALM, git

RUN = Path(__file__).with_name("run_command.py")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    upstream, root = tmp_path / "upstream", tmp_path / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("src", "scripts"):
        shutil.copytree(REPO / folder, upstream / folder, ignore=ignored)
    for file in ("hermes", ".gitignore", "CHANGELOG.md"):
        shutil.copy(REPO / file, upstream)
    for lock in LOCKS:
        (upstream / lock).touch()
    git(upstream, "init", "-q", "-b", "main")
    git(upstream, "add", "-A")
    git(upstream, "commit", "-q", "-m", "feat: all of it")
    git(tmp_path, "clone", "-q", str(upstream), str(root))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / ".venv"], check=True)
    (packages,) = (root / ".venv").glob("lib/python3*/site-packages")
    (packages / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    (packages / "hermes.pth").write_text(f"{root / 'src'}\n")
    (root / ".venv" / "hermes").mkdir()
    (root / ".venv" / "hermes" / "lock").touch()
    (root / ".venv" / "hermes" / "stamp").write_text(f"{root}\nrequirements.lock\n")
    return root


def run(root: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """By the Python of the checkout, with the source of the checkout."""
    return subprocess.run(
        [root / ".venv" / "bin" / "python", RUN, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **CALM},
    )


def version(root: Path) -> str:
    return subprocess.check_output([root / "hermes", "-V"], text=True)


def test_installation_updates_rolls_back_and_uninstalls(checkout, hermes_home, user_home):
    assert f"program  {checkout}" in run(checkout, "version").stdout
    assert "is up to date" in run(checkout, "update").stdout
    upstream = checkout.parent / "upstream"
    (upstream / "src" / "hermes" / "__init__.py").write_text('__version__ = "0.2.0"\n')
    git(upstream, "commit", "-q", "-a", "-m", "feat: 0.2.0")
    hermes_home.mkdir()
    (hermes_home / "SOUL.md").write_text("calm")
    updated = run(checkout, "update")
    assert updated.returncode == 0, updated.stdout + updated.stderr
    assert "→ 0.2.0: 1 commit from origin/main\n  feat: 0.2.0" in updated.stdout
    assert len(list((hermes_home / "snapshots").glob("*-before-update.zip"))) == 1
    assert version(checkout) == "hermes 0.2.0\n"
    back = run(checkout, "update", "--rollback")
    assert back.returncode == 0, back.stderr
    assert (
        subprocess.check_output([checkout / "hermes", "-V"], text=True) == f"hermes {__version__}\n"
    )
    assert run(checkout, "profile", "create", "works").returncode == 0
    gone = run(checkout, "uninstall", "--yes")
    assert gone.returncode == 0, gone.stderr
    assert not (checkout / ".venv").exists()
    assert not (user_home / ".local" / "bin" / "works").exists()
    assert (checkout / "src").is_dir()
    assert (hermes_home / "SOUL.md").read_text() == "calm"
