"""What is asked of a conversation after a compaction."""

import json
from collections.abc import Iterable

from tests.compaction.talk import Dict, Dicts, Facts


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


def faults(messages: Dicts) -> list[str]:
    """Why an endpoint would refuse the conversation; empty when none would."""
    found: list[str] = []
    if not messages or messages[0]["role"] != "system":
        found.append("the system prompt is not first")
    if len(messages) > 1 and messages[1]["role"] != "user":
        found.append(f"after the system prompt comes {messages[1]['role']}")
    open_calls: list[str] = []
    for number, message in enumerate(messages[1:], 1):
        role, before = message["role"], messages[number - 1]["role"]
        if role == "tool":
            if message["tool_call_id"] in open_calls:
                open_calls.remove(message["tool_call_id"])
            else:
                found.append(f"message {number} is the result of no call before it")
            continue
        if open_calls:
            found.append(f"before message {number} calls have no result: {open_calls}")
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        found += [f"message {number}: {fault}" for fault in _alone(message)]
        if role == before:
            found.append(f"messages {number - 1} and {number} are both by {role}")
    if open_calls:
        found.append(f"at the end calls have no result: {open_calls}")
    return found


def _alone(message: Dict) -> Iterable[str]:
    if message["role"] not in ("user", "assistant"):
        yield f"role {message['role']}"
    if not message.get("content") and not message.get("tool_calls"):
        yield "it is empty"
    for call in message.get("tool_calls") or ():
        try:
            json.loads(call["function"]["arguments"])
        except ValueError:
            yield f"arguments of {call['id']} are no JSON"


def _strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _strings(inner)]
    return [value] if isinstance(value, str) else []


def _even(text: str) -> str:
    return " ".join(text.split())
