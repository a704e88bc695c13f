"""A checkout that follows a repository, with the real launcher and a small program in it.

The program has the real modules of `hermes update` (and all they import) behind a tiny command
line, so that no package has to be downloaded. Environments are made without pip, which takes most
of the time; that they are made rightly is tested with the launcher.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.integration.launcher.checkout import make_checkout
from tests.made_once import copy_checkout, made_once

MAIN = """
import json, sys
from hermes import __version__

def main(argv):
    if argv in (["--version"], ["version", "--json"]):
        print(json.dumps({"hermes": __version__, "prefix": sys.prefix}))
        return 0
    print("arguments", *argv)
    return 0
"""
START = "import sys\nfrom hermes.cli.main import main\nsys.exit(main(sys.argv[1:]))\n"
NOTHING: Mapping[str, str] = MappingProxyType({})
CALM = {
    "PATH": f"{Path(__file__).with_name('programs')}:{os.environ['PATH']}",
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
}  # fmt: skip


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **CALM},
    )
    return done.stdout.strip()


@dataclass(frozen=True)
class Place:
    """Where new versions appear, and a checkout of it."""

    upstream: Path
    root: Path

    def publish(self, version: str, files: Mapping[str, str] = NOTHING) -> str:
        """A new version upstream, with further files; its commit."""
        write(
            self.upstream, "src/hermes/__init__.py", f'"""Small."""\n\n__version__ = "{version}"\n'
        )
        change = f"## {version}\n\n- {version} is better.\n\n"
        old = (self.upstream / "CHANGELOG.md").read_text().removeprefix("# Changelog\n\n")
        write(self.upstream, "CHANGELOG.md", f"# Changelog\n\n{change}{old}")
        for name, text in files.items():
            write(self.upstream, name, text)
        git(self.upstream, "add", "-A")
        git(self.upstream, "commit", "-q", "-m", f"feat: version {version}")
        return git(self.upstream, "rev-parse", "HEAD")

    def start(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """The program of the checkout."""
        return subprocess.run(
            [str(self.root / "hermes"), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **CALM},
        )

    def update(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """`hermes update`: the real command, run by the checkout's own Python."""
        return subprocess.run(
            self.update_command(*arguments),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **CALM, **variables},
        )

    def update_command(self, *arguments: str) -> list[str]:
        return [
            sys.executable,
            str(Path(__file__).with_name("run_update.py")),
            str(self.root),
            *arguments,
        ]

    @property
    def version(self) -> str:
        """What starts."""
        started = self.start("--version")
        assert started.returncode == 0, started.stderr
        return started.stdout.partition('"hermes": "')[2].partition('"')[0]

    @property
    def head(self) -> str:
        return git(self.root, "rev-parse", "HEAD")

    def state(self) -> tuple[str, str, str]:
        """The commit, what git sees changed, and which version starts."""
        version = self.version  # what was cut short is put in order by this
        return self.head, git(self.root, "status", "--porcelain"), version


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture(scope="session")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A repository with version 1.0, and a checkout of it that is set up."""
    folder = made_once(tmp_path_factory, "update", make_seed)
    return Place(folder / "upstream", folder / "checkout")


def make_seed(folder: Path) -> None:
    upstream = folder / "upstream"
    make_checkout(upstream)
    set_up = upstream / "scripts" / "setup.py"
    made = set_up.read_text()
    assert made.count('"-m", "venv"') == 1
    set_up.write_text(made.replace('"-m", "venv"', '"-m", "venv", "--without-pip"'))
    write(upstream, ".gitignore", "__pycache__/\n.venv/\n.cache/\n")
    write(upstream, "CHANGELOG.md", "# Changelog\n\n")
    write(upstream, "src/hermes/__main__.py", START)
    write(upstream, "src/hermes/cli/__init__.py", "")
    write(upstream, "src/hermes/cli/main.py", MAIN)
    git(upstream, "init", "-q", "-b", "main")
    place = Place(upstream, folder / "checkout")
    place.publish("1.0")
    git(folder, "clone", "-q", str(upstream), str(place.root))
    assert place.version == "1.0"


@pytest.fixture
def place(seed: Place, tmp_path: Path) -> Place:
    """The same, of the test's own."""
    mine = Place(tmp_path / "upstream", tmp_path / "my checkout")
    shutil.copytree(seed.upstream, mine.upstream, symlinks=True)
    copy_checkout(seed.root, mine.root)
    git(mine.root, "remote", "set-url", "origin", str(mine.upstream))
    assert mine.version == "1.0"
    return mine
