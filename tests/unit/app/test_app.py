"""An app that is left closes everything, whatever fails."""

from io import StringIO

import pytest

from hermes.app.app import App
from hermes.cli.context import ProgressLine
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import StoreError


async def test_failing_close_does_not_keep_other_parts_open(hermes_home, monkeypatch) -> None:
    home = Home(hermes_home)
    with pytest.raises(OSError, match="stuck"):
        async with App(home, load(home), ProgressLine(StringIO()), lambda _: None) as app:

            async def stuck() -> None:
                raise OSError("stuck")

            monkeypatch.setattr(app.mcp, "close", stuck)
    with pytest.raises(StoreError):
        await app.store.latest("cli")
    assert app.extensions.in_force() is not app.extensions
