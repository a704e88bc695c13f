"""The surface for extensions: every name is there, and importing it loads nothing else."""

import subprocess
import sys
from types import ModuleType

import pytest

import hermes.sdk
import hermes.sdk.context
import hermes.sdk.memory
import hermes.sdk.telemetry

MODULES = (hermes.sdk, hermes.sdk.context, hermes.sdk.memory, hermes.sdk.telemetry)
LOADED = """
import sys, hermes.sdk, hermes.sdk.memory, hermes.sdk.context
print(*sorted(name for name in sys.modules if name.startswith("hermes.")))
"""


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_listed_name_can_be_imported(module: ModuleType) -> None:
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_importing_the_surface_loads_no_other_part() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == {
        "hermes.sdk",
        "hermes.sdk.context",
        "hermes.sdk.memory",
        "hermes.util",
        "hermes.util.lazy",
    }
