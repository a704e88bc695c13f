"""The real weights, fetched once by the real code and kept outside the checkout."""

import asyncio
import os
from pathlib import Path

import pytest

from hermes.providers.local.weights import fetch_weights, find_weights

CACHE = Path(os.environ.get("HERMES_TEST_CACHE") or Path.home() / ".cache" / "hermes-tests")
"""Read at import: tests run with a home of their own."""


class Silent:
    def report(self, label: str, done: int, total: int) -> None:
        return None

    def say(self, text: str) -> None:
        return None


@pytest.fixture(scope="session")
def weights_file() -> Path:
    """The smallest model of the catalogue."""
    weights = find_weights("0.5b")
    assert weights is not None
    return asyncio.run(fetch_weights(weights, CACHE / "models", Silent()))


@pytest.fixture
def home_with_weights(weights_file: Path, hermes_home: Path) -> Path:
    """The home of this test, with the weights already there and one thread for the model."""
    models = hermes_home / "models"
    models.mkdir(parents=True)
    (models / weights_file.name).symlink_to(weights_file)
    (hermes_home / "config.yaml").write_text("local:\n  threads: 1\n")
    return hermes_home
