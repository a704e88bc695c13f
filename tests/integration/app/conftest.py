"""The fixtures of the unit tests, for tests that start programs."""

from tests.unit.app.conftest import attach, context, git, talking

__all__ = ["attach", "context", "git", "talking"]
