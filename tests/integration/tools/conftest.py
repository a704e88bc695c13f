"""The fixtures of the unit tests, for tools that start programs."""

from tests.unit.tools.conftest import reads, shell, shown, use

__all__ = ["reads", "shell", "shown", "use"]
