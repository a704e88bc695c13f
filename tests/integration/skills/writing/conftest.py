"""The desk of the unit tests, for several processes."""

from tests.unit.skills.writing.conftest import asking, place

__all__ = ["asking", "place"]
