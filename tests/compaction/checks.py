"""What is asked of a conversation after a compaction."""

import json
from collections.abc import Iterable

from tests.compaction.stories import Dicts, Facts


def context_of(messages: Dicts) -> str:
    """Everything the model is told but the system prompt, with runs of white space as one space."""
    texts: list[str] = []
    for message in messages:
        if message["role"] == "system":
            continue
        texts.append(str(message.get("content") or ""))
        for call in message.get("tool_calls") or ():
            # Decoded, since that is how a model understands an escaped line end or quote.
            texts += _strings(json.loads(call["function"]["arguments"]))
    return _even("\n".join(texts))


def missing(phrases: Iterable[str], messages: Dicts) -> list[str]:
    context = context_of(messages)
    return [phrase for phrase in phrases if _even(phrase) not in context]


def lost(facts: Facts, messages: Dicts) -> dict[str, list[str]]:
    """What of the task, the constraints and the paths is gone; empty when nothing is."""
    found = {
        "task": missing([facts.task], messages),
        "constraints": missing(facts.constraints, messages),
        "paths": missing(facts.paths, messages),
    }
    return {kind: phrases for kind, phrases in found.items() if phrases}


def _strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _strings(inner)]
    return [value] if isinstance(value, str) else []


def _even(text: str) -> str:
    return " ".join(text.split())
