"""Installing extras into the environment that this program runs in."""

import asyncio
import sys
from contextlib import suppress
from importlib import invalidate_caches
from pathlib import Path

import hermes
from hermes.app.installation.place import Checkout, installation
from hermes.core.errors import HermesError
from hermes.util.extras import install_hint

SETUP = "setup.py"


class InstallFailed(HermesError):
    """An extra could not be installed; the installer has said why on stderr."""


async def install_extra(name: str) -> list[str]:
    """Install an extra from the lock files, with hashes. The installer shows its progress, and on
    failure the reason, on stderr.

    Returns the packages that were installed, as `name version`; none when all were there. Raises
    `InstallFailed`.
    """
    command = [*installer(), "--extra", name]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
    if process.returncode:
        raise InstallFailed(
            f"{name} could not be installed", hint=f"to try again: {install_hint(name)}"
        )
    invalidate_caches()
    return output.decode(errors="replace").splitlines()


def installer() -> list[str]:
    """The command that runs scripts/setup.py for the environment in use."""
    package = Path(hermes.__file__).resolve().parent
    place = installation()
    if isinstance(place, Checkout):
        return ["sh", str(place.root / "scripts" / "setup.sh")]
    scripts = (package / "bundled" / SETUP, package.parent.parent / "scripts" / SETUP)
    found = next((script for script in scripts if script.is_file()), None)
    if found is None:
        raise InstallFailed("this Hermes came without its lock files", hint="install it again")
    return [sys.executable, "-I", str(found), "--here"]
