"""Installing what a platform needs beside Hermes itself."""

import subprocess
from importlib import invalidate_caches
from importlib.metadata import PackageNotFoundError, metadata

from hermes.app.installation.place import DISTRIBUTION, Checkout, installation
from hermes.core.errors import HermesError
from hermes.gateway.platforms.base import Manifest
from hermes.gateway.platforms.catalogue import missing_modules

LOCK = "requirements-platforms.lock"
SERVER = "server"
"""The extra of platforms that are servers themselves."""


class LibrariesMissing(HermesError):
    """What a platform needs is not installed; the hint says how to."""


def install_libraries(platform: Manifest, place: Checkout | None = None) -> bool:
    """Whether something had to be installed. In a checkout it comes from the lock file, elsewhere
    the hint of `LibrariesMissing` says what to do."""
    if not missing_modules(platform):
        return False
    found = place or installation()
    if not isinstance(found, Checkout):
        extra = _extra(platform)
        raise LibrariesMissing(
            f"{platform.label} needs more than is installed",
            hint=f"install the extra: pip install 'hermes[{extra}]' (with the pip of Hermes)",
        )
    done = subprocess.run(
        ["sh", str(found.root / "scripts" / "setup.sh"), LOCK],
        check=False,
        stdin=subprocess.DEVNULL,
    )
    invalidate_caches()
    if done.returncode or missing_modules(platform):
        raise LibrariesMissing(
            f"what {platform.label} needs could not be installed",
            hint="see above; try again with: hermes gateway setup " + platform.name,
        )
    return True


def _extra(platform: Manifest) -> str:
    try:
        known = metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    except PackageNotFoundError:
        known = []
    return platform.name if platform.name in known else SERVER
