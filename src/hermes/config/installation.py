"""How Hermes was installed, and how to start it."""

import asyncio
import json
import shlex
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from importlib import invalidate_caches
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

import hermes
from hermes.core.errors import HermesError
from hermes.util.extras import extras, install_hint, is_installed

DISTRIBUTION = "hermes"
LAUNCHER = "hermes"


class Checkout(msgspec.Struct, frozen=True):
    """A checkout with the source and the launcher, and its own environment in `.venv`."""

    root: Path

    @property
    def launcher(self) -> Path:
        return self.root / LAUNCHER

    @property
    def environment(self) -> Path:
        return self.root / ".venv"

    @property
    def cache(self) -> Path:
        """The folder of the lock of the set-up and of update files."""
        return self.root / ".cache"

    @property
    def is_repository(self) -> bool:
        return (self.root / ".git").exists()


class Package(msgspec.Struct, frozen=True):
    """An installation by another program, which also updates and removes it."""

    installer: str  #: `pip`, `pipx` or `uv`.
    update: str
    """The command that updates it; empty if its source is not known. It never names only the
    package: on a package index, the name belongs to another project."""
    remove: str  #: The command that removes it.


def installation(source: Path | None = None, prefix: str = sys.prefix) -> Checkout | Package:
    """Return how the running program was installed. `source` is the folder of the package
    `hermes`."""
    package = source or Path(hermes.__file__).resolve().parent
    root = package.parent.parent
    if (root / LAUNCHER).is_file() and (root / "scripts" / "setup.py").is_file():
        if Path(prefix).resolve() == (root / ".venv").resolve():
            return Checkout(root)
        # The checkout was installed into another environment.
        here, python = shlex.quote(str(root)), shlex.quote(sys.executable)
        update = f"git -C {here} pull --ff-only && {python} -m pip install -e {here}"
        return Package("pip", update, f"{python} -m pip uninstall {DISTRIBUTION}")
    return _package(prefix)


def start_command() -> list[str]:
    """Return the command that starts this Hermes from any folder."""
    found = installation()
    if isinstance(found, Checkout):
        return [str(found.launcher)]
    script = Path(sys.executable).parent / LAUNCHER
    if script.is_file():
        return [str(script)]
    return [sys.executable, "-I", "-m", "hermes"]


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
    """Return the address it was installed from, as installers record it; "" if unknown."""
    # Slow to load, and only `hermes update` and `uninstall` come here.
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution(DISTRIBUTION).read_text("direct_url.json")
        record: Any = json.loads(text or "{}")
    except (PackageNotFoundError, ValueError):
        return ""
    address = record.get("url", "")
    tool = record.get("vcs_info", {}).get("vcs", "")
    return f"{tool}+{address}" if tool and address else address


# Installing extras into the environment that this program runs in.

SETUP = "setup.py"


class InstallFailed(HermesError):
    """An extra could not be installed; the installer has said why on stderr."""


async def install_extra(name: str, *, quiet: bool = False) -> list[str]:
    """Install an extra from the lock files, with hashes. The installer shows its progress, and on
    failure the reason, on stderr; if `quiet`, the reason is part of the error instead.

    Returns the packages that were installed, as `name version`; none when all were there. Raises
    `InstallFailed`.
    """
    process = await asyncio.create_subprocess_exec(
        *installer(),
        "--extra",
        name,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE if quiet else None,
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
    if process.returncode:
        lines = (errors or b"").decode(errors="replace").split("\n")
        reason = next((line.strip() for line in reversed(lines) if line.strip()), "")
        raise InstallFailed(
            f"{name} could not be installed" + (f": {reason[:300]}" if reason else ""),
            hint=f"to try again: {install_hint(name)}",
        )
    invalidate_caches()
    return output.decode(errors="replace").splitlines()


_install_quietly = partial(install_extra, quiet=True)
RETRY_SECONDS = 300.0  #: Seconds after which a failed installation is tried again.
_FAILURES: dict[str, tuple[float, InstallFailed]] = {}  #: Monotonic time and error, by extra.


async def ensure_extra(
    name: str,
    module: str,
    report: Callable[[str], None],
    install: Callable[[str], Awaitable[object]] = _install_quietly,
) -> None:
    """Install an extra on the first use of its ability. `module` is a module of the extra that
    shows whether it is installed; `report` receives one line of progress. Raises `InstallFailed`;
    after a failure again at once for five minutes.
    """
    if is_installed(module):
        return
    failed_at, failure = _FAILURES.get(name, (-RETRY_SECONDS, None))
    if failure is not None and monotonic() - failed_at < RETRY_SECONDS:
        raise failure
    report(f"installing the packages for {extras()[name].summary} (once) …\n")
    try:
        await install(name)
    except InstallFailed as error:
        _FAILURES[name] = (monotonic(), error)
        raise


def installer() -> list[str]:
    """Return the command that runs scripts/setup.py for the current environment."""
    package = Path(hermes.__file__).resolve().parent
    place = installation()
    if isinstance(place, Checkout):
        return ["sh", str(place.root / "scripts" / "setup.sh")]
    scripts = (package / "bundled" / SETUP, package.parent.parent / "scripts" / SETUP)
    found = next((script for script in scripts if script.is_file()), None)
    if found is None:
        raise InstallFailed("this Hermes came without its lock files", hint="install it again")
    return [sys.executable, "-I", str(found), "--here"]
