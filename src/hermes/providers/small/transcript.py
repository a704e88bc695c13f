"""The agent's conversation as a small model sees it: short, flat, and within its context.

The front (system text and examples) depends only on the profile and the tools, so it stays the
same byte for byte and a runtime can keep its state for it.
"""

from collections.abc import Iterable
from typing import Any, assert_never

import msgspec

from hermes.core.messages import Assistant, Message, System, Text, ToolResult, User
from hermes.core.model import ToolSpec
from hermes.providers.small.profile import REPLY, Example, SmallProfile
from hermes.providers.small.schema import describe
from hermes.util.text import cut_middle

MARGIN = 64
"""Tokens left over for the chat template's own marks."""


def front(specs: tuple[ToolSpec, ...], profile: SmallProfile) -> tuple[Message, ...]:
    """System text and the examples whose tools are offered."""
    lines = "\n".join(f"- {describe(spec)}" for spec in specs)
    names = {spec.name for spec in specs}
    messages: list[Message] = [System(profile.system.replace("{tools}", lines))]
    for example in profile.examples:
        if all(step.tool in names for step in example.steps):
            messages.extend(_example(example))
    return tuple(messages)


def shortened(
    messages: tuple[Message, ...], profile: SmallProfile, budget: int
) -> tuple[Message, ...]:
    """The conversation in `budget` tokens: the newest turns that fit, the latest one always.

    A turn is a message of the user with all that followed. When even the latest does not fit, its
    oldest results go first, then the middle of the user's message.
    """
    turns = _turns(messages)
    if not turns:
        return ()
    newest = _fitted([_small(m, profile) for m in turns[-1]], profile, budget)
    room = budget - _cost(newest, profile)
    kept: list[Message] = newest
    for turn in reversed(turns[:-1]):
        older = [_small(message, profile) for message in turn]
        room -= _cost(older, profile)
        if room < 0:
            break
        kept = older + kept
    return tuple(kept)


def latest_turn(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The latest message of the user and everything after it."""
    turns = _turns(messages)
    return tuple(turns[-1]) if turns else ()


def tokens_of(messages: Iterable[Message], profile: SmallProfile) -> int:
    return _cost([_small(message, profile) for message in messages], profile)


def shown_result(message: ToolResult, profile: SmallProfile) -> str:
    """What the model gets to see of a result."""
    limit = int(profile.result_tokens * profile.bytes_per_token)
    return cut_middle(_flat(message.text).strip() or "[no output]", limit)


def _turns(messages: tuple[Message, ...]) -> list[list[Message]]:
    turns: list[list[Message]] = []
    for message in messages:
        if isinstance(message, System):
            continue
        if isinstance(message, User) or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


def _example(example: Example) -> Iterable[Message]:
    yield User.say(example.user)
    for step in example.steps:
        yield _say({step.tool: step.arguments})
        yield _result(step.result)
    yield _say({REPLY: example.reply})


def _small(message: Message, profile: SmallProfile) -> Message:
    """The message in the form of the examples."""
    match message:
        case System():
            return message
        case User():
            return User.say(message.text)
        case Assistant():
            return _small_assistant(message)
        case ToolResult():
            text = shown_result(message, profile)
            return _result(f"Error: {text}" if message.failed else text)
        case _:
            assert_never(message)


def _small_assistant(message: Assistant) -> Assistant:
    """Several calls at once become one line each; a small model itself makes one at a time."""
    if not message.calls:
        return _say({REPLY: message.text})
    lines = [_encode({call.name: _arguments(call.arguments)}) for call in message.calls]
    return Assistant((Text("\n".join(lines)),))


def _fitted(turn: list[Message], profile: SmallProfile, budget: int) -> list[Message]:
    first, rest = turn[:1], turn[1:]
    while len(rest) > 2 and _cost(first + rest, profile) > budget:
        rest = rest[2:]
    over = _cost(first + rest, profile) - budget
    if over <= 0 or not isinstance(first[0], User):
        return first + rest
    limit = max(len(first[0].text) - int((over + MARGIN) * profile.bytes_per_token), 200)
    return [User.say(cut_middle(first[0].text, limit)), *rest]


def _cost(messages: list[Message], profile: SmallProfile) -> int:
    sizes = (len(_text(message).encode()) for message in messages)
    return sum(int(size / profile.bytes_per_token) + 6 for size in sizes)


def _text(message: Message) -> str:
    return message.text


def _say(value: dict[str, Any]) -> Assistant:
    return Assistant((Text(_encode(value)),))


def _result(text: str) -> User:
    return User.say(f"Result:\n{text}")


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _arguments(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _flat(text: str) -> str:
    """A JSON object as `name: value` lines, which a small model reads better."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    if not isinstance(value, dict):
        return text
    shown = {key: item for key, item in value.items() if item not in (None, "", [], {})}
    texts = {k: item if isinstance(item, str) else _encode(item) for k, item in shown.items()}
    return "\n".join(f"{key}: {item}" for key, item in texts.items())
