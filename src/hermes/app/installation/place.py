"""How this Hermes was installed, and how it is started from anywhere."""

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import msgspec

import hermes

DISTRIBUTION = "hermes"
LAUNCHER = "hermes"


class Checkout(msgspec.Struct, frozen=True):
    """A folder with the source and the launcher, which keeps its own environment in `.venv`."""

    root: Path

    @property
    def launcher(self) -> Path:
        return self.root / LAUNCHER

    @property
    def environment(self) -> Path:
        return self.root / ".venv"

    @property
    def cache(self) -> Path:
        """The set-up's lock, and what an update works with."""
        return self.root / ".cache"

    @property
    def is_repository(self) -> bool:
        return (self.root / ".git").exists()


class Package(msgspec.Struct, frozen=True):
    """Installed by another program, which also updates and removes it."""

    installer: str
    """`pip`, `pipx` or `uv`."""
    update: str
    """The command that updates it; empty when nothing says where it came from. It never names the
    package alone: on a package index, another project has the name."""
    remove: str
    """The command that removes it."""


def installation(source: Path | None = None, prefix: str = sys.prefix) -> Checkout | Package:
    """Where the running program comes from. `source` is the folder of the package `hermes`."""
    package = source or Path(hermes.__file__).resolve().parent
    root = package.parent.parent
    if (root / LAUNCHER).is_file() and (root / "scripts" / "setup.py").is_file():
        if Path(prefix).resolve() == (root / ".venv").resolve():
            return Checkout(root)
        return _editable(root)
    return _package(prefix)


def start_command() -> list[str]:
    """The words that start this very Hermes from any folder."""
    found = installation()
    if isinstance(found, Checkout):
        return [str(found.launcher)]
    script = Path(sys.executable).parent / LAUNCHER
    if script.is_file():
        return [str(script)]
    return [sys.executable, "-I", "-m", "hermes"]


def _editable(root: Path) -> Package:
    """A checkout that somebody installed into an environment of their own."""
    here, python = shlex.quote(str(root)), shlex.quote(sys.executable)
    return Package(
        "pip",
        update=f"git -C {here} pull --ff-only && {python} -m pip install -e {here}",
        remove=f"{python} -m pip uninstall {DISTRIBUTION}",
    )


def _package(prefix: str) -> Package:
    parts = Path(prefix).parts
    if "pipx" in parts:
        name, install, remove = "pipx", "pipx install --force", "pipx uninstall"
    elif "uv" in parts and "tools" in parts:
        name, install, remove = "uv", "uv tool install --force", "uv tool uninstall"
    else:
        pip = f"{shlex.quote(sys.executable)} -m pip"
        name, install, remove = "pip", f"{pip} install --upgrade", f"{pip} uninstall"
    source = _source()
    update = f"{install} {shlex.quote(source)}" if source else ""
    return Package(name, update, f"{remove} {DISTRIBUTION}")


def _source() -> str:
    """The address this was installed from, as installers write it; empty when it is not known."""
    try:
        text = distribution(DISTRIBUTION).read_text("direct_url.json")
        record: Any = json.loads(text or "{}")
    except (PackageNotFoundError, ValueError):
        return ""
    address = record.get("url", "")
    tool = record.get("vcs_info", {}).get("vcs", "")
    return f"{tool}+{address}" if tool and address else address
