"""Makes small models usable as agents: tool calls over a JSON grammar."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, assert_never

import msgspec

from hermes.core.errors import ReplyInvalid
from hermes.core.messages import (
    Assistant,
    Message,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
    canonical_arguments,
    made_call_id,
)
from hermes.core.model import (
    EmitModelEvent,
    Model,
    ModelEvent,
    ModelRequest,
    Reply,
    TextDelta,
    ToolSpec,
)
from hermes.providers.policy import ModelWrapper
from hermes.util.text import cut_middle

# The prompt of a small model, as data. A model of half a billion parameters fails with native
# `tools=` and with long prompts. It works with a few tools, a page of examples and a grammar that
# allows only a call or a reply.

REPLY = "reply"  #: The key of a reply to the user; other keys are names of tools.


class ToolHint(msgspec.Struct, frozen=True):
    """How one known tool is shown: fewer parameters and words than its full schema."""

    name: str
    about: str
    parameters: tuple[str, ...]


class ExampleStep(msgspec.Struct, frozen=True):
    tool: str
    arguments: dict[str, Any]
    result: str


class PromptExample(msgspec.Struct, frozen=True):
    """One exchange shown before the conversation; omitted when its tool is not offered."""

    user: str
    reply: str
    steps: tuple[ExampleStep, ...] = ()


class SmallProfile(msgspec.Struct, frozen=True):
    system: str
    hints: tuple[ToolHint, ...]
    """Known tools, most useful first; the order decides which ones are offered."""
    examples: tuple[PromptExample, ...]
    max_tools: int = 5
    max_calls: int = 6  #: Calls after one user message; then the model has to reply.
    same_call: int = 2  #: How often the same call may be repeated after one user message.
    context: int = 4096  #: Tokens of prompt and reply together.
    max_tokens: int = 768  #: Tokens of one reply.
    result_tokens: int = 300  #: Tokens of a tool result that are shown.
    bytes_per_token: float = 2.8
    """For estimates; deliberately low, since code and numbers take more tokens than prose."""


@lru_cache(maxsize=1)
def small_profile() -> SmallProfile:
    data = Path(__file__).with_name("small_model.json").read_bytes()
    return msgspec.json.decode(data, type=SmallProfile)


# Streaming the text of `{"reply":"…"}`.

_START = re.compile(rf'\s*\{{\s*"{REPLY}"\s*:\s*"')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_PIECE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4}"
    r'|\\[^u]|[^"\\]+'
)


class ReplyTextReader:
    """Decodes the text of a reply while its JSON arrives.

    Returns nothing for a tool call. An incomplete escape waits for the rest.
    """

    def __init__(self) -> None:
        self._waiting = ""
        self._inside = False
        self.consumed = 0  #: Characters of JSON fed so far.
        self.text = ""  #: The text so far.

    def feed(self, json: str) -> str:
        self._waiting += json
        self.consumed += len(json)
        if not self._inside:
            start = _START.match(self._waiting)
            if start is None:
                return ""
            self._inside = True
            self._waiting = self._waiting[start.end() :]
        pieces: list[str] = []
        position = 0
        while piece := _PIECE.match(self._waiting, position):
            text, position = piece[0], piece.end()
            if text.startswith("\\u"):
                units = bytes.fromhex(text.replace("\\u", ""))
                text = units.decode("utf-16-be", "replace")
            elif text.startswith("\\"):
                text = _ESCAPES.get(text[1], text[1])
            pieces.append(text)
        self._waiting = self._waiting[position:]
        new = "".join(pieces)
        self.text += new
        return new


# Offered tools, and the grammar of the answer.

MAX_DESCRIPTION = 80


def select_tools(specs: tuple[ToolSpec, ...], profile: SmallProfile) -> tuple[ToolSpec, ...]:
    """Return at most `max_tools` tools: those of the profile in its order, then the others.

    Each is reduced to the parameters of its hint, or to the required ones without a hint.
    """
    rank = {hint.name: position for position, hint in enumerate(profile.hints)}
    hints = {hint.name: hint for hint in profile.hints}
    known = [spec for spec in specs if spec.name != REPLY]
    known.sort(key=lambda spec: rank.get(spec.name, len(rank)))
    return tuple(_shorten_tool(spec, hints.get(spec.name)) for spec in known[: profile.max_tools])


def reply_schema(specs: tuple[ToolSpec, ...]) -> dict[str, Any]:
    """Return a schema of one object with one key: a tool with arguments, or `reply` with text."""
    options = [_option(spec.name, spec.parameters) for spec in specs]
    return {"oneOf": [*options, _option(REPLY, {"type": "string"})]}


def describe_tool(spec: ToolSpec) -> str:
    """Return the tool's line in the system prompt."""
    names = ", ".join(spec.parameters["properties"])
    return f"{spec.name}({names}): {spec.description}"


