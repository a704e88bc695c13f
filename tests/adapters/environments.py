"""Throw-away Python environments of other people's frameworks, cached between runs.

    environment = framework("verifiers==0.4.0")         # or skips the test
    environment = framework("harbor==0.25.0", minor=12)
    environment.program("vf-eval")

An environment is a folder of `HERMES_TEST_CACHE`, keyed by its pinned requirements and its
interpreter. Plain pip fills it once; later runs take milliseconds.

    python = python_with_hermes(folder)                 # imports the documented names
"""

import hashlib
import json
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from hermes.util.files import file_lock
from tests.installed import CACHE, ENVIRONMENT

SECONDS_TO_INSTALL = 1200
COMPLETE = "complete.json"
SOURCE = Path(__file__).resolve().parents[2] / "src"


class Environment(NamedTuple):
    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    @property
    def seconds_to_install(self) -> float:
        return float(json.loads((self.folder / COMPLETE).read_text())["seconds"])


def framework(*requirements: str, minor: int = 0, newest: str = "") -> Environment:
    """Return the environment with `requirements`; skip the test where it cannot be made."""
    try:
        return make_environment(*requirements, minor=minor, newest=newest)
    except (subprocess.SubprocessError, RuntimeError) as error:
        pytest.skip(f"{' '.join(requirements)} cannot be installed: {error}")


@cache
def make_environment(*requirements: str, minor: int = 0, newest: str = "") -> Environment:
    """Return the environment with `requirements`, on Python 3.`minor` or later.

    The dependency `newest` is installed in the newest version that the registry has, also where
    that is older than the first requirement demands. Raises RuntimeError if there is no such
    interpreter or pip refuses.
    """
    interpreter = find_interpreter(minor) if minor else sys.executable
    made_of = repr((requirements, interpreter, platform.python_version()))
    digest = hashlib.sha256(made_of.encode()).hexdigest()[:12]
    name = f"adapter-{requirements[0].replace('==', '-')}-{platform.machine()}-{digest}"
    environment = Environment(CACHE / name)
    CACHE.mkdir(parents=True, exist_ok=True)
    with file_lock(CACHE / f"{name}.lock", 2 * SECONDS_TO_INSTALL):
        if not (environment.folder / COMPLETE).exists():
            shutil.rmtree(environment.folder, ignore_errors=True)
            started = time.monotonic()
            _run(interpreter, "-m", "venv", str(environment.folder))
            _install(environment.python, requirements, newest)
            taken = {"seconds": round(time.monotonic() - started, 1)}
            (environment.folder / COMPLETE).write_text(json.dumps(taken))
    return environment


def python_with_hermes(folder: Path) -> str:
    """Make an environment with this checkout, in which `hermes.compat` is installed at the start.

    It borrows the dependencies of the interpreter of the tests.
    """
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    (packages,) = folder.glob("lib/python*/site-packages")
    lines = (sysconfig.get_path("purelib"), SOURCE, "import hermes.compat; hermes.compat.install()")
    (packages / "hermes.pth").write_text("".join(f"{line}\n" for line in lines))
    return str(folder / "bin" / "python")


def _install(python: str, requirements: tuple[str, ...], newest: str) -> None:
    pip = (python, "-m", "pip", "install", "-q", "--only-binary", ":all:")
    if newest:
        _run(*pip, "--no-deps", requirements[0])
        package = requirements[0].partition("==")[0]
        code = f"import importlib.metadata as m; print(*m.requires({package!r}) or (), sep='\\n')"
        needs = [each for each in _run(python, "-c", code).splitlines() if "extra ==" not in each]
        others = [each for each in needs if not each.startswith(newest)]
        requirements = (*others, newest, *requirements[1:])
    _run(*pip, *requirements)


@cache
def find_interpreter(minor: int) -> str:
    """Return an interpreter of Python 3.`minor` or later; raise RuntimeError without one."""
    pyenv = Path(ENVIRONMENT.get("PYENV_ROOT") or Path(ENVIRONMENT["HOME"]) / ".pyenv")
    names = [f"3.{number}" for number in range(minor, minor + 3)]
    for name in names:
        installed = sorted((pyenv / "versions").glob(f"{name}.*/bin/python"))
        for candidate in (shutil.which(f"python{name}"), *installed):
            # A shim of pyenv is on the path also where its version is not chosen.
            if candidate and _runs(str(candidate)):
                return str(candidate)
    raise RuntimeError(f"no Python of {', '.join(names)} is installed")


def _runs(interpreter: str) -> bool:
    command = [interpreter, "-c", "import ensurepip, venv"]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True).returncode == 0


def _run(*command: str) -> str:
    done = subprocess.run(
        command,
        env=ENVIRONMENT,
        cwd=CACHE,
        capture_output=True,
        text=True,
        timeout=SECONDS_TO_INSTALL,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr[-2000:]}")
    return done.stdout
