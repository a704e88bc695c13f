"""What people say into a running turn. It is a message that was kept like any other: the answer of
the turn is for it too, or, when the model did not hear it, it waits for a turn of its own."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.gateway.house import House


class Steering:
    """Of one chat. `aside` has the rows that are not in line."""

    def __init__(self, house: "House", key: str, aside: set[int]) -> None:
        self._house, self._key, self._aside = house, key, aside
        self._said: list[int] = []
        """Rows that were said into the turn."""
        self._unheard = 0
        """Where those begin that the model has not heard yet."""

    @property
    def said(self) -> tuple[int, ...]:
        return tuple(self._said)

    def say(self, row_id: int, text: str) -> bool:
        """False when there is no turn that could hear it."""
        agent = self._house.conversations.get(self._key)
        if agent is None:
            return False
        if not agent.pending.steered:
            self._unheard = len(self._said)
        if not agent.steer(text):
            return False
        self._aside.add(row_id)
        self._said.append(row_id)
        return True

    def ended(self) -> None:
        """The turn is over: nobody will hear the rest."""
        agent = self._house.conversations.get(self._key)
        if agent is not None and agent.pending.steered:
            agent.pending.discard_steering()
            self.leave(self.said[self._unheard :])

    def leave(self, rows: tuple[int, ...]) -> None:
        """These were answered, or are in line again."""
        self._aside.difference_update(rows)
        self._said = [row for row in self._said if row not in rows]
