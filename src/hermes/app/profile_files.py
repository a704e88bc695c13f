"""A profile made from an archive."""

import shutil
from pathlib import Path

from hermes.app.backups.reading import opened
from hermes.app.backups.restoring import bring_back, check_fits
from hermes.config.home import DEFAULT_PROFILE, Home
from hermes.config.profiles import create_profile
from hermes.core.errors import HermesError, UsageError


def import_profile(path: Path, name: str = "") -> tuple[Home, int]:
    """The new profile and how many files it has. Called as in the archive unless `name` says
    otherwise. Raises `HermesError`, and then there is no new profile."""
    with opened(path) as archive:
        name = name or archive.manifest.profile
        if name == DEFAULT_PROFILE:
            raise UsageError(
                "the archive is of the default profile, so the new one needs a name",
                hint=f"hermes profile import {path} --name NAME",
            )
        check_fits(Home.of_profile(name), archive)
        archive.check_content()
    home = create_profile(name)
    try:
        done = bring_back(home, path)
    except (HermesError, KeyboardInterrupt):
        shutil.rmtree(home.root, ignore_errors=True)
        raise
    return home, len(done.manifest.files)
