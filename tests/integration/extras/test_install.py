"""`hermes setup NAME` in fresh environments, with packages of the real package index."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.util.extras import extras
from scripts import setup
from tests.made_once import copy_checkout, made_once

REPO = Path(__file__).parents[3]
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "PYTHON"))
}
"""Read at import: tests run with a home of their own, and without the cache of uv."""
SMALL = "postgres"
COPIED = ("hermes", "pyproject.toml", "README.md", "scripts", "src", "skills", "optional-skills",
          "plugins", *(path.name for path in REPO.glob("requirements*.lock")))  # fmt: skip

pytestmark = [pytest.mark.internet, pytest.mark.timeout(600)]


def run(*command: str | Path, home: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    tools = f"{Path(sys.executable).parent}:{ENVIRONMENT['PATH']}"  # uv of the development set
    env = ENVIRONMENT | {"HERMES_HOME": str(home), "PATH": tools} | variables
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def uv(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return run(sys.executable, "-m", "uv", *words, home=Path("/nonexistent"))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where no package index is configured and reachable."""
    folder = tmp_path_factory.mktemp("index")
    answer = uv("pip", "install", "--no-cache", "--target", folder, "prometheus-client")
    if answer.returncode:
        pytest.skip(f"no package index can be reached: {answer.stderr.strip().splitlines()[-1]}")


@pytest.fixture(scope="module")
def checkout(index: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh checkout that was used once."""

    def make(folder: Path) -> None:
        ignored = shutil.ignore_patterns("__pycache__")
        for name in COPIED:
            source = REPO / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=ignored, symlinks=True)
            else:
                shutil.copy2(source, folder / name)
        started = run(folder / "hermes", "--version", home=folder / "home")
        assert started.returncode == 0, started.stderr

    return made_once(tmp_path_factory, "extras-checkout", make)


@pytest.fixture(scope="module")
def packaged(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment of a Hermes that was installed as a wheel."""

    def make(folder: Path) -> None:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(build, cwd=checkout, check=True, capture_output=True)
        (wheel,) = folder.glob("*.whl")
        environment = folder / "environment"
        assert uv("venv", "-q", environment).returncode == 0
        target = ("--python", environment / "bin" / "python")
        lock = REPO / "requirements.lock"
        done = uv("pip", "install", "-q", *target, "--require-hashes", "-r", lock)
        assert done.returncode == 0, done.stderr
        assert uv("pip", "install", "-q", *target, "--no-deps", wheel).returncode == 0

    return made_once(tmp_path_factory, "extras-wheel", make) / "environment"


@pytest.mark.parametrize("kind", ["checkout", "packaged"])
def test_an_extra_is_installed_once(kind, request, tmp_path) -> None:
    place: Path = request.getfixturevalue(kind)
    if kind == "checkout":  # other tests use it without extras
        copy_checkout(place, tmp_path / "mine")
        place = tmp_path / "mine"
    program = place / "hermes" if kind == "checkout" else place / "bin" / "hermes"
    python = (place / ".venv" if kind == "checkout" else place) / "bin" / "python"
    assert run(python, "-I", "-c", "import psycopg", home=tmp_path).returncode != 0
    done = run(program, "setup", SMALL, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1
    assert f"installing {SMALL} into " in done.stderr
    said, then = done.stdout.splitlines()
    pins = {pin.name: pin.version for pin in setup.pins_of(REPO, SMALL)}
    assert f"psycopg-binary {pins['psycopg-binary']}" in said
    assert then.startswith("next: hermes config set store.url")
    check = run(python, "-I", "-c", "import psycopg; psycopg.pq.version()", home=tmp_path)
    assert check.returncode == 0, check.stderr
    again = run(program, "setup", SMALL, home=tmp_path)
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.startswith(f"{SMALL} is already installed\n")


def test_the_base_environment_is_small(checkout: Path) -> None:
    environment = checkout / ".venv"
    files = (each for each in environment.rglob("*") if each.is_file() and not each.is_symlink())
    assert sum(each.stat().st_blocks * 512 for each in files) <= 100_000_000
    assert len(list(environment.glob("lib/python3*/site-packages/*.dist-info"))) <= 36


def test_an_extra_is_installed_on_its_first_use(checkout: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    copy_checkout(checkout, mine)
    program = """
import asyncio
from hermes.config.installation import ensure_extra
asyncio.run(ensure_extra("postgres", "psycopg", print))
import psycopg
"""
    done = run(mine / ".venv" / "bin" / "python", "-I", "-c", program, home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("installing the packages for sessions in a PostgreSQL database")


def test_without_an_index_it_says_so_and_everything_else_works(checkout, tmp_path) -> None:
    nowhere = {
        "UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "cache"), "PIP_INDEX_URL": "http://127.0.0.1:9/",
        "PIP_RETRIES": "0", "PIP_NO_CACHE_DIR": "1", "PIP_CONFIG_FILE": "/dev/null",
        "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": "",
    }  # fmt: skip
    mine = tmp_path / "mine"
    copy_checkout(checkout, mine)
    done = run(mine / "hermes", "setup", "slack", home=tmp_path, **nowhere)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert "the package index cannot be reached" in done.stderr
    assert done.stderr.endswith("to try again: hermes setup slack\n")
    assert run(mine / "hermes", "--version", home=tmp_path).returncode == 0


def test_every_extra_can_be_installed_from_its_lock(index: None, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    assert uv("venv", "-q", environment).returncode == 0
    failures = []
    for name in extras():
        lock = tmp_path / f"{name}.txt"
        setup.write_extras(lock, REPO, {name}, without=set())
        words = ("--dry-run", "--require-hashes", "-r", lock)
        done = uv("pip", "install", "--python", environment / "bin" / "python", *words)
        pins = [pin for pin in setup.pins_of(REPO, name) if not pin.conditional]
        lines = [f"+ {pin.name}=={pin.version}" for pin in pins]
        if done.returncode or not all(line in done.stderr for line in lines):
            failures.append(f"{name}: {done.stderr}")
    assert failures == []
