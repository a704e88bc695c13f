"""The desk of the unit tests, for several processes."""

from tests.unit.skills.history.conftest import skills

__all__ = ["skills"]
