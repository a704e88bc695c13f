"""The fixtures of the unit tests, for several processes."""

from tests.unit.memory.holographic.conftest import clock, memory, session, told

__all__ = ["clock", "memory", "session", "told"]
