"""How many model calls a turn may make, its subagents included."""


class IterationBudget:
    """Shared by a turn and the subagents it starts."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @property
    def left(self) -> int:
        return max(self.limit - self.used, 0)

    def take(self) -> bool:
        """Use one; False when none is left."""
        if self.used >= self.limit:
            return False
        self.used += 1
        return True
