"""The fixtures of the unit tests, for commands that start programs."""

from tests.unit.cli.conftest import empty, hermes, stored_sessions

__all__ = ["empty", "hermes", "stored_sessions"]
