"""A logged history made fit to send. The log itself is never touched."""

from collections.abc import Iterable, Sequence

from hermes.core.messages import (
    INTERRUPTED_RESULT,
    Assistant,
    Message,
    Text,
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
    calls: tuple[ToolCall, ...] = ()
    results: list[ToolResult] = []
    others: list[Message] = []
    for message in messages:
        if isinstance(message, ToolResult):
            results.append(message)
        elif not isinstance(message, Assistant):
            others.append(message)
        elif not _is_empty(message):
            if calls or results:
                repaired += _answers(calls, results)
            repaired += others
            repaired.append(message)
            calls, results, others = message.calls, [], []
    return (*repaired, *_answers(calls, results), *others)


def _answers(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Sequence[ToolResult]:
    """One result for each call, in the order of the calls."""
    if len(calls) == len(results) == 1 and calls[0].id == results[0].call_id:
        return results
    asked = [call.id for call in calls]
    if [result.call_id for result in results] == asked and len(set(asked)) == len(asked):
        return results
    first: dict[str, ToolResult] = {}
    for result in results:
        first.setdefault(result.call_id, result)
    return [
        first.get(call_id) or ToolResult(call_id, name, INTERRUPTED_RESULT, failed=True)
        for call_id, name in {call.id: call.name for call in calls}.items()
    ]


def _is_empty(reply: Assistant) -> bool:
    for part in reply.parts:
        if isinstance(part, Text):
            if part.text:
                return False
        elif isinstance(part, ToolCall) or part.details or part.items:
            return False
    return True
