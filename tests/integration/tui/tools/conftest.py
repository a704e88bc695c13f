"""The fixtures of the unit tests, for calls that start programs."""

from tests.unit.tui.tools.conftest import display, show, view

__all__ = ["display", "show", "view"]
