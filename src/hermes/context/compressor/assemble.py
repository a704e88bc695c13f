"""Putting the conversation together again."""

from hermes.context.compressor.reading import calls_of, group_end, is_result
from hermes.context.engine import Dict, Dicts
from hermes.core.messages import ToolCall

STUB = "[the result was removed with earlier messages]"


def repaired(messages: Dicts) -> Dicts:
    """Every call with exactly one result right after it, in the order of the calls, and no result
    without a call. Calls at the very end that nobody answered yet are left open."""
    whole: Dicts = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if is_result(message):
            continue  # an orphan: those that belong to a call are taken with it
        whole.append(message)
        if calls := calls_of(message):
            end = group_end(messages, index)
            if end == index == len(messages):
                break
            results = _by_id(messages[index:end])
            whole += [_result(call, results) for call in calls]
            index = end
    return whole


def _by_id(results: Dicts) -> dict[str, Dicts]:
    found: dict[str, Dicts] = {}
    for result in results:
        found.setdefault(str(result.get("tool_call_id") or ""), []).append(result)
    return found


def _result(call: ToolCall, results: dict[str, Dicts]) -> Dict:
    if given := results.get(call.id):
        return given.pop(0)
    return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": STUB}
