"""Where the notes can stand: two messages of one role never follow each other."""

from collections.abc import Iterator, Sequence

import msgspec

from hermes.context.lcm.units import CEILING, Limits, Plan, Unit, tokens_of
from hermes.core.messages import Assistant, Message, System, ToolResult, User


class Split(msgspec.Struct, frozen=True):
    units: Sequence[Unit]
    messages: Sequence[Message]
    head: int
    start: int
    pinned: tuple[int, ...]
    """Units of the middle that stay in front of the tail: the request, and what precedes it."""
    asked: int | None

    def plan(self, role: str, *, joined: bool = False) -> Plan:
        middle = [
            unit
            for number, unit in enumerate(self.units[self.head : self.start], self.head)
            if number not in self.pinned
        ]
        tail = (*(self.units[number] for number in self.pinned), *self.units[self.start :])
        return Plan(tuple(self.units[: self.head]), tuple(middle), tail, role, joined)

    def takes(self, role: str) -> bool:
        """Whether a message of that role can stand there without an equal neighbour."""
        before = self.messages[self.units[self.head - 1].stop - 1] if self.head else None
        first = self.pinned[0] if self.pinned else self.start
        after = self.messages[self.units[first].start] if first < len(self.units) else None
        if role == "user":
            return not isinstance(before, User) and not isinstance(after, User)
        # A conversation does not begin with an answer.
        fits = isinstance(before, User | ToolResult)
        return fits and not isinstance(after, Assistant)


def placed(split: Split, limits: Limits) -> Plan:
    """The plan with a role for the notes, rather the user's. Two equal roles never follow each
    other: more of the tail is kept, or less of the head or the tail; or the request becomes part
    of the notes."""
    wider = list(_wider_tails(split, limits))
    tries = [(each, role) for role in ("user", "assistant") for each in wider]
    others = (*_shorter_heads(split), *_shorter_tails(split), *_with_answer(split, limits))
    tries += [(each, role) for each in others for role in ("user", "assistant")]
    found = next((each.plan(role) for each, role in tries if each.takes(role)), None)
    return found or _joined(split)


def _joined(split: Split) -> Plan:
    last = split.head - 1
    if last >= 0 and isinstance(split.messages[split.units[last].start], User):
        split = msgspec.structs.replace(split, head=last, pinned=(last, *split.pinned))
    return split.plan("user", joined=True)


def _with_answer(split: Split, limits: Limits) -> Iterator[Split]:
    """What was said right before a request that stays, if it is short and not all there is."""
    before = split.pinned[0] - 1 if split.pinned else -1
    if before < split.head or split.units[before].tokens > limits.tail_tokens // 2:
        return
    wider = msgspec.structs.replace(split, pinned=(before, *split.pinned))
    if wider.plan("user").middle:
        yield wider


def _wider_tails(split: Split, limits: Limits) -> Iterator[Split]:
    yield split
    if split.pinned:
        return
    for start in range(split.start - 1, split.head, -1):
        if tokens_of(split.units[start:]) > CEILING * limits.tail_tokens:
            return
        yield msgspec.structs.replace(split, start=start)


def _shorter_heads(split: Split) -> Iterator[Split]:
    for head in range(split.head - 1, 0, -1):
        if isinstance(split.messages[split.units[head].start], System) or head == split.asked:
            return
        yield msgspec.structs.replace(split, head=head)


def _shorter_tails(split: Split) -> Iterator[Split]:
    if not split.pinned and split.asked is not None:
        for start in range(split.start + 1, split.asked + 1):
            yield msgspec.structs.replace(split, start=start)
