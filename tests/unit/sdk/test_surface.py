"""The surface for extensions: every name is there."""

from types import ModuleType

import pytest

import hermes.sdk
import hermes.sdk.context
import hermes.sdk.memory
import hermes.sdk.telemetry

MODULES = (hermes.sdk, hermes.sdk.context, hermes.sdk.memory, hermes.sdk.telemetry)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_listed_name_can_be_imported(module: ModuleType) -> None:
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
