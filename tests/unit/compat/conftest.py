"""The documented paths, for one test."""

import sys
from collections.abc import Iterator

import pytest

from hermes import compat


@pytest.fixture(autouse=True)
def documented_paths() -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()
    if shared := sys.modules.get("hermes.compat.runtime"):
        shared.close_all()