def _shorten_tool(spec: ToolSpec, hint: ToolHint | None) -> ToolSpec:
    properties: dict[str, Any] = spec.parameters.get("properties", {})
    required = tuple(spec.parameters.get("required", ()))
    names = hint.parameters if hint else required
    shown = {name: _schema_without_text(properties[name]) for name in names if name in properties}
    parameters = {
        "type": "object",
        "properties": shown,
        "required": list(shown),
        "additionalProperties": False,
    }
    sentence = spec.description.split("\n", 1)[0].split(". ", 1)[0]
    return ToolSpec(spec.name, hint.about if hint else sentence[:MAX_DESCRIPTION], parameters)


def _schema_without_text(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter schema without texts, which the grammar does not use.

    A reference would point into the tool's own schema, which is not sent, so any value is allowed.
    """
    if b"$ref" in msgspec.json.encode(schema):
        return {}
    return {key: value for key, value in schema.items() if key not in ("description", "default")}


def _option(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: value},
        "required": [name],
        "additionalProperties": False,
    }


# The conversation as a small model sees it: short, flat, and within its context. The prefix (system
# text and examples) depends only on the profile and the tools, so it stays the same byte for byte
# and a runtime can cache it.

MARGIN = 64  #: Tokens reserved for the markers of the chat template.


def prompt_prefix(specs: tuple[ToolSpec, ...], profile: SmallProfile) -> tuple[Message, ...]:
    """Return the system text and the examples whose tools are offered."""
    lines = "\n".join(f"- {describe_tool(spec)}" for spec in specs)
    names = {spec.name for spec in specs}
    messages: list[Message] = [System(profile.system.replace("{tools}", lines))]
    for example in profile.examples:
        if all(step.tool in names for step in example.steps):
            messages.append(User.say(example.user))
            for step in example.steps:
                messages += [_assistant_json({step.tool: step.arguments}), _result(step.result)]
            messages.append(_assistant_json({REPLY: example.reply}))
    return tuple(messages)


def fit_conversation(
    messages: tuple[Message, ...], profile: SmallProfile, budget: int
) -> tuple[Message, ...]:
    """Shorten the conversation to `budget` tokens: the newest turns that fit, always the latest.

    A turn is a user message with everything that followed. If even the latest does not fit, its
    oldest results are dropped first, then the middle of the user message.
    """
    turns = _turns(messages)
    if not turns:
        return ()
    newest = _fit_turn([_simplify(m, profile) for m in turns[-1]], profile, budget)
    room = budget - _estimate(newest, profile)
    kept: list[Message] = newest
    for turn in reversed(turns[:-1]):
        older = [_simplify(message, profile) for message in turn]
        room -= _estimate(older, profile)
        if room < 0:
            break
        kept = older + kept
    return tuple(kept)


def latest_turn(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the latest user message and everything after it."""
    turns = _turns(messages)
    return tuple(turns[-1]) if turns else ()


def estimate_tokens(messages: Iterable[Message], profile: SmallProfile) -> int:
    return _estimate([_simplify(message, profile) for message in messages], profile)


def shorten_result(message: ToolResult, profile: SmallProfile) -> str:
    """Return the part of a result that the model sees."""
    limit = int(profile.result_tokens * profile.bytes_per_token)
    return cut_middle(_flatten_json(message.text).strip() or "[no output]", limit)


def _turns(messages: tuple[Message, ...]) -> list[list[Message]]:
    turns: list[list[Message]] = []
    for message in messages:
        if isinstance(message, System):
            continue
        if isinstance(message, User) or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


def _simplify(message: Message, profile: SmallProfile) -> Message:
    """Return the message in the form of the examples."""
    match message:
        case System():
            return message
        case User():
            return User.say(message.text)
        case Assistant() if message.calls:
            # Several calls as one line each; a small model itself makes one at a time.
            calls = [{call.name: _parse_arguments(call.arguments)} for call in message.calls]
            return Assistant((Text("\n".join(map(_encode_json, calls))),))
        case Assistant():
            return _assistant_json({REPLY: message.text})
        case ToolResult():
            text = shorten_result(message, profile)
            return _result(f"Error: {text}" if message.failed else text)
        case _:
            assert_never(message)


def _fit_turn(turn: list[Message], profile: SmallProfile, budget: int) -> list[Message]:
    first, rest = turn[:1], turn[1:]
    while len(rest) > 2 and _estimate(first + rest, profile) > budget:
        rest = rest[2:]
    over = _estimate(first + rest, profile) - budget
    if over <= 0 or not isinstance(first[0], User):
        return first + rest
    limit = max(len(first[0].text) - int((over + MARGIN) * profile.bytes_per_token), 200)
    return [User.say(cut_middle(first[0].text, limit)), *rest]


def _estimate(messages: list[Message], profile: SmallProfile) -> int:
    sizes = (len(message.text.encode()) for message in messages)
    return sum(int(size / profile.bytes_per_token) + 6 for size in sizes)


def _assistant_json(value: dict[str, Any]) -> Assistant:
    return Assistant((Text(_encode_json(value)),))


def _result(text: str) -> User:
    return User.say(f"Result:\n{text}")


def _encode_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _parse_arguments(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _flatten_json(text: str) -> str:
    """Write a JSON object as `name: value` lines, which a small model reads better."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    if not isinstance(value, dict):
        return text
    shown = {key: item for key, item in value.items() if item not in (None, "", [], {})}
    texts = {k: item if isinstance(item, str) else _encode_json(item) for k, item in shown.items()}
    return "\n".join(f"{key}: {item}" for key, item in texts.items())


class SmallModel(ModelWrapper):
    """Makes a model usable that cannot use tools natively, or not with a long prompt.

    The agent's system prompt and tool schemas are replaced by a short prompt, a few tools and
    examples. The answer must follow a JSON Schema and is mapped back to a tool call or text.
    """

    def __init__(self, inner: Model, profile: SmallProfile | None = None) -> None:
        super().__init__(inner)
        self._profile = profile or small_profile()

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        """Raises `ReplyInvalid` when the answer is neither a call nor text."""
        reply_text = ReplyTextReader()

        def decode(event: ModelEvent) -> None:
            if not isinstance(event, TextDelta):
                emit(event)
            elif text := reply_text.feed(event.text):
                emit(TextDelta(text))

        reply = await self._inner.call(self.small_request(request), decode)
        decode(TextDelta(reply.message.text[reply_text.consumed :]))
        added, last = "", request.messages[-1] if request.messages else None
        if reply_text.text.rstrip().endswith(":") and isinstance(last, ToolResult):
            # Small models often stop after "The files are:", so the list is added.
            added = f"\n{shorten_result(last, self._profile)}"
            emit(TextDelta(added))
        return self._map_reply(reply, reply_text.text + added, request)

    def small_request(self, request: ModelRequest) -> ModelRequest:
        """Return the request that is sent."""
        profile = self._profile
        specs = select_tools(request.tools, profile)
        head = prompt_prefix(specs, profile)
        max_tokens = min(request.max_tokens or profile.max_tokens, profile.max_tokens)
        budget = profile.context - estimate_tokens(head, profile) - max_tokens - MARGIN
        allowed = () if self._must_reply(request.messages) else specs
        return ModelRequest(
            messages=head + fit_conversation(request.messages, profile, budget),
            max_tokens=max_tokens,
            temperature=0 if request.temperature is None else request.temperature,
            reply_schema=reply_schema(allowed),
        )

    def _must_reply(self, messages: tuple[Message, ...]) -> bool:
        """Return True when the model repeats itself after the latest user message."""
        calls = [
            (call.name, canonical_arguments(call.arguments))
            for message in latest_turn(messages)
            if isinstance(message, Assistant)
            for call in message.calls
        ]
        most = max(Counter(calls).values(), default=0)
        return most >= self._profile.same_call or len(calls) >= self._profile.max_calls

    def _map_reply(self, reply: Reply, text: str, request: ModelRequest) -> Reply:
        """Return the reply in the agent's terms; `text` is what was streamed of it."""
        answer, finish_reason = reply.message, reply.message.finish_reason
        if finish_reason == "length" and text:
            cut = Assistant((Text(text),), finish_reason)
            return msgspec.structs.replace(reply, message=cut)
        name, value = self._parse_answer(answer)
        if name == REPLY:
            message = Assistant((Text(text),), finish_reason)
        else:
            arguments = msgspec.json.encode(value).decode()
            call = ToolCall(made_call_id(name, arguments, len(request.messages)), name, arguments)
            message = Assistant((call,), finish_reason="tool_calls")
        return msgspec.structs.replace(reply, message=message)

    def _parse_answer(self, message: Assistant) -> tuple[str, Any]:
        """Return the single key and its value."""
        try:
            answer = msgspec.json.decode(message.text, type=dict[str, Any])
        except msgspec.DecodeError:
            raise self._invalid(message, "is not the JSON it was asked for") from None
        if len(answer) != 1:
            raise self._invalid(message, "is not one call or one reply")
        [(name, value)] = answer.items()
        if name != REPLY and isinstance(value, dict):
            return name, value
        if name != REPLY or not isinstance(value, str):
            raise self._invalid(message, "is not one call or one reply")
        if not value.strip():
            raise self._invalid(message, "is empty")
        return name, value

    def _invalid(self, message: Assistant, what: str) -> ReplyInvalid:
        cut = " (it was cut off)" if message.finish_reason == "length" else ""
        return ReplyInvalid(
            f"the answer of {self.name} {what}{cut}",
            provider=self.provider,
            body=message.text[:200],
            hint="rephrase the request, or use a larger model",
        )
