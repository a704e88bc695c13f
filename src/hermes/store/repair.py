"""A logged history made fit to send. The log itself is never touched."""

from collections.abc import Iterable

from hermes.core.messages import (
    INTERRUPTED_RESULT,
    Assistant,
    Message,
    Thinking,
    ToolCall,
    ToolResult,
)


def repair(messages: Iterable[Message]) -> tuple[Message, ...]:
    """`messages` as a provider accepts them; a sound history comes back as it is.

    - The results of a reply's calls stand right behind it, one for each call, in the order of the
      calls (they are logged in the order they finished). A result logged later, before the next
      reply, is moved there; a missing one is added as `INTERRUPTED_RESULT`.
    - A result nobody asked for, and a second result of one call, are dropped.
    - A reply with nothing in it is dropped.
    """
    repaired: list[Message] = []
    exchange = _Exchange(())
    for message in messages:
        if isinstance(message, ToolResult):
            exchange.answer(message)
        elif not isinstance(message, Assistant):
            exchange.others.append(message)
        elif not _is_empty(message):
            repaired += exchange.finish()
            repaired.append(message)
            exchange = _Exchange(message.calls)
    return (*repaired, *exchange.finish())


class _Exchange:
    """What follows one reply, up to the next."""

    def __init__(self, calls: tuple[ToolCall, ...]) -> None:
        self.results: dict[str, ToolResult | None] = {call.id: None for call in calls}
        self.names = {call.id: call.name for call in calls}
        self.others: list[Message] = []

    def answer(self, result: ToolResult) -> None:
        if self.results.get(result.call_id, result) is None:
            self.results[result.call_id] = result

    def finish(self) -> list[Message]:
        results = [
            result or ToolResult(call_id, self.names[call_id], INTERRUPTED_RESULT, failed=True)
            for call_id, result in self.results.items()
        ]
        return [*results, *self.others]


def _is_empty(reply: Assistant) -> bool:
    if reply.text or reply.calls:
        return False
    thoughts = (part for part in reply.parts if isinstance(part, Thinking))
    return not any(thought.details or thought.items for thought in thoughts)
