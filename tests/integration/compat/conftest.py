"""The fixtures of the unit tests, for tests that start programs."""

from tests.unit.compat.conftest import documented_paths

__all__ = ["documented_paths"]
