"""The nodes of one compaction: new leaves, and an inner node when the old ones are too many."""

from collections.abc import Iterator, Sequence

from hermes.context.lcm.archive import Archive
from hermes.context.lcm.nodes import Node, fingerprint, inner_id, leaf_id
from hermes.context.lcm.units import Plan, Unit, of_units
from hermes.context.lcm.writing import LEAST_TOKENS, Writer
from hermes.core.messages import Message
from hermes.core.tokens import text_tokens

NEW_SHARE = 0.75
"""Part of the budget for notes that those of one compaction may take; the rest is for old ones."""


class NodeMaker:
    def __init__(self, writer: Writer, budget: int, leaf_tokens: int) -> None:
        """`budget` is for the texts of all nodes; a leaf stands for at most `leaf_tokens`."""
        self.writer, self._budget, self._leaf_tokens = writer, budget, leaf_tokens

    def leaves(
        self,
        plan: Plan,
        messages: Sequence[Message],
        positions: Sequence[int | None],
        archive: Archive,
    ) -> Iterator[Node]:
        """A node for each stretch of the middle, as long as one note may stand for."""
        budget = int(self._budget * NEW_SHARE)
        total = sum(unit.tokens for unit in plan.middle)
        fewest = total * 2 * LEAST_TOKENS // max(1, budget)
        most = max(fewest, min(self._leaf_tokens, self.writer.room() or total))
        stretches = list(_stretches(plan.middle, most))
        for units in stretches:
            tokens = sum(unit.tokens for unit in units) // 5
            limit = max(LEAST_TOKENS, min(tokens, budget // max(3, len(stretches))))
            span = of_units(messages, units)
            yield Node(
                leaf_id(map(fingerprint, span)),
                self.writer.leaf(span, limit),
                runs=archive.keep(span, of_units(positions, units)),
            )

    def condensed(self, old: Sequence[Node], new: Sequence[Node]) -> list[Node]:
        """The old nodes; as many of the oldest as must be become one when all are too long.

        Only one inner node is made at a time, and only of nodes that stand in the log already:
        whatever leaves the context can be read there.
        """
        room = self._budget - sum(text_tokens(node.text) for node in new)
        sizes = [text_tokens(node.text) for node in old]
        if sum(sizes) <= room or len(old) < 2:
            return list(old)
        limit = max(LEAST_TOKENS, self._budget // 4)
        count = 2
        while count < len(old) and sum(sizes[count:]) + limit > room:
            count += 1
        limit = max(LEAST_TOKENS, min(limit, sum(sizes[:count]) // 2))
        children = tuple(node.id for node in old[:count])
        text = self.writer.inner(old[:count], limit)
        return [Node(inner_id(children), text, children=children), *old[count:]]


def _stretches(units: Sequence[Unit], most_tokens: int) -> Iterator[list[Unit]]:
    """Neighbouring units with at most so many tokens together, if a single one has not more."""
    stretch: list[Unit] = []
    for unit in units:
        if stretch and sum(each.tokens for each in stretch) + unit.tokens > most_tokens:
            yield stretch
            stretch = []
        stretch.append(unit)
    if stretch:
        yield stretch
